//! Requests that become due while their client's connection cannot take them: their wait is not the load's own lateness.

use std::io::{Read, Write};
use std::time::Duration;

use serde_json::Value;

use crate::support::event_loops::{answer_lines, count, load, serve, with_each_back_end};
use crate::support::lines::{items, name};

fn blames_the_server(line: &Value) {
    let scheduled = &line["scheduled"];
    let half = |times: &str| count(&scheduled[times], "p50_ns");
    assert!(half("connection_wait") > 5 * half("send_lag"), "{scheduled}");
    let failed = items(&line["validity"], "checks").iter().filter(|check| check["holds"] == false);
    assert!(!failed.map(name).any(|name| name == "send_lag"), "{line}");
}

/// A connection that may be used twice takes no third request, although its client may have four in flight.
#[test]
fn requests_that_wait_for_the_next_connection_are_not_late() {
    with_each_back_end(|back_end| {
        let port = serve(|stream| answer_lines(stream, || std::thread::sleep(Duration::from_millis(20))));
        let options = "--load open --rate 450 --clients 10 --pipeline 4 --requests-per-connection 2 --duration 1500ms \
                       --bytes 1 --check count";
        let (ran, line) = load("bytes", port, &format!("{options} {back_end}"));
        assert!(count(&line, "scheduled.waited") > 20, "{ran:?}");
        blames_the_server(&line);
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
        let (_, line) = load("echo", port, &format!("{options} {back_end}"));
        blames_the_server(&line);
    });
}
