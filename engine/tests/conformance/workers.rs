//! Killed processes of a server.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;

use crate::faults;
use crate::rig::{Case, Listed, Rig};
use crate::support::client::Client;
use crate::support::{PATIENCE, eventually, process};

pub const FAULTS: &[Listed] = faults![
    the_server_process_is_killed,
    #[needs_a_large_reply]
    the_server_process_is_killed_while_it_serves,
    the_server_process_is_killed_while_it_drains,
];

pub const OF_PROCESSES_PER_CLIENT: &[Listed] = faults![
    #[needs_an_incomplete_request]
    a_child_is_killed_in_mid_request,
    #[needs_a_large_reply]
    children_are_killed_in_mid_reply
];

pub const OF_PROCESS_POOLS: &[Listed] = faults![
    an_idle_worker_is_killed,
    workers_are_killed_one_by_one,
    several_workers_are_killed_at_once,
    #[needs_a_large_reply]
    a_worker_is_killed_in_mid_reply,
    a_worker_is_killed_with_a_silent_client,
    #[needs_workers_that_serve_many]
    a_worker_is_killed_with_many_clients,
    lost_workers_are_replaced,
    a_client_comes_as_the_last_worker_dies,
    workers_are_killed_under_load,
    all_workers_are_killed,
];

/// The supervisor reports it and ends, whatever the design: nobody is left who could accept.
fn the_server_process_is_killed(case: &Case) {
    for signal in [Signal::SIGKILL, Signal::SIGTERM, Signal::SIGHUP] {
        let rig = Rig::new(case, &[]);
        process::signal(rig.server.first, signal);
        let ending = rig.server.wait();
        ending.is_reported(&[signal.as_str()]);
        assert!(ending.summary()["died"].as_str().is_some_and(|how| how.contains(signal.as_str())));
        rig.expected.holds(&ending);
    }
}

fn the_server_process_is_killed_while_it_serves(case: &Case) {
    let mut rig = Rig::new(case, &case.protocol.large_options());
    let large = case.large();
    let mut client = rig.connect_slow();
    client.send(&large.request);
    client.receive(&large.reply[..1000]);
    process::signal(rig.server.first, Signal::SIGKILL);
    let ending = rig.server.wait();
    ending.is_reported(&["SIGKILL"]);
    let received = client.receive_until_cut(&large.reply[1000..]);
    assert!(received + 1000 < large.reply.len(), "a server that was killed sent all of its reply");
    // A worker may notice the end of its parent or of its client first, so only sums are checked.
    let tally = &ending.summary()["tally"];
    assert_eq!((&tally["connections"], &tally["requests"]), (&2.into(), &1.into()), "{tally}");
}

/// A death that the supervisor did not cause is reported even if the server was already stopping.
fn the_server_process_is_killed_while_it_drains(case: &Case) {
    let mut rig = Rig::new(case, &["--drain", "10min"]);
    let silent = rig.connect();
    rig.until("connections", rig.expected.connections);
    rig.server.close_input();
    rig.server.stops_listening();
    process::signal(rig.server.first, Signal::SIGKILL);
    rig.server.wait().is_reported(&["SIGKILL"]);
    drop(silent);
}

fn a_child_is_killed_in_mid_request(case: &Case) {
    let mut rig = Rig::new(case, &[]);
    for _ in 0..3 {
        let mut client = rig.connect();
        client.send(case.protocol.incomplete);
        let child = rig.worker_of(&client);
        rig.until("connections", rig.expected.connections);
        process::signal(child, Signal::SIGKILL);
        client.receive_until_cut(b"");
        rig.expected.never_closed += 1;
        rig.expected.workers_lost += 1;
        rig.catches_up();
        rig.serves();
    }
    rig.finish();
}

fn children_are_killed_in_mid_reply(case: &Case) {
    let mut rig = Rig::new(case, &case.protocol.large_options());
    let large = case.large();
    let mut clients: Vec<Client> = (0..5).map(|_| rig.connect_slow()).collect();
    for client in &mut clients {
        client.send(&large.request);
        client.receive(&large.reply[..1000]);
    }
    // All at once: several children end for one SIGCHLD.
    rig.server.workers().into_iter().for_each(|child| process::signal(child, Signal::SIGKILL));
    for mut client in clients {
        client.receive_until_cut(&large.reply[1000..]);
        rig.expected.never_closed += 1;
        rig.expected.workers_lost += 1;
    }
    rig.finish();
}

fn an_idle_worker_is_killed(case: &Case) {
    let mut rig = Rig::new(case, &["--pool", "3"]);
    let workers = rig.server.workers();
    // A worker that is not in accept: it waits for a lock or a descriptor, if the design has them.
    let idle = workers.iter().copied().find(|&id| process::waits_in_accept(id) == Some(false)).unwrap_or(workers[1]);
    kill(&mut rig, idle);
    let silent = rig.connect();
    for _ in 0..10 {
        rig.serves();
    }
    drop(silent);
    rig.finish();
}

/// The worker that waits in accept holds the lock around it, if there is one. It is killed, the next worker gets the lock,
/// is killed, and so on until one is left. If this machine does not show which worker waits in accept, the workers are
/// killed in turn: when one is left, every holder of the lock was among them.
fn workers_are_killed_one_by_one(case: &Case) {
    let mut rig = Rig::new(case, &["--pool", "5"]);
    for left in (1..5).rev() {
        rig.catches_up();
        rig.server.sleeps();
        let workers = rig.server.workers();
        let accepting: Vec<i32> =
            workers.iter().copied().filter(|&id| process::waits_in_accept(id) == Some(true)).collect();
        kill(&mut rig, *accepting.first().unwrap_or(&workers[0]));
        assert_eq!(rig.server.workers().len(), left);
        for _ in 0..5 {
            rig.serves();
        }
    }
    rig.finish();
}

fn several_workers_are_killed_at_once(case: &Case) {
    let mut rig = Rig::new(case, &["--pool", "8"]);
    let workers = rig.server.workers();
    // Stopped first, so that they die together and their parent finds several at once.
    process::freeze(rig.server.first);
    workers[1..].iter().for_each(|&id| process::signal(id, Signal::SIGKILL));
    process::thaw(rig.server.first);
    rig.expected.workers_lost += 7;
    rig.catches_up();
    for _ in 0..10 {
        rig.serves();
    }
    rig.finish();
}

fn a_worker_is_killed_in_mid_reply(case: &Case) {
    let options = [vec!["--pool", "3"], case.protocol.large_options()].concat();
    let mut rig = Rig::new(case, &options);
    let large = case.large();
    let mut client = rig.connect_slow();
    client.send(&large.request);
    client.receive(&large.reply[..1000]);
    let worker = rig.worker_of(&client);
    rig.expected.never_closed += 1;
    kill(&mut rig, worker);
    let received = client.receive_until_cut(&large.reply[1000..]);
    assert!(received + 1000 < large.reply.len(), "a worker that was killed sent all of its reply");
    for _ in 0..10 {
        rig.serves();
    }
    rig.finish();
}

fn a_worker_is_killed_with_a_silent_client(case: &Case) {
    let mut rig = Rig::new(case, &["--pool", "2"]);
    let mut client = rig.connect();
    let worker = rig.worker_of(&client);
    rig.until("connections", rig.expected.connections);
    rig.expected.never_closed += 1;
    kill(&mut rig, worker);
    // A process that keeps a copy of the descriptor keeps the client waiting for ever.
    client.receive_until_cut(b"");
    for _ in 0..10 {
        rig.serves();
    }
    rig.finish();
}

/// Its clients lose their connections, those of the other workers keep theirs.
fn a_worker_is_killed_with_many_clients(case: &Case) {
    let mut rig = Rig::new(case, &["--pool", "2"]);
    let exchange = case.exchange();
    let mut clients: Vec<Client> = (0..12).map(|_| rig.connect()).collect();
    for client in &mut clients {
        rig.asks(client, &exchange);
    }
    // Replies that a dead worker sent but did not count are never counted.
    if case.protocol.framed {
        rig.until("requests", rig.expected.requests);
    }
    let worker = rig.worker_of(&clients[0]);
    rig.expected.workers_lost += 1;
    process::kill_and_wait(worker);
    // Until then its own listener, if it has one, takes connections that nobody will serve.
    rig.until("workers_lost", 1);
    let mut lost = 0;
    for client in &mut clients {
        client.send_in_vain(&exchange.request);
        match client.receive_at_most(&exchange.reply) {
            0 => lost += 1,
            bytes => assert_eq!(bytes, exchange.reply.len(), "a connection of a living worker was cut"),
        }
    }
    assert!(lost > 0, "the worker that was killed had at least one of the connections");
    rig.expected.never_closed += lost;
    rig.expected.requests += clients.len() as u64 - lost;
    drop(clients);
    for _ in 0..10 {
        rig.serves();
    }
    rig.finish();
}

fn lost_workers_are_replaced(case: &Case) {
    let mut rig = Rig::new(case, &["--pool", "3", "--respawn", "true"]);
    let descriptors = process::descriptors(rig.server.workers()[2]);
    for round in 0..6 {
        let worker = rig.server.workers()[round % 3];
        rig.expected.workers_replaced += 1;
        kill(&mut rig, worker);
        assert!(!rig.server.workers().contains(&worker));
        // Two workers are busy, so the third is the new one, or one of two new ones.
        let silent = [rig.connect(), rig.connect()];
        for _ in 0..3 {
            rig.serves();
        }
        drop(silent);
        // The next worker to be killed must not be closing a connection, which would then never be closed.
        rig.catches_up();
    }
    for worker in rig.server.workers() {
        eventually("a new worker has as many descriptors as the others", || {
            (process::descriptors(worker) == descriptors).then_some(())
        });
    }
    let connections = rig.server.snapshot()["workers"].clone();
    assert_eq!(connections.as_array().map(Vec::len), Some(3), "a new worker takes the place of the old: {connections}");
    // The first process has as many descriptors as before: a new one for each lost worker.
    rig.expected.workers_lost -= 6;
    rig.leaks_nothing();
    rig.expected.workers_lost += 6;
    rig.finish();
}

/// A client connects just when the only worker dies: the new worker serves it completely. The server is stopped meanwhile,
/// as with Ctrl-Z, so that it learns of both at once.
fn a_client_comes_as_the_last_worker_dies(case: &Case) {
    let mut rig = Rig::new(case, &["--pool", "1", "--respawn", "true"]);
    let exchange = case.exchange();
    for _ in 0..3 {
        process::freeze(rig.server.first);
        process::kill_and_wait(rig.server.workers()[0]);
        let mut client = rig.connect();
        client.send(&exchange.request);
        client.half_close();
        rig.expected.workers_lost += 1;
        rig.expected.workers_replaced += 1;
        rig.expected.requests += 1;
        process::thaw(rig.server.first);
        client.receive_to_end(&exchange.reply);
        rig.catches_up();
    }
    rig.finish();
}

/// Workers are killed at random moments, many times. Clients lose connections; the server loses nothing.
fn workers_are_killed_under_load(case: &Case) {
    const KILLS: usize = 30;
    const CLIENTS: usize = 3;
    let server = case.start(&["--pool", "4", "--respawn", "true"]);
    let mut rig = Rig::of(case, server);
    let (port, spins, exchange) = (rig.server.port, rig.server.spins(), case.exchange());
    let (over, cut, whole) = (AtomicBool::new(false), AtomicU64::new(0), AtomicU64::new(0));
    std::thread::scope(|scope| {
        for _ in 0..CLIENTS {
            scope.spawn(|| {
                while !over.load(Relaxed) {
                    let mut client = Client::connect(port).judging(case.protocol.alike, spins);
                    client.send_in_vain(&exchange.request);
                    let all = client.receive_at_most(&exchange.reply) == exchange.reply.len();
                    (if all { &whole } else { &cut }).fetch_add(1, Relaxed);
                }
            });
        }
        for round in 0..KILLS {
            let before = whole.load(Relaxed);
            let deadline = Instant::now() + PATIENCE;
            while whole.load(Relaxed) < before + 5 && Instant::now() < deadline {
                std::thread::sleep(Duration::from_millis(1));
            }
            if let Some(&worker) = rig.server.workers().get(round % 4) {
                process::signal(worker, Signal::SIGKILL);
            }
            rig.server.snapshot_when("lost workers are replaced", |snapshot| {
                let tally = &snapshot["tally"];
                tally["workers_lost"] == round + 1 && tally["workers_replaced"] == round + 1
            });
        }
        over.store(true, Relaxed);
    });
    assert!(whole.load(Relaxed) >= 5 * KILLS as u64, "{whole:?} replies were whole, {cut:?} were not");
    // A killed worker has one connection, or those of all clients, and one more may be on its way to it.
    let with_each = if case.kind.many { CLIENTS } else { 1 };
    let lost = (KILLS * with_each) as u64;
    assert!(cut.load(Relaxed) <= 2 * lost, "{KILLS} workers were killed, but {cut:?} connections lost");
    for _ in 0..20 {
        rig.serves();
    }
    assert_eq!(rig.server.workers().len(), 4);
    rig.expected.workers_lost = 0;
    rig.leaks_nothing();
    let ending = rig.server.stop();
    ending.is_good();
    let tally = &ending.summary()["tally"];
    let number = |name: &str| tally[name].as_u64().expect("a count");
    assert_eq!((number("workers_lost"), number("workers_replaced")), (KILLS as u64, KILLS as u64), "{tally}");
    let served = whole.load(Relaxed) + rig.expected.requests;
    assert!(number("requests") <= served + lost && number("requests") + lost >= served, "{served}: {tally}");
    assert!(number("connections") - number("closed") <= lost, "{tally}");
}

/// Without `respawn` the server ends with its last worker, and reports why.
fn all_workers_are_killed(case: &Case) {
    let rig = Rig::new(case, &["--pool", "3"]);
    let workers = rig.server.workers();
    process::freeze(rig.server.first);
    workers.iter().for_each(|&id| process::signal(id, Signal::SIGKILL));
    process::thaw(rig.server.first);
    let mut expected = rig.expected;
    let ending = rig.server.wait();
    ending.is_reported(&["all workers of the pool were lost", "--respawn true"]);
    expected.workers_lost = 3;
    expected.holds(&ending);
}

fn kill(rig: &mut Rig<'_>, worker: i32) {
    rig.expected.workers_lost += 1;
    process::kill_and_wait(worker);
    rig.catches_up_with_workers();
}
