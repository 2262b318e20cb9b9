//! The open load: the start of its latencies, its schedule, and its end whatever the server does.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::support::event_loops::{
    answer_lines, back_ends, count, field, load, says_nothing, serve, with_each_back_end,
};
use crate::support::lines::{items, name};
use crate::support::server::Server;
use crate::support::table::Table;
use crate::support::unserved::Untouched;
use crate::support::{Ran, engine, process, run, unserved};

#[test]
fn all_due_requests_are_sent_answered_and_counted_by_both_ends() {
    with_each_back_end(|back_end| {
        for (connections, threads) in [("kept", 1), ("kept", 3), ("per_request", 2)] {
            let server = Server::start("epoll", "bytes", &[]);
            let options = format!(
                "--load open --rate 1000 --arrivals constant --clients 32 --threads {threads} --connections {connections} \
             --warm-up 100ms --ramp-up 200ms --duration 500ms {back_end}"
            );
            let (ran, line) = load("bytes", server.port, &options);
            assert_eq!(line["tally"]["errors"], json!({}), "{ran:?}");
            // Even arrivals: half a second's requests are due in the window, however many threads share them.
            let scheduled = &line["scheduled"];
            for (what, expected) in [("due", 500), ("sent", 500), ("answered", 500), ("failed", 0), ("never_sent", 0)] {
                assert_eq!(scheduled[what], expected, "{what} with {threads} threads: {scheduled}");
            }
            // Before the window: half of the rate during the ramp, and all of it during the warm-up.
            assert_eq!(line["tally"]["requests"], 500 + 100 + 100, "{line}");
            assert_eq!((&line["latency"]["from"], &line["latency"]["requests"]), (&"intended".into(), &500.into()));
            for times in ["service_time", "send_lag"] {
                assert_eq!(scheduled[times]["requests"], 500, "{scheduled}");
            }
            assert_eq!(scheduled["gaps"]["requests"], 500 - threads, "{scheduled}");
            assert_eq!(line["expected_requests"], Value::Null);
            assert_eq!(line["validity"]["generators"].as_array().unwrap().len(), threads);
            // This test does not check whether the machine let the load keep its schedule, but that the load reports it.
            let checks = line["validity"]["checks"].as_array().unwrap();
            let failed = checks.iter().any(|check| check["holds"] == false);
            assert_eq!((&line["validity"]["valid"], ran.status), (&json!(!failed), Some(i32::from(failed))), "{ran:?}");
            let ending = server.stop();
            let made = if connections == "kept" { 32 } else { 700 };
            let tally = &ending.summary()["tally"];
            assert_eq!((&tally["requests"], &tally["connections"]), (&700.into(), &made.into()), "{tally}");
            ending.is_good();
        }
    });
}

/// A server that stalls for 300 ms delays all requests that become due meanwhile. Only the open loop shows that.
#[test]
fn a_stall_is_in_the_latencies_of_an_open_loop_and_not_in_those_of_a_closed_one() {
    let stalls = || {
        let first: Arc<Mutex<Option<Instant>>> = Arc::default();
        serve(move |stream| {
            answer_lines(stream, || {
                let began = *first.lock().unwrap().get_or_insert_with(Instant::now);
                let (from, until) = (began + Duration::from_millis(400), began + Duration::from_millis(700));
                if (from..until).contains(&Instant::now()) {
                    std::thread::sleep(until - Instant::now());
                }
            });
        })
    };
    let common = "--bytes 1 --check count --connections kept --clients 4 --duration 1s";
    let mut open = Value::Null;
    // On a busy machine there may be further stalls, but not each time.
    let shows = (0..10).any(|_| {
        let (ran, line) = load("bytes", stalls(), &format!("{common} --load open --rate 500 --arrivals constant"));
        assert_eq!(line["tally"]["errors"], json!({}), "{ran:?}");
        open = line;
        // Of a second's requests, those of 300 ms wait, at most 300 ms: 10 % wait for more than 200 ms.
        let p90 = count(&open, "latency.p90_ns") / 1_000_000;
        // The time in the system is rate times latency, wherever requests waited.
        let by_law = 500.0 * field(&open, "latency.mean_ns").as_f64().unwrap() / 1e9;
        let seen = field(&open, "validity.in_system").as_f64().unwrap();
        let is_the_law = (by_law / seen - 1.0).abs() < 0.05;
        // After sending, few waited: the stall held up four connections.
        let few_waited_then = count(&open, "scheduled.service_time.p90_ns") < 150_000_000;
        (150..300).contains(&p90) && count(&open, "scheduled.waited") > 100 && is_the_law && few_waited_then
    });
    assert!(shows, "{open}");
    let (ran, closed) = load("bytes", stalls(), &format!("{common} --load closed_connections"));
    assert_eq!(ran.status, Some(0), "{ran:?}");
    assert_eq!(closed["latency"]["from"], "sent");
    assert!(count(&closed, "latency.p90_ns") < 150_000_000, "{closed}");
    assert!(count(&closed, "latency.maximum_ns") > 200_000_000, "{closed}");
    assert_eq!((&closed["scheduled"], &closed["validity"]["valid"]), (&Value::Null, &Value::Null));
}

#[test]
fn a_schedule_is_the_same_with_the_same_seed() {
    let server = Server::start("epoll", "bytes", &[]);
    let due = |seed: u64, threads: u64| {
        let options = format!(
            "--load open --rate 2000 --arrival-seed {seed} --threads {threads} --clients 8 --connections kept \
             --duration 300ms"
        );
        let (_, line) = load("bytes", server.port, &options);
        assert_eq!(line["tally"]["errors"], json!({}), "{line}");
        count(&line, "scheduled.due")
    };
    let seen: Vec<u64> = [(1, 1), (1, 1), (1, 2), (2, 1), (3, 1)].map(|(seed, threads)| due(seed, threads)).into();
    assert_eq!(seen[0], seen[1]);
    // Poisson's scatter: four standard deviations.
    assert!(seen.iter().all(|due| due.abs_diff(600) < 98), "{seen:?}");
    assert!(seen[2..].iter().any(|due| *due != seen[0]), "{seen:?}");
}

#[test]
fn a_server_that_never_answers_is_not_waited_for_beyond_the_time_allowed() {
    with_each_back_end(|back_end| {
        for connections in ["kept", "per_request"] {
            let options = format!(
                "--load open --rate 1000 --arrivals constant --clients 5 --connections {connections} --duration 300ms \
             --timeout 400ms {back_end}"
            );
            let (ran, line) = load("bytes", serve(says_nothing), &options);
            assert_eq!((ran.status, &line["validity"]["valid"]), (Some(1), &json!(false)), "{ran:?}");
            // To wait for each request would take 24 s.
            assert!(count(&line, "elapsed_ns") < 12_000_000_000, "{line}");
            let scheduled = &line["scheduled"];
            assert_eq!((&scheduled["due"], &scheduled["answered"]), (&300.into(), &0.into()), "{scheduled}");
            let (failed, never) = (count(scheduled, "failed"), count(scheduled, "never_sent"));
            assert!(failed >= 5 && failed + never == 300, "{scheduled}");
            assert_eq!(line["tally"]["errors"], json!({"timed_out": failed}), "{line}");
            assert_eq!(ran.errors.lines().count(), 1, "{ran:?}");
        }
    });
}

/// Each kind of server failure is counted under its kind. The load ends in time and reports that it is not valid.
#[test]
fn each_fault_of_a_server_has_its_kind() {
    with_each_back_end(|back_end| {
        fn reset(stream: TcpStream) {
            let _ = (&stream).read(&mut [0; 64]);
            socket2::SockRef::from(&stream).set_linger(Some(Duration::ZERO)).unwrap();
        }
        fn answers(answer: &'static [u8]) -> impl Fn(TcpStream) + Send + Sync {
            move |mut stream| {
                let _ = stream.read(&mut [0; 64]);
                let _ = stream.write_all(answer);
            }
        }
        let (refusing, _held) = unserved::nobody_listens();
        let servers = [
            ("refused", refusing),
            ("reset", serve(reset)),
            ("truncated", serve(|stream| drop((&stream).read(&mut [0; 64])))),
            ("truncated", serve(answers(&[0, 1, 2]))),
            ("surplus", serve(answers(&[0, 1, 2, 3, 4]))),
            ("wrong_reply", serve(answers(b"rubbish"))),
        ];
        for (kind, port) in servers {
            for options in
                ["--connections kept", "--connections per_request", "--connections kept --pipeline 4 --threads 2"]
            {
                let options = format!(
                    "--load open --bytes 4 --rate 500 --clients 4 {options} --duration 1h --timeout 9s --give-up 3 {back_end}"
                );
                let (ran, line) = load("bytes", port, &options);
                assert_eq!(ran.status, Some(1), "{ran:?}");
                let kinds: Vec<&String> = line["tally"]["errors"].as_object().unwrap().keys().collect();
                // A request in flight fails like its connection, or when the next request meets the failure.
                let known = |seen: &&&String| {
                    seen.as_str() == kind || ["reset", "broken_pipe", "truncated"].contains(&seen.as_str())
                };
                // With several requests in flight, surplus bytes of one reply begin the next.
                let begins = |seen: &String| kind == "surplus" && options.contains("pipeline") && seen == "wrong_reply";
                assert!(
                    kinds.iter().any(|seen| *seen == kind || begins(seen))
                        && kinds.iter().all(|seen| known(&seen) || begins(seen)),
                    "{kind}: {line}"
                );
                // Of several replies that arrive together, those before the first wrong byte are correct.
                assert!(options.contains("pipeline") || line["tally"]["requests"] == 0, "{line}");
                let window = count(&line, "window.ended_monotonic_ns") - count(&line, "window.started_monotonic_ns");
                assert!(
                    count(&line, "scheduled.due") < 10 + 2 * window / 2_000_000,
                    "requests were due after the end: {line}"
                );
                assert_ne!(line["validity"]["valid"], true, "{line}");
            }
        }
    });
}

#[test]
fn a_server_that_vanishes_ends_the_load() {
    with_each_back_end(|back_end| {
        let mut server = Server::start("epoll", "bytes", &[]);
        let port = server.port;
        let options =
            format!("--load open --rate 300 --clients 4 --connections kept --duration 1h --give-up 4 {back_end}");
        let loading = std::thread::spawn(move || load("bytes", port, &options));
        server.snapshot_when("requests come", |snapshot| count(snapshot, "tally.requests") > 20);
        server.signal(nix::sys::signal::Signal::SIGINT);
        let (ran, line) = loading.join().unwrap();
        assert_eq!((ran.status, &line["validity"]["valid"]), (Some(1), &json!(false)), "{ran:?}");
        assert!(line["tally"]["errors"].as_object().unwrap().contains_key("refused"), "{line}");
        assert!(count(&line, "tally.requests") > 20 && count(&line, "elapsed_ns") < 60_000_000_000, "{line}");
    });
}

/// Requests due after all clients have stopped are in no count, so the load must report when that was.
#[test]
fn a_load_whose_clients_all_give_up_reports_when() {
    with_each_back_end(|back_end| {
        let port = serve(drop);
        for load_options in ["--load open --rate 200", "--load closed_connections"] {
            let (ran, line) = load("bytes", port, &format!("{load_options} --clients 4 --duration 20s {back_end}"));
            reports_a_cut_window(&ran, &line);
        }
    });
}

fn reports_a_cut_window(ran: &Ran, line: &Value) {
    assert_eq!((ran.status, &line["validity"]["valid"]), (Some(1), &json!(false)), "{line}");
    let cut = items(&line["validity"], "checks").iter().find(|check| check["name"] == "cut_window").unwrap();
    assert!(cut["words"].as_str().unwrap().contains(" of 20.000 s"), "{cut}: {ran:?}");
    assert!(cut["value"].as_f64().unwrap() > 0.5 && cut["holds"] == json!(false), "{line}");
}

/// Also if nobody could connect at all, and for a load without an event loop.
#[test]
fn a_load_without_replies_reports_that_it_gave_up() {
    let (port, _held) = unserved::nobody_accepts();
    for load_options in
        ["open --rate 200 --connections kept", "closed_connections --connections kept", "closed_threads"]
    {
        let options = format!("--load {load_options} --clients 4 --duration 20s --timeout 200ms");
        let (ran, line) = load("bytes", port, &options);
        reports_a_cut_window(&ran, &line);
    }
}

/// A thinking client neither takes nor stores bytes that a server sends meanwhile.
#[test]
fn unrequested_bytes_of_a_server_take_little_memory() {
    const SENT: usize = 64 << 20;
    let sends_unasked = |mut stream: TcpStream| {
        let mut asked = [0; 100];
        if stream.read(&mut asked).is_ok_and(|bytes| bytes > 0) {
            stream.write_all(&[0]).unwrap();
            // Bytes that arrive together with the reply would be a surplus at once.
            std::thread::sleep(Duration::from_millis(100));
            let part = [0; 1 << 16];
            // The server sends no faster than the client takes: a ring without a free buffer stops receiving, and the test
            // would show nothing.
            let goes_on = |_| {
                std::thread::sleep(Duration::from_micros(500));
                stream.write_all(&part).is_ok()
            };
            let _ = (0..SENT / part.len()).all(goes_on);
        }
    };
    let peak = |back_end| {
        let port = serve(sends_unasked);
        let options = "--bytes 1 --check count --load closed_connections --connections kept --clients 3";
        let idle = "--think 20s --duration 1500ms --timeout 2s";
        let (ran, line) = load("bytes", port, &format!("{options} {idle} {back_end}"));
        assert_eq!(line["tally"]["requests"], 3, "each client has one reply, and thinks: {ran:?}");
        count(&line, "memory.peak_resident_bytes")
    };
    let peaks: Vec<(&str, u64)> = back_ends().into_iter().map(|back_end| (back_end, peak(back_end))).collect();
    println!("{peaks:?}");
    // If the bytes stay in the kernel, most of the memory is the program's.
    let (_, least) = peaks[0];
    assert!(least < 24 << 20, "{peaks:?}");
    // In addition, the buffers of a ring, 4 MiB, and for each connection the bytes that may wait and those that arrive until
    // its receive has ended, which takes longer on a busy machine.
    assert!(peaks.iter().all(|&(_, peak)| peak < least + (16 << 20)), "{peaks:?}");
}

#[test]
fn impossible_settings_are_refused_before_the_first_connection() {
    let server = Untouched::new();
    let refused = |workload: &str, options: &str, code: &str, words: &[&str]| {
        server.refuses(code, workload, &options.split_whitespace().collect::<Vec<_>>(), words);
    };
    let value = "setting.invalid_value";
    refused("bytes", "--load open --duration 0", value, &["--duration", "1ms to 24h"]);
    for rate in ["0", "-1", "10000001", "1000000000000", "fast"] {
        let options = format!("--load open --duration 10ms --rate {rate}");
        refused("bytes", &options, value, &["--rate", rate, "1 to 10000000"]);
    }
    refused("bytes", "--load open --duration 10ms --clients 0", value, &["--clients", "1 to 100000"]);
    refused("bytes", "--load open --duration 10ms --loops 5", "setting.unknown", &["--loops"]);
    let timed = "--load open --duration 10ms";
    let anew = format!("{timed} --connections per_request");
    for option in ["--pipeline", "--requests-per-connection"] {
        let options = format!("{anew} {option} 2");
        refused("bytes", &options, "load.needs_another_setting", &[option, "--connections"]);
    }
    let pipelined = format!("{timed} --connections kept --pipeline 2");
    refused("fields", &pipelined, "fit.workload_and_pipeline", &["--pipeline 2", "bytes, echo, http"]);
    let discards = format!("{pipelined} --receive recv_truncate --check count");
    refused("bytes", &discards, "fit.receive_and_pipeline", &["--pipeline 2", "recv_truncate"]);
    let threads = format!("{timed} --clients 2 --threads 3");
    refused("bytes", &threads, "load.more_than_another_setting", &["--threads 3", "2", "--clients 3"]);
    for (option, primitive) in [("--primitive", "writev"), ("--receive", "recv"), ("--primitive", "send_each")] {
        let options = format!("{timed} --back-end io_uring {option} {primitive}");
        refused("bytes", &options, "load.primitive_without_part", &[option, "--back-end io_uring"]);
    }
    for only_read in ["", " --dry-run"] {
        refused("stream", &format!("{timed}{only_read}"), "load.open_needs_replies", &["closed load"]);
    }
}

/// In a closed loop the few clients are the load; in an open loop they only stand by.
#[test]
fn an_open_load_has_persistent_connections_by_default() {
    let server = Server::start("epoll", "bytes", &[]);
    let told = |load: &str| {
        let mut command = engine();
        command.args(["load", "bytes", "--connect", &format!("127.0.0.1:{}", server.port), "--json"]);
        let ran = run(command.args(format!("--load {load} --bytes 1 --duration 200ms").split_whitespace()));
        let line: Value = serde_json::from_str(ran.output.lines().last().unwrap()).unwrap();
        let settings = (line["settings"]["clients"].clone(), line["settings"]["connections"].clone());
        (settings, count(&line, "tally.connections"))
    };
    assert_eq!(told("open --rate 500"), ((64.into(), "kept".into()), 64));
    assert_eq!(told("open --rate 500 --clients 3").1, 3);
    assert!(told("open --rate 500 --connections per_request").1 > 64);
    assert_eq!(told("closed_connections").0, (4.into(), "per_request".into()));
    let help = run(engine().args(["load", "--help-all"])).output;
    for words in ["default: 4; of open 64]", "default: per_request; of open kept]"] {
        assert!(help.split_whitespace().collect::<Vec<_>>().join(" ").contains(words), "'{words}' is not in {help}");
    }
}

#[test]
fn an_interrupt_ends_an_open_load() {
    with_each_back_end(|back_end| {
        let mut server = Server::start("epoll", "bytes", &[]);
        let port = server.port;
        let mut command = engine();
        command.args(["load", "bytes", "--connect", &format!("127.0.0.1:{port}"), "--json", "--load", "open"]);
        command.args(["--duration", "1h", "--connections", "kept", "--threads", "2", "--rate", "200"]);
        command.args(back_end.split_whitespace());
        let child = command.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped()).spawn().unwrap();
        server.snapshot_when("requests come", |snapshot| count(snapshot, "tally.requests") > 10);
        process::signal(child.id() as i32, nix::sys::signal::Signal::SIGTERM);
        let output = child.wait_with_output().unwrap();
        let line: Value = serde_json::from_slice(output.stdout.split(|&byte| byte == b'\n').nth(2).unwrap()).unwrap();
        assert_eq!((output.status.code(), &line["interrupted"]), (Some(1), &json!(true)), "{line}");
        assert_eq!((&line["tally"]["errors"], &line["scheduled"]["failed"]), (&json!({}), &0.into()), "{line}");
        let window = count(&line, "window.ended_monotonic_ns") - count(&line, "window.started_monotonic_ns");
        assert!(window < 60_000_000_000, "{line}");
        server.stop().is_good();
    });
}

/// No check fails for a window without requests, but nothing was measured in it.
#[test]
fn a_window_in_which_nothing_was_due_is_not_valid() {
    let server = Server::start("epoll", "bytes", &[]);
    let options = "--load open --rate 1 --arrivals constant --warm-up 300ms --duration 200ms";
    let (ran, line) = load("bytes", server.port, options);
    assert_eq!((ran.status, &line["scheduled"]["due"]), (Some(1), &0.into()), "{line}");
    let failed = items(&line["validity"], "checks").iter().filter(|check| check["holds"] == false);
    assert_eq!(failed.map(name).collect::<Vec<_>>(), ["empty_window"], "{line}");
    server.stop().is_good();
}

#[test]
fn an_open_load_prints_its_findings() {
    let ran = run(engine()
        .args(["load", "bytes", "--connect", &format!("127.0.0.1:{}", serve(says_nothing)), "--load"])
        .args(["open", "--duration", "200ms", "--timeout", "200ms", "--rate", "1000", "--connections", "kept"]));
    assert_eq!(ran.status, Some(1), "{ran:?}");
    let table = Table::of(&ran.output);
    let failed = table.line("failed checks").expect("failed checks");
    assert!(failed.contains("never_sent ") && failed.contains("achieved_rate "), "{ran:?}");
    assert!(table.row("Errors")[1].ends_with(" timed out") && !table.is_valid(), "{ran:?}");
    assert!(table.line("hint").is_some(), "{ran:?}");
}

/// With so few requests that hardly any check can be judged, "valid" names those that were not.
#[test]
fn checks_that_were_not_judged_are_listed_with_valid() {
    let server = Server::start("epoll", "bytes", &[]);
    let address = format!("127.0.0.1:{}", server.port);
    let options = ["--load", "open", "--rate", "50", "--duration", "200ms", "--arrivals", "constant"];
    let ran = run(engine().args(["load", "bytes", "--connect", &address]).args(options));
    let table = Table::of(&ran.output);
    assert!(table.is_valid() && ran.status == Some(0), "{ran:?}");
    let not_judged = ran.output.split_once("\nnot judged: ").expect("a list").1;
    for check in ["achieved_rate", "send_lag", "little"] {
        assert!(not_judged.contains(check), "{ran:?}");
    }
    server.stop().is_good();
}
