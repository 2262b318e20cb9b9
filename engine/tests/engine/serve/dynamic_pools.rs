//! Pools that grow and shrink: within their maximum and minimum, larger under load and smaller after it. Every client is
//! answered, also while workers start, end, and are killed.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use nix::sys::signal::Signal;

use crate::support::client::Client;
use crate::support::protocol::{Exchange, bytes};
use crate::support::server::Server;
use crate::support::{Unprivileged, engine, eventually, process, run};

const DESIGNS: [&str; 2] = ["prefork_dynamic", "prethread_dynamic"];

const MINIMUM_SPARE: usize = 2;
const MAXIMUM_SPARE: usize = 4;
const MAXIMUM_WORKERS: usize = 10;

fn start(design: &str, maintenance: &str) -> Server {
    let limits = "--start-workers 3 --minimum-spare 2 --maximum-spare 4 --maximum-workers 10 --maintenance";
    let options: Vec<&str> = limits.split(' ').chain([maintenance]).collect();
    let server = Server::start(design, "bytes", &options);
    server.settle();
    server
}

/// Living workers of a server: its children, or all threads of its first process except the first.
fn workers(first: i32) -> BTreeSet<i32> {
    // Fast if the kernel lists the children of a thread (CONFIG_PROC_CHILDREN). Reading all of /proc takes long.
    let children = match std::fs::read_to_string(format!("/proc/{first}/task/{first}/children")) {
        Ok(list) => list.split_whitespace().filter_map(|id| id.parse().ok()).filter(|&id| process::lives(id)).collect(),
        Err(_) => process::children(first),
    };
    if !children.is_empty() {
        return children.into_iter().collect();
    }
    let tasks = std::fs::read_dir(format!("/proc/{first}/task")).expect("the server lives");
    let ids = tasks.filter_map(|task| task.ok()?.file_name().to_str()?.parse().ok());
    ids.filter(|&id| id != first).collect()
}

/// Samples the workers of a server repeatedly.
#[derive(Debug)]
struct Samples {
    least: usize,
    most: usize,
    count: usize,
}

impl Samples {
    /// Samples until the test is over. A look takes time, so each sample is two looks: workers in both lived between them,
    /// and workers that lived between them are in at least one.
    fn take(first: i32, over: &AtomicBool) -> Samples {
        let mut samples = Samples { least: usize::MAX, most: 0, count: 0 };
        while !over.load(Relaxed) {
            let looks = [workers(first), workers(first)];
            samples.most = samples.most.max(looks[0].intersection(&looks[1]).count());
            samples.least = samples.least.min(looks[0].union(&looks[1]).count());
            samples.count += 1;
            std::thread::sleep(Duration::from_millis(1));
        }
        samples
    }

    fn within_limits(&self, design: &str) {
        assert!(self.least >= MINIMUM_SPARE && self.most <= MAXIMUM_WORKERS, "{design}: {self:?}");
    }
}

/// Runs a body while the workers of a server are sampled.
fn sampled<T>(first: i32, body: impl FnOnce() -> T) -> (Samples, T) {
    // Also if the body panics, or the scope would wait for ever.
    struct Over<'a>(&'a AtomicBool);
    impl Drop for Over<'_> {
        fn drop(&mut self) {
            self.0.store(true, Relaxed);
        }
    }
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let sampler = scope.spawn(|| Samples::take(first, &over));
        let result = {
            let _over = Over(&over);
            body()
        };
        (sampler.join().expect("the sampler does not panic"), result)
    })
}

/// Waits until the pool has the size that the rule gives for this many clients.
fn follows(design: &str, first: i32, clients: usize) {
    let least = (clients + MINIMUM_SPARE).min(MAXIMUM_WORKERS);
    let most = (clients + MAXIMUM_SPARE).min(MAXIMUM_WORKERS);
    eventually(&format!("{design}: {least} to {most} workers for {clients} clients"), || {
        (least..=most).contains(&workers(first).len()).then_some(())
    });
}

#[test]
fn the_pool_follows_its_clients_within_its_limits() {
    for design in DESIGNS {
        let server = start(design, "20ms");
        let (first, port, exchange) = (server.first, server.port, bytes(4000));
        let mut connections = 0;
        let (samples, ()) = sampled(first, || {
            let mut clients: Vec<Client> = Vec::new();
            for wanted in [1, 4, 0, 8, 3, 10, 2, 0, 9, 0] {
                clients.truncate(wanted);
                while clients.len() < wanted {
                    clients.push(Client::connect(port));
                    connections += 1;
                }
                clients.iter_mut().for_each(|client| client.exchange(&exchange));
                follows(design, first, wanted);
            }
            // More clients than workers are allowed: the last ones are answered as the first ones leave.
            let mut many: Vec<Client> = (0..3 * MAXIMUM_WORKERS).map(|_| Client::connect(port)).collect();
            connections += many.len() as u64;
            many.iter_mut().for_each(|client| client.send(&exchange.request));
            // To its most: a sample may miss that, on a busy machine.
            follows(design, first, many.len());
            for mut client in many {
                client.half_close();
                client.receive_to_end(&exchange.reply);
            }
            follows(design, first, 0);
        });
        samples.within_limits(design);
        ends_well(server, connections);
    }
}

/// The next maintenance is ten minutes away.
#[test]
fn growth_does_not_wait_for_maintenance() {
    for design in DESIGNS {
        let server = start(design, "10min");
        let mut clients = Vec::new();
        for wanted in 1..=MAXIMUM_WORKERS {
            clients.push(Client::connect(server.port));
            clients.iter_mut().for_each(|client| client.exchange(&bytes(1)));
            follows(design, server.first, wanted);
        }
        drop(clients);
        ends_well(server, MAXIMUM_WORKERS as u64);
    }
}

/// Clients come and go faster than maintenance runs, so that workers become busy while they are told to leave.
#[test]
fn no_client_is_lost_while_the_pool_grows_and_shrinks() {
    for design in DESIGNS {
        let server = start(design, "10ms");
        let (first, port) = (server.first, server.port);
        let (samples, connections) = sampled(first, || {
            let mut connections = 0;
            for round in 0..15 {
                connections += burst(port, 12, 20 + round);
                std::thread::sleep(Duration::from_millis(3 * round));
            }
            follows(design, first, 0);
            connections
        });
        samples.within_limits(design);
        ends_well(server, connections);
    }
}

/// Runs this many clients at once, each with this many connections in sequence. All must be answered.
fn burst(port: u16, clients: u64, connections: u64) -> u64 {
    std::thread::scope(|scope| {
        for client in 0..clients {
            scope.spawn(move || {
                let exchange: Exchange = bytes(1000);
                for connection in 0..connections {
                    let mut connected = Client::connect(port);
                    connected.exchange(&exchange);
                    std::thread::sleep(Duration::from_micros((client * 131 + connection * 57) % 1000));
                    connected.half_close();
                    connected.receive_to_end(b"");
                }
            });
        }
    });
    clients * connections
}

/// Checks that every connection was served to its end, and that no worker was lost.
fn ends_well(mut server: Server, connections: u64) {
    server.snapshot_when("every connection closed", |snapshot| snapshot["tally"]["closed"] == connections);
    let ending = server.stop();
    ending.is_good();
    let tally = &ending.summary()["tally"];
    assert_eq!((&tally["connections"], &tally["workers_lost"]), (&connections.into(), &0.into()), "{tally}");
    assert_eq!(tally["errors"], serde_json::json!({}), "{tally}");
    let workers = ending.summary()["workers"].as_array().expect("clients per worker");
    assert_eq!(workers.len(), MAXIMUM_WORKERS);
    assert_eq!(workers.iter().filter_map(serde_json::Value::as_u64).sum::<u64>(), connections);
}

/// Kills free and busy workers, more than there are places: every place is reused, and the pool still grows to its maximum
/// and shrinks.
#[test]
fn places_of_killed_workers_are_reused() {
    let mut server = start("prefork_dynamic", "20ms");
    let (first, port, exchange) = (server.first, server.port, bytes(4000));
    for round in 0..2 * MAXIMUM_WORKERS {
        let mut busy = Client::connect(port);
        busy.exchange(&exchange);
        // The worker has a connection open in addition to the listener; the previous worker may still be closing its own.
        let sockets =
            |id| process::descriptor_targets(id).iter().filter(|target| target.starts_with("socket:")).count();
        let (serving, spare) = eventually("one worker is busy", || {
            let (serving, spare): (Vec<i32>, Vec<i32>) = workers(first).into_iter().partition(|&id| sockets(id) == 2);
            (serving.len() == 1 && !spare.is_empty()).then(|| (serving[0], spare[0]))
        });
        let is_busy = round % 2 == 0;
        let worker = if is_busy { serving } else { spare };
        process::kill_and_wait(worker);
        server.snapshot_when("a lost worker", |snapshot| snapshot["tally"]["workers_lost"] == round + 1);
        if is_busy {
            busy.receive_until_cut(b"");
        } else {
            busy.exchange(&exchange);
        }
    }
    follows("prefork_dynamic", first, 0);
    let mut clients: Vec<Client> = (0..MAXIMUM_WORKERS).map(|_| Client::connect(port)).collect();
    clients.iter_mut().for_each(|client| client.exchange(&exchange));
    follows("prefork_dynamic", first, MAXIMUM_WORKERS);
    drop(clients);
    follows("prefork_dynamic", first, 0);
    server.stop().is_good();
}

/// All workers at once: the pool recovers by its normal rule, and so do later ones.
#[test]
fn a_killed_pool_recovers() {
    let mut server = start("prefork_dynamic", "10min");
    let (first, port, exchange) = (server.first, server.port, bytes(4000));
    for round in 1..=5 {
        process::freeze(first);
        let all = workers(first);
        all.iter().for_each(|&id| process::signal(id, Signal::SIGKILL));
        // A client that arrives while there is no worker is served by new ones.
        let mut client = Client::connect(port);
        client.send(&exchange.request);
        process::thaw(first);
        client.receive(&exchange.reply);
        let lost = 3 + (round - 1) * 3;
        server.snapshot_when("all lost", |snapshot| snapshot["tally"]["workers_lost"] == lost);
        // One is busy, so there is one worker more than the minimum of spare workers.
        eventually("the pool is there again", || (workers(first).len() == MINIMUM_SPARE + 1).then_some(()));
    }
    server.stop().is_good();
}

/// Workers are killed at any point, also while they are told to leave.
#[test]
fn workers_are_killed_while_the_pool_grows_and_shrinks() {
    const KILLS: u64 = 40;
    let mut server = start("prefork_dynamic", "10ms");
    let (first, port, exchange) = (server.first, server.port, bytes(4000));
    let (over, whole, cut) = (AtomicBool::new(false), AtomicU64::new(0), AtomicU64::new(0));
    let (samples, ()) = sampled(first, || {
        std::thread::scope(|scope| {
            for client in 0..8 {
                let (over, whole, cut, exchange) = (&over, &whole, &cut, &exchange);
                scope.spawn(move || {
                    while !over.load(Relaxed) {
                        let mut connected = Client::connect(port);
                        connected.send_in_vain(&exchange.request);
                        let all = connected.receive_at_most(&exchange.reply) == exchange.reply.len();
                        (if all { whole } else { cut }).fetch_add(1, Relaxed);
                        std::thread::sleep(Duration::from_millis(client * 3));
                    }
                });
            }
            for round in 0..KILLS {
                let alive = workers(first);
                if let Some(&worker) = alive.iter().nth(round as usize % alive.len().max(1)) {
                    // The worker may have left meanwhile, as it was told to.
                    let _ = nix::sys::signal::kill(nix::unistd::Pid::from_raw(worker), Signal::SIGKILL);
                }
                let before = whole.load(Relaxed);
                eventually("clients are served", || (whole.load(Relaxed) > before + 5).then_some(()));
            }
            over.store(true, Relaxed);
        });
    });
    assert!(samples.most <= MAXIMUM_WORKERS, "{samples:?}");
    assert!(cut.load(Relaxed) <= 2 * KILLS, "{KILLS} workers were killed, but {cut:?} connections lost");
    follows("prefork_dynamic", first, 0);
    // A worker that was told to leave, or that had just left, is none that was lost.
    let snapshot = server.snapshot_when("lost workers", |snapshot| snapshot["tally"]["workers_lost"] != 0);
    assert!(snapshot["tally"]["workers_lost"].as_u64() <= Some(KILLS), "{snapshot}");
    server.stop().is_good();
}

/// A limit on descriptors is soon reached by the first process.
#[test]
fn descriptors_of_the_first_process_do_not_grow_with_its_workers() {
    for design in DESIGNS {
        let server = start(design, "10ms");
        let (first, port, exchange) = (server.first, server.port, bytes(1));
        follows(design, first, 0);
        let before = process::descriptors(first);
        for _ in 0..5 {
            let mut clients: Vec<Client> = (0..MAXIMUM_WORKERS).map(|_| Client::connect(port)).collect();
            clients.iter_mut().for_each(|client| client.exchange(&exchange));
            drop(clients);
            follows(design, first, 0);
        }
        eventually("no more descriptors than before", || (process::descriptors(first) == before).then_some(()));
        server.stop().is_good();
    }
}

/// The signal that tells a worker to leave has no effect on a worker that was not told.
#[test]
fn a_signal_of_another_process_ends_no_worker() {
    let server = start("prefork_dynamic", "10min");
    let before = workers(server.first);
    let mut busy = Client::connect(server.port);
    busy.exchange(&bytes(4000));
    for _ in 0..20 {
        workers(server.first).into_iter().for_each(|id| process::signal(id, Signal::SIGUSR1));
        busy.exchange(&bytes(4000));
    }
    assert!(workers(server.first).is_superset(&before));
    drop(busy);
    server.stop().is_good();
}

#[test]
fn contradictory_limits_are_refused_with_their_values() {
    for design in ["prefork_dynamic", "prethread_dynamic"] {
        let refused = |options: &str, words: &[&str]| {
            let ran = run(engine().args(["serve", design, "--port", "1"]).args(options.split(' ')));
            crate::support::one_line(&ran, 2, words);
        };
        refused("--minimum-spare 7 --maximum-spare 6", &["--minimum-spare 7", "--maximum-spare 6"]);
        refused("--maximum-spare 3", &["--minimum-spare 5", "--maximum-spare 3", "--minimum-spare 3 or less"]);
        refused("--maximum-workers 4", &["--minimum-spare 5", "--maximum-workers 4", "--maximum-workers 5 or more"]);
        refused("--start-workers 300", &["--start-workers 300", "--maximum-workers 256"]);
        refused("--maximum-workers 0", &["--maximum-workers", "from 1 to 16000"]);
    }
}

/// As with any pool, the server ends with a message instead of serving with fewer workers.
#[test]
fn a_start_without_enough_processes_is_reported() {
    let Ok(user) = Unprivileged::new().inspect_err(|reason| println!("skipped: {reason}")) else { return };
    for design in DESIGNS {
        let server = Server::launch(&mut user.command(Some(8)), design, "bytes", &["--start-workers", "15"]);
        server.wait().is_reported(&["cannot ", "--start-workers", "ulimit -u"]);
    }
}
