//! The command `conform`: its lines, its exit status, its mistakes. The cases themselves are tested by the conformance suite,
//! and by servers that break one rule each (lab/tests/conform/test_conformance.py).

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::process::Stdio;

use serde_json::Value;

use crate::support::lines::{name, number_of, schema};
use crate::support::server::Server;
use crate::support::{engine, mistake, with};

/// Returns the lines of an output, which fit the schema.
#[track_caller]
fn lines(output: &str) -> Vec<Value> {
    let schema: Value = serde_json::from_str(&with("schema").output).unwrap();
    let lines: Vec<Value> = output.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    lines.iter().for_each(|line| schema::check(&schema, line).unwrap_or_else(|wrong| panic!("{wrong} in {line}")));
    lines
}

#[test]
fn cases_are_listed_with_the_workloads_that_have_them() {
    let listed = lines(&with("conform --list --json").output);
    let of = |number: u64| listed.iter().find(|case| number_of(case, "number") == number).expect("there is this case");
    assert_eq!(name(of(6)), "half-closed connection");
    assert_eq!((&of(6)["source"], of(6)["workloads"].as_array().unwrap().len()), (&Value::Null, 8));
    assert_eq!(of(21)["workloads"], serde_json::json!(["http"]));
    assert!(of(21)["source"].as_str().unwrap().starts_with("RFC 9112"));
    assert_eq!(with("conform --list").output.lines().count(), listed.len());
}

#[test]
fn each_case_has_a_line_and_the_stop_is_the_last() {
    let server = Server::start("epoll", "bytes", &[]);
    let ran = with(&format!("conform bytes --connect {} --json --case 16,6 --case 1", server.address()));
    assert_eq!(ran.status, Some(0), "{ran:?}");
    let verdicts: Vec<(u64, String)> = lines(&ran.output)
        .iter()
        .map(|line| (number_of(line, "number"), line["verdict"].as_str().unwrap().to_owned()))
        .collect();
    let expected = [(1, "passed"), (6, "passed"), (16, "not_judged")];
    assert_eq!(verdicts, expected.map(|(number, verdict)| (number, verdict.to_owned())));
    server.stop().is_good();
}

/// A server that closes each connection breaks a rule; the status is 1, with `--until-failure` after the first case.
#[test]
fn a_failure_ends_with_status_1() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || listener.incoming().for_each(drop));
    let command = format!("conform bytes --connect {address} --timeout 2s --json --case 1,2");
    let ran = with(&command);
    let all = lines(&ran.output);
    assert_eq!((ran.status, all.len()), (Some(1), 2), "{ran:?}");
    assert!(all.iter().all(|line| line["verdict"] == "failed" && line["expected"].is_string()), "{all:?}");
    let ran = with(&format!("{command} --until-failure"));
    assert_eq!((ran.status, lines(&ran.output).len()), (Some(1), 1));
}

/// The reader of the lines stops the server when a case asks for it, and says what was wrong.
#[test]
fn the_reader_stops_the_server() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let connect = format!("conform bytes --connect {} --json --control --case 16", listener.local_addr().unwrap());
    let mut command = engine();
    let command = command.args(connect.split(' ')).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut running = command.spawn().unwrap();
    let mut output = BufReader::new(running.stdout.take().unwrap());
    let mut request = String::new();
    output.read_line(&mut request).unwrap();
    assert_eq!(lines(&request)[0], serde_json::json!({"line": "conform_stop", "number": 16}));
    running.stdin.take().unwrap().write_all(b"it did not end\n").unwrap();
    let mut rest = String::new();
    output.read_to_string(&mut rest).unwrap();
    assert_eq!(lines(&rest)[0]["actual"], "it did not end");
    assert_eq!(running.wait().unwrap().code(), Some(1));
}

#[test]
fn mistakes_are_refused() {
    for (arguments, code, words) in [
        ("bytes --connect 127.0.0.1:1 --case 21", "conform.unknown_case", &["bytes", "21", "16"][..]),
        ("bytes --connect unix:@x", "conform.needs_tcp", &["--connect"]),
        ("http --connect 192.0.2.1:80", "address.remote", &["192.0.2.1", "--allow-remote"]),
        ("bytes", "arguments.missing", &["--connect"]),
        ("--list bytes", "arguments.conflict", &["--list"]),
    ] {
        mistake(&format!("conform {arguments}"), code, words);
    }
}
