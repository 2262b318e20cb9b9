//! Fairness while requests compute: a reply is sent when it is ready, and no client is served many times while others wait.
//! What a design cannot do is its rule in `list --json` (`shares`), to which these tests hold it.
//!
//! The tests compare the times at which the kernel received the replies (SO_TIMESTAMPNS). A client that runs late, on a busy
//! machine, changes no result: it only counts fewer replies of a greedy client.

use std::io::{self, IoSliceMut, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::fd::AsRawFd;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use libtest_mimic::Trial;
use nix::cmsg_space;
use nix::sys::socket::{ControlMessageOwned, MsgFlags, recvmsg, setsockopt, sockopt};
use nix::sys::time::TimeSpec;
use serde_json::Value;
use socket2::SockRef;

use crate::rig::{Case, Kind, Listed, RESET, Rig};
use crate::support::protocol::{Exchange, PROTOCOLS};
use crate::support::{PATIENCE, eventually, process};
use crate::{faults, name};

const FAULTS: &[Listed] = faults![
    #[computes_in_parallel]
    ready_replies_are_not_held_back,
    #[serves_only_one]
    no_client_is_served_many_times_while_others_wait,
    #[shares_its_workers]
    a_connection_is_served_to_its_end,
];

/// Whether measured spreads are printed, as `--nocapture` requests.
pub static SHOWS: AtomicBool = AtomicBool::new(false);

/// CPU time of a request. The kernel's time stamps are a thousand times finer.
const COMPUTE: Duration = Duration::from_millis(3);

/// Requests of a client that sends all of them together: more than are computed while the others wait.
const GREEDY: usize = 400;

/// Other clients, which were connected before, and which connect while the server computes.
const KNOWN: usize = 2;
const NEW: usize = 4;

/// Makes the tests of a design with every workload whose requests can be made to compute.
pub fn trials(catalogue: &Value, design: &Value, kind: Kind) -> Vec<Trial> {
    let computes = |workload: &&Value| {
        let settings = workload["service_settings"].as_array().expect("a list");
        settings.iter().any(|setting| setting["name"] == "compute")
    };
    let workloads: Vec<String> =
        catalogue["workloads"].as_array().expect("a list").iter().filter(computes).map(name).collect();
    assert!(workloads.iter().any(|workload| workload == PROTOCOLS[0].name), "computing workloads: {workloads:?}");
    let protocols = PROTOCOLS.iter().filter(|protocol| workloads.contains(&protocol.name.to_owned()));
    let mut trials = Vec::new();
    for protocol in protocols {
        for &(fault, test) in FAULTS {
            let case = Case { design: design.clone(), kind, protocol };
            let left_out = !case.is_thorough() && protocol.name != PROTOCOLS[0].name;
            let title = format!("{}::{}::{fault}", case.name(), protocol.name);
            trials.push(Trial::ignorable_test(title, move || test(&case)).with_ignored_flag(left_out));
        }
    }
    trials
}

impl Case {
    /// The design's rule: whose request is computed next.
    fn rule(&self) -> &str {
        self.design["shares"]["rule"].as_str().expect("every design has a rule")
    }

    /// Whether one thread or process has many connections at once.
    fn has_a_loop(&self) -> bool {
        ["turns", "queue"].contains(&self.rule())
    }

    fn computes_in_parallel(&self) -> Option<String> {
        (self.rule() == "scheduler").then(|| "each connection has its own process or thread".to_owned())
    }

    fn serves_only_one(&self) -> Option<String> {
        (self.rule() == "connections").then(|| "this design serves one connection to its end".to_owned())
    }

    fn shares_its_workers(&self) -> Option<String> {
        let to_its_end = ["connections", "workers"].contains(&self.rule());
        (!to_its_end).then(|| "this design does not serve one connection to its end before the next".to_owned())
    }

    /// The exchange with the shortest reply.
    fn short(&self) -> Exchange {
        self.many_quick_requests().0
    }

    /// Starts a server whose requests compute. `one`: with as few threads that compute as its design allows.
    fn computing(&self, one: bool) -> Rig<'_> {
        let fewest =
            if self.has_a_loop() { self.pool("1").into_iter().map(str::to_owned).collect() } else { self.smallest() };
        let mut options = vec!["--compute".to_owned(), format!("{}ms", COMPUTE.as_millis())];
        options.extend(fewest.into_iter().filter(|_| one));
        Rig::new(self, &options.iter().map(String::as_str).collect::<Vec<_>>())
    }
}

/// Many requests arrive at once. Each reply arrives before the next one is computed: among one more replies than the server
/// has threads that compute, two are by the same thread, and that thread has computed between them. If a second thread
/// sends the replies, it may run late, but not until all are computed.
fn ready_replies_are_not_held_back(case: &Case) {
    const CLIENTS: usize = 8;
    let mut rig = case.computing(true);
    let exchange = case.short();
    let mut clients = if case.has_a_loop() { connect(&mut rig, CLIENTS) } else { Vec::new() };
    clients.iter_mut().for_each(|client| client.exchange(&exchange));
    rig.expected.requests += clients.len() as u64;
    process::freeze(rig.server.first);
    if clients.is_empty() {
        clients = connect(&mut rig, CLIENTS);
    }
    clients.iter_mut().for_each(|client| client.asks_once(case, &exchange));
    process::thaw(rig.server.first);
    let mut times: Vec<u64> = clients.iter_mut().map(|client| client.receive(&exchange)).collect();
    rig.expected.requests += CLIENTS as u64;
    times.sort_unstable();
    show(case, "ms between the replies", || {
        times.windows(2).map(|pair| (pair[1] - pair[0]) as f64 / 1e6).map(|time| format!("{time:.1}")).collect()
    });
    let threads = if case.rule() == "queue" { CLIENTS - 1 } else { threads_that_compute(&rig) };
    for (number, pair) in times.windows(threads + 1).enumerate() {
        let between = Duration::from_nanos(pair[threads] - pair[0]);
        assert!(
            between > COMPUTE / 2,
            "the replies {number} to {} arrived within {between:?}, although each is computed for {COMPUTE:?}, by at most \
             {threads} threads at a time; all, in ns after the first: {:?}",
            number + threads,
            times.iter().map(|time| time - times[0]).collect::<Vec<_>>()
        );
    }
    drop(clients);
    rig.finish();
}

/// One client sends many requests together, another sends again after each reply, and the rest have one request each. All
/// is there when the server continues.
fn no_client_is_served_many_times_while_others_wait(case: &Case) {
    let mut rig = case.computing(case.has_a_loop());
    let exchange = case.short();
    let mut greedy = connect(&mut rig, 2);
    let mut others = connect(&mut rig, if case.has_a_loop() { KNOWN } else { 0 });
    greedy.iter_mut().chain(&mut others).for_each(|client| client.exchange(&exchange));
    process::freeze(rig.server.first);
    greedy[0].send(&exchange.request.repeat(GREEDY));
    greedy[1].send(&exchange.request);
    others.extend(connect(&mut rig, NEW));
    others.iter_mut().for_each(|client| client.asks_once(case, &exchange));
    process::thaw(rig.server.first);
    let served = AtomicBool::new(false);
    let [first, second] = greedy.get_disjoint_mut([0, 1]).expect("two clients");
    let (times, of_greedy) = std::thread::scope(|scope| {
        let together = scope.spawn(|| first.receive_until(&served, &exchange, |_| {}));
        let one_by_one =
            scope.spawn(|| second.receive_until(&served, &exchange, |client| client.send(&exchange.request)));
        let times: Vec<u64> = others.iter_mut().map(|client| client.receive(&exchange)).collect();
        served.store(true, Relaxed);
        (times, [together, one_by_one].map(|thread| thread.join().expect("a greedy client is served")))
    });
    let most: Vec<usize> =
        (0..times.len()).map(|other| most_replies_before(&rig, times.len() - other <= NEW)).collect();
    for each in of_greedy {
        let before = |time: &u64| each.iter().filter(|&reply| reply < time).count();
        let counts: Vec<usize> = times.iter().map(before).collect();
        show(case, "replies of a greedy client before each other's", || counts.iter().map(usize::to_string).collect());
        assert!(
            counts.iter().zip(&most).all(|(count, most)| count <= most),
            "a greedy client got so many replies before each of the others: {counts:?}, and at most {most:?} are fair"
        );
    }
    greedy.into_iter().for_each(Stamped::reset);
    drop(others);
    rig.expected.errors_allowed = RESET;
    rig.catches_up_with_whatever_was_answered();
    rig.finish();
}

/// Replies that a greedy client may get before the request of another client is answered, which may be a new one. A turn may
/// have begun when the request arrives, and the next may begin with the greedy client. A new client first waits until it
/// is accepted. If the kernel's scheduler decides, the other client comes at least before the greedy client's end.
fn most_replies_before(rig: &Rig, new: bool) -> usize {
    let accepts = rig.case.design["shares"]["accepts"].as_u64().map_or(NEW, |most| most as usize);
    match (rig.case.has_a_loop() && threads_that_compute(rig) == 1, new) {
        (true, false) => 2,
        (true, true) if threads(rig) == 1 => 2 + NEW.div_ceil(accepts),
        _ => GREEDY - 1,
    }
}

/// With one worker, clients get their replies in the order of their connections, however much the first one requests: this
/// is inherent in the design, and its page says so.
fn a_connection_is_served_to_its_end(case: &Case) {
    const REQUESTS: usize = 12;
    let mut rig = case.computing(true);
    let exchange = case.short();
    process::freeze(rig.server.first);
    let mut greedy = connect(&mut rig, 1).remove(0);
    greedy.send(&exchange.request.repeat(REQUESTS));
    greedy.half_close();
    let mut others = connect(&mut rig, 3);
    others.iter_mut().for_each(|client| client.asks_once(case, &exchange));
    process::thaw(rig.server.first);
    let mut times: Vec<u64> = (0..REQUESTS).map(|_| greedy.receive(&exchange)).collect();
    times.extend(others.iter_mut().map(|client| client.receive(&exchange)));
    assert!(times.is_sorted(), "replies to the first client, and then to the others, arrived at {times:?}");
    rig.expected.requests += times.len() as u64;
    drop((greedy, others));
    rig.finish();
}

/// Threads of the server that compute: in a pool as many as configured, otherwise at most those that exist.
fn threads_that_compute(rig: &Rig) -> usize {
    let one = rig.case.has_setting("pool") || rig.case.rule() == "connections";
    if one { 1 } else { threads(rig) }
}

/// Threads of the processes that serve.
fn threads(rig: &Rig) -> usize {
    let workers = rig.server.workers();
    let processes = if workers.is_empty() { vec![rig.server.first] } else { workers };
    processes.into_iter().map(|id| process::thread_states(id).len()).sum()
}

fn show(case: &Case, what: &str, figures: impl Fn() -> Vec<String>) {
    if SHOWS.load(Relaxed) {
        println!("{}::{}: {what}: {}", case.name(), case.protocol.name, figures().join(", "));
    }
}

fn connect(rig: &mut Rig, clients: usize) -> Vec<Stamped> {
    rig.expected.connections += clients as u64;
    (0..clients).map(|_| Stamped::connect(rig.server.port)).collect()
}

/// A client that sees when the kernel received what it reads.
struct Stamped(TcpStream);

impl Stamped {
    fn connect(port: u16) -> Stamped {
        LazyLock::force(&KERNEL_STAMPS);
        let stream = TcpStream::connect(("127.0.0.1", port)).expect("the server listens");
        stream.set_nodelay(true).unwrap();
        Stamped::of(stream)
    }

    fn of(stream: TcpStream) -> Stamped {
        setsockopt(&stream, sockopt::ReceiveTimestampns, &true).expect("the option is allowed");
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.set_write_timeout(Some(PATIENCE)).unwrap();
        Stamped(stream)
    }

    fn send(&mut self, bytes: &[u8]) {
        self.0.write_all(bytes).expect("the server receives");
    }

    fn half_close(&mut self) {
        self.0.shutdown(Shutdown::Write).expect("the connection is there");
    }

    /// Sends a request. A worker that serves one connection at a time needs its end. An event loop, which would close the
    /// connection later, does not see it: the kernel may give reply and end together, with the time of the end.
    fn asks_once(&mut self, case: &Case, exchange: &Exchange) {
        self.send(&exchange.request);
        if !case.has_a_loop() {
            self.half_close();
        }
    }

    fn exchange(&mut self, exchange: &Exchange) {
        self.send(&exchange.request);
        self.receive(exchange);
    }

    /// Receives some bytes, and the time in nanoseconds at which the kernel received the last of them.
    fn receive_some(&mut self, buffer: &mut [u8]) -> io::Result<(usize, Option<u64>)> {
        let mut space = cmsg_space!(TimeSpec);
        let mut room = [IoSliceMut::new(buffer)];
        let message = recvmsg::<()>(self.0.as_raw_fd(), &mut room, Some(&mut space), MsgFlags::empty())?;
        let time = message.cmsgs()?.find_map(|control| match control {
            ControlMessageOwned::ScmTimestampns(time) => Some(Duration::from(time).as_nanos() as u64),
            _ => None,
        });
        Ok((message.bytes, time))
    }

    /// Receives a reply; returns when its last byte arrived.
    fn receive(&mut self, exchange: &Exchange) -> u64 {
        let mut reply = vec![0; exchange.reply.len()];
        let (mut length, mut arrived) = (0, None);
        while length < reply.len() {
            let (bytes, time) = self.receive_some(&mut reply[length..]).expect("the server replies");
            assert!(bytes > 0, "the connection ended after {length} of {} bytes", reply.len());
            length += bytes;
            arrived = time;
        }
        assert_eq!(reply, exchange.reply);
        arrived.expect("the kernel stamps what it receives")
    }

    /// Receives replies until the others are served; returns when each arrived. `again` follows every reply.
    fn receive_until(&mut self, served: &AtomicBool, exchange: &Exchange, again: impl Fn(&mut Stamped)) -> Vec<u64> {
        let mut times = Vec::new();
        while !served.load(Relaxed) && times.len() < GREEDY {
            times.push(self.receive(exchange));
            again(self);
        }
        times
    }

    /// Resets the connection, so that the server computes none of its other requests.
    fn reset(self) {
        SockRef::from(&self.0).set_linger(Some(Duration::ZERO)).expect("the option is allowed");
    }
}

/// A connection that keeps the kernel's time stamps on: it turns them on a little after the first socket wants them.
static KERNEL_STAMPS: LazyLock<Stamped> = LazyLock::new(|| {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
    let mut stamped = Stamped::of(TcpStream::connect(listener.local_addr().unwrap()).unwrap());
    let (mut peer, _) = listener.accept().unwrap();
    eventually("the kernel stamps what it receives", || {
        peer.write_all(b"a").unwrap();
        stamped.receive_some(&mut [0]).unwrap().1
    });
    stamped
});
