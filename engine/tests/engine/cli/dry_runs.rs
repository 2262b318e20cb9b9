//! Dry runs of servers and loads: one line that says whether the engine accepts the command, and nothing else happens.

use std::net::TcpListener;

use serde_json::{Value, json};

use crate::support::lines::schema;
use crate::support::{Ran, engine, refused, run, with};

/// Runs a command with `--dry-run --json`.
fn dry(command: &str) -> Ran {
    run(engine().args(command.split_whitespace()).args(["--dry-run", "--json"]))
}

/// Returns the only line on standard output, which fits the schema.
#[track_caller]
fn line(ran: &Ran) -> Value {
    let lines: Vec<&str> = ran.output.lines().collect();
    let [line] = lines[..] else { panic!("not one line: {ran:?}") };
    let (schema, line) = (with("schema").output, serde_json::from_str(line).unwrap());
    schema::check(&serde_json::from_str(&schema).unwrap(), &line).unwrap_or_else(|wrong| panic!("{wrong} in {line}"));
    line
}

const LOAD: &str = "load bytes --connect 127.0.0.1:1";
const STREAM: &str = "load stream --connect 127.0.0.1:1 --stream-size 10";

#[test]
fn what_is_possible_is_accepted_with_its_facts() {
    let accepted = |replaced: &[&str], largest: Option<u64>, source_bytes: Option<u64>| {
        let (largest, source) = (json!(largest), json!(source_bytes));
        json!({"line": "accepted", "schema": 4, "replaced": replaced, "largest": largest, "source_bytes": source})
    };
    for (command, expected) in [
        ("serve prefork".to_owned(), accepted(&[], None, None)),
        ("serve epoll --listen unix:@dry --workload http".to_owned(), accepted(&[], None, None)),
        (LOAD.to_owned(), accepted(&[], None, None)),
        (format!("{LOAD} --sizes weighted:9@1,70@2,3@4"), accepted(&["bytes"], Some(70), None)),
        (format!("{LOAD} --sizes lognormal:4096,1.5"), accepted(&["bytes"], Some(16384), None)),
        (STREAM.to_owned(), accepted(&[], None, None)),
        (format!("{STREAM} --source memfd --source-size 1 --message-size 100"), accepted(&[], None, Some(131_035))),
        ("serve epoll --workload stream --source file".to_owned(), accepted(&[], None, Some(16 << 20))),
    ] {
        let ran = dry(&command);
        assert_eq!((ran.status, line(&ran), ran.errors.as_str()), (Some(0), expected, ""), "{command}");
    }
    let plain = with("serve prefork --dry-run");
    assert_eq!(
        (plain.status, plain.output.as_str(), plain.errors.as_str()),
        (Some(0), "accepted: serve prefork\n", "")
    );
}

#[test]
fn what_is_impossible_is_refused_with_what_to_blame() {
    let timed = "--load open --duration 100ms --clients 2";
    for (command, code, blamed) in [
        ("serve prefork --pool 0".to_owned(), "setting.invalid_value", &["pool"][..]),
        ("serve iterative --pool 3".to_owned(), "setting.unknown", &["pool"]),
        (
            "serve prefork --receive busy_poll_truncate".to_owned(),
            "fit.primitive_and_workload",
            &["receive", "workload"],
        ),
        ("serve epoll --receive busy_poll".to_owned(), "fit.primitive_and_waiting", &["receive", "design"]),
        ("serve io_uring --primitive writev".to_owned(), "fit.primitive_and_waiting", &["primitive", "design"]),
        ("serve reuseport --listen unix:@dry".to_owned(), "fit.design_and_socket", &["design"]),
        (
            "serve prefork_dynamic --minimum-spare 9 --maximum-spare 3".to_owned(),
            "pool.bounds_reversed",
            &["minimum_spare", "maximum_spare"],
        ),
        ("serve prefork --stall 9ms --stall-every 5ms".to_owned(), "stall.too_long", &["stall", "stall_every"]),
        (
            format!("{LOAD} {timed} --connections per_request --pipeline 2"),
            "load.needs_another_setting",
            &["pipeline", "connections"],
        ),
        (format!("{LOAD} {timed} --threads 3"), "load.more_than_another_setting", &["threads", "clients"]),
        (
            format!("{LOAD} {timed} --clients 100000 --pipeline 1024").replace("--clients 2 ", ""),
            "load.product_too_large",
            &["pipeline", "clients"],
        ),
        (
            format!("{LOAD} {timed} --back-end io_uring --primitive writev"),
            "load.primitive_without_part",
            &["primitive", "back_end"],
        ),
        (
            format!("{LOAD} --load closed_threads --warm-up 5ms"),
            "load.warm_up_without_window",
            &["warm_up", "duration"],
        ),
        (format!("{LOAD} --load closed_threads --duration 5ms --loops 5"), "load.two_ends", &["loops", "duration"]),
        (format!("{LOAD} {timed} --arrivals recorded"), "schedule.no_recording", &["arrivals", "recording"]),
        (format!("{LOAD} {timed} --recording x"), "schedule.not_recorded", &["recording", "arrivals"]),
        (format!("{LOAD} --sizes file:/nowhere"), "recording.unreadable", &["sizes"]),
        (format!("{LOAD} --sizes fixed:1 --bytes 1"), "workload.contradiction", &["bytes", "sizes"]),
        (format!("{LOAD} --sizes 1"), "sizes.invalid", &["sizes"]),
        (format!("{STREAM} {timed}"), "load.open_needs_replies", &["load", "workload"]),
        ("load stream --connect 127.0.0.1:1".to_owned(), "stream.no_end", &["stream_size"]),
        (
            "load blast --connect 127.0.0.1:1 --buffers 7".to_owned(),
            "blast.not_an_iteration",
            &["buffers", "buffer_size"],
        ),
        (
            format!("load top_processes --connect 127.0.0.1:1 {timed} --pipeline 2"),
            "fit.workload_and_pipeline",
            &["pipeline", "workload"],
        ),
        (
            format!("{LOAD} {timed} --check count --receive recv_truncate --pipeline 2"),
            "fit.receive_and_pipeline",
            &["pipeline", "receive"],
        ),
    ] {
        let ran = dry(&command);
        refused(&ran, code, &[]);
        let found = line(&ran);
        assert_eq!((&found["line"], &found["code"]), (&json!("refused"), &json!(code)), "{command}");
        assert_eq!((&found["settings"], &found["only_here"]), (&json!(blamed), &json!(false)), "{command}");
    }
}

/// Another machine may accept these.
#[test]
fn what_this_machine_lacks_is_no_contradiction() {
    for (command, code, blamed) in [
        (format!("{LOAD} --cpus 1000000"), "cpus.unavailable", "cpus"),
        ("serve prefork --congestion none_such".to_owned(), "congestion.unknown", "congestion"),
        ("serve prefork --workload top_processes --proc /nowhere".to_owned(), "top_processes.no_processes", "proc"),
    ] {
        let found = line(&dry(&command));
        assert_eq!((&found["code"], &found["only_here"]), (&json!(code), &json!(true)), "{command}");
        assert_eq!(found["settings"], json!([blamed]), "{command}");
    }
}

#[test]
fn nothing_is_made() {
    let holder = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = holder.local_addr().unwrap().port().to_string();
    assert_eq!(line(&dry(&format!("serve prefork --port {port}")))["line"], "accepted", "its port is in use");
    for command in [&format!("{STREAM} --source file"), "serve epoll --workload stream --source file"] {
        let words = command.split_whitespace().chain(["--dry-run", "--json"]);
        assert_eq!(line(&run(engine().args(words).env("TMPDIR", "/nowhere")))["line"], "accepted", "{command}");
    }
}

#[test]
fn json_of_a_server_is_that_of_a_dry_run() {
    refused(&with("serve prefork --json"), "arguments.missing", &["--dry-run"]);
    refused(&with("serve prefork --dry-run --control"), "arguments.conflict", &["--control"]);
}
