//! One server under test, with what its tally has to show in the end.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::Command;
use std::time::{Duration, Instant};

use libtest_mimic::Completion;
use serde_json::Value;

use crate::support::client::Client;
use crate::support::protocol::{Exchange, Protocol};
use crate::support::server::{Ending, Server};
use crate::support::{engine, eventually, process};

/// A test: it panics when the design fails it.
pub type Fault = Box<dyn Fn(&Case) -> Result<Completion, libtest_mimic::Failed> + Send>;

/// The form in which a file lists its tests.
pub type Listed = (&'static str, fn(&Case) -> Result<Completion, libtest_mimic::Failed>);

/// Lists tests under the names of their functions; `#[needs] test` is ignored where `case.needs()` gives a reason.
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

/// How a design divides its work, as seen from outside.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Kind {
    /// What it makes its processes and threads for.
    pub workers: Workers,
    /// Whether one worker, or the only process, serves many connections at once.
    pub many: bool,
}

/// What a design makes its processes and threads for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Workers {
    /// One process with one thread does all.
    None,
    ProcessPerClient,
    ThreadPerClient,
    ProcessPool,
    ThreadPool,
}

/// A design and a workload to be tested together.
pub struct Case {
    /// The design's entry in `list --json`.
    pub design: Value,
    /// What kind of design it is.
    pub kind: Kind,
    /// The workload.
    pub protocol: &'static Protocol,
}

impl Case {
    /// The design's name.
    pub fn name(&self) -> &str {
        self.design["name"].as_str().expect("every design has a name")
    }

    /// It serves one connection to its end before it looks at the next: that is its nature, so a client that says
    /// nothing makes all others wait.
    pub fn one_at_a_time(&self) -> bool {
        self.kind == Kind { workers: Workers::None, many: false }
    }

    /// Whether the design has a setting.
    pub fn has_setting(&self, name: &str) -> bool {
        self.settings().any(|setting| setting["name"] == name)
    }

    /// Options that set every number of the design's own settings to the least that is allowed.
    pub fn smallest(&self) -> Vec<String> {
        let numbers = self.settings().filter(|setting| setting["kind"] == "integer");
        numbers
            .flat_map(|setting| {
                let name = setting["name"].as_str().expect("a setting has a name").replace('_', "-");
                [format!("--{name}"), setting["minimum"].to_string()]
            })
            .collect()
    }

    /// A pool of so many workers, where the design has one.
    pub fn pool(&self, workers: &'static str) -> Vec<&'static str> {
        if self.has_setting("pool") { vec!["--pool", workers] } else { Vec::new() }
    }

    /// The first of the workload's small exchanges.
    pub fn exchange(&self) -> Exchange {
        (self.protocol.exchanges)().swap_remove(0)
    }

    /// An exchange with a reply larger than all buffers, for tests that are listed with `#[needs_a_large_reply]`.
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

    /// A client of a server that knows what replies of the workload are right.
    pub fn client(&self, server: &Server) -> Client {
        Client::connect(server.port).judging(self.protocol.alike, server.spins())
    }

    /// Why a test that needs a request which breaks the protocol cannot be run.
    pub fn needs_a_wrong_request(&self) -> Option<String> {
        self.protocol.wrongs().is_empty().then(|| format!("nothing breaks the protocol of {}", self.protocol.name))
    }

    /// Why a test that needs a part of a request cannot be run.
    pub fn needs_an_incomplete_request(&self) -> Option<String> {
        let none = self.protocol.incomplete.is_empty();
        none.then(|| format!("every byte is a request of the workload {}", self.protocol.name))
    }

    /// Why a test that needs a large reply cannot be run.
    pub fn needs_a_large_reply(&self) -> Option<String> {
        self.protocol.large.is_none().then(|| format!("no reply of the workload {} is large", self.protocol.name))
    }

    /// Why a test that needs workers that serve many connections at once cannot be run.
    pub fn needs_workers_that_serve_many(&self) -> Option<String> {
        (!self.kind.many).then(|| "a worker of this design serves one connection at a time".to_owned())
    }

    /// Why a test that needs a connection to be served beside another cannot be run.
    pub fn needs_company(&self) -> Option<String> {
        self.one_at_a_time().then(|| "this design serves one connection to its end before the next".to_owned())
    }

    /// More bytes of requests than any buffer of a connection takes: an exchange, and how often.
    pub fn many_quick_requests(&self) -> (Exchange, usize) {
        let exchanges = (self.protocol.exchanges)();
        let exchange = exchanges.into_iter().min_by_key(|exchange| exchange.reply.len()).expect("there is one");
        let times = (40 << 10) / exchange.request.len();
        (exchange, times)
    }

    /// Why a test whose requests have to be very many in a buffer cannot be run.
    pub fn needs_small_requests(&self) -> Option<String> {
        let (_, times) = self.many_quick_requests();
        let name = self.protocol.name;
        (times < 100)
            .then(|| format!("a connection's buffers hold no more than {times} requests of the workload {name}"))
    }

    /// Why a test with [`Case::many_quick_requests`] cannot be run: they take too much CPU time, as tried on a server with
    /// one connection.
    pub fn needs_quick_requests(&self) -> Option<String> {
        const TRIED: u64 = 20;
        const ALLOWED: u64 = 5_000_000_000;
        let (exchange, times) = self.many_quick_requests();
        let server = self.start(&[]);
        let mut client = self.client(&server);
        let cpu = process::cpu_nanoseconds_of_group(server.first);
        (0..TRIED).for_each(|_| client.exchange(&exchange));
        let all = (process::cpu_nanoseconds_of_group(server.first) - cpu) / TRIED * times as u64;
        let name = self.protocol.name;
        (all > ALLOWED)
            .then(|| format!("{times} requests of the workload {name} take {} s of CPU time", all / 1_000_000_000))
    }

    fn settings(&self) -> impl Iterator<Item = &Value> {
        self.design["settings"].as_array().into_iter().flatten()
    }
}

/// The most descriptors that a thread may have for itself: two ends of a pipe, and rings.
const PER_THREAD: isize = 4;

/// What a process has open, and the threads that it has.
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

/// Runs a part of a test, and says of which part it is what goes wrong in it.
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
    /// What the tally has to show.
    pub expected: Expected,
    /// Descriptors of each process of the server before anything happened.
    descriptors: BTreeMap<i32, Open>,
}

/// What a tally has to show.
#[derive(Debug, Default)]
pub struct Expected {
    pub connections: u64,
    pub requests: u64,
    /// Connections whose worker was killed before it could close them.
    pub never_closed: u64,
    pub workers_lost: u64,
    pub workers_replaced: u64,
    /// How many errors of which kinds: the kernel decides between the kinds of one entry.
    pub errors: Vec<(&'static [&'static str], u64)>,
    /// Kinds of errors of which there may be any number.
    pub errors_allowed: &'static [&'static str],
}

/// How a client's reset is seen by the server: it depends on what the server was doing.
pub const RESET: &[&str] = &["reset", "broken_pipe"];

impl<'a> Rig<'a> {
    /// Starts a server and lets it serve once, so that everything is there that it opens for its first client.
    pub fn new(case: &'a Case, options: &[&str]) -> Self {
        Rig::of(case, case.start(options))
    }

    /// As [`Rig::new`], with a server that was started in a way of its own.
    pub fn of(case: &'a Case, server: Server) -> Self {
        let mut rig = Rig { case, server, expected: Expected::default(), descriptors: BTreeMap::new() };
        rig.server.settle();
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

    /// A request on a connection that is there; its reply must be right.
    pub fn asks(&mut self, client: &mut Client, exchange: &Exchange) {
        client.exchange(exchange);
        self.expected.requests += 1;
    }

    /// A request on a new connection is answered, and the connection ends well.
    pub fn serves(&mut self) {
        let mut client = self.connect();
        let exchange = self.case.exchange();
        self.asks(&mut client, &exchange);
        client.half_close();
        client.receive_to_end(b"");
    }

    /// Waits until the tally shows what is expected so far and every connection has been closed.
    pub fn catches_up(&mut self) {
        let (expected, framed) = (&self.expected, self.case.protocol.framed);
        let closed = expected.connections - expected.never_closed;
        self.server.snapshot_when(&format!("a tally with {expected:?} and all connections closed"), |snapshot| {
            let tally = &snapshot["tally"];
            tally["connections"] == expected.connections
                && tally["closed"] == closed
                && (tally["requests"] == expected.requests || !framed)
                && tally["workers_lost"] == expected.workers_lost
                && tally["workers_replaced"] == expected.workers_replaced
        });
    }

    /// Waits as [`Rig::catches_up`] does, and looks at the errors that are tallied by then.
    pub fn is_right_so_far(&mut self) {
        self.catches_up();
        self.expected.errors_hold(&self.server.snapshot()["tally"]);
    }

    /// Waits until the workers that were lost, and those that replace them, are tallied as expected.
    pub fn catches_up_with_workers(&mut self) {
        let (lost, replaced) = (self.expected.workers_lost, self.expected.workers_replaced);
        self.server.snapshot_when(&format!("{lost} workers lost and {replaced} replaced"), |snapshot| {
            snapshot["tally"]["workers_lost"] == lost && snapshot["tally"]["workers_replaced"] == replaced
        });
    }

    /// Waits until a tally's number has reached a value.
    pub fn until(&mut self, name: &str, at_least: u64) {
        self.server.snapshot_when(&format!("{name} of at least {at_least}"), |snapshot| {
            snapshot["tally"][name].as_u64().expect("a number") >= at_least
        });
    }

    /// Waits until every connection has been closed, and takes the number of requests as it is: where clients give up, it is
    /// for chance to say how many were answered first.
    pub fn catches_up_with_whatever_was_answered(&mut self) {
        let connections = self.expected.connections;
        let snapshot = self.server.snapshot_when("all connections closed", |snapshot| {
            snapshot["tally"]["connections"] == connections && snapshot["tally"]["closed"] == connections
        });
        self.expected.requests = snapshot["tally"]["requests"].as_u64().expect("a count");
    }

    /// The server has nothing to do, so it does nothing: it would take a CPU for itself if it asked again and again, as one does
    /// that is told to.
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

    /// The end of every test: the server still serves, has nothing open that it had not open before, stops as told, and
    /// leaves a right tally and nothing else.
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

    /// Every process has as many descriptors open as before. The server's first process may have fewer: it closes what
    /// led to a worker that is gone. Where a pool has grown or shrunk, the threads that came or went account for the
    /// difference, each for as many: a ring or a pipe of its own.
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

    /// The process of the server that has the connection of a client open, its first process aside.
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
    /// So many errors of one of these kinds.
    pub fn error(&mut self, kinds: &'static [&'static str], count: u64) {
        self.errors.push((kinds, count));
    }

    /// The tally of a server that has ended is right.
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
        for &(kinds, _) in &self.errors {
            let of = |kinds: &[&str]| kinds.iter().filter_map(|kind| seen.get(kind)).sum::<u64>();
            let right: u64 = self.errors.iter().filter(|entry| entry.0 == kinds).map(|entry| entry.1).sum();
            assert_eq!(of(kinds), right, "errors of the kinds {kinds:?} in {tally}");
        }
        let total: u64 = self.errors.iter().map(|entry| entry.1).sum();
        assert_eq!(seen.values().sum::<u64>(), total, "there are errors that nobody made: {seen:?}");
    }
}
