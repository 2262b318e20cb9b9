//! Properties of designs that wait for readiness: limits on descriptors, herds, choice of listeners. `many_clients.rs` tests
//! their thousands of connections.

use std::process::Command;

use nix::sched::{CpuSet, sched_setaffinity};
use nix::unistd::Pid;
use serde_json::Value;

use crate::support::client::Client;
use crate::support::lines::{designs, items, number, number_of, resource_limits};
use crate::support::protocol::bytes;
use crate::support::server::Server;
use crate::support::{ENGINE, engine, event_loops, eventually, process, raise_descriptor_limit, refused, run};

fn count(snapshot: &Value, name: &str) -> u64 {
    number_of(&snapshot["tally"], name)
}

/// Descriptors from 1,024 on do not fit into a set: those connections are closed and tallied. All others are served, and new
/// ones too once there is room.
#[test]
fn select_closes_what_does_not_fit() {
    const CLIENTS: usize = 1100;
    const FD_SETSIZE: usize = 1024;
    if raise_descriptor_limit() < 2 * CLIENTS as u64 {
        return println!("skipped: ulimit -Hn is below {}", 2 * CLIENTS);
    }
    let mut server = Server::start("select", "bytes", &[]);
    // `ready` comes from the supervisor. The server's process may not have run yet, and then still has all inherited
    // descriptors, which it closes first.
    server.settle();
    let before = process::descriptors(server.first).unwrap();
    let fit = FD_SETSIZE - before;
    let mut clients: Vec<Client> = (0..CLIENTS).map(|_| Client::connect(server.port)).collect();
    server.snapshot_when("every connection served or tallied", |snapshot| {
        count(snapshot, "connections") == fit as u64 && resource_limits(snapshot) == (CLIENTS - fit) as u64
    });
    let exchange = bytes(100);
    for mut client in clients.drain(fit..) {
        client.receive_until_cut(b"");
    }
    clients.iter_mut().for_each(|client| client.exchange(&exchange));
    clients.truncate(fit - 10);
    server.snapshot_when("10 closed", |snapshot| count(snapshot, "closed") == 10);
    for _ in 0..10 {
        let mut client = Client::connect(server.port);
        client.exchange(&exchange);
        clients.push(client);
    }
    drop(clients);
    let all = fit as u64 + 10;
    server.snapshot_when("all closed", |snapshot| count(snapshot, "closed") == all);
    assert_eq!(process::descriptors(server.first), Some(before));
    server.stop().is_good();
}

/// A busy-polling loop uses CPU time while no client sends requests, and a sleeping one does not. Both serve, and end
/// properly.
#[test]
fn a_busy_polling_loop_never_sleeps() {
    for design in designs().iter().filter(|design| ["epoll", "epoll_edge", "io_uring"].contains(&design.as_str())) {
        for wait in ["sleep", "spin"] {
            serves_and_sleeps_or_not(design, &["--wait", wait], wait == "sleep");
        }
    }
    serves_and_sleeps_or_not("polling", &[], false);
    // A primitive busy-polls only while it waits for a client, and not for long.
    serves_and_sleeps_or_not("iterative", &["--receive", "busy_poll"], true);
}

fn serves_and_sleeps_or_not(design: &str, options: &[&str], sleeps: bool) {
    let server = Server::start(design, "bytes", options);
    let mut client = Client::connect(server.port);
    client.exchange(&bytes(100));
    assert_eq!(server.spins(), !sleeps, "{design}");
    if sleeps {
        server.sleeps();
    } else {
        let before = process::cpu_nanoseconds_of_group(server.first);
        let used = || process::cpu_nanoseconds_of_group(server.first) - before;
        eventually("a server that spins uses CPU time", || (used() > 50_000_000).then_some(()));
    }
    client.exchange(&bytes(5_000));
    drop(client);
    let ending = server.stop();
    ending.is_good();
    assert_eq!(number_of(&ending.summary()["tally"], "requests"), 2, "{design} {options:?}");
}

/// If the listener itself does not fit, as when the parent leaves its descriptors open, the server reports it.
#[test]
fn select_reports_a_listener_that_does_not_fit() {
    let script =
        "i=3; while [ $i -lt 1100 ]; do eval \"exec $i</dev/null\" || exit; i=$((i+1)); done; exec \"$0\" \"$@\"";
    for design in ["select", "prefork_select"] {
        let mut command = Command::new("bash");
        let server = Server::launch(command.args(["-c", script, ENGINE]), design, "bytes", &[]);
        let ending = server.wait();
        assert_eq!(ending.status.code(), Some(1), "{}", ending.errors);
        assert!(ending.errors.contains("1024"), "{}", ending.errors);
        ending.leaves_nothing();
    }
}

/// All workers sleep when a connection arrives. If all of them wake, each has a context switch for it.
#[test]
fn a_herd_is_woken_or_is_not() {
    const WORKERS: u64 = 15;
    const CONNECTIONS: u64 = 20;
    for (design, herd) in [
        ("prefork", false),
        ("prefork_select", true),
        ("prefork_epoll", true),
        ("prefork_epoll_exclusive", false),
        ("reuseport", false),
    ] {
        let server = Server::start(design, "bytes", &["--pool", &WORKERS.to_string()]);
        server.settle();
        let workers = server.workers();
        let before: u64 = workers.iter().map(|&id| process::voluntary_switches(id)).sum();
        for _ in 0..CONNECTIONS {
            let mut client = Client::connect(server.port);
            client.exchange(&bytes(1));
            drop(client);
            server.sleeps();
        }
        let after: u64 = workers.iter().map(|&id| process::voluntary_switches(id)).sum();
        let each = (after - before) as f64 / CONNECTIONS as f64;
        let right = if herd { each > WORKERS as f64 * 0.8 } else { each < 5.0 };
        assert!(right, "{design}: {each} voluntary switches of {WORKERS} workers a connection");
        server.stop().is_good();
    }
}

/// A connection goes to the worker of the CPU on which it was made.
#[test]
fn connections_are_steered_by_cpu() {
    const EACH: usize = 20;
    let cpus = process::allowed_cpus(0);
    for design in ["reuseport", "polling"] {
        let mut server = Server::start(design, "bytes", &["--pool", &cpus.len().to_string(), "--steer", "cpu"]);
        server.settle();
        cpus.iter().for_each(|&cpu| come_from(cpu, EACH, server.port));
        let all = (EACH * cpus.len()) as u64;
        let snapshot = server.snapshot_when("all served", |snapshot| count(snapshot, "closed") == all);
        assert_eq!(snapshot["workers"], serde_json::json!(vec![EACH; cpus.len()]), "{design}");
        let mut theirs: Vec<usize> = server.workers().into_iter().flat_map(process::allowed_cpus).collect();
        theirs.sort_unstable();
        assert_eq!(theirs, cpus, "{design}: a worker has its CPU");
        server.stop().is_good();
    }
}

/// A server that may not use all CPUs also serves connections that arrive on other CPUs.
#[test]
fn steering_uses_the_allowed_cpus() {
    const EACH: usize = 10;
    let cpus = process::allowed_cpus(0);
    let last = *cpus.last().unwrap();
    let options = ["--pool", "1", "--steer", "cpu", "--cpus", &last.to_string()];
    for design in ["reuseport", "polling"] {
        let mut server = Server::start(design, "bytes", &options);
        server.settle();
        cpus.iter().for_each(|&cpu| come_from(cpu, EACH, server.port));
        let all = (EACH * cpus.len()) as u64;
        let snapshot = server.snapshot_when("all served", |snapshot| count(snapshot, "closed") == all);
        assert_eq!(snapshot["workers"], serde_json::json!([all]), "{design}");
        assert_eq!(
            server.workers().into_iter().flat_map(process::allowed_cpus).collect::<Vec<_>>(),
            [last],
            "{design}"
        );
        server.stop().is_good();
    }
}

/// The worker of the first CPU is lost: the others keep their CPUs, and a replacement gets the first CPU again.
#[test]
fn remaining_workers_keep_the_connections_of_their_cpus() {
    const EACH: usize = 20;
    let cpus = process::allowed_cpus(0);
    if cpus.len() < 2 {
        return println!("skipped: there is one CPU, and nobody is left");
    }
    for (design, respawn) in [("reuseport", "false"), ("reuseport", "true"), ("polling", "false")] {
        let pool = cpus.len().to_string();
        let mut server = Server::start(design, "bytes", &["--pool", &pool, "--steer", "cpu", "--respawn", respawn]);
        server.settle();
        let lost = server.workers().into_iter().find(|&worker| process::allowed_cpus(worker) == [cpus[0]]).unwrap();
        process::signal(lost, nix::sys::signal::Signal::SIGKILL);
        let replaced = u64::from(respawn == "true");
        server.snapshot_when("the loss is known", |snapshot| {
            (count(snapshot, "workers_lost"), count(snapshot, "workers_replaced")) == (1, replaced)
        });
        cpus.iter().for_each(|&cpu| come_from(cpu, EACH, server.port));
        let all = (EACH * cpus.len()) as u64;
        let snapshot = server.snapshot_when("all served", |snapshot| count(snapshot, "closed") == all);
        let shares: Vec<usize> = items(&snapshot, "workers").iter().map(|share| number(share) as usize).collect();
        if respawn == "true" {
            assert_eq!(shares, vec![EACH; cpus.len()], "{design}");
        } else {
            // Connections of the lost worker's CPU go to any of the others.
            assert_eq!((shares[0], shares.iter().sum()), (0, EACH * cpus.len()), "{design}");
            assert!(shares[1..].iter().all(|&share| share >= EACH), "{design}: {shares:?}");
        }
        server.stop().is_good();
    }
}

/// Pinned threads of a load send requests only to the workers of their CPUs.
#[test]
fn pinned_threads_use_the_workers_of_their_cpus() {
    const EACH: u64 = 10;
    let cpus = process::allowed_cpus(0);
    if cpus.len() < 2 {
        return println!("skipped: there is one CPU, which all threads and workers would share");
    }
    for connections in ["kept", "per_request"] {
        let mut server = Server::start("reuseport", "bytes", &["--pool", &cpus.len().to_string(), "--steer", "cpu"]);
        server.settle();
        let load =
            format!("--load closed_connections --connections {connections} --clients {} --loops 1", 2 * EACH + 1);
        let options = format!("{load} --threads 2 --pin-threads true");
        let (ran, _) = event_loops::load("bytes", server.port, &options);
        assert_eq!(ran.status, Some(0), "{ran:?}");
        let snapshot = server.snapshot_when("all closed", |snapshot| count(snapshot, "closed") == 2 * EACH + 1);
        // The first thread has one client more.
        let mut expected = vec![0; cpus.len()];
        expected[..2].copy_from_slice(&[EACH + 1, EACH]);
        assert_eq!(snapshot["workers"], serde_json::json!(expected), "{connections}");
        server.stop().is_good();
    }
}

/// Its busy share refers to all CPUs that it may use, although each thread has one.
#[test]
fn a_load_whose_threads_are_pinned_is_busy_by_its_share_of_all_cpus() {
    let server = Server::start("epoll", "bytes", &[]);
    let options = "--load closed_connections --connections kept --threads 2 --pin-threads true --duration 300ms";
    let (ran, line) = event_loops::load("bytes", server.port, options);
    assert_eq!(ran.status, Some(0), "{ran:?}");
    let validity = &line["validity"];
    let of = |generator: &Value, name: &str| number(&generator[name]) as f64 / number(&generator["elapsed_ns"]) as f64;
    let generators = validity["generators"].as_array().unwrap();
    assert_eq!(generators.len(), 2, "{validity}");
    let busy = |each| of(each, "cpu_ns").max(1.0 - of(each, "waited_ns"));
    let busiest = generators.iter().map(busy).fold(0.0, f64::max);
    let all = generators.iter().map(|each| of(each, "cpu_ns")).sum::<f64>() / process::allowed_cpus(0).len() as f64;
    let check = validity["checks"].as_array().unwrap().iter().find(|check| check["name"] == "generator_cpu").unwrap();
    assert!((check["value"].as_f64().unwrap() - busiest.max(all)).abs() < 1e-9, "{validity}");
    server.stop().is_good();
}

/// Two replies are taken before both clients send again, but each has a request in flight nearly all the time.
#[test]
fn many_polled_clients_have_their_requests_in_flight() {
    let server = Server::start("epoll", "echo", &[]);
    let load = "--load closed_connections --connections kept --clients 64 --bytes 64 --duration 500ms";
    let mut little = Value::Null;
    // On a busy machine the load may stand still at an edge of the window, but not each time.
    let holds = (0..10).any(|_| {
        let (ran, line) = event_loops::load("echo", server.port, &format!("{load} {}", event_loops::POLLING));
        assert_eq!((ran.status, &line["tally"]["errors"]), (Some(0), &serde_json::json!({})), "{ran:?}");
        let checks = line["validity"]["checks"].as_array().unwrap();
        little = checks.iter().find(|check| check["name"] == "little").unwrap().clone();
        little["holds"] != false
    });
    assert!(holds, "{little}");
    server.stop().is_good();
}

/// Makes this many connections, one after another, from a client on this CPU.
fn come_from(cpu: usize, connections: usize, port: u16) {
    let comes = move || {
        let mut one = CpuSet::new();
        one.set(cpu).unwrap();
        sched_setaffinity(Pid::from_raw(0), &one).unwrap();
        (0..connections).for_each(|_| Client::connect(port).exchange(&bytes(1)));
    };
    std::thread::spawn(comes).join().unwrap();
}

#[test]
fn impossible_steering_is_refused_with_the_reason() {
    let cpus = process::allowed_cpus(0);
    let (all, wrong) = (format!("--pool {}", cpus.len()), (cpus.len() + 1).to_string());
    let started = |pool: &str, more: &[&str]| {
        let mut command = engine();
        run(command
            .args(["serve", "reuseport", "--listen", "127.0.0.1:0", "--pool", pool, "--steer", "cpu"])
            .args(more))
    };
    let ran = started(&wrong, &[]);
    refused(&ran, "steering.pool_is_not_cpus", &[&all]);
    let first = cpus[0];
    let ran = started(&wrong, &["--cpus", &first.to_string()]);
    refused(&ran, "steering.pool_is_not_cpus", &[&format!("CPUs [{first}]")]);
}
