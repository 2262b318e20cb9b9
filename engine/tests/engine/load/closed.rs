//! Closed loads whose clients are threads or connections of an event loop: windows, latency, very many connections, --show,
//! missing resources, interrupts.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use hdrhistogram::Histogram;
use hdrhistogram::serialization::Deserializer;
use nix::sys::signal::Signal;
use serde_json::{Value, json};

use crate::support::event_loops::{answer_lines, serve};
use crate::support::lines::number;
use crate::support::server::Server;
use crate::support::table::Table;
use crate::support::{
    ENGINE, PATIENCE, Ran, Unprivileged, engine, engine_with_descriptors, eventually, process, refused, run, unserved,
};

const LOADS: [&str; 2] = ["closed_threads", "closed_connections"];

fn command(load: &str, port: u16, options: &str) -> Command {
    let mut command = engine();
    command.args(["load", "bytes", "--load", load, "--connect", &format!("127.0.0.1:{port}")]);
    command.args(options.split_whitespace());
    command
}

/// Runs a load to its end, and returns its lines.
fn lines(load: &str, port: u16, options: &str) -> (Ran, Vec<Value>) {
    let ran = run(command(load, port, options).arg("--json"));
    let lines = ran.output.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    (ran, lines)
}

/// Compares the latency with its histogram; returns the number of requests.
fn decoded(latency: &Value) -> u64 {
    use base64::Engine;
    let bytes = base64::engine::general_purpose::STANDARD.decode(latency["histogram"].as_str().unwrap()).unwrap();
    let histogram: Histogram<u64> = Deserializer::new().deserialize(&mut bytes.as_slice()).unwrap();
    assert_eq!(latency["requests"], histogram.len(), "{latency}");
    let maximum = (histogram.len() >= 100).then(|| histogram.max());
    assert_eq!(latency["maximum_ns"], json!(maximum), "{latency}");
    for (name, quantile, enough) in
        [("p50_ns", 0.5, 20), ("p90_ns", 0.9, 100), ("p99_ns", 0.99, 1000), ("p999_ns", 0.999, 10_000)]
    {
        let known = (histogram.len() >= enough).then(|| histogram.value_at_quantile(quantile));
        assert_eq!(latency[name], json!(known), "{name} in {latency}");
    }
    // A request over loopback takes microseconds, and in this test at most the test's own maximum.
    assert!(histogram.min() > 1000 && histogram.max() < PATIENCE.as_nanos() as u64, "{latency}");
    histogram.len()
}

#[test]
fn a_timed_load_counts_what_is_complete_within_its_window() {
    for load in LOADS {
        for (connections, design, options) in
            [("per_request", "prethread", &["--pool", "4"][..]), ("kept", "thread_per_client", &[])]
        {
            let server = Server::start(design, "bytes", options);
            let options = format!("--clients 8 --connections {connections} --duration 300ms --warm-up 100ms");
            let (ran, lines) = lines(load, server.port, &options);
            assert_eq!((ran.status, ran.errors.as_str()), (Some(0), ""), "{ran:?}");
            let [started, ended, result] = &lines[..] else { panic!("not three lines: {ran:?}") };
            assert_eq!((&started["line"], &started["mark"]), (&"mark".into(), &"window_started".into()));
            assert_eq!((&ended["line"], &ended["mark"]), (&"mark".into(), &"window_ended".into()));
            let window = &result["window"];
            assert_eq!(window["started_monotonic_ns"], started["monotonic_ns"], "{ran:?}");
            assert_eq!(window["ended_monotonic_ns"], ended["monotonic_ns"], "{ran:?}");
            let length = number(&ended["monotonic_ns"]) - number(&started["monotonic_ns"]);
            assert_eq!(length, 300_000_000, "the edges are fixed beforehand");
            assert!(number(&result["started_monotonic_ns"]) + 100_000_000 <= number(&started["monotonic_ns"]));
            assert!(number(&result["ended_monotonic_ns"]) >= number(&ended["monotonic_ns"]));

            let (whole, within) = (number(&result["tally"]["requests"]), number(&window["requests"]));
            assert!(0 < within && within < whole, "{result}");
            assert_eq!(decoded(&result["latency"]), within, "{result}");
            assert_eq!(result["expected_requests"], Value::Null, "{result}");
            let made = (number(&result["tally"]["connections"]), number(&window["connections"]));
            if connections == "kept" {
                assert_eq!(made, (8, 0), "{result}");
            } else {
                assert!(made.0 == whole && made.1 <= within + 8 && within <= made.1 + 8, "{result}");
            }
            let ending = server.stop();
            let tally = &ending.summary()["tally"];
            assert_eq!((&tally["requests"], &tally["connections"]), (&whole.into(), &made.0.into()), "{tally}");
            assert_eq!(tally["errors"], json!({}), "{tally}");
            ending.is_good();
        }
    }
}

#[test]
fn marks_come_when_the_window_begins_and_ends() {
    // Slow enough to leave the CPUs to other tests.
    let port = serve(|stream| answer_lines(stream, || std::thread::sleep(Duration::from_millis(5))));
    for load in LOADS {
        let mut command = command(load, port, "--bytes 1 --clients 2 --duration 3s --warm-up 200ms --json");
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        let mut moments = Vec::new();
        for line in output.lines().map_while(Result::ok) {
            moments.push((monotonic_nanoseconds(), serde_json::from_str::<Value>(&line).unwrap()));
        }
        child.wait().unwrap();
        assert_eq!(moments.len(), 3, "{moments:?}");
        for (read, line) in &moments[..2] {
            let marked = number(&line["monotonic_ns"]);
            // Not early, and not only at the end when all lines are read at once.
            // On a busy machine this thread may wait for a CPU.
            assert!(marked <= *read && read - marked < 2_500_000_000, "{line} was read at {read}");
        }
    }
}

fn monotonic_nanoseconds() -> u64 {
    let now = nix::time::clock_gettime(nix::time::ClockId::CLOCK_MONOTONIC).unwrap();
    now.tv_sec() as u64 * 1_000_000_000 + now.tv_nsec() as u64
}

#[test]
fn a_counted_load_knows_all_its_latencies() {
    let server = Server::start("thread_per_client", "bytes", &[]);
    for load in LOADS {
        for (clients, loops) in [(1, 1), (1, 19), (4, 5), (10, 120)] {
            let options = format!("--connections kept --clients {clients} --loops {loops}");
            let (ran, lines) = lines(load, server.port, &options);
            let [result] = &lines[..] else { panic!("marks are for loads that end by time: {ran:?}") };
            assert_eq!((ran.status, &result["tally"]["requests"]), (Some(0), &(clients * loops).into()), "{ran:?}");
            assert_eq!(decoded(&result["latency"]), clients * loops);
        }
    }
    let (_, lines) = lines("closed", server.port, "--loops 3");
    assert_eq!(lines[0]["latency"], Value::Null, "processes measure no latency");
}

#[test]
fn very_many_connections_are_kept_by_one_process() {
    let server = Server::start("epoll", "bytes", &["--backlog", "4096"]);
    let limited = ["-c", "ulimit -S -n 64; exec \"$0\" \"$@\"", ENGINE];
    let connect = format!("127.0.0.1:{}", server.port);
    for (load, clients) in [("closed_connections", 10_000), ("closed_threads", 500)] {
        let mut command = Command::new("sh");
        command.args(limited).args(["load", "bytes", "--load", load, "--connect", &connect, "--json"]);
        command.args(["--connections", "kept", "--loops", "1", "--clients", &clients.to_string()]);
        // On a busy machine connections may take long: only a load that makes no progress has failed.
        command.args(["--timeout", "100s"]);
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let line = std::io::read_to_string(child.stdout.take().unwrap()).unwrap();
        let line: Value = serde_json::from_str(&line).unwrap();
        assert_eq!((child.wait().unwrap().code(), &line["tally"]["errors"]), (Some(0), &json!({})), "{line}");
        assert_eq!(
            (&line["tally"]["connections"], &line["tally"]["requests"]),
            (&clients.into(), &clients.into()),
            "{line}"
        );
    }
    let ending = server.stop();
    assert_eq!(ending.summary()["tally"]["requests"], 10_500);
    assert_eq!(ending.summary()["listen_drops"], 0, "the ramp overran the queue");
    ending.is_good();
}

/// A client pauses between a reply and its next request, but not after its last reply.
#[test]
fn clients_think() {
    let server = Server::start("prefork", "bytes", &["--pool", "2"]);
    for load in ["closed --children 2", "closed_threads --clients 2", "closed_connections --clients 2"] {
        let (name, clients) = load.split_once(' ').unwrap();
        let options = format!("{clients} --loops 3 --think 150ms");
        let (ran, lines) = lines(name, server.port, &options);
        assert_eq!((ran.status, &lines[0]["tally"]["requests"]), (Some(0), &6.into()), "{ran:?}");
        assert!(number(&lines[0]["elapsed_ns"]) >= 300_000_000, "{ran:?}");
        // An hour's pause is skipped if no request follows it.
        let (ran, lines) = self::lines(name, server.port, &format!("{clients} --loops 1 --think 1h"));
        assert_eq!((ran.status, &lines[0]["tally"]["requests"]), (Some(0), &2.into()), "{ran:?}");
    }
    for load in LOADS {
        // So long that, on a busy machine too, both clients begin in time.
        let options = "--clients 2 --duration 1s --think 1h";
        let (ran, lines) = lines(load, server.port, options);
        assert_eq!((ran.status, &lines[2]["tally"]["requests"]), (Some(0), &2.into()), "{ran:?}");
    }
}

#[test]
fn the_data_of_each_connection_is_shown() {
    let server = Server::start("prefork", "bytes", &["--pool", "3"]);
    for load in ["closed --children 3", "closed_threads --clients 3", "closed_connections --clients 3"] {
        let (name, clients) = load.split_once(' ').unwrap();
        let ran = run(&mut command(name, server.port, &format!("{clients} --loops 2 --bytes 12 --show")));
        assert_eq!((ran.status, ran.errors.as_str()), (Some(0), ""), "{ran:?}");
        let reply = "\\x00\\x01\\x02\\x03\\x04\\x05\\x06\\x07\\x08\t\n\\x0b\n";
        for client in 1..=3 {
            for part in [
                format!("client {client} -> connected from 127.0.0.1:"),
                format!("client {client} -> request sent: \"12\\n\"\n"),
                format!("client {client} -> reply of 12 bytes:\n{reply}"),
            ] {
                assert_eq!(ran.output.matches(&part).count(), 2, "{part} in {ran:?}");
            }
        }
        assert_eq!(Table::of(&ran.output).row("Requests")[0], "6 of 6", "{ran:?}");
        assert!(!ran.output.contains("failed"), "{ran:?}");
    }
}

/// Replies far longer than one write to a pipe, from many clients at once: none is inside another.
#[test]
fn shown_messages_are_not_interleaved() {
    let server = Server::start("prefork", "bytes", &["--pool", "8", "--limit", "100000"]);
    for load in ["closed --children 8", "closed_threads --clients 8", "closed_connections --clients 8"] {
        let (name, clients) = load.split_once(' ').unwrap();
        let ran = run(&mut command(name, server.port, &format!("{clients} --loops 4 --bytes 100000 --show")));
        assert_eq!(ran.status, Some(0), "{}", ran.errors);
        let blocks: Vec<&str> = ran.output.split(" -> reply of 100000 bytes:\n").skip(1).collect();
        assert_eq!(blocks.len(), 32);
        let text = |block: &str| {
            block.split("\nclient ").next().unwrap().split("\nbytes 127.0.0.1:").next().unwrap().to_owned()
        };
        let first = text(blocks[0]);
        assert!(first.len() > 100_000);
        assert!(blocks.iter().all(|block| text(block) == first), "a reply was torn in {name}");
    }
}

#[test]
fn a_connection_that_fails_is_shown_and_counted() {
    let (port, _held) = unserved::nobody_listens();
    for load in ["closed --children 2", "closed_threads --clients 2", "closed_connections --clients 2"] {
        let (name, clients) = load.split_once(' ').unwrap();
        let ran = run(&mut command(name, port, &format!("{clients} --show")));
        assert_eq!(ran.status, Some(1), "{ran:?}");
        for client in ["client 1", "client 2"] {
            let failed = format!("{client} -> failed: connecting to 127.0.0.1:{port}: Connection refused");
            assert_eq!(ran.output.matches(&failed).count(), 3, "{ran:?}");
        }
        assert_eq!(Table::of(&ran.output).row("Errors"), ["6", "6 refused"], "{ran:?}");
        let ran = run(command(name, port, clients).args(["--show", "--json"]));
        assert_eq!(ran.status, Some(2), "{ran:?}");
        assert!(ran.errors.contains("--show") && ran.errors.contains("--json"), "{ran:?}");
    }
}

/// If nobody listens, no client retries for ever, and there is no window.
#[test]
fn a_timed_load_without_a_server_ends_early() {
    let (port, _held) = unserved::nobody_listens();
    for load in LOADS {
        for connections in ["kept", "per_request"] {
            for warm_up in [0, 3_600_000] {
                let options = format!("--clients 3 --connections {connections} --duration 1h --warm-up {warm_up}ms");
                let (ran, lines) = lines(load, port, &options);
                let result = lines.last().unwrap();
                assert_eq!((ran.status, &result["tally"]["errors"]), (Some(1), &json!({"refused": 9})), "{ran:?}");
                let marks = if warm_up > 0 { 0 } else { 2 };
                assert_eq!((lines.len() - 1, result["window"].is_null()), (marks, warm_up > 0), "{ran:?}");
            }
        }
    }
}

#[test]
fn descriptors_beyond_the_limit_are_reported() {
    for load in LOADS {
        let arguments = ["load", "bytes", "--connect", "127.0.0.1:1", "--load", load, "--clients"];
        let ran = run(engine_with_descriptors(100).args(arguments).arg("200"));
        refused(&ran, "load.too_few_descriptors", &["--clients 200", "100", "fewer --clients"]);
        let mut many = Command::new("sh");
        many.args(["-c", "ulimit -n 200000 && exec \"$0\" \"$@\"", ENGINE]).args(arguments).arg("100000");
        let ran = run(&mut many);
        if ran.errors.contains("sh:") || ran.errors.contains("ulimit: ") {
            println!("skipped: too few descriptors are allowed: {}", ran.errors);
        } else {
            refused(&ran, "load.too_few_ports", &["--clients 100000", "fewer --clients", "ip_local_port_range"]);
        }
    }
}

#[test]
fn a_shortage_of_threads_is_reported() {
    let Ok(user) = Unprivileged::new().inspect_err(|reason| println!("skipped: {reason}")) else { return };
    let arguments = ["load", "bytes", "--connect", "127.0.0.1:1", "--load", "closed_threads", "--clients", "50"];
    for options in [&[][..], &["--duration", "100ms", "--connections", "kept"]] {
        let ran = run(user.command(Some(20)).args(arguments).args(options));
        assert_eq!((ran.status, ran.output.as_str()), (Some(1), ""), "{ran:?}");
        assert_eq!(ran.errors.lines().count(), 1, "{ran:?}");
        for word in ["cannot create thread ", " of 50", "fewer --clients", "ulimit -u"] {
            assert!(ran.errors.contains(word), "'{word}' is not in {ran:?}");
        }
    }
}

/// The first line that a load prints by itself is its first mark, so by then it runs.
fn interrupted(mut child: Child, mut output: BufReader<impl Read>, signals: &[Signal]) -> (Option<i32>, Vec<Value>) {
    std::thread::sleep(Duration::from_millis(50));
    signals.iter().for_each(|&signal| process::signal(child.id() as i32, signal));
    let mut text = String::new();
    output.read_to_string(&mut text).unwrap();
    let status = eventually("an interrupted load ends", || child.try_wait().unwrap());
    (status.code(), text.lines().map(|line| serde_json::from_str(line).unwrap()).collect())
}

#[test]
fn an_interrupt_ends_a_load_with_what_it_has() {
    let mut server = Server::start("thread_per_client", "bytes", &[]);
    for load in LOADS {
        // As from kill(1), and as from timeout(1): to its child, and to the group that the child is in.
        let (ended, twice) = ([Signal::SIGTERM], [Signal::SIGTERM; 2]);
        for (options, signals) in [
            ("--duration 1h", &[Signal::SIGINT][..]),
            ("--duration 1h", &ended),
            ("--duration 1h --connections kept --think 1ms", &twice),
            ("--duration 1h --connections kept --clients 100", &ended),
        ] {
            let mut child = command(load, server.port, options).arg("--json").stdout(Stdio::piped()).spawn().unwrap();
            let mut output = BufReader::new(child.stdout.take().unwrap());
            let mut mark = String::new();
            output.read_line(&mut mark).unwrap();
            assert!(mark.contains("window_started"), "{mark}");
            let (status, lines) = interrupted(child, output, signals);
            let [ended, result] = &lines[..] else { panic!("{lines:?}") };
            assert_eq!((status, &result["interrupted"]), (Some(1), &true.into()), "{result}");
            assert_eq!((&ended["mark"], &result["tally"]["errors"]), (&"window_ended".into(), &json!({})), "{lines:?}");
            assert_eq!(ended["monotonic_ns"], result["window"]["ended_monotonic_ns"], "{lines:?}");
            assert_eq!(decoded(&result["latency"]), number(&result["window"]["requests"]), "{result}");
        }
        // During its warm-up, and a load that ends by count.
        for options in ["--duration 1s --warm-up 1h", "--loops 10000000"] {
            let before = number(&server.snapshot()["tally"]["requests"]);
            let mut child = command(load, server.port, options).arg("--json").stdout(Stdio::piped()).spawn().unwrap();
            eventually("the load sends requests", || {
                (number(&server.snapshot()["tally"]["requests"]) > before + 100).then_some(())
            });
            let output = BufReader::new(child.stdout.take().unwrap());
            let (status, lines) = interrupted(child, output, &[Signal::SIGTERM]);
            let [result] = &lines[..] else { panic!("{lines:?}") };
            assert_eq!((status, &result["interrupted"]), (Some(1), &true.into()), "{result}");
            assert_eq!((&result["window"], &result["tally"]["errors"]), (&Value::Null, &json!({})), "{result}");
            assert!(number(&result["tally"]["requests"]) > 100, "{result}");
        }
    }
}

/// Persistent connections to a server that replies once and then is silent, next to others that reply: the silent one is
/// counted, and does not stop the others.
#[test]
fn one_silent_connection_does_not_stop_the_others() {
    use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
    for load in LOADS {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        std::thread::spawn(move || {
            let opened = AtomicU64::new(0);
            for mut stream in listener.incoming().map_while(Result::ok) {
                let silent = opened.fetch_add(1, Relaxed) == 0;
                std::thread::spawn(move || {
                    let mut buffer = [0; 64];
                    while stream.read(&mut buffer).is_ok_and(|bytes| bytes > 0) {
                        if !silent && stream.write_all(&[0]).is_err() {
                            break;
                        }
                    }
                });
            }
        });
        // Longer than the machine may keep the others waiting for a CPU.
        let options = "--clients 4 --connections kept --bytes 1 --loops 200 --timeout 3s";
        let (ran, lines) = lines(load, port, options);
        let result = &lines[0];
        assert_eq!((ran.status, &result["tally"]["errors"]), (Some(1), &json!({"timed_out": 1})), "{ran:?}");
        assert_eq!(
            (&result["tally"]["requests"], &result["tally"]["connections"]),
            (&799.into(), &5.into()),
            "{ran:?}"
        );
    }
}

/// The server accepts nobody, so no connection can be made: clients wait without using CPU.
#[test]
fn waiting_costs_no_cpu_time() {
    let (port, _held) = unserved::nobody_accepts();
    for load in LOADS {
        let options = "--clients 3 --connections kept --timeout 500ms --loops 3";
        let (ran, lines) = lines(load, port, options);
        // Clients of an event loop give up together; those of threads each after three failures.
        let failed = if load == "closed_threads" { 9 } else { 3 };
        assert_eq!(lines[0]["tally"]["errors"], json!({"timed_out": failed}), "{ran:?}");
        let cpu = number(&lines[0]["user_ns"]) + number(&lines[0]["system_ns"]);
        assert!(cpu < number(&lines[0]["elapsed_ns"]) / 4, "{ran:?}");
    }
}

/// Nobody listens at the first address of the name.
#[test]
fn the_next_address_is_tried() {
    let server = Server::start("thread_per_client", "bytes", &[]);
    for load in LOADS {
        for connections in ["kept", "per_request"] {
            let mut command = engine();
            let connect = format!("localhost:{}", server.port);
            command.args([
                "load",
                "bytes",
                "--json",
                "--load",
                load,
                "--connect",
                &connect,
                "--connections",
                connections,
            ]);
            let ran = run(command.args(["--clients", "20", "--loops", "5"]));
            let line: Value = serde_json::from_str(&ran.output).unwrap();
            assert_eq!(
                (ran.status, &line["tally"]["requests"], &line["tally"]["errors"]),
                (Some(0), &100.into(), &json!({})),
                "{ran:?}"
            );
            // Only the first connection tries an address that refuses. A name may have no other.
            assert_eq!(line["address"], format!("127.0.0.1:{}", server.port), "{line}");
            let refused = line["unanswered"].as_object().unwrap();
            let other = format!("[::1]:{}", server.port);
            assert!(refused.is_empty() || refused.keys().eq([&other]), "{line}");
        }
    }
}

/// Both forms of a protocol with persistent connections: the server announces that it closes, or the protocol implies it.
#[test]
fn clients_reconnect_if_the_protocol_closes() {
    let at_once = "--delay-minimum 0 --delay-maximum 0";
    for (workload, design, both, client, kept) in [
        ("top_processes", "thread_per_client", "", "", false),
        ("top_processes", "epoll", "--closes client", "", true),
        ("bucket", "thread_per_client", "", at_once, false),
        ("bucket", "thread_per_client", "--keep-connections true", at_once, true),
        ("http", "thread_per_client", "", "", true),
        ("echo", "epoll", "", "", true),
    ] {
        let both: Vec<&str> = both.split_whitespace().collect();
        let server = Server::start(design, workload, &both);
        for load in LOADS {
            let mut command = engine();
            let connect = format!("127.0.0.1:{}", server.port);
            command.args(["load", workload, "--json", "--load", load, "--connect", &connect, "--connections", "kept"]);
            command.args(["--clients", "3", "--loops", "4"]).args(&both).args(client.split_whitespace());
            let ran = run(&mut command);
            let line: Value = serde_json::from_str(&ran.output).unwrap_or_else(|_| panic!("{ran:?}"));
            let connections = if kept { 3 } else { 12 };
            assert_eq!((ran.status, &line["tally"]["errors"]), (Some(0), &json!({})), "{workload}: {ran:?}");
            assert_eq!(
                (&line["tally"]["requests"], &line["tally"]["connections"]),
                (&12.into(), &connections.into()),
                "{workload}: {ran:?}"
            );
            // After a reply that marks its own end, either end may close first, as both are about to.
            let by_load = line["closings"]["closed_by_load"].as_u64().unwrap();
            let by_server = if kept { 0 } else { 12 - by_load };
            let kept_at = [("load", by_load), ("server", by_server)].into_iter().filter(|(_, count)| *count > 0);
            let closings = json!({
                "closed_by_load": connections - by_server, "closed_by_server": by_server,
                "reset_by_load": 0, "reset_by_server": 0, "time_wait": kept_at.map(|(end, _)| end).collect::<Vec<_>>(),
            });
            assert_eq!(line["closings"], closings, "{workload}: {ran:?}");
        }
    }
}

/// The client expects persistent connections, but the server closes them. The first request that meets this fails, and the
/// message says what to type.
#[test]
fn a_server_that_closes_after_its_reply_is_distinguished_from_a_failing_one() {
    let at_once = "--delay-minimum 0 --delay-maximum 0";
    for (workload, kept_by, client) in
        [("top_processes", "--closes client", ""), ("bucket", "--keep-connections true", at_once)]
    {
        let server = Server::start("thread_per_client", workload, &[]);
        for load in LOADS {
            let mut command = engine();
            let connect = format!("127.0.0.1:{}", server.port);
            command.args(["load", workload, "--load", load, "--connect", &connect, "--connections", "kept"]);
            command.args(["--clients", "1", "--loops", "2", "--think", "20ms"]);
            let ran = run(command.args(kept_by.split(' ')).args(client.split_whitespace()));
            assert_eq!(ran.status, Some(1), "{ran:?}");
            let table = Table::of(&ran.output);
            assert_eq!(table.row("Requests")[0], "1 of 2", "{ran:?}");
            assert!(table.line("first error").expect("an error").contains(kept_by), "{ran:?}");
        }
    }
}
