//! One server under test, with its expected tally.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

use libtest_mimic::Completion;
use serde_json::Value;

use crate::support::client::Client;
use crate::support::protocol::{Exchange, Protocol};
use crate::support::server::{Ending, Server};
use crate::support::{engine, eventually, process};

/// A test. It panics if the design fails it.
pub type Fault = Box<dyn Fn(&Case) -> Result<Completion, libtest_mimic::Failed> + Send>;

/// Form in which a file lists its tests.
pub type Listed = (&'static str, fn(&Case) -> Result<Completion, libtest_mimic::Failed>);

/// Lists tests under the names of their functions. `#[needs] test` is ignored if `case.needs()` returns a reason.
#[macro_export]
macro_rules! faults {
    ($($(#[$needs:ident])* $test:ident),+ $(,)?) => {
        &[$((stringify!($test), |case| {
            $(if let Some(reason) = case.$needs() {
                return Ok(libtest_mimic::Completion::ignored_with(reason));
            })*
            $test(case);
            Ok(libtest_mimic::Completion::Completed)
        })),+]
    };
}

/// How a design divides its work, as observed from outside.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Kind {
    /// Unit for which it makes processes and threads.
    pub workers: Workers,
    /// Whether one worker, or the only process, serves many connections at once.
    pub many: bool,
}

/// Units for which a design makes processes and threads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Workers {
    /// None: a single process with one thread.
    None,
    ProcessPerClient,
    ThreadPerClient,
    ProcessPool,
    ThreadPool,
}

/// A design for each way of serving a connection: blocking calls, level-triggered and edge-triggered readiness, completions, and
/// replies computed by other threads. They get every test of clients with every workload, and requests cut at every position.
/// Every other design serves a connection as one of these does, and gets these tests with the first workload.
pub const THOROUGH: [&str; 5] = ["thread_per_client", "epoll", "epoll_edge", "io_uring", "epoll_offload"];

/// Whether ignored tests are requested, and with them everything that other tests leave out.
pub static EVERYTHING: AtomicBool = AtomicBool::new(false);

/// A design and a workload to be tested together.
pub struct Case {
    /// The design's entry in `list --json`.
    pub design: Value,
    /// Kind of the design.
    pub kind: Kind,
    /// The workload.
    pub protocol: &'static Protocol,
}

impl Case {
    /// Returns the design's name.
    pub fn name(&self) -> &str {
        self.design["name"].as_str().expect("every design has a name")
    }

    /// Whether the design is one of [`THOROUGH`], or all designs are tested like these.
    pub fn is_thorough(&self) -> bool {
        THOROUGH.contains(&self.name()) || EVERYTHING.load(Relaxed)
    }

    /// Whether it serves one connection to its end before the next. By design, a silent client then makes all others wait.
    pub fn one_at_a_time(&self) -> bool {
        self.kind == Kind { workers: Workers::None, many: false }
    }

    /// Whether the design has a setting.
    pub fn has_setting(&self, name: &str) -> bool {
        self.settings().any(|setting| setting["name"] == name)
    }

    /// Returns options that set every number of the design's own settings to its minimum.
    pub fn smallest(&self) -> Vec<String> {
        let numbers = self.settings().filter(|setting| setting["kind"] == "integer");
        numbers
            .flat_map(|setting| {
                let name = setting["name"].as_str().expect("a setting has a name").replace('_', "-");
                let unit = if setting["unit"] == "ns" { "ns" } else { "" };
                [format!("--{name}"), format!("{}{unit}", setting["minimum"])]
            })
            .collect()
    }

    /// Returns options for a pool of this size, if the design has a pool.
    pub fn pool(&self, workers: &'static str) -> Vec<&'static str> {
        if self.has_setting("pool") { vec!["--pool", workers] } else { Vec::new() }
    }

    /// Returns the first of the workload's small exchanges.
    pub fn exchange(&self) -> Exchange {
        (self.protocol.exchanges)().swap_remove(0)
    }

    /// Returns an exchange with a reply larger than all buffers, for tests listed with `#[needs_a_large_reply]`.
    pub fn large(&self) -> &'static Exchange {
        self.protocol.large_exchange().expect("the test is listed as one that needs a large reply")
    }

    /// Starts a server with the options that its workload's exchanges need, and with these.
    pub fn start(&self, options: &[&str]) -> Server {
        self.launch(&mut engine(), options)
    }

    /// As [`Case::start`], with a command that runs the engine.
    pub fn launch(&self, command: &mut Command, options: &[&str]) -> Server {
        let needed = (self.protocol.options)();
        let options: Vec<&str> = needed.iter().map(String::as_str).chain(options.iter().copied()).collect();
        Server::launch(command, self.name(), self.protocol.name, &options)
    }

    /// Makes a client that knows the workload's correct replies.
    pub fn client(&self, server: &Server) -> Client {
        Client::connect(server.port).judging(self.protocol.alike, server.spins())
    }

    /// Returns why a test that needs a request which breaks the protocol cannot run.
    pub fn needs_a_wrong_request(&self) -> Option<String> {
        self.protocol.wrongs().is_empty().then(|| format!("nothing breaks the protocol of {}", self.protocol.name))
    }

    /// Returns why a test that needs a part of a request cannot run.
    pub fn needs_an_incomplete_request(&self) -> Option<String> {
        let none = self.protocol.incomplete.is_empty();
        none.then(|| format!("every byte is a request of the workload {}", self.protocol.name))
    }

    /// Returns why a test that needs a large reply cannot run.
    pub fn needs_a_large_reply(&self) -> Option<String> {
        self.protocol.large.is_none().then(|| format!("no reply of the workload {} is large", self.protocol.name))
    }

    /// Returns why a test that needs workers with many connections at once cannot run.
    pub fn needs_workers_that_serve_many(&self) -> Option<String> {
        (!self.kind.many).then(|| "a worker of this design serves one connection at a time".to_owned())
    }

    /// Returns why a test that needs two connections served at once cannot run.
    pub fn needs_company(&self) -> Option<String> {
        self.one_at_a_time().then(|| "this design serves one connection to its end before the next".to_owned())
    }

    /// Returns an exchange and a number of repetitions whose requests exceed every buffer of a connection.
    pub fn many_quick_requests(&self) -> (Exchange, usize) {
        let exchanges = (self.protocol.exchanges)();
        let exchange = exchanges.into_iter().min_by_key(|exchange| exchange.reply.len()).expect("there is one");
        let times = (40 << 10) / exchange.request.len();
        (exchange, times)
    }

    /// Returns why a test that needs very many requests in a buffer cannot run.
    pub fn needs_small_requests(&self) -> Option<String> {
        let (_, times) = self.many_quick_requests();
        let name = self.protocol.name;
        (times < 100)
            .then(|| format!("a connection's buffers hold no more than {times} requests of the workload {name}"))
    }

    fn settings(&self) -> impl Iterator<Item = &Value> {
        self.design["settings"].as_array().into_iter().flatten()
    }
}

/// Maximum descriptors that a thread may have for itself: two ends of a pipe, and rings.
const PER_THREAD: isize = 4;

/// Open descriptors and threads of a process.
#[derive(Debug, Clone, Copy)]
struct Open {
    descriptors: isize,
    threads: isize,
}

impl Open {
    fn of(process: i32) -> Option<Open> {
        let threads = process::thread_states(process).len() as isize;
        Some(Open { descriptors: process::descriptors(process)? as isize, threads })
    }
}

/// Runs a part of a test, and adds the part to the message of its failure.
pub fn amid(part: &str, run: impl FnOnce()) {
    if let Err(panic) = catch_unwind(AssertUnwindSafe(run)) {
        let text = panic.downcast_ref::<String>().cloned();
        let text = text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()));
        panic!("{part}: {}", text.unwrap_or_default());
    }
}

/// A server under test.
pub struct Rig<'a> {
    pub case: &'a Case,
    pub server: Server,
    /// Expected tally.
    pub expected: Expected,
    /// Descriptors of each process of the server at the start.
    descriptors: BTreeMap<i32, Open>,
}

/// An expected tally.
#[derive(Debug, Default)]
pub struct Expected {
    pub connections: u64,
    pub requests: u64,
    /// Connections whose worker was killed before it could close them.
    pub never_closed: u64,
    pub workers_lost: u64,
    pub workers_replaced: u64,
    /// Expected errors by kind. The kernel decides between the kinds of one entry.
    pub errors: Vec<(&'static [&'static str], u64)>,
    /// Kinds of errors of which any number may occur.
    pub errors_allowed: &'static [&'static str],
}

/// Errors that a client's reset may cause, depending on what the server was doing.
pub const RESET: &[&str] = &["reset", "broken_pipe"];

impl<'a> Rig<'a> {
    /// Starts a server and lets it serve once, so that everything is open that it opens for its first client. A pool has three
    /// workers unless the options say otherwise; starting more takes time.
    pub fn new(case: &'a Case, options: &[&str]) -> Self {
        let pool = if options.contains(&"--pool") { Vec::new() } else { case.pool("3") };
        Rig::of(case, case.start(&[options, &pool[..]].concat()))
    }

    /// As [`Rig::new`], for a server that was started differently.
    pub fn of(case: &'a Case, server: Server) -> Self {
        let mut rig = Rig { case, server, expected: Expected::default(), descriptors: BTreeMap::new() };
        rig.serves();
        rig.catches_up();
        rig.server.settle();
        rig.descriptors = rig.count_descriptors();
        rig
    }

    /// Connects.
    pub fn connect(&mut self) -> Client {
        self.expected.connections += 1;
        self.case.client(&self.server)
    }

    /// Connects with a small receive buffer.
    pub fn connect_slow(&mut self) -> Client {
        self.expected.connections += 1;
        Client::connect_slow(self.server.port).judging(self.case.protocol.alike, self.server.spins())
    }

    /// Makes a request on an open connection, and checks its reply.
    pub fn asks(&mut self, client: &mut Client, exchange: &Exchange) {
        client.exchange(exchange);
        self.expected.requests += 1;
    }

    /// Makes a request on a new connection, which is answered and ends without error.
    pub fn serves(&mut self) {
        let mut client = self.connect();
        let exchange = self.case.exchange();
        self.asks(&mut client, &exchange);
        client.half_close();
        client.receive_to_end(b"");
    }

    /// Waits until the tally has the expected values and every connection has been closed.
    pub fn catches_up(&mut self) -> Value {
        let (expected, framed) = (&self.expected, self.case.protocol.framed);
        let closed = expected.connections - expected.never_closed;
        self.server.snapshot_when(&format!("a tally with {expected:?} and all connections closed"), |snapshot| {
            let tally = &snapshot["tally"];
            tally["connections"] == expected.connections
                && tally["closed"] == closed
                && (tally["requests"] == expected.requests || !framed)
                && tally["workers_lost"] == expected.workers_lost
                && tally["workers_replaced"] == expected.workers_replaced
        })
    }

    /// Waits as [`Rig::catches_up`] does, and checks the errors tallied so far.
    pub fn is_right_so_far(&mut self) {
        let snapshot = self.catches_up();
        self.expected.errors_hold(&snapshot["tally"]);
    }

    /// Waits until lost workers and their replacements are tallied as expected.
    pub fn catches_up_with_workers(&mut self) {
        let (lost, replaced) = (self.expected.workers_lost, self.expected.workers_replaced);
        self.server.snapshot_when(&format!("{lost} workers lost and {replaced} replaced"), |snapshot| {
            snapshot["tally"]["workers_lost"] == lost && snapshot["tally"]["workers_replaced"] == replaced
        });
    }

    /// Returns how many bytes the server has received so far.
    pub fn bytes_received(&mut self) -> u64 {
        self.server.snapshot()["tally"]["bytes_received"].as_u64().expect("a count")
    }

    /// Waits until a number of the tally has reached a value.
    pub fn until(&mut self, name: &str, at_least: u64) {
        self.server.snapshot_when(&format!("{name} of at least {at_least}"), |snapshot| {
            snapshot["tally"][name].as_u64().expect("a number") >= at_least
        });
    }

    /// Returns why so many requests cannot be sent: they take too much CPU time, as measured with some on one connection.
    pub fn are_too_slow(&mut self, exchange: &Exchange, times: usize) -> Option<String> {
        const TRIED: u64 = 20;
        const ALLOWED: u64 = 5_000_000_000;
        let mut client = self.connect();
        let cpu = process::cpu_nanoseconds_of_group(self.server.first);
        (0..TRIED).for_each(|_| self.asks(&mut client, exchange));
        let all = (process::cpu_nanoseconds_of_group(self.server.first) - cpu) / TRIED * times as u64;
        let name = self.case.protocol.name;
        (all > ALLOWED)
            .then(|| format!("{times} requests of the workload {name} take {} s of CPU time", all / 1_000_000_000))
    }

    /// Waits until every connection has been closed, and accepts the number of requests. If clients give up, it depends on
    /// timing how many were answered first.
    pub fn catches_up_with_whatever_was_answered(&mut self) {
        let connections = self.expected.connections;
        let snapshot = self.server.snapshot_when("all connections closed", |snapshot| {
            snapshot["tally"]["connections"] == connections && snapshot["tally"]["closed"] == connections
        });
        self.expected.requests = snapshot["tally"]["requests"].as_u64().expect("a count");
    }

    /// Checks that an idle server sleeps. If it retried all the time, it would use a whole CPU, as a busy-polling one does.
    pub fn does_not_spin(&self) {
        if self.server.spins() {
            return;
        }
        let (time, cpu) = (Instant::now(), process::cpu_nanoseconds_of_group(self.server.first));
        std::thread::sleep(Duration::from_millis(150));
        let cpu = process::cpu_nanoseconds_of_group(self.server.first) - cpu;
        let time = time.elapsed().as_nanos() as u64;
        assert!(cpu < time / 2, "a server with nothing to do took {cpu} ns of CPU time in {time} ns");
    }

    /// Ends every test: the server still serves, has nothing open that it had not open at the start, stops properly, and
    /// leaves a correct tally and nothing else.
    pub fn finish(self) {
        self.finish_with_tally();
    }

    /// As [`Rig::finish`]; returns the tally of the server's whole life.
    pub fn finish_with_tally(mut self) -> Value {
        self.serves();
        self.catches_up();
        self.leaks_nothing();
        let Rig { case, server, mut expected, .. } = self;
        let ending = server.stop();
        ending.is_good();
        assert_eq!(ending.summary()["account_fault"], Value::Null);
        if !case.protocol.framed {
            expected.requests = ending.summary()["tally"]["requests"].as_u64().expect("a count");
        }
        expected.holds(&ending);
        ending.summary()["tally"].clone()
    }

    /// Checks that every process has as many descriptors open as before. The server's first process may have fewer: it
    /// closes those for workers that are gone. In a pool that has grown or shrunk, each started or ended thread accounts for
    /// a ring or a pipe.
    pub fn leaks_nothing(&self) {
        let fewer = |id: i32| if id == self.server.first { self.expected.workers_lost as isize } else { 0 };
        let leak = |(id, now): (i32, Open)| {
            let before = *self.descriptors.get(&id)?;
            let (more, threads) = (now.descriptors - before.descriptors, now.threads - before.threads);
            let by_threads = threads != 0 && more % threads == 0 && (0..=PER_THREAD).contains(&(more / threads));
            let good = more == 0 || more + fewer(id) == 0 || by_threads;
            (!good).then(|| (id, before, now, process::descriptor_targets(id)))
        };
        let mut last = None;
        let look = || {
            last = self.count_descriptors().into_iter().find_map(leak);
            last.is_none().then_some(())
        };
        let result = catch_unwind(AssertUnwindSafe(|| eventually("no leak", look)));
        assert!(result.is_ok(), "process, open before, open now, what: {last:?}");
    }

    fn count_descriptors(&self) -> BTreeMap<i32, Open> {
        let processes = self.server.processes();
        processes.into_iter().filter_map(|id| Some((id, Open::of(id)?))).collect()
    }

    /// Returns the server process, other than the first, that has the connection of a client open.
    pub fn worker_of(&self, client: &Client) -> i32 {
        eventually("a worker has the connection", || {
            let inode = process::socket_inode(self.server.port, client.port())?;
            let holders: Vec<i32> =
                self.server.workers().into_iter().filter(|&id| process::has_socket(id, inode)).collect();
            match holders[..] {
                [worker] if !process::has_socket(self.server.first, inode) => Some(worker),
                _ => None,
            }
        })
    }
}

impl Expected {
    /// Expects this many errors of one of these kinds.
    pub fn error(&mut self, kinds: &'static [&'static str], count: u64) {
        match self.errors.iter_mut().find(|entry| entry.0 == kinds) {
            Some(entry) => entry.1 += count,
            None => self.errors.push((kinds, count)),
        }
    }

    /// Checks the tally of a server that has ended.
    pub fn holds(&self, ending: &Ending) {
        let tally = &ending.summary()["tally"];
        let number = |name: &str| tally[name].as_u64().unwrap_or_else(|| panic!("no {name} in {tally}"));
        let counts = |names: [&str; 5]| names.map(|name| (name.to_owned(), number(name)));
        let names = ["connections", "closed", "requests", "workers_lost", "workers_replaced"];
        let closed = self.connections - self.never_closed;
        let right = [self.connections, closed, self.requests, self.workers_lost, self.workers_replaced];
        for ((name, seen), right) in counts(names).into_iter().zip(right) {
            assert_eq!(seen, right, "{name} in {tally}");
        }
        self.errors_hold(tally);
        if let Some(workers) = ending.summary()["workers"].as_array() {
            let sum: u64 = workers.iter().filter_map(Value::as_u64).sum();
            assert_eq!(sum, self.connections, "connections of all workers: {workers:?}");
        }
    }

    fn errors_hold(&self, tally: &Value) {
        let seen: BTreeMap<&str, u64> = tally["errors"]
            .as_object()
            .into_iter()
            .flatten()
            .map(|(kind, count)| (kind.as_str(), count.as_u64().expect("a count")))
            .filter(|(kind, _)| !self.errors_allowed.contains(kind))
            .collect();
        for &(kinds, right) in &self.errors {
            let found = kinds.iter().filter_map(|kind| seen.get(kind)).sum::<u64>();
            assert_eq!(found, right, "errors of the kinds {kinds:?} in {tally}");
        }
        let total: u64 = self.errors.iter().map(|entry| entry.1).sum();
        assert_eq!(seen.values().sum::<u64>(), total, "there are unexpected errors: {seen:?}");
    }
}
