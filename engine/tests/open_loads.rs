//! The open load: what its latencies count from, what becomes of its schedule, how it ends whatever the server does; and
//! what it shares with `closed_connections`: threads, pipelining, how connections are used and closed.

mod support;

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use support::both_ends::number;
use support::server::Server;
use support::{Ran, engine, eventually, one_line, run};

/// Runs a load to its end; its last line.
fn load(workload: &str, port: u16, options: &str) -> (Ran, Value) {
    let mut command = engine();
    command.args(["load", workload, "--connect", &format!("127.0.0.1:{port}"), "--json"]);
    let ran = run(command.args(options.split_whitespace()));
    let line = ran.output.lines().last().unwrap_or_else(|| panic!("nothing was printed: {ran:?}"));
    let line = serde_json::from_str(line).unwrap();
    (ran, line)
}

/// A server of this test: what it does with each connection.
fn serve(each: impl Fn(TcpStream) + Send + Sync + 'static) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let each = Arc::new(each);
    std::thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            let each = Arc::clone(&each);
            std::thread::spawn(move || each(stream));
        }
    });
    port
}

/// Answers every line with one byte, after having been asked whether to.
fn answer_lines(stream: TcpStream, mut before: impl FnMut()) {
    let mut lines = BufReader::new(stream.try_clone().unwrap());
    let (mut stream, mut line) = (stream, String::new());
    stream.set_nodelay(true).unwrap();
    while lines.read_line(&mut line).is_ok_and(|bytes| bytes > 0) {
        before();
        if stream.write_all(&[0]).is_err() {
            return;
        }
        line.clear();
    }
}

fn field<'a>(line: &'a Value, path: &str) -> &'a Value {
    path.split('.').fold(line, |value, key| &value[key])
}

fn count(line: &Value, path: &str) -> u64 {
    number(field(line, path))
}

#[test]
fn all_that_is_due_is_asked_and_answered_and_counted_by_both_ends() {
    for (connections, threads) in [("kept", 1), ("kept", 3), ("per_request", 2)] {
        let server = Server::start("epoll", "bytes", &[]);
        let options = format!(
            "--load open --rate 1000 --arrivals constant --clients 32 --threads {threads} --connections {connections} \
             --warm-up-milliseconds 100 --ramp-up-milliseconds 200 --milliseconds 500"
        );
        let (ran, line) = load("bytes", server.port, &options);
        assert_eq!(line["tally"]["errors"], json!({}), "{ran:?}");
        // Even arrivals: of the window half a second's, however many threads they were shared by.
        let scheduled = &line["scheduled"];
        for (what, expected) in [("due", 500), ("sent", 500), ("answered", 500), ("failed", 0), ("never_sent", 0)] {
            assert_eq!(scheduled[what], expected, "{what} with {threads} threads: {scheduled}");
        }
        // Before it half of the rate over the ramp, and all of it over the warm-up.
        assert_eq!(line["tally"]["requests"], 500 + 100 + 100, "{line}");
        assert_eq!((&line["latency"]["from"], &line["latency"]["requests"]), (&"intended".into(), &500.into()));
        for times in ["service_time", "send_lag"] {
            assert_eq!(scheduled[times]["requests"], 500, "{scheduled}");
        }
        assert_eq!(scheduled["gaps"]["requests"], 500 - threads, "{scheduled}");
        assert_eq!(line["expected_requests"], Value::Null);
        assert_eq!(line["validity"]["generators"].as_array().unwrap().len(), threads);
        // Whether the machine let the load keep its times is not this test's to say; that it says so is.
        let checks = line["validity"]["checks"].as_array().unwrap();
        let failed = checks.iter().any(|check| check["holds"] == false);
        assert_eq!((&line["validity"]["valid"], ran.status), (&json!(!failed), Some(i32::from(failed))), "{ran:?}");
        let ending = server.stop();
        let made = if connections == "kept" { 32 } else { 700 };
        let tally = &ending.summary()["tally"];
        assert_eq!((&tally["requests"], &tally["connections"]), (&700.into(), &made.into()), "{tally}");
        ending.is_good();
    }
}

/// A server that stalls for 300 ms: whoever was to ask meanwhile waits, and that is seen by the open loop alone.
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
    let common = "--bytes 1 --check count --connections kept --clients 4 --milliseconds 1000";
    let (ran, open) = load("bytes", stalls(), &format!("{common} --load open --rate 500 --arrivals constant"));
    assert_eq!(open["tally"]["errors"], json!({}), "{ran:?}");
    // Of a second's requests those of 300 ms wait, the first of them for as long: 10 % do for more than 200 ms.
    let p90 = count(&open, "latency.p90_ns") / 1_000_000;
    assert!((150..300).contains(&p90), "{open}");
    assert!(count(&open, "scheduled.waited") > 100, "{open}");
    // The time in the system is rate times latency, whoever waited where.
    let by_law = 500.0 * field(&open, "latency.mean_ns").as_f64().unwrap() / 1e9;
    let seen = field(&open, "validity.in_system").as_f64().unwrap();
    assert!((by_law / seen - 1.0).abs() < 0.05, "{by_law} {seen}");
    // Once asked, few waited: four connections were held by the stall.
    assert!(count(&open, "scheduled.service_time.p90_ns") < 150_000_000, "{open}");
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
             --milliseconds 300"
        );
        let (_, line) = load("bytes", server.port, &options);
        assert_eq!(line["tally"]["errors"], json!({}), "{line}");
        count(&line, "scheduled.due")
    };
    let seen: Vec<u64> = [(1, 1), (1, 1), (1, 2), (2, 1), (3, 1)].map(|(seed, threads)| due(seed, threads)).into();
    assert_eq!(seen[0], seen[1]);
    // Poisson's scatter, four standard deviations of it.
    assert!(seen.iter().all(|due| due.abs_diff(600) < 98), "{seen:?}");
    assert!(seen[2..].iter().any(|due| *due != seen[0]), "{seen:?}");
}

/// Takes what comes and says nothing.
fn says_nothing(mut stream: TcpStream) {
    while stream.read(&mut [0; 512]).is_ok_and(|bytes| bytes > 0) {}
}

#[test]
fn a_server_that_never_answers_is_not_waited_for_beyond_the_time_allowed() {
    for connections in ["kept", "per_request"] {
        let options = format!(
            "--load open --rate 1000 --arrivals constant --clients 5 --connections {connections} --milliseconds 300 \
             --timeout-milliseconds 400"
        );
        let (ran, line) = load("bytes", serve(says_nothing), &options);
        assert_eq!((ran.status, &line["validity"]["valid"]), (Some(1), &json!(false)), "{ran:?}");
        assert!(count(&line, "elapsed_ns") < 3_000_000_000, "{line}");
        let scheduled = &line["scheduled"];
        assert_eq!((&scheduled["due"], &scheduled["answered"]), (&300.into(), &0.into()), "{scheduled}");
        let (failed, never) = (count(scheduled, "failed"), count(scheduled, "never_sent"));
        assert!(failed >= 5 && failed + never == 300, "{scheduled}");
        assert_eq!(line["tally"]["errors"], json!({"timed_out": failed}), "{line}");
        assert!(ran.errors.contains("not every reply"), "{ran:?}");
    }
}

/// Each way in which a server can fail is counted as what it is, and the load ends in time and says that it is not valid.
#[test]
fn each_fault_of_a_server_has_its_kind() {
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
    let refusing = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let servers = [
        ("refused", refusing),
        ("reset", serve(reset)),
        ("truncated", serve(|stream| drop((&stream).read(&mut [0; 64])))),
        ("truncated", serve(answers(&[0, 1, 2]))),
        ("wrong_reply", serve(answers(&[0, 1, 2, 3, 4]))),
        ("wrong_reply", serve(answers(b"rubbish"))),
    ];
    for (kind, port) in servers {
        for options in
            ["--connections kept", "--connections per_request", "--connections kept --pipeline 4 --threads 2"]
        {
            let options = format!(
                "--load open --bytes 4 --rate 500 --clients 4 {options} --milliseconds 3600000 --timeout-milliseconds 2000"
            );
            let (ran, line) = load("bytes", port, &options);
            assert_eq!(ran.status, Some(1), "{ran:?}");
            let kinds: Vec<&String> = line["tally"]["errors"].as_object().unwrap().keys().collect();
            // What was under way on a connection fails as that does, or as its next request meets it.
            let known = |seen: &&&String| {
                seen.as_str() == kind || ["reset", "broken_pipe", "truncated"].contains(&seen.as_str())
            };
            assert!(kinds.iter().any(|seen| *seen == kind) && kinds.iter().all(|seen| known(&seen)), "{kind}: {line}");
            // Of several replies that come together, those before the first wrong byte are right.
            assert!(options.contains("pipeline") || line["tally"]["requests"] == 0, "{line}");
            let window = count(&line, "window.ended_monotonic_ns") - count(&line, "window.started_monotonic_ns");
            assert!(
                count(&line, "scheduled.due") < 10 + 2 * window / 2_000_000,
                "more was due than until the end: {line}"
            );
            assert_ne!(line["validity"]["valid"], true, "{line}");
        }
    }
}

#[test]
fn a_server_that_vanishes_ends_the_load() {
    let mut server = Server::start("epoll", "bytes", &[]);
    let port = server.port;
    let loading = std::thread::spawn(move || {
        load("bytes", port, "--load open --rate 300 --clients 4 --connections kept --milliseconds 3600000")
    });
    server.snapshot_when("requests come", |snapshot| count(snapshot, "tally.requests") > 20);
    server.signal(nix::sys::signal::Signal::SIGINT);
    let (ran, line) = loading.join().unwrap();
    assert_eq!((ran.status, &line["validity"]["valid"]), (Some(1), &json!(false)), "{ran:?}");
    assert!(line["tally"]["errors"].as_object().unwrap().contains_key("refused"), "{line}");
    assert!(count(&line, "tally.requests") > 20 && count(&line, "elapsed_ns") < 60_000_000_000, "{line}");
}

/// A server that answers nobody before so many requests have come over each connection.
#[test]
fn so_many_requests_are_under_way_on_a_connection_as_it_is_told() {
    for depth in [2, 7] {
        let port = serve(move |mut stream| {
            let mut lines = BufReader::new(stream.try_clone().unwrap());
            let mut line = String::new();
            while (0..depth).all(|_| lines.read_line(&mut line).is_ok_and(|bytes| bytes > 0)) {
                stream.write_all(&vec![0; depth]).unwrap();
            }
        });
        let common = format!("--bytes 1 --check count --clients 3 --connections kept --pipeline {depth}");
        let options = format!("{common} --load closed_connections --loops {}", 5 * depth);
        let (ran, line) = load("bytes", port, &options);
        assert_eq!((ran.status, &line["tally"]["requests"]), (Some(0), &(15 * depth).into()), "{ran:?}");
        assert_eq!(line["tally"]["connections"], 3, "{line}");
    }
}

/// Replies that come together are told apart, and each is looked at, in every workload that says so.
#[test]
fn pipelined_replies_are_right_byte_by_byte() {
    for (workload, server, client) in
        [("bytes", &[][..], "--bytes 3000"), ("echo", &[], "--bytes 3000"), ("http", &[], "")]
    {
        let server = Server::start("epoll", workload, server);
        for load_kind in ["closed_connections --loops 200", "open --rate 3000 --milliseconds 200"] {
            let options = format!("--load {load_kind} {client} --clients 3 --connections kept --pipeline 16");
            let (ran, line) = load(workload, server.port, &options);
            assert_eq!(line["tally"]["errors"], json!({}), "{workload}: {ran:?}");
            let expected = if load_kind.starts_with("closed") { 600 } else { count(&line, "scheduled.due") };
            assert_eq!(line["tally"]["requests"], expected, "{line}");
        }
        server.stop().is_good();
    }
    let wrong = serve(|mut stream| {
        let _ = stream.read(&mut [0; 64]);
        let _ = stream.write_all(&[0, 1, 0, 1, 0, 9, 0, 1]);
        says_nothing(stream);
    });
    let options = "--load closed_connections --bytes 2 --clients 1 --connections kept --pipeline 4 --loops 4";
    let (_, line) = load("bytes", wrong, options);
    assert!(count(&line, "tally.errors.wrong_reply") > 0 && count(&line, "tally.requests") > 0, "{line}");
    assert!(line["first_error"].as_str().unwrap().contains("byte 1 of the reply is 9"), "{line}");
}

#[test]
fn a_connection_is_closed_after_so_many_requests() {
    let server = Server::start("epoll", "bytes", &[]);
    for pipeline in [1, 4] {
        let options = format!(
            "--load closed_connections --clients 2 --loops 95 --connections kept --requests-per-connection 10 \
             --pipeline {pipeline}"
        );
        let (ran, line) = load("bytes", server.port, &options);
        let tally = &line["tally"];
        assert_eq!(
            (ran.status, &tally["requests"], &tally["connections"]),
            (Some(0), &190.into(), &20.into()),
            "{ran:?}"
        );
    }
    server.stop().is_good();
}

/// Connections of this host towards a port that are in TIME_WAIT.
fn in_time_wait(port: u16) -> usize {
    let table = std::fs::read_to_string("/proc/net/tcp").unwrap();
    let towards = format!(":{port:04X}");
    let is_one = |line: &&str| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        fields.get(2).is_some_and(|remote| remote.ends_with(&towards)) && fields.get(3) == Some(&"06")
    };
    table.lines().filter(is_one).count()
}

#[test]
fn who_closes_with_a_reset_leaves_no_connection_in_time_wait() {
    for (closing, left) in [("fin", 50), ("reset", 0)] {
        // It closes when its client has, and never before.
        let port = serve(|stream| answer_lines(stream, || ()));
        let options =
            format!("--load closed_connections --bytes 1 --check count --clients 5 --loops 10 --closing {closing}");
        let (ran, line) = load("bytes", port, &options);
        assert_eq!((ran.status, &line["settings"]["closing"]), (Some(0), &closing.into()), "{ran:?}");
        eventually(&format!("{left} connections in TIME_WAIT"), || (in_time_wait(port) == left).then_some(()));
    }
}

#[test]
fn clients_of_a_closed_load_begin_one_after_another() {
    let asked = Arc::new(AtomicUsize::new(0));
    let seen: Arc<(Mutex<Vec<Instant>>, Condvar)> = Arc::default();
    let port = {
        let (asked, seen) = (Arc::clone(&asked), Arc::clone(&seen));
        serve(move |stream| {
            answer_lines(stream, || {
                asked.fetch_add(1, SeqCst);
                seen.0.lock().unwrap().push(Instant::now());
            });
        })
    };
    let options = "--load closed_connections --bytes 1 --check count --clients 4 --loops 1 --connections kept \
                   --ramp-up-milliseconds 800";
    let (ran, _) = load("bytes", port, options);
    assert_eq!((ran.status, asked.load(SeqCst)), (Some(0), 4), "{ran:?}");
    let moments = seen.0.lock().unwrap().clone();
    assert!(moments[3] - moments[0] >= Duration::from_millis(400), "{moments:?}");
}

#[test]
fn what_cannot_be_is_refused_before_the_first_connection() {
    let port = serve(|_| panic!("nobody was to connect"));
    let refused = |workload: &str, options: &str, words: &[&str]| {
        let mut command = engine();
        command.args(["load", workload, "--connect", &format!("127.0.0.1:{port}")]);
        one_line(&run(command.args(options.split_whitespace())), 2, words);
    };
    refused("bytes", "--load open", &["ends by time", "--milliseconds"]);
    for rate in ["0", "-1", "10000001", "1000000000000", "fast"] {
        let options = format!("--load open --milliseconds 10 --rate {rate}");
        refused("bytes", &options, &["--rate", rate, "1 to 10000000"]);
    }
    refused("bytes", "--load open --milliseconds 10 --clients 0", &["--clients", "1 to 100000"]);
    refused("bytes", "--load open --milliseconds 10 --loops 5", &["--loops"]);
    let timed = "--load open --milliseconds 10";
    refused("bytes", &format!("{timed} --pipeline 2"), &["--pipeline 2", "--connections kept"]);
    let per = "--requests-per-connection";
    refused("bytes", &format!("{timed} {per} 2"), &["--requests-per-connection 2", "--connections kept"]);
    refused("fields", &format!("{timed} --connections kept --pipeline 2"), &["--pipeline 2", "bytes, echo and http"]);
    let discards = format!("{timed} --connections kept --pipeline 2 --receive recv_truncate --check count");
    refused("bytes", &discards, &["--pipeline 2", "recv_truncate"]);
    refused("bytes", &format!("{timed} --clients 2 --threads 3"), &["--threads 3", "2", "--clients 3"]);
    refused("stream", timed, &["open load", "a closed load"]);
}

#[test]
fn an_interrupt_ends_an_open_load() {
    let mut server = Server::start("epoll", "bytes", &[]);
    let port = server.port;
    let mut command = engine();
    command.args(["load", "bytes", "--connect", &format!("127.0.0.1:{port}"), "--json", "--load", "open"]);
    command.args(["--milliseconds", "3600000", "--connections", "kept", "--threads", "2", "--rate", "200"]);
    let child = command.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped()).spawn().unwrap();
    server.snapshot_when("requests come", |snapshot| count(snapshot, "tally.requests") > 10);
    support::process::signal(child.id() as i32, nix::sys::signal::Signal::SIGINT);
    let output = child.wait_with_output().unwrap();
    let line: Value = serde_json::from_slice(output.stdout.split(|&byte| byte == b'\n').nth(2).unwrap()).unwrap();
    assert_eq!((output.status.code(), &line["interrupted"]), (Some(1), &json!(true)), "{line}");
    assert_eq!((&line["tally"]["errors"], &line["scheduled"]["failed"]), (&json!({}), &0.into()), "{line}");
    let window = count(&line, "window.ended_monotonic_ns") - count(&line, "window.started_monotonic_ns");
    assert!(window < 60_000_000_000, "{line}");
    server.stop().is_good();
}

#[test]
fn an_open_load_says_in_words_what_it_found() {
    let ran = run(engine()
        .args(["load", "bytes", "--connect", &format!("127.0.0.1:{}", serve(says_nothing)), "--load"])
        .args([
            "open",
            "--milliseconds",
            "200",
            "--timeout-milliseconds",
            "200",
            "--rate",
            "1000",
            "--connections",
            "kept",
        ]));
    assert_eq!(ran.status, Some(1), "{ran:?}");
    for words in ["NOT VALID", "never_sent", "achieved_rate", "errors: timed_out", "--clients", "were never sent"] {
        assert!(ran.output.contains(words), "'{words}' is not in {ran:?}");
    }
}
