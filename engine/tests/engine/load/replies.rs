//! Loads against correct and faulty servers: every reply is counted and its bytes are checked, errors are counted by kind,
//! and the load ends.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::Stdio;
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use serde_json::{Value, json};
use socket2::Socket;

use crate::support::both_ends::serve;
use crate::support::lines::number;
use crate::support::server::Server;
use crate::support::{PATIENCE, Ran, engine, engine_with_descriptors, eventually, process, protocol, run, unserved};

/// Every load, with 2 clients.
const LOADS: [&[&str]; 5] = [
    &["--load", "closed", "--children", "2"],
    &["--load", "closed_threads", "--clients", "2"],
    &["--load", "closed_threads", "--clients", "2", "--connections", "kept"],
    &["--load", "closed_connections", "--clients", "2"],
    &["--load", "closed_connections", "--clients", "2", "--connections", "kept"],
];

/// Loads with a connection for every request, for servers that answer once.
const ONCE: [&[&str]; 3] = [LOADS[0], LOADS[1], LOADS[3]];

/// Runs a load with 5 requests of each client against a port.
fn load(load: &[&str], port: u16, options: &[&str]) -> (Ran, Value) {
    let connect = format!("127.0.0.1:{port}");
    let fixed = ["load", "bytes", "--json", "--connect", &connect, "--loops", "5"];
    let ran = run(engine().args(fixed).args(load).args(options));
    let line = serde_json::from_str(&ran.output).unwrap_or_else(|error| panic!("{error}: {ran:?}"));
    (ran, line)
}

/// Takes a request, which is a line.
fn take_request(stream: &mut TcpStream) {
    let mut byte = [0];
    while stream.read(&mut byte).is_ok_and(|count| count == 1) && byte[0] != b'\n' {}
}

/// Waits until the client has closed.
fn wait_for_close(mut stream: TcpStream) {
    let _ = std::io::copy(&mut stream, &mut std::io::sink());
}

/// Checks that in every load all requests fail, and are counted under this kind.
#[track_caller]
fn all_fails(port: u16, options: &[&str], kind: &str, word: &str) {
    for chosen in LOADS {
        let (ran, line) = load(chosen, port, options);
        assert_eq!(ran.status, Some(1), "{ran:?}");
        assert_eq!(ran.errors.lines().count(), 1, "{ran:?}");
        assert!(ran.errors.starts_with("thunderherd-engine: "), "{ran:?}");
        assert_eq!((&line["tally"]["requests"], &line["expected_requests"]), (&0.into(), &10.into()), "{line}");
        let errors = line["tally"]["errors"].as_object().unwrap();
        assert_eq!(errors.keys().collect::<Vec<_>>(), [kind], "{line}");
        // A client may give up if there is no server to measure, but only after trying.
        assert!((2..=10).contains(&errors[kind].as_u64().unwrap()), "{line}");
        assert_eq!((&line["tally"]["workers_lost"], &line["latency"]), (&0.into(), &Value::Null), "{line}");
        assert!(line["first_error"].as_str().is_some_and(|text| text.contains(word)), "'{word}' is not in {line}");
    }
}

#[test]
fn all_is_right() {
    for chosen in LOADS {
        let kept = chosen.contains(&"kept");
        // Persistent connections need a server that serves all of them at once.
        let server = Server::start("prefork", "bytes", &["--pool", "2"]);
        let (ran, line) = load(chosen, server.port, &["--bytes", "4000"]);
        assert_eq!((ran.status, ran.errors.as_str()), (Some(0), ""), "{ran:?}");
        assert_eq!(line["line"], "load");
        let connections = if kept { 2 } else { 10 };
        for (name, value) in [("expected_requests", 10.into()), ("first_error", Value::Null), ("window", Value::Null)] {
            assert_eq!(line[name], value, "{name} in {line}");
        }
        // A request is sent by one call; "4000\n" has five bytes.
        for (name, value) in [
            ("requests", 10),
            ("connections", connections),
            ("closed", connections),
            ("bytes_received", 40_000),
            ("bytes_sent", 50),
            ("send_calls", 10),
            ("workers_lost", 0),
        ] {
            assert_eq!(line["tally"][name], value, "{name} in {line}");
        }
        assert_eq!(line["connecting"]["requests"], connections, "{line}");
        assert!(line["tally"]["receive_calls"].as_u64() >= Some(10), "{line}");
        let number = |name: &str| line[name].as_u64().unwrap();
        assert_eq!(number("elapsed_ns"), number("ended_monotonic_ns") - number("started_monotonic_ns"));
        assert!(number("user_ns") + number("system_ns") > 0, "{line}");
        let ending = server.stop();
        let tally = &ending.summary()["tally"];
        for (name, value) in
            [("connections", connections), ("closed", connections), ("requests", 10), ("bytes_sent", 40_000)]
        {
            assert_eq!(tally[name], value, "{name} in {tally}");
        }
        ending.is_good();
    }
}

#[test]
fn nobody_listens() {
    let (port, _held) = unserved::nobody_listens();
    all_fails(port, &[], "refused", "Connection refused");
}

#[test]
fn a_reply_that_is_short() {
    let port = serve(|mut stream| {
        take_request(&mut stream);
        let _ = stream.write_all(&protocol::bytes(3999).reply);
    });
    all_fails(port, &[], "truncated", "3999 of 4000");
}

#[test]
fn no_reply_but_the_end() {
    let port = serve(|mut stream| take_request(&mut stream));
    all_fails(port, &[], "truncated", "0 of 4000");
}

#[test]
fn a_reply_with_a_wrong_byte() {
    let answer = |mut stream: TcpStream| {
        take_request(&mut stream);
        let mut reply = protocol::bytes(4000).reply;
        reply[3999] ^= 1;
        let _ = stream.write_all(&reply);
        wait_for_close(stream);
    };
    all_fails(serve(answer), &[], "wrong_reply", "byte 3999");
    // For servers that send other bytes, the load can check the length only.
    for chosen in ONCE {
        let (ran, line) = load(chosen, serve(answer), &["--check", "count"]);
        assert_eq!((ran.status, &line["tally"]["requests"]), (Some(0), &10.into()), "{ran:?}");
    }
}

#[test]
fn a_reply_that_is_too_long() {
    for check in ["pattern", "count"] {
        let port = serve(|mut stream| {
            take_request(&mut stream);
            let _ = stream.write_all(&protocol::bytes(4001).reply);
            wait_for_close(stream);
        });
        all_fails(port, &["--check", check], "surplus", "more than the 4000");
    }
}

/// The surplus arrives separately, after correct bytes have filled the receive buffer.
#[test]
fn a_reply_that_is_too_long_beyond_the_buffer() {
    let port = serve(|mut stream| {
        take_request(&mut stream);
        let _ = stream.write_all(&protocol::bytes(16384 + 1000).reply);
        wait_for_close(stream);
    });
    all_fails(port, &["--bytes", "16384"], "surplus", "more than the 16384");
}

#[test]
fn a_reply_that_never_comes() {
    let port = serve(|mut stream| {
        take_request(&mut stream);
        wait_for_close(stream);
    });
    all_fails(port, &["--timeout", "50ms"], "timed_out", "--timeout");
}

#[test]
fn a_reply_that_never_ends() {
    let port = serve(|mut stream| {
        take_request(&mut stream);
        let _ = stream.write_all(&protocol::bytes(3999).reply);
        wait_for_close(stream);
    });
    all_fails(port, &["--timeout", "50ms"], "timed_out", "--timeout");
}

#[test]
fn a_server_that_accepts_nobody() {
    let (port, _held) = unserved::nobody_accepts();
    all_fails(port, &["--timeout", "50ms"], "timed_out", "--timeout");
}

#[test]
fn a_connection_that_is_reset() {
    let reset = |stream: TcpStream| Socket::from(stream).set_linger(Some(Duration::ZERO)).unwrap();
    let port = serve(move |mut stream| {
        take_request(&mut stream);
        reset(stream);
    });
    all_fails(port, &[], "reset", "reset");
    let port = serve(move |mut stream| {
        take_request(&mut stream);
        let _ = stream.write_all(&protocol::bytes(1000).reply);
        reset(stream);
    });
    all_fails(port, &[], "reset", "reset");
}

/// Most replies are correct. They are counted, and so is each of the others.
#[test]
fn now_and_then_a_reply_is_wrong() {
    use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
    static SERVED: AtomicU64 = AtomicU64::new(0);
    let port = serve(|mut stream| {
        take_request(&mut stream);
        let wrong = SERVED.fetch_add(1, Relaxed) % 5 == 4;
        let _ = stream.write_all(&protocol::bytes(if wrong { 10 } else { 4000 }).reply);
        let _ = stream.shutdown(std::net::Shutdown::Write);
        wait_for_close(stream);
    });
    for chosen in ONCE {
        let (ran, line) = load(chosen, port, &[]);
        assert_eq!(ran.status, Some(1));
        assert_eq!((&line["tally"]["requests"], &line["tally"]["connections"]), (&8.into(), &10.into()), "{line}");
        assert_eq!(line["tally"]["errors"], serde_json::json!({"truncated": 2}), "{line}");
    }
}

#[test]
fn a_shortage_of_descriptors() {
    for limit in 4..12 {
        let mut command = engine_with_descriptors(limit);
        let ran = run(command.args(["load", "bytes", "--json", "--connect", "127.0.0.1:1", "--loops", "2"]));
        assert_eq!(ran.status, Some(1), "with {limit} descriptors: {ran:?}");
        assert_eq!(ran.errors.lines().count(), 1, "with {limit} descriptors: {ran:?}");
        assert!(!ran.errors.contains("panicked"), "with {limit} descriptors: {ran:?}");
        if let Ok(line) = serde_json::from_str::<Value>(&ran.output) {
            let errors = line["tally"]["errors"].as_object().unwrap();
            let known = |kind: &String| kind == "resource_limit" || kind == "refused";
            assert!(!errors.is_empty() && errors.keys().all(known), "with {limit} descriptors: {line}");
        }
    }
}

/// An interrupt stops all children, including those forked before it while others are still being forked.
#[test]
fn an_interrupt_ends_it_and_is_reported() {
    let server = Server::start("prefork", "bytes", &[]);
    for (children, signal) in [("2", Signal::SIGINT), ("2", Signal::SIGTERM), ("400", Signal::SIGINT)] {
        let mut command = engine();
        let connect = format!("127.0.0.1:{}", server.port);
        command.args(["load", "bytes", "--json", "--connect", &connect, "--loops", "10000000", "--children", children]);
        let load = command.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::null()).spawn().unwrap();
        let parent = load.id() as i32;
        eventually("the load has forked its first child", || {
            std::fs::read_dir("/proc").ok()?;
            (!process::children(parent).is_empty()).then_some(())
        });
        // To the first process only, as from `kill -INT`; Ctrl-C would reach all processes.
        process::signal(parent, signal);
        let started = Instant::now();
        let (sender, receiver) = std::sync::mpsc::channel();
        std::thread::spawn(move || sender.send(load.wait_with_output()));
        let Ok(output) = receiver.recv_timeout(PATIENCE) else {
            process::signal(parent, Signal::SIGKILL);
            panic!("{:?} after an interrupt a load of {children} children still ran", started.elapsed());
        };
        let output = output.unwrap();
        let line: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!((output.status.code(), &line["interrupted"]), (Some(1), &true.into()), "{line}");
        assert_eq!(
            (&line["tally"]["errors"], &line["tally"]["workers_lost"]),
            (&serde_json::json!({}), &0.into()),
            "{line}"
        );
    }
}

/// The first interrupt does not stop a child that waits for a reply; the second ends all children at once.
#[test]
fn a_second_interrupt_ends_it_at_once() {
    a_second_one_ends_it_at_once(Signal::SIGINT, Signal::SIGINT);
}

#[test]
fn so_does_a_second_signal_of_either_kind() {
    a_second_one_ends_it_at_once(Signal::SIGTERM, Signal::SIGTERM);
    a_second_one_ends_it_at_once(Signal::SIGTERM, Signal::SIGINT);
}

fn a_second_one_ends_it_at_once(first: Signal, second: Signal) {
    let port = serve(wait_for_close);
    let mut command = engine();
    let connect = format!("127.0.0.1:{port}");
    command.args(["load", "bytes", "--connect", &connect, "--timeout", "1h"]);
    let mut load = command.stdout(std::process::Stdio::null()).spawn().unwrap();
    let parent = load.id() as i32;
    let family = eventually("the load has its children", || {
        let family = process::family(parent);
        (family.len() == 6).then_some(family)
    });
    process::signal(parent, first);
    eventually("the load has ended", || {
        // A signal too soon after the first counts as the same one.
        let _ = nix::sys::signal::kill(nix::unistd::Pid::from_raw(parent), second);
        std::thread::sleep(Duration::from_millis(20));
        load.try_wait().unwrap()
    });
    eventually("its children have ended", || family.iter().all(|&id| !process::lives(id)).then_some(()));
}

/// Interrupting one of its processes ends the whole load as interrupted.
#[test]
fn a_child_that_is_terminated_ends_its_load() {
    let mut server = Server::start("thread_per_client", "bytes", &[]);
    let address = format!("127.0.0.1:{}", server.port);
    let options = ["--connect", &address, "--children", "3", "--loops", "10000000", "--json"];
    let mut child = engine().args(["load", "bytes"]).args(options).stdout(Stdio::piped()).spawn().unwrap();
    eventually("the load sends requests", || (number(&server.snapshot()["tally"]["requests"]) > 100).then_some(()));
    // The first child may send all of these before the others are there.
    let children = eventually("the load has its children", || {
        let children = process::children(child.id() as i32);
        (children.len() == 3).then_some(children)
    });
    process::signal(children[1], Signal::SIGTERM);
    let mut text = String::new();
    child.stdout.take().unwrap().read_to_string(&mut text).unwrap();
    let status = eventually("the load ends", || child.try_wait().unwrap());
    let result: Value = serde_json::from_str(&text).unwrap();
    assert_eq!((status.code(), &result["interrupted"]), (Some(1), &true.into()), "{result}");
    assert_eq!(result["tally"]["errors"], json!({}), "{result}");
    server.stop().is_good();
}

/// The other children may be waiting for a server that never replies.
#[test]
fn when_a_child_is_terminated_the_others_do_not_wait() {
    let address = format!("127.0.0.1:{}", serve(wait_for_close));
    let options = ["--connect", &address, "--children", "3", "--timeout", "1h", "--json"];
    let mut load = engine().args(["load", "bytes"]).args(options).stdout(Stdio::piped()).spawn().unwrap();
    let children = eventually("the load has its children", || {
        let children = process::children(load.id() as i32);
        (children.len() == 3).then_some(children)
    });
    process::signal(children[1], Signal::SIGTERM);
    let status = eventually("the load ends", || load.try_wait().unwrap());
    let mut text = String::new();
    load.stdout.take().unwrap().read_to_string(&mut text).unwrap();
    let result: Value = serde_json::from_str(&text).unwrap();
    assert_eq!((status.code(), &result["interrupted"]), (Some(1), &true.into()), "{result}");
    assert_eq!(result["tally"]["errors"], json!({}), "{result}");
}
