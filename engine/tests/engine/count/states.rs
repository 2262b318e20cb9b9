//! Counters of states at one moment: connections while they are open, memory while it is allocated.

use std::process::Command;

use serde_json::Value;

use crate::support::client::Client;
use crate::support::lines::number_of;
use crate::support::namespaces::{Namespaces, refusal};
use crate::support::server::Server;
use crate::support::{engine, eventually, run};

#[track_caller]
fn counted(line: &Value, name: &str) -> u64 {
    number_of(&line["counters"], name)
}

fn clients(port: u16, count: usize) -> Vec<Client> {
    (0..count).map(|_| Client::connect(port)).collect()
}

#[test]
fn connections_are_counted_while_they_live() {
    let mut server = Server::start("thread_per_client", "echo", &["--count", "tcp_info"]);
    assert_eq!(server.ready["counters"]["tcp_info"], Value::Null, "{}", server.ready);
    let living = clients(server.port, 20);
    let snapshot = server.snapshot_when("all are accepted", |snapshot| snapshot["tally"]["connections"] == 20);
    assert_eq!(counted(&snapshot, "tcp_info.connections"), 20, "{snapshot}");
    assert!(
        counted(&snapshot, "tcp_info.congestion_window") > 0 && counted(&snapshot, "tcp_info.rtt") > 0,
        "{snapshot}"
    );
    assert_eq!(counted(&snapshot, "tcp_info.retransmits"), 0, "nothing is lost on this machine: {snapshot}");
    assert_eq!(snapshot["unavailable"], serde_json::json!({}), "{snapshot}");
    drop(living);
    let snapshot = server.snapshot_when("all are closed", |snapshot| snapshot["tally"]["closed"] == 20);
    assert_eq!(counted(&snapshot, "tcp_info.connections"), 0, "{snapshot}");
    for name in ["rtt", "congestion_window", "delivery_rate", "retransmits"] {
        let name = format!("tcp_info.{name}");
        assert_eq!(snapshot["counters"].get(&name), Some(&Value::Null), "no value for: {snapshot}");
        assert!(snapshot["unavailable"][&name].is_string(), "no reason for {name}: {snapshot}");
    }
    server.stop().is_good();
}

/// A load that ends by time is sampled while its connections are open. A load that ends by count has closed them.
#[test]
fn a_load_that_ends_by_time_reports_its_connections() {
    let server = Server::start("epoll", "echo", &[]);
    let connect = format!("127.0.0.1:{}", server.port);
    let load = |options: &[&str]| -> Value {
        let ran =
            run(engine().args(["load", "echo", "--json", "--connect", &connect, "--count", "tcp_info"]).args(options));
        assert_eq!(ran.status, Some(0), "{ran:?}");
        serde_json::from_str(ran.output.lines().last().unwrap()).unwrap()
    };
    // The last tenth must be longer than the process may wait for a busy CPU.
    let timed = ["--load", "closed_connections", "--clients", "16", "--connections", "kept", "--duration", "2s"];
    let result = load(&timed);
    assert_eq!(counted(&result, "tcp_info.connections"), 16, "{result}");
    assert!(counted(&result, "tcp_info.delivery_rate") > 0 && counted(&result, "tcp_info.rtt") > 0, "{result}");
    assert_eq!(result["unavailable"], serde_json::json!({}), "{result}");
    // Connections that the server, waiting for a busy CPU, has not closed yet are half there.
    let result = eventually("the server has closed each connection as its client did", || {
        let result = load(&["--children", "2", "--loops", "3"]);
        (counted(&result, "tcp_info.connections") == 0).then_some(result)
    });
    assert!(result["unavailable"]["tcp_info.rtt"].is_string(), "{result}");
    assert_eq!(result["counters"].get("tcp_info.rtt"), Some(&Value::Null), "{result}");
}

#[test]
fn without_connections_the_reason_is_reported() {
    let unix = Server::launch_at("unix:@", &mut engine(), "prefork", "bytes", &["--count", "tcp_info"]);
    assert!(unix.ready["counters"]["tcp_info"].as_str().unwrap().contains("Unix socket"), "{}", unix.ready);
    let load = ["load", "bytes", "--connect", "127.0.0.1:1", "--children", "1", "--loops", "1", "--json"];
    let ran = run(engine().args(["count", "--count", "tcp_info", "--"]).args(load));
    let life: Value = serde_json::from_str(ran.output.lines().last().unwrap()).unwrap();
    assert!(life["unavailable"]["tcp_info"].is_string(), "{life}");
    assert_eq!(life["counters"].get("tcp_info"), Some(&Value::Null), "{life}");
}

/// Each side sees its own namespace. Packets lost by a lossy pair of interfaces are retransmitted.
#[test]
fn in_namespaces_lost_packets_are_counted() {
    if refusal().is_some() {
        return;
    }
    let made = std::panic::catch_unwind(|| Namespaces::make(&mut engine(), &["--loss", "3"]));
    let Ok(namespaces) = made else { return println!("skipped: this machine cannot lose packets (sch_netem)") };
    let options = ["--network-namespace", namespaces.path("server"), "--count", "tcp_info"];
    let mut server = Server::launch_at(&namespaces.listen(0), &mut engine(), "epoll", "echo", &options);
    let mut command: Command = engine();
    command.args(["load", "echo", "--json", "--connect", server.address(), "--load", "closed_connections"]);
    command.args(["--clients", "8", "--connections", "kept", "--duration", "4s", "--count", "tcp_info"]);
    command.args(["--network-namespace", namespaces.path("client")]);
    let load = std::thread::spawn(move || run(&mut command));
    let retransmits = eventually("segments are retransmitted", || {
        let snapshot = server.snapshot();
        snapshot["counters"]["tcp_info.retransmits"].as_u64().filter(|&count| count > 0)
    });
    // RetransSegs of RFC 4022 covers all sockets that the namespace has had.
    let text = std::fs::read_to_string(format!("/proc/{}/net/snmp", server.first)).unwrap();
    let mut lines =
        text.lines().filter(|line| line.starts_with("Tcp:")).map(|line| line.split(' ').collect::<Vec<_>>());
    let (names, figures) = (lines.next().unwrap(), lines.next().unwrap());
    let all: u64 = figures[names.iter().position(|name| *name == "RetransSegs").unwrap()].parse().unwrap();
    assert!(retransmits <= all, "{retransmits} of {all}");
    let ran = load.join().unwrap();
    let result: Value = serde_json::from_str(ran.output.lines().last().unwrap()).unwrap();
    assert_eq!(counted(&result, "tcp_info.connections"), 8, "{result}");
}

/// With a thread for every client, each takes at least a kernel stack and a socket.
#[test]
fn memory_grows_with_connections_or_is_unavailable_with_the_reason() {
    let mut server = Server::start("thread_per_client", "echo", &["--count", "memory"]);
    if let Some(reason) = server.ready["counters"]["memory"].as_str() {
        assert!(reason.contains("version 1") && reason.contains("version 2") || reason.contains("memory"), "{reason}");
        return println!("skipped: {reason}");
    }
    server.settle();
    let before = counted(&server.snapshot(), "memory");
    let living = clients(server.port, 300);
    let snapshot = server.snapshot_when("all are accepted", |snapshot| snapshot["tally"]["connections"] == 300);
    let each = (counted(&snapshot, "memory") - before) / 300;
    println!("{each} bytes a connection: {snapshot}");
    // A kernel stack of 16 KiB, a page of user stack, a socket: and not a hundred times as much.
    assert!((16 << 10..1 << 20).contains(&each), "{each} bytes a connection: {snapshot}");
    assert!(counted(&snapshot, "memory.peak") >= counted(&snapshot, "memory"), "{snapshot}");
    assert!(counted(&snapshot, "memory.kernel") > 300 * (16 << 10), "{snapshot}");
    drop(living);
    let first = server.first;
    let group = std::fs::read_to_string(format!("/proc/{first}/cgroup")).unwrap();
    assert!(group.contains("/thunderherd-"), "{group}");
    server.stop().is_good();
}
