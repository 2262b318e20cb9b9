//! The workload `stream`: both directions, from memory and from files, under every design and with every primitive, for a
//! number of bytes and for a time.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::Stdio;
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use serde_json::Value;

use crate::support::both_ends::{agree, command, load, serve};
use crate::support::lines::{designs, list, name, number};
use crate::support::server::Server;
use crate::support::{Ran, process, protocol, refused, run};

#[test]
fn streams_in_both_directions_are_complete_under_every_design_and_load() {
    for design in designs() {
        let server = Server::start(&design, "stream", &["--verify", "all", "--message-size", "10000"]);
        let mut loads = Vec::new();
        for who in
            ["closed --children 2", "closed_threads --clients 2 --connections kept", "closed_connections --clients 2"]
        {
            for direction in ["to_server", "to_client"] {
                let options = format!(
                    "--load {who} --direction {direction} --loops 3 --stream-size 1000000 --verify all --message-size 999"
                );
                loads.push(load("stream", server.port, &options));
            }
        }
        let account = |name: &str| loads.iter().map(|load| number(&load["account"][name])).sum::<u64>();
        assert_eq!([account("bytes_streamed_to_server"), account("bytes_streamed_to_client")], [18_000_000; 2]);
        agree(&server.stop(), &loads);
    }
}

/// A stream without a length ends with the load's window. The receiver counts the bytes in the window.
#[test]
fn a_stream_for_a_time_is_counted_within_its_window() {
    for design in designs() {
        let mut server = Server::start(&design, "stream", &[]);
        let mut loads = Vec::new();
        // The other load counts the same with every design.
        let is_first = design == "thread_per_client";
        for who in if is_first { &["closed_threads", "closed_connections"][..] } else { &["closed_connections"] } {
            for direction in ["to_server", "to_client"] {
                let options =
                    format!("--load {who} --clients 2 --direction {direction} --duration 70ms --warm-up 20ms");
                let to_server = direction == "to_server";
                let mut stalled = 0;
                let line = loop {
                    let before = server.snapshot();
                    let line = load("stream", server.port, &options);
                    let after = server.snapshot();
                    let name = if to_server { "bytes_received" } else { "bytes_sent" };
                    let whole = number(&after["tally"][name]) - number(&before["tally"][name]);
                    let moved =
                        number(&line["window"]["counted"][if to_server { "bytes_sent" } else { "bytes_received" }]);
                    assert!(moved < whole, "{design}, {who}, {direction}: {moved} of {whole}: {line}");
                    // Without CPU time the marks are late, and so are the readings.
                    let time = number(&line["window"]["counted"]["elapsed_ns"]);
                    // It may also end before it has connected both clients.
                    if moved > 0 && time >= 30_000_000 && line["tally"]["requests"] == 2 {
                        break line;
                    }
                    // In a window as short as the minimum retransmission time (200 ms), nothing may arrive, and on a busy
                    // machine that happens often.
                    stalled += 1;
                    assert!(stalled < 40, "{design}, {who}, {direction}: {line}");
                    loads.push(line);
                };
                assert_eq!((&line["tally"]["requests"], &line["window"]["requests"]), (&2.into(), &0.into()), "{line}");
                // The stream ends with the window, plus bytes still in flight.
                let late = number(&line["ended_monotonic_ns"]) - number(&line["window"]["ended_monotonic_ns"]);
                assert!(late < 5_000_000_000, "{line}");
                loads.push(line);
            }
        }
        agree(&server.stop(), &loads);
    }
}

#[test]
fn files_are_streamed_with_every_primitive() {
    let there: Vec<Value> = list("primitives").into_iter().filter(|entry| entry["available"] == true).collect();
    let of = |moves: &'static str| there.iter().filter(move |entry| entry["moves"] == moves);
    let server = Server::start("thread_per_client", "stream", &["--verify", "all"]);
    let mut loads = Vec::new();
    let fixed = "--load closed_threads --clients 1 --loops 2 --stream-size 2000000 --source-size 300000 --verify all";
    for primitive in of("out").map(name) {
        for source in ["memory", "memfd", "file"] {
            let options = format!("{fixed} --primitive {primitive} --source {source} --message-size 70000");
            loads.push(load("stream", server.port, &options));
        }
    }
    for receive in of("in").map(name) {
        loads.push(load("stream", server.port, &format!("{fixed} --direction to_client --receive {receive}")));
    }
    agree(&server.stop(), &loads);
    // The server sends the files, and receives with every primitive. Its data in memory does not stay.
    let not_lent = of("out").filter(|entry| entry["lends"] == false).map(name);
    for (primitive, receive) in not_lent.zip(of("in").map(name).cycle()) {
        let options = ["--primitive", primitive, "--receive", receive, "--source", "memfd", "--source-size", "100000"];
        let server = Server::start("thread_per_client", "stream", &options);
        let loads = ["to_server", "to_client"]
            .map(|direction| load("stream", server.port, &format!("{fixed} --direction {direction}")));
        agree(&server.stop(), &loads);
    }
}

/// Small messages, each with a separate call, or many by one.
#[test]
fn small_messages_are_gathered_if_configured() {
    let server = Server::start("thread_per_client", "stream", &[]);
    for (primitive, at_once, most) in
        [("sendmsg", 1, 100_100), ("sendmsg", 1024, 110), ("write_once", 1024, 110), ("writev", 10, 10_300)]
    {
        let options = format!(
            "--load closed --children 1 --loops 1 --stream-size 6400000 --message-size 64 --primitive {primitive} \
             --messages-at-once {at_once}"
        );
        let calls = number(&load("stream", server.port, &options)["tally"]["send_calls"]);
        assert!(calls >= 100_000 / at_once && calls <= most, "{options}: {calls} calls");
    }
    server.stop().is_good();
    // With a call for each piece nothing is gathered, whatever flags announce the next piece.
    for primitive in ["send_each", "send_more", "cork"] {
        let options = format!("--stream-size 1 --primitive {primitive} --messages-at-once 4");
        refused(&run(&mut command("stream", 1, &options)), "setting.unknown", &["--messages-at-once", "sendmsg"]);
    }
}

/// An interrupt ends streams at once, even before their window.
#[test]
fn an_interrupt_ends_a_stream() {
    let mut server = Server::start("thread_per_client", "stream", &[]);
    for who in ["closed_threads", "closed_connections"] {
        for warm_up in [0, 60_000] {
            let options = format!("--load {who} --clients 1 --duration 1min --warm-up {warm_up}ms --json");
            let before = number(&server.snapshot()["tally"]["connections"]);
            let mut child = command("stream", server.port, &options).stdout(Stdio::piped()).spawn().unwrap();
            // On a busy machine, the load may take long to start.
            server.snapshot_when("it is connected", |snapshot| number(&snapshot["tally"]["connections"]) > before);
            std::thread::sleep(Duration::from_millis(300));
            let began = Instant::now();
            process::signal(child.id() as i32, Signal::SIGINT);
            let mut output = String::new();
            child.stdout.take().unwrap().read_to_string(&mut output).unwrap();
            child.wait().unwrap();
            assert!(began.elapsed() < Duration::from_secs(10), "{who}, {warm_up}: {output}");
            let line: Value = serde_json::from_str(output.lines().last().unwrap()).unwrap();
            assert_eq!((&line["interrupted"], &line["tally"]["requests"]), (&true.into(), &1.into()), "{line}");
            assert_eq!(line["window"].is_null(), warm_up > 0, "{line}");
        }
    }
    server.stop().is_good();
}

#[test]
fn peers_that_break_off_a_stream_are_detected() {
    // A server that ends in the middle, that counts wrong, that ends too soon, that sends other bytes.
    let seen = |options: &str, answer: fn(TcpStream)| {
        let fixed = "--load closed_threads --clients 1 --timeout 20s";
        let ran: Ran = run(command("stream", serve(answer), &format!("{fixed} {options}")).arg("--json"));
        assert_eq!(ran.status, Some(1), "{options}: {ran:?}");
        let line: Value = serde_json::from_str(ran.output.lines().last().unwrap()).unwrap();
        assert_eq!(line["account"]["bytes_streamed_to_server"], 0);
        assert_eq!(line["account"]["bytes_streamed_to_client"], 0);
        line["first_error"].as_str().unwrap().to_owned()
    };
    let broken = seen("--loops 1 --stream-size 100000000", |mut stream| drop(stream.read(&mut [0; 1000])));
    assert!(broken.contains("sending") || broken.contains("receiving"), "{broken}");
    let wrong = seen("--loops 1 --stream-size 1000", |mut stream| {
        let _ = stream.read_exact(&mut [0; 1009]);
        let _ = stream.write_all(b"999\n");
    });
    assert!(wrong.contains("999"), "{wrong}");
    let short = seen("--loops 1 --stream-size 1000 --direction to_client", |mut stream| {
        let _ = stream.read(&mut [0; 100]);
        let _ = stream.write_all(&protocol::bytes(900).reply);
    });
    assert!(short.contains("900 of 1000"), "{short}");
    let soon = seen("--duration 1s --direction to_client", |mut stream| {
        let _ = stream.read(&mut [0; 100]);
        let _ = stream.write_all(&protocol::bytes(900).reply);
    });
    // The rest of the window when the stream is requested, which on a busy machine is late.
    let rest = soon.split(" of ").filter_map(|part| part.split(' ').next()?.parse::<u64>().ok()).last();
    assert!(soon.contains(" milliseconds") && rest.is_some_and(|rest| (1..=1000).contains(&rest)), "{soon}");
    let other = seen("--loops 1 --stream-size 1000 --direction to_client", |mut stream| {
        let _ = stream.read(&mut [0; 100]);
        let _ = stream.write_all(&[7; 1000]);
        let _ = stream.read(&mut [0]);
    });
    assert!(other.contains("byte 0 "), "{other}");
    let ran = run(&mut command("stream", 1, "--load closed_threads"));
    assert!(ran.status == Some(2) && ran.errors.contains("[stream.no_end]"), "{ran:?}");
}

/// Data shown by --show is for people, and is not kept longer than that.
#[test]
fn a_shown_stream_is_shown_in_part() {
    let server = Server::start("thread_per_client", "stream", &[]);
    for (direction, words) in [
        ("to_client", ["request sent: \"get 5000000\\n\"", "reply of 5000000 bytes", "(and 4934464 more bytes)"]),
        (
            "to_server",
            ["request sent: \"put 5000000\\n\"", "131072 more bytes of the request sent", "reply of 8 bytes"],
        ),
    ] {
        let options =
            format!("--load closed --children 1 --loops 1 --stream-size 5000000 --direction {direction} --show");
        let ran = run(&mut command("stream", server.port, &options));
        assert_eq!(ran.status, Some(0), "{ran:?}");
        words.iter().for_each(|word| assert!(ran.output.contains(word), "{word} is not in {}", ran.output));
        assert!(ran.output.len() < 300_000, "{} bytes are shown", ran.output.len());
    }
    server.stop().is_good();
}
