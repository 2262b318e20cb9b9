//! Requests that become due while their client's connection cannot take them: their wait is not the load's own lateness. And
//! requests whose connection is late.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::time::Duration;

use serde_json::Value;
use thunderherd_engine::sys::socket::listen_drops;

use crate::support::event_loops::{answer_lines, back_ends, count, load, serve, with_each_back_end};
use crate::support::lines::{items, name};
use crate::support::{PATIENCE, eventually, unserved};

fn blames_the_server(line: &Value) -> bool {
    let scheduled = &line["scheduled"];
    let half = |times: &str| count(&scheduled[times], "p50_ns");
    let mut failed = items(&line["validity"], "checks").iter().filter(|check| check["holds"] == false).map(name);
    half("connection_wait") > 5 * half("send_lag") && !failed.any(|name| name == "send_lag")
}

/// Runs a load until it blames its server: on a busy machine it may itself be late, but not each time.
fn one_blames_the_server(mut load: impl FnMut() -> Value) {
    let mut line = Value::Null;
    let blames = (0..10).any(|_| {
        line = load();
        blames_the_server(&line)
    });
    assert!(blames, "{line}");
}

/// A connection that may be used twice takes no third request, although its client may have four in flight.
#[test]
fn requests_that_wait_for_the_next_connection_are_not_late() {
    with_each_back_end(|back_end| {
        let port = serve(|stream| answer_lines(stream, || std::thread::sleep(Duration::from_millis(20))));
        let options = "--load open --rate 450 --clients 10 --pipeline 4 --requests-per-connection 2 --duration 1500ms \
                       --bytes 1 --check count";
        one_blames_the_server(|| {
            let (ran, line) = load("bytes", port, &format!("{options} {back_end}"));
            assert!(count(&line, "scheduled.waited") > 20, "{ran:?}");
            line
        });
    });
}

/// A server that reads slowly takes no more requests.
#[test]
fn requests_that_a_server_does_not_read_are_not_late() {
    with_each_back_end(|back_end| {
        let port = serve(|mut stream| {
            let mut message = vec![0; 1 << 16];
            while stream.read_exact(&mut message).is_ok() && stream.write_all(&message).is_ok() {
                std::thread::sleep(Duration::from_millis(20));
            }
        });
        let options = "--load open --rate 150 --clients 1 --pipeline 500 --duration 2s --bytes 65536 \
                       --timeout 1s";
        one_blames_the_server(|| load("echo", port, &format!("{options} {back_end}")).1);
    });
}

/// A full accept queue: the kernel drops the client's SYN, and TCP sends another one after a second.
#[test]
fn a_connection_that_is_late_is_not_a_late_reply() {
    const LATE: u64 = 900_000_000;
    let of_event_loops = back_ends().into_iter().map(|back_end| format!("closed_connections --clients 1 {back_end}"));
    let of_others =
        ["closed --children 1", "closed_threads --clients 1", "closed_threads --clients 1 --connections kept"];
    std::thread::scope(|scope| {
        for options in of_others.map(str::to_owned).into_iter().chain(of_event_loops) {
            scope.spawn(move || {
                let (port, listener) = unserved::nobody_accepts();
                listener.set_read_timeout(Some(PATIENCE)).unwrap();
                let listener = TcpListener::from(listener);
                let first = TcpStream::connect(("127.0.0.1", port)).unwrap();
                let server = std::thread::spawn(move || {
                    let drops = || listen_drops(listener.as_fd()).unwrap();
                    eventually("the kernel drops the client's SYN", || (drops() > 0).then_some(()));
                    drop((listener.accept().unwrap(), first));
                    answer_lines(listener.accept().unwrap().0, || ());
                });
                let (ran, line) = load("bytes", port, &format!("--load {options} --bytes 1 --check count --loops 1"));
                server.join().unwrap();
                assert_eq!((ran.status, &line["connecting"]["requests"]), (Some(0), &1.into()), "{options}: {ran:?}");
                let mean = |times: &str| line[times]["mean_ns"].as_f64().map(|mean| mean as u64);
                assert!(mean("connecting").is_some_and(|mean| mean > LATE), "{options}: {line}");
                // Processes measure no latency.
                assert_eq!(mean("latency").is_none(), options.starts_with("closed "), "{options}: {line}");
                assert!(mean("latency").is_none_or(|mean| mean < LATE), "{options}: {line}");
            });
        }
    });
}
