//! Loads with an event loop as the tests run them, and servers inside a test.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;

use serde_json::Value;

use super::lines::number;
use super::{Ran, engine, run};

/// Runs a load to its end; returns its last line.
pub fn load(workload: &str, port: u16, options: &str) -> (Ran, Value) {
    let mut command = engine();
    command.args(["load", workload, "--connect", &format!("127.0.0.1:{port}"), "--json"]);
    let ran = run(command.args(options.split_whitespace()));
    let line = ran.output.lines().last().unwrap_or_else(|| panic!("nothing was printed: {ran:?}"));
    let line = serde_json::from_str(line).unwrap();
    (ran, line)
}

/// Back end in which primitives move the bytes without waiting.
pub const POLLING: &str = "--back-end polling";

/// Returns the options for each back end of this machine.
pub fn back_ends() -> Vec<&'static str> {
    let ring = "--back-end io_uring";
    let mut command = engine();
    command.args(["load", "bytes", "--connect", "127.0.0.1:1", "--load", "closed_connections", "--loops", "1"]);
    let ran = run(command.args(ring.split_whitespace()));
    match ran.status {
        Some(1) => vec!["", POLLING, ring],
        _ if ran.errors.contains("[back_end.unavailable]") => {
            println!("without rings: {}", ran.errors);
            vec!["", POLLING]
        }
        _ => panic!("{ran:?}"),
    }
}

/// Runs a test once with each of them.
pub fn with_each_back_end(test: impl Fn(&str)) {
    back_ends().into_iter().for_each(test);
}

/// Starts a server inside the test that does this with each connection.
pub fn serve(each: impl Fn(TcpStream) + Send + Sync + 'static) -> u16 {
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

/// Answers every line with one byte, after calling `before`.
pub fn answer_lines(stream: TcpStream, mut before: impl FnMut()) {
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

pub fn field<'a>(line: &'a Value, path: &str) -> &'a Value {
    path.split('.').fold(line, |value, key| &value[key])
}

pub fn count(line: &Value, path: &str) -> u64 {
    number(field(line, path))
}

/// Receives data and never replies.
pub fn says_nothing(mut stream: TcpStream) {
    while stream.read(&mut [0; 512]).is_ok_and(|bytes| bytes > 0) {}
}
