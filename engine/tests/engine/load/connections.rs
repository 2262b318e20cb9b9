//! How loads with an event loop use their connections, with every back end: several requests in flight, a fixed number of
//! requests each, closing with FIN or RST, clients that start one after another, threads pinned to CPUs.

use std::io::{BufRead, BufReader, Read, Write};
use std::process::Stdio;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use serde_json::json;

use crate::support::event_loops::{answer_lines, count, load, says_nothing, serve, with_each_back_end};
use crate::support::server::Server;
use crate::support::{engine, eventually, process, run};

/// A server that replies only after this many requests have arrived on each connection.
#[test]
fn a_connection_has_the_configured_number_of_requests_in_flight() {
    with_each_back_end(|back_end| {
        for depth in [2, 7] {
            let port = serve(move |mut stream| {
                let mut lines = BufReader::new(stream.try_clone().unwrap());
                let mut line = String::new();
                while (0..depth).all(|_| lines.read_line(&mut line).is_ok_and(|bytes| bytes > 0)) {
                    stream.write_all(&vec![0; depth]).unwrap();
                }
            });
            let common =
                format!("--bytes 1 --check count --clients 3 --connections kept --pipeline {depth} {back_end}");
            let options = format!("{common} --load closed_connections --loops {}", 5 * depth);
            let (ran, line) = load("bytes", port, &options);
            assert_eq!((ran.status, &line["tally"]["requests"]), (Some(0), &(15 * depth).into()), "{ran:?}");
            assert_eq!(line["tally"]["connections"], 3, "{line}");
        }
    });
}

/// A server that replies to several requests together makes its client send as many together. The number of calls depends on
/// the primitive.
#[test]
fn requests_due_together_are_gathered_by_the_primitive() {
    let depth = 8;
    let port = serve(move |mut stream| {
        let mut lines = BufReader::new(stream.try_clone().unwrap());
        let mut line = String::new();
        while (0..depth).all(|_| lines.read_line(&mut line).is_ok_and(|bytes| bytes > 0)) {
            stream.write_all(&vec![0; depth]).unwrap();
        }
    });
    for (primitive, calls_of_a_row) in [
        ("send_each", 8),
        ("writev", 8),
        ("writev --messages-at-once 3", 3),
        ("sendmsg --messages-at-once 8", 1),
        ("writev --messages-at-once 1024", 1),
    ] {
        let options = format!(
            "--load closed_connections --bytes 1 --clients 3 --connections kept --pipeline {depth} --loops {} \
             --primitive {primitive}",
            10 * depth
        );
        let (ran, line) = load("bytes", port, &options);
        assert_eq!((ran.status, &line["tally"]["requests"]), (Some(0), &240.into()), "{ran:?}");
        assert_eq!(line["tally"]["send_calls"], 3 * 10 * calls_of_a_row, "{primitive}: {line}");
    }
    let mut command = engine();
    command.args(["load", "bytes", "--connect", &format!("127.0.0.1:{port}")]);
    let gathered = "--load closed_connections --bytes 1 --clients 1 --connections kept --pipeline 8 --loops 8 --primitive \
                    writev --messages-at-once 8 --show";
    let shown = run(command.args(gathered.split_whitespace())).output;
    assert_eq!(shown.matches("request sent: \"1\\n\"").count(), 8, "{shown}");
}

/// Replies that arrive together are separated, and each is checked, in every workload that pipelines.
#[test]
fn pipelined_replies_are_right_byte_by_byte() {
    with_each_back_end(|back_end| {
        for (workload, server, client) in
            [("bytes", &[][..], "--bytes 3000"), ("echo", &[], "--bytes 3000"), ("http", &[], "")]
        {
            let server = Server::start("epoll", workload, server);
            for load_kind in ["closed_connections --loops 200", "open --rate 3000 --duration 200ms"] {
                let options =
                    format!("--load {load_kind} {client} --clients 3 --connections kept --pipeline 16 {back_end}");
                let (ran, line) = load(workload, server.port, &options);
                assert_eq!(line["tally"]["errors"], json!({}), "{workload}: {ran:?}");
                let expected = if load_kind.starts_with("closed") { 600 } else { count(&line, "scheduled.due") };
                assert_eq!(line["tally"]["requests"], expected, "{line}");
            }
            server.stop().is_good();
        }
        let wrong = serve(|mut stream| {
            let _ = stream.read_exact(&mut [0; 8]);
            let _ = stream.write_all(&[0, 1, 0, 1, 0, 9, 0, 1]);
            says_nothing(stream);
        });
        let options = format!(
            "--load closed_connections --bytes 2 --clients 1 --connections kept --pipeline 4 --loops 4 {back_end}"
        );
        let (_, line) = load("bytes", wrong, &options);
        assert!(count(&line, "tally.errors.wrong_reply") > 0 && count(&line, "tally.requests") > 0, "{line}");
        assert!(line["first_error"].as_str().unwrap().contains("byte 1 "), "{line}");
    });
}

#[test]
fn a_connection_is_closed_after_the_configured_requests() {
    with_each_back_end(|back_end| {
        let server = Server::start("epoll", "bytes", &[]);
        for pipeline in [1, 4] {
            let options = format!(
                "--load closed_connections --clients 2 --loops 95 --connections kept --requests-per-connection 10 \
             --pipeline {pipeline} {back_end}"
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
    });
}

#[test]
fn closing_with_a_reset_leaves_no_time_wait() {
    with_each_back_end(|back_end| {
        for (closing, leaves) in [("fin", true), ("reset", false)] {
            // The server closes after its client, never before.
            let port = serve(|stream| answer_lines(stream, || ()));
            // Connections of another test, whose server had the same port.
            let (before, lost_before) = (process::in_time_wait_towards(port), process::not_kept_in_time_wait());
            let options = format!(
                "--load closed_connections --bytes 1 --check count --clients 5 --loops 10 --closing {closing} {back_end}"
            );
            let (ran, line) = load("bytes", port, &options);
            assert_eq!((ran.status, &line["settings"]["closing"]), (Some(0), &closing.into()), "{ran:?}");
            // Fewer than 50 if a port was reused, and none if other tests have filled the kernel's table.
            let left = || process::in_time_wait_towards(port).difference(&before).count() > 0;
            let is_so = || if leaves { left() || process::not_kept_in_time_wait() > lost_before } else { !left() };
            eventually(&format!("connections in TIME_WAIT after {closing}"), || is_so().then_some(()));
            let kept: &[&str] = if leaves { &["load"] } else { &[] };
            assert_eq!(line["closings"]["time_wait"], json!(kept), "{line}");
        }
    });
}

#[test]
fn clients_of_a_closed_load_begin_one_after_another() {
    let asked = Arc::new(AtomicUsize::new(0));
    let seen: Arc<Mutex<Vec<Instant>>> = Arc::default();
    let port = {
        let (asked, seen) = (Arc::clone(&asked), Arc::clone(&seen));
        serve(move |stream| {
            answer_lines(stream, || {
                asked.fetch_add(1, SeqCst);
                seen.lock().unwrap().push(Instant::now());
            });
        })
    };
    let options = "--load closed_connections --bytes 1 --check count --clients 4 --loops 1 --connections kept \
                   --ramp-up 800ms";
    // On a busy machine any of them may be late, and none is early.
    let began = Instant::now();
    let (ran, _) = load("bytes", port, options);
    assert_eq!((ran.status, asked.load(SeqCst)), (Some(0), 4), "{ran:?}");
    let after: Vec<Duration> = seen.lock().unwrap().iter().map(|&moment| moment - began).collect();
    let early = after.iter().zip(0..).filter(|&(&after, place)| after < place * Duration::from_millis(150)).count();
    assert_eq!(early, 0, "{after:?}");
}

/// A server that sends its replies before it takes more requests, and messages larger than all buffers: a client that does
/// not receive while it sends waits for ever.
#[test]
fn replies_are_taken_while_the_next_requests_are_sent() {
    with_each_back_end(|back_end| {
        let server = Server::start("epoll", "echo", &[]);
        let options = format!(
            "--load closed_connections --bytes 65536 --clients 2 --loops 600 --connections kept --pipeline 600 {back_end}"
        );
        let (ran, line) = load("echo", server.port, &format!("{options} --timeout 20s"));
        assert_eq!((ran.status, &line["tally"]["requests"]), (Some(0), &1200.into()), "{ran:?}");
        server.stop().is_good();
    });
}

/// Many more connections than a ring can handle at a time, closed and reopened, with replies longer than a buffer.
#[test]
fn very_many_connections_share_a_ring() {
    with_each_back_end(|back_end| {
        let server = Server::start("epoll", "bytes", &["--backlog", "4096", "--limit", "100000"]);
        for (clients, options) in [
            (3000, "--connections kept --loops 3 --requests-per-connection 2"),
            (200, "--loops 5"),
            (20, "--bytes 100000 --loops 20 --connections kept"),
        ] {
            let options = format!("--load closed_connections --clients {clients} {options} {back_end}");
            let (ran, line) = load("bytes", server.port, &format!("{options} --timeout 1min"));
            assert_eq!((ran.status, &line["tally"]["errors"]), (Some(0), &json!({})), "{ran:?}");
            let tally = &line["tally"];
            assert_eq!(tally["connections"], tally["closed"], "{line}");
            assert_eq!(tally["requests"], line["expected_requests"], "{line}");
        }
        server.stop().is_good();
    });
}

/// With one thread more than there are CPUs, so that the first CPU has two.
#[test]
fn threads_are_pinned_in_turn() {
    let server = Server::start("epoll", "bytes", &[]);
    let cpus = process::allowed_cpus(0);
    let threads = cpus.len() + 1;
    for (pinned, of_one_cpu) in [("true", threads), ("false", if cpus.len() == 1 { threads } else { 0 })] {
        let options = format!("--threads {threads} --clients {threads} --duration 1min --pin-threads {pinned}");
        let connect = format!("127.0.0.1:{}", server.port);
        let mut command = engine();
        command.args(["load", "bytes", "--load", "closed_connections", "--connect", &connect]).args(options.split(' '));
        let mut load = command.stdout(Stdio::null()).spawn().unwrap();
        let id = load.id() as i32;
        eventually("its threads are there, on their CPUs", || {
            let theirs: Vec<Vec<usize>> = process::threads(id).into_iter().map(process::allowed_cpus).collect();
            let pinned: Vec<usize> = theirs.iter().filter(|cpus| cpus.len() == 1).flatten().copied().collect();
            let each = cpus.iter().all(|cpu| of_one_cpu == 0 || pinned.contains(cpu));
            (theirs.len() == threads && pinned.len() == of_one_cpu && each).then_some(())
        });
        process::signal(id, Signal::SIGINT);
        load.wait().unwrap();
    }
    server.stop().is_good();
}
