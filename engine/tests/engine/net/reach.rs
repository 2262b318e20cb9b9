//! The reach of a load: many connections from several local addresses, their memory, and the messages if there is no room.
//! Also its bounds: it never leaves this machine without permission.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, TcpListener};
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};

use crate::support::event_loops::{answer_lines, back_ends, count, load, serve};
use crate::support::server::Server;
use crate::support::{ENGINE, engine, engine_with_descriptors, most_descriptors, process, refused, run};

/// Every load, with 6 clients.
fn loads() -> Vec<String> {
    let mut loads = vec![
        "--load closed --children 6 --loops 2".to_owned(),
        "--load closed_threads --clients 6 --loops 2 --connections kept".to_owned(),
    ];
    for back_end in back_ends() {
        loads
            .push(format!("--load closed_connections --clients 6 --loops 2 --connections kept --threads 2 {back_end}"));
        loads.push(format!("--load open --clients 6 --rate 1000 --duration 100ms --connections kept {back_end}"));
    }
    loads
}

#[test]
fn clients_connect_from_the_configured_number_of_addresses() {
    for options in loads() {
        let seen: Arc<Mutex<BTreeMap<IpAddr, usize>>> = Arc::default();
        let port = {
            let seen = Arc::clone(&seen);
            serve(move |stream| {
                *seen.lock().unwrap().entry(stream.peer_addr().unwrap().ip()).or_default() += 1;
                answer_lines(stream, || ());
            })
        };
        let (_, line) = load("bytes", port, &format!("--bytes 1 --check count --source-addresses 3 {options}"));
        assert_eq!(
            (&line["tally"]["errors"], &line["settings"]["source_addresses"]),
            (&json!({}), &json!(3)),
            "{line}"
        );
        let each = count(&line, "tally.connections") as usize / 3;
        let expected: BTreeMap<IpAddr, usize> =
            (1..=3).map(|last| (IpAddr::V4(Ipv4Addr::new(127, 0, 0, last)), each)).collect();
        assert_eq!(*seen.lock().unwrap(), expected, "{options}");
    }
}

/// Opens persistent connections from one process with this many descriptors, and makes one request on each.
fn holds(design: &str, back_end: &str, clients: usize, descriptors: usize, sources: usize) -> Option<Value> {
    let limited = |command: &mut Command| {
        command.args(["-c", &format!("ulimit -n {descriptors} && exec \"$0\" \"$@\""), ENGINE]);
    };
    let mut command = Command::new("sh");
    limited(&mut command);
    let tried = run(Command::new("sh").args(["-c", &format!("ulimit -n {descriptors}")]));
    if tried.status != Some(0) {
        println!("skipped: too few descriptors are allowed: {}", tried.errors);
        return None;
    }
    let mut server = Server::launch(&mut command, design, "bytes", &["--backlog", "4096"]);
    let mut command = Command::new("sh");
    limited(&mut command);
    command.args(["load", "bytes", "--connect", &format!("127.0.0.1:{}", server.port), "--json"]);
    command.args(["--load", "closed_connections", "--connections", "kept", "--loops", "1", "--bytes", "64"]);
    command.args([format!("--clients={clients}"), format!("--source-addresses={sources}")]);
    // Only a load that makes no progress has failed.
    command.args(["--timeout", "100s"]).args(back_end.split_whitespace());
    let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
    let line = std::io::read_to_string(child.stdout.take().unwrap()).unwrap();
    let line: Value = serde_json::from_str(&line).unwrap();
    assert_eq!((child.wait().unwrap().code(), &line["tally"]["errors"]), (Some(0), &json!({})), "{line}");
    let tally = &line["tally"];
    assert_eq!((&tally["connections"], &tally["requests"]), (&clients.into(), &clients.into()), "{line}");
    // All connections were open before the first request.
    assert_eq!(line["memory"]["connected"]["connections"], clients, "{line}");
    server.snapshot_when("all are closed", |snapshot| count(snapshot, "tally.closed") == clients as u64);
    let ending = server.stop();
    assert_eq!(
        (&ending.summary()["tally"]["requests"], &ending.summary()["listen_drops"]),
        (&clients.into(), &0.into())
    );
    ending.is_good();
    Some(line)
}

/// A connection without a request has no buffers.
const MOST_EACH: u64 = 4096;

fn is_small(line: &Value, clients: usize) {
    let bytes = count(line, "memory.connected.bytes");
    assert!(bytes > 0 && bytes < MOST_EACH * clients as u64, "{line}");
    // Neither has a connection whose request was answered.
    assert!(count(line, "memory.peak_resident_bytes") < (2 * MOST_EACH * clients as u64) + (64 << 20), "{line}");
}

#[test]
fn five_thousand_connections_are_one_process_with_each_back_end() {
    for back_end in back_ends() {
        let design = if back_end.contains("io_uring") { "io_uring" } else { "epoll" };
        let Some(line) = holds(design, back_end, 5_000, 6_100, 2) else { return };
        is_small(&line, 5_000);
    }
}

/// A ring closes a connection some time after its client is done with it. Even if each connection is used once, there is
/// room for them.
#[test]
fn there_is_room_for_connections_that_are_being_closed() {
    for back_end in back_ends() {
        let server = Server::start("epoll", "bytes", &["--backlog", "4096"]);
        let connect = format!("127.0.0.1:{}", server.port);
        let options = "--load closed_connections --clients 3000 --loops 3 --timeout 1min --closing reset";
        let ran = run(engine_with_descriptors(4060)
            .args(["load", "bytes", "--connect", &connect, "--json"])
            .args(options.split_whitespace())
            .args(back_end.split_whitespace()));
        let line: Value = serde_json::from_str(&ran.output).unwrap();
        assert_eq!((&line["tally"]["errors"], &line["tally"]["requests"]), (&json!({}), &9000.into()), "{line}");
        server.stop().is_good();
    }
}

/// Uses one process if it may have enough descriptors, otherwise as few as possible. All connections are open at once. Run
/// it with `cargo test --release --test engine reach:: -- --ignored --nocapture`; it takes some 4 GiB of memory.
#[test]
#[ignore = "half a minute for each back end, and some gigabytes"]
fn a_hundred_thousand_connections_are_held_at_a_time() {
    const ALL: usize = 100_000;
    let processes = ALL.div_ceil(most_descriptors() as usize - 1000);
    let clients = ALL.div_ceil(processes);
    // A worker has no more descriptors than a load, and the kernel distributes connections among workers at random.
    let pool = (2 * processes).to_string();
    for back_end in back_ends() {
        let mut server = Server::start("reuseport", "bytes", &["--backlog", "4096", "--pool", &pool]);
        let began = std::time::Instant::now();
        let loads: Vec<_> = (0..processes)
            .map(|_| {
                let mut command = engine();
                command.args(["load", "bytes", "--connect", &format!("127.0.0.1:{}", server.port), "--json"]);
                command.args(["--load", "closed_connections", "--connections", "kept", "--bytes", "64"]);
                command.args(["--duration", "1h", "--think", "1h"]);
                command.args(["--source-addresses", "8", &format!("--clients={clients}")]);
                command.args(["--timeout", "100s"]).args(back_end.split_whitespace());
                command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
            })
            .collect();
        let all = (clients * processes) as u64;
        let held = |snapshot: &Value| count(snapshot, "tally.connections") - count(snapshot, "tally.closed");
        server.snapshot_when("all connections are held and answered", |snapshot| {
            held(snapshot) == all && count(snapshot, "tally.requests") == all
        });
        println!("{all} connections of {processes} processes {back_end} after {:?}", began.elapsed());
        loads.iter().for_each(|child| process::signal(child.id() as i32, nix::sys::signal::Signal::SIGINT));
        for child in loads {
            let output = child.wait_with_output().unwrap();
            let text = String::from_utf8_lossy(&output.stdout).into_owned();
            let line: Value = serde_json::from_str(text.lines().last().unwrap()).unwrap();
            assert_eq!((&line["tally"]["errors"], &line["tally"]["requests"]), (&json!({}), &clients.into()), "{line}");
            is_small(&line, clients);
            println!("{}", line["memory"]);
        }
        server.snapshot_when("all are closed", |snapshot| held(snapshot) == 0);
        server.stop().is_good();
    }
}

/// Runs in a network namespace with a thousand local ports.
#[test]
fn too_many_connections_for_the_ports_are_refused_with_the_addresses_needed() {
    const SCRIPT: &str =
        "ip link set lo up && echo 40000 40999 > /proc/sys/net/ipv4/ip_local_port_range && exec \"$0\" \"$@\"";
    let with = |options: &str| {
        let mut command = Command::new("unshare");
        command.args(["--map-root-user", "--net", "sh", "-c", SCRIPT, ENGINE, "load", "bytes", "--connect"]);
        command.args(["127.0.0.1:1", "--load", "closed_connections", "--clients", "3500", "--loops", "1"]);
        run(command.args(options.split_whitespace()))
    };
    let ran = with("");
    if !ran.errors.contains("thunderherd-engine: ") {
        return println!("skipped: no separate network namespace: {}", ran.errors);
    }
    // With half of the ports in use, the kernel still finds free ones soon.
    let enough = "--source-addresses 7";
    let words = ["--clients 3500", "1000 (40000 to 40999)", "fewer --clients", enough, "ip_local_port_range"];
    refused(&ran, "load.too_few_ports", &words);
    refused(
        &with("--source-addresses 3"),
        "load.too_few_ports",
        &["1000 (40000 to 40999) at each of 3 addresses", enough],
    );
    // Nobody listens, which the first connection shows. The warning about slow port search is printed.
    let ran = with("--source-addresses 4");
    assert_eq!(ran.status, Some(1), "{ran:?}");
    assert!(
        ran.errors.contains("warning: --clients 3500 uses more than half") && ran.errors.contains(enough),
        "{ran:?}"
    );
    let ran = with(enough);
    assert_eq!((ran.status, ran.errors.lines().count()), (Some(1), 1), "{ran:?}");
    assert!(ran.output.contains("refused"), "{ran:?}");
}

#[test]
fn missing_addresses_are_refused() {
    let command = |connect: &str| {
        let mut command = engine();
        command.args(["load", "bytes", "--connect", connect, "--source-addresses", "100"]);
        run(&mut command)
    };
    let ran = command("[::1]:1");
    if !ran.errors.contains("cannot be read") {
        refused(&ran, "source_addresses.too_few", &["--source-addresses 100", "[::1]:1", "::1", "127.0.0.1"]);
    }
    let unix = command("unix:@nobody");
    refused(&unix, "setting.needs_tcp", &["--source-addresses"]);
}

/// A listener on all addresses, connected to by a non-loopback address: the load stays on this machine, but cannot know
/// that.
#[test]
fn a_remote_load_needs_permission_and_prints_its_bounds_first() {
    let listener = TcpListener::bind("0.0.0.0:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let port = listener.local_addr().unwrap().port();
    for connect in [format!("0.0.0.0:{port}"), format!("[::]:{port}"), format!("[::ffff:0.0.0.0]:{port}")] {
        let ran = run(engine().args(["load", "bytes", "--connect", &connect]));
        refused(&ran, "address.remote", &["--connect", &connect, "--allow-remote"]);
        assert!(listener.accept().is_err(), "{connect} was connected to");
    }
    drop(listener);
    let port = serve_everywhere();
    let connect = format!("0.0.0.0:{port}");
    let options = ["--bytes", "1", "--check", "count", "--allow-remote"];
    for (load, words) in [
        (
            "--children 3 --loops 2",
            ["most 3 connections", "until 6 requests are made", "2 bytes a request, 12 in total"],
        ),
        (
            "--load open --clients 4 --rate 100 --duration 200ms",
            ["most 4 connections", "100 requests a second", "for 0.2 s"],
        ),
    ] {
        let ran =
            run(engine().args(["load", "bytes", "--connect", &connect]).args(options).args(load.split_whitespace()));
        let first = ran.errors.lines().next().unwrap_or_default();
        for word in words.into_iter().chain([connect.as_str(), "--allow-remote"]) {
            assert!(first.contains(word), "'{word}' is not in {ran:?}");
        }
    }
    // Nothing is printed for loopback.
    let ran = run(engine().args(["load", "bytes", "--connect", &format!("[::ffff:127.0.0.1]:{port}")]).args(options));
    assert_eq!((ran.status, ran.errors.as_str()), (Some(0), ""), "{ran:?}");
}

#[test]
fn a_server_that_other_machines_can_reach_warns() {
    for (listen, warns) in [("0.0.0.0:0", true), ("[::]:0", true), ("127.0.0.1:0", false), ("[::1]:0", false)] {
        let ended = Server::launch_at(listen, &mut engine(), "epoll", "bytes", &[]).stop();
        assert_eq!(ended.status.code(), Some(0), "{}", ended.errors);
        assert_eq!(ended.errors.contains("other machines may connect"), warns, "{listen}: {}", ended.errors);
        assert!(warns || ended.errors.is_empty(), "{}", ended.errors);
    }
}

fn serve_everywhere() -> u16 {
    let listener = TcpListener::bind("0.0.0.0:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            std::thread::spawn(move || answer_lines(stream, || ()));
        }
    });
    port
}
