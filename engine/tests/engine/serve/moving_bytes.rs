//! Primitives over real sockets: large replies, limits of users, policies of machines, late completions, and the entries of
//! the matrix.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::support::asking::{ask, completes, completions_are_complete};
use crate::support::client::Client;
use crate::support::lines::{items, name, number};
use crate::support::server::Server;
use crate::support::{PATIENCE, Unprivileged, catalogue, engine, eventually, process, protocol, refused, run, seccomp};

/// Returns a load's entry in the list.
fn load<'a>(catalogue: &'a Value, wanted: &str) -> &'a Value {
    items(catalogue, "loads").iter().find(|load| name(load) == wanted).unwrap_or_else(|| panic!("no load {wanted}"))
}

#[test]
fn a_large_reply_is_received_by_every_primitive() {
    let catalogue = catalogue();
    let server = Server::start("epoll", "bytes", &["--limit", "10000000", "--primitive", "splice"]);
    for primitive in items(&catalogue, "primitives").iter().filter(|primitive| primitive["moves"] == "in") {
        if primitive["available"] != true {
            println!("skipped: {}: {}", name(primitive), primitive["reason"]);
            continue;
        }
        let options = ["--receive", name(primitive), "--bytes", "3000001"];
        let line = ask(server.port, "bytes", load(&catalogue, "closed_threads"), &options);
        let tally = &line["tally"];
        assert_eq!(number(&tally["bytes_received"]), 30_000_010, "{line}");
        let not_copied = number(&tally["bytes_not_copied"]);
        match name(primitive) {
            "recv_truncate" | "busy_poll_truncate" => assert_eq!(not_copied, 30_000_010, "{line}"),
            // Of data from a pipe, whole pages can be mapped if the socket's buffers begin with one.
            "recv_zerocopy" => println!("{not_copied} of 30000010 bytes were mapped"),
            _ => assert_eq!(not_copied, 0, "{line}"),
        }
    }
    server.stop().is_good();
}

/// Requests that arrived together are answered by as few calls as the primitive gathers; an event loop lets other
/// connections have their turn after twenty. An incomplete request does not delay replies.
#[test]
fn replies_that_wait_together_are_sent_together() {
    for (design, primitive, requests, calls) in [
        ("epoll", "writev", 16, 16),
        ("epoll", "writev --messages-at-once 5", 16, 4),
        ("epoll", "writev --messages-at-once 16", 16, 1),
        ("epoll", "sendmsg --messages-at-once 1024", 50, 3),
        ("epoll_edge", "writev --messages-at-once 16", 16, 1),
        ("prefork", "writev --messages-at-once 1024", 50, 1),
        ("thread_per_client", "sendmsg --messages-at-once 1024", 50, 1),
    ] {
        let options: Vec<&str> = ["--primitive"].into_iter().chain(primitive.split_whitespace()).collect();
        let server = Server::start(design, "bytes", &options);
        let mut client = TcpStream::connect(server.address()).unwrap();
        client.set_read_timeout(Some(PATIENCE)).unwrap();
        client.set_nodelay(true).unwrap();
        let mut reply = vec![0; 10 * requests];
        client.write_all(format!("{}1", "10\n".repeat(requests)).as_bytes()).unwrap();
        client.read_exact(&mut reply).unwrap();
        assert!(reply.chunks(10).all(|each| each == &reply[..10]), "{design} {primitive}: {reply:?}");
        client.write_all(b"0\n").unwrap();
        client.read_exact(&mut reply[..10]).unwrap();
        drop(client);
        let ending = server.stop();
        ending.is_good();
        let tally = &ending.summary()["tally"];
        let counted = (number(&tally["requests"]), number(&tally["send_calls"]));
        assert_eq!(counted, (requests as u64 + 1, calls + 1), "{design} {primitive}");
    }
}

/// A finished reply does not wait for the next one to be computed, although one call could send both.
#[test]
fn a_finished_reply_does_not_wait_for_computation() {
    for design in ["epoll", "prefork", "epoll_offload"] {
        let options = ["--primitive", "writev", "--messages-at-once", "16", "--compute", "60ms"];
        let server = Server::start(design, "bytes", &options);
        let apart = || {
            let mut client = TcpStream::connect(server.address()).unwrap();
            client.set_read_timeout(Some(PATIENCE)).unwrap();
            client.write_all(&b"10\n".repeat(4)).unwrap();
            let mut reply = [0; 10];
            client.read_exact(&mut reply).unwrap();
            let first = Instant::now();
            (0..3).for_each(|_| client.read_exact(&mut reply).unwrap());
            first.elapsed()
        };
        // On a busy machine this client may take the first reply late, but not each time.
        let are_apart = (0..20).any(|_| apart() >= Duration::from_millis(120));
        assert!(are_apart, "{design}: the last always came soon after the first");
        server.stop().is_good();
    }
}

/// A process that serves one connection ends with it. Completions of its sends are counted nevertheless.
#[test]
fn completions_of_ended_processes_are_counted() {
    let catalogue = catalogue();
    for primitive in items(&catalogue, "primitives").iter().filter(completes) {
        if primitive["available"] != true {
            println!("skipped: {}: {}", name(primitive), primitive["reason"]);
            continue;
        }
        for design in ["fork_per_client", "thread_per_client", "prefork", "epoll"] {
            // The server closes after its reply, so no further request shows that everything has arrived.
            let options = ["--primitive", name(primitive)];
            let server = Server::start(design, "top_processes", &options);
            ask(server.port, "top_processes", load(&catalogue, "closed"), &[]);
            let ending = server.stop();
            ending.is_good();
            completions_are_complete(primitive, &ending.summary()["tally"]);
        }
    }
}

/// Runs the program with limited locked memory (RLIMIT_MEMLOCK).
fn with_locked_memory(user: &Unprivileged, bytes: u32) -> Command {
    let command = user.command(None);
    let mut limited = Command::new(command.get_program());
    limited.arg(format!("--memlock={bytes}:{bytes}")).args(command.get_args());
    limited
}

/// The user may pin less than a reply: refused sends are copied and counted as copied, and every reply is correct.
#[test]
fn without_pinned_memory_sends_are_copied() {
    let catalogue = catalogue();
    for primitive in items(&catalogue, "primitives").iter().filter(completes) {
        // Limits belong to users, not processes, so each test has a separate user.
        let Ok(user) = Unprivileged::new().inspect_err(|reason| println!("skipped: {reason}")) else { return };
        if primitive["available"] != true {
            println!("skipped: {}: {}", name(primitive), primitive["reason"]);
            continue;
        }
        // A ring counts, too: 18 pages for the worker's, and 2 for the one that checks whether rings work.
        let locked = 22 * 4096;
        let options = ["--primitive", name(primitive), "--limit", "100000"];
        let mut server = Server::launch(&mut with_locked_memory(&user, locked), "epoll", "bytes", &options);
        let mut client = Client::connect(server.port);
        for _ in 0..10 {
            client.exchange(&protocol::bytes(100_000));
        }
        let tally =
            server.snapshot_when("all completed", |snapshot| snapshot["tally"]["completions"] == 10)["tally"].clone();
        assert_eq!(number(&tally["completions_copied"]), 10, "{tally}");
        // Each send was refused, and then copied.
        assert_eq!(number(&tally["send_calls"]), 20, "{primitive}: {tally}");
        drop(client);
        server.stop().is_good();
    }
}

/// If the kernel counts rings as locked memory, a user who may lock none gets that reason.
#[test]
fn without_locked_memory_the_limit_is_reported() {
    let Ok(user) = Unprivileged::new().inspect_err(|reason| println!("skipped: {reason}")) else { return };
    let ran = run(with_locked_memory(&user, 0).args(["list", "primitives", "--json"]));
    let listed: Vec<Value> = serde_json::from_str(&ran.output).unwrap();
    let ring = listed.iter().find(|entry| entry["name"] == "uring_send").unwrap();
    let Some(reason) = ring["reason"].as_str() else { return println!("skipped: this kernel counts no rings") };
    if !reason.contains("os error 12") {
        return println!("skipped: {reason}");
    }
    assert!(reason.contains("ulimit -l"), "{reason}");
    let options = ["serve", "epoll", "--listen", "127.0.0.1:0", "--primitive", "uring_send"];
    refused(&run(with_locked_memory(&user, 0).args(options)), "primitive.unavailable", &["uring_send", reason]);
}

/// A forbidden feature is listed with the reason, and refused; primitives that need no ring still work. A ring that can be
/// made but not waited for counts as unavailable.
#[test]
fn a_ring_that_a_filter_forbids_leaves_its_primitives_unavailable() {
    for (forbidden, call) in
        [(libc::SYS_io_uring_setup, "io_uring_setup"), (libc::SYS_io_uring_enter, "io_uring_enter")]
    {
        let under = |arguments: &[&str]| {
            let mut command = engine();
            seccomp::forbid(command.args(arguments), forbidden, libc::EPERM);
            run(&mut command)
        };
        let listed: Vec<Value> = serde_json::from_str(&under(&["list", "primitives", "--json"]).output).unwrap();
        for primitive in ["uring_send", "uring_send_zc"] {
            let entry = listed.iter().find(|entry| entry["name"] == primitive).unwrap();
            let reason = entry["reason"].as_str().unwrap_or_else(|| panic!("{call}: {entry}"));
            assert!(reason.contains(call), "{entry}");
            assert_eq!(entry["available"], false, "{entry}");
            for arguments in [
                &["serve", "epoll", "--listen", "127.0.0.1:0", "--primitive", primitive][..],
                &["load", "bytes", "--connect", "127.0.0.1:1", "--primitive", primitive],
            ] {
                refused(&under(arguments), "primitive.unavailable", &[primitive, reason]);
            }
            let matrix = under(&["list", "--matrix"]).output;
            assert!(matrix.lines().any(|line| line.starts_with(primitive) && line.ends_with(reason)), "{matrix}");
        }
        let others =
            listed.iter().filter(|entry| !name(entry).starts_with("uring")).all(|entry| entry["available"] == true);
        assert!(others, "{listed:?}");
    }
}

/// Connects with a receive buffer so small that most of a reply stays with the server, and requests the last one.
fn asks_and_reads_nothing(port: u16) -> TcpStream {
    let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
    socket.set_recv_buffer_size(16 << 10).unwrap();
    socket.connect(&SocketAddr::from(([127, 0, 0, 1], port)).into()).unwrap();
    let mut client = TcpStream::from(socket);
    client.set_read_timeout(Some(PATIENCE)).unwrap();
    client.write_all(b"GET / HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n").unwrap();
    client
}

/// Connections that the server is done with while the kernel still reads their bytes: one thread waits for all of them. Slow
/// readers get everything.
#[test]
fn connections_that_linger_keep_nobody_waiting_and_leave_nothing() {
    let catalogue = catalogue();
    for primitive in items(&catalogue, "primitives").iter().filter(completes) {
        if primitive["available"] != true {
            println!("skipped: {}: {}", name(primitive), primitive["reason"]);
            continue;
        }
        for design in ["epoll", "prethread"] {
            let options = ["--bytes", "100000", "--primitive", name(primitive)];
            let mut server = Server::start(design, "http", &options);
            server.settle();
            let (descriptors, threads) =
                (process::descriptors(server.first), process::thread_states(server.first).len());
            let slow: Vec<TcpStream> = (0..40).map(|_| asks_and_reads_nothing(server.port)).collect();
            let closed = server.snapshot_when("all are done", |snapshot| snapshot["tally"]["closed"] == 40);
            let [sends, completions] = ["send_calls", "completions"].map(|name| number(&closed["tally"][name]));
            assert!(completions < sends, "none of these lingers: {closed}");
            assert!(process::descriptors(server.first) > descriptors, "none of these lingers");
            assert_eq!(process::thread_states(server.first).len(), threads + 1, "one thread waits for all");
            let (reading, deaf) = slow.split_at(20);
            std::thread::scope(|scope| {
                for mut client in reading {
                    scope.spawn(move || {
                        let mut reply = Vec::new();
                        client.read_to_end(&mut reply).unwrap();
                        assert!(reply.len() > 100_000 && reply.ends_with(&protocol::bytes(100_000).reply));
                    });
                }
            });
            assert!(
                process::descriptors(server.first) > descriptors,
                "the server has given up connections whose peers do not read"
            );
            deaf.iter().for_each(|client| client.shutdown(Shutdown::Both).unwrap());
            drop(slow);
            eventually("no descriptor is left", || (process::descriptors(server.first) == descriptors).then_some(()));
            server.stop().is_good();
        }
    }
}

/// Returns the cells of a primitive's row in the table with this head.
fn cells<'a>(matrix: &'a str, head: &str, primitive: &str) -> Vec<&'a str> {
    let table = matrix.lines().skip_while(|line| !line.contains(head));
    let row = table.skip(1).find(|line| line.split_whitespace().next() == Some(primitive)).expect(primitive);
    row.split("  ").map(str::trim).filter(|cell| !cell.is_empty()).skip(1).collect()
}

#[test]
fn the_matrix_has_every_pair_with_reasons() {
    let matrix = &run(engine().args(["list", "--matrix"])).output;
    assert!(matrix.lines().all(|line| line.len() <= 100), "{matrix}");
    let catalogue = catalogue();
    let name = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let listed = |kind: &str| items(&catalogue, kind);
    let holes = listed("holes");
    let reason = |cell: &str| {
        let number = cell.split(['(', ')']).nth(1).unwrap_or_else(|| panic!("no number in {cell}"));
        let text = matrix.split(&format!("\n({number}) ")).nth(1).expect("a reason for every number");
        text.split("\n(").next().unwrap().split_whitespace().collect::<Vec<_>>().join(" ")
    };
    let ways = ["in_the_call", "for_readiness", "for_completion"];
    for entry in [listed("designs"), listed("loads")].concat() {
        let way = name(&entry["waits"]).replace('_', " ");
        let of_way = matrix.split(&format!("\n{way:16}")).nth(1).unwrap().split("\nfor ").next().unwrap();
        let named = format!(" {}", name(&entry["name"]));
        assert!(format!(" {of_way}").contains(&named), "{way}: {named} is not in {of_way}");
    }
    for primitive in listed("primitives") {
        let by = name(&primitive["name"]);
        for (way, cell) in ways.iter().zip(cells(matrix, "in the call", &by)) {
            let who = |entry: &Value| entry["waits"] == *way;
            let of_this = holes.iter().find(|hole| {
                let of =
                    |kind: &str, key: &str| listed(kind).iter().any(|entry| who(entry) && entry["name"] == hole[key]);
                hole["primitive"] == by.as_str() && (of("designs", "design") || of("loads", "load"))
            });
            match of_this {
                None => assert_eq!(cell, "yes", "{by} {way}"),
                Some(hole) => assert!(
                    cell.starts_with("no") && reason(cell).contains(&name(&hole["reason"])),
                    "{by} {way}: {cell}"
                ),
            }
        }
        let workloads = listed("workloads");
        for (workload, cell) in workloads.iter().zip(cells(matrix, &name(&workloads[0]["name"]), &by)) {
            let of_end = |end: &str| {
                holes.iter().find(|hole| {
                    hole["primitive"] == by.as_str() && hole["workload"] == workload["name"] && hole["end"] == end
                })
            };
            let expected = match (of_end("service"), of_end("client")) {
                (None, None) => "yes",
                (Some(_), None) => "client",
                (None, Some(_)) => "server",
                (Some(_), Some(_)) => "no",
            };
            assert_eq!(cell.split(' ').next(), Some(expected), "{by} {workload}");
            if let Some(hole) = of_end("service").or(of_end("client")) {
                assert!(reason(cell).contains(&name(&hole["reason"])), "{by} {workload}: {cell}");
            }
        }
    }
}

/// Only one worker of the pool has room for its ring. Each of the others reports the reason with a remedy, and is lost.
#[test]
fn a_worker_without_room_for_its_ring_reports_a_remedy() {
    let Ok(user) = Unprivileged::new().inspect_err(|reason| println!("skipped: {reason}")) else { return };
    let listed = run(with_locked_memory(&user, 0).args(["list", "primitives", "--json"]));
    if !listed.output.contains("os error 12") {
        return println!("skipped: this kernel counts no rings");
    }
    // 18 pages for a worker's ring, and 2 for the one that checks whether rings work.
    let locked = 22 * 4096;
    let options = ["--pool", "3", "--primitive", "uring_send"];
    let mut server = Server::launch(&mut with_locked_memory(&user, locked), "prefork", "bytes", &options);
    let tally =
        server.snapshot_when("two are lost", |snapshot| snapshot["tally"]["workers_lost"] == 2)["tally"].clone();
    assert_eq!(tally["errors"]["resource_limit"], 2, "{tally}");
    Client::connect(server.port).exchange(&protocol::bytes(1000));
    let said = server.stop().errors;
    assert_eq!(said.lines().count(), 2, "{said}");
    for line in said.lines() {
        for word in ["io_uring_setup", "os error 12", "RLIMIT_MEMLOCK, 90112 bytes", "ulimit -l", "a lower --pool"] {
            assert!(line.contains(word), "'{word}' is not in: {line}");
        }
    }
}
