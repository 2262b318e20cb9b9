//! `limits`: every limit in every round, on real sockets and processes. Lost peers are reported.
//!
//! No figure is compared with a fixed time, since machines differ in speed.

use std::collections::{BTreeMap, BTreeSet};
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::support::lines::schema;
use crate::support::process::{Process, numbers};
use crate::support::{ENGINE, Ran, catalogue, engine, eventually, refused, run};

/// Runs `limits` successfully with arguments that are separated by spaces, and returns its lines.
fn lines(arguments: &str) -> Vec<Value> {
    let ran = run(engine().arg("limits").args(arguments.split_whitespace()));
    assert_eq!((ran.status, ran.errors.as_str()), (Some(0), ""), "{ran:?}");
    parsed(&ran.output)
}

fn parsed(output: &str) -> Vec<Value> {
    output.lines().map(|line| serde_json::from_str(line).unwrap_or_else(|_| panic!("no JSON: {line}"))).collect()
}

fn rounds(lines: &[Value]) -> Vec<&Value> {
    lines.iter().filter(|line| line["line"] == "limit_round").collect()
}

/// Identifies a limit at a placement and a size.
fn point(line: &Value) -> String {
    format!("{} {} {}", line["limit"], line["place"], line["bytes"])
}

fn cpus() -> usize {
    std::thread::available_parallelism().unwrap().get()
}

/// The points in the catalogue for a machine with several CPUs, or with one.
fn promised() -> BTreeSet<String> {
    let mut points = BTreeSet::new();
    for limit in catalogue()["limits"].as_array().unwrap() {
        let sizes = match limit["sizes"].as_array().unwrap().as_slice() {
            [] => vec![Value::Null],
            sizes => sizes.to_vec(),
        };
        for place in limit["places"].as_array().unwrap() {
            if place == "two_cpus" && cpus() == 1 {
                continue;
            }
            points.extend(sizes.iter().map(|size| format!("{} {place} {size}", limit["name"])));
        }
    }
    points
}

#[test]
fn every_round_has_every_limit_once_in_a_separate_order() {
    let lines = lines("--duration 200ms --rounds 3 --seed 5");
    let schema_of_lines: Value = serde_json::from_str(&run(engine().arg("schema")).output).unwrap();
    for line in &lines {
        schema::check(&schema_of_lines, line).unwrap_or_else(|error| panic!("{error}: {line}"));
    }
    assert_eq!(lines[0]["line"], "limits");
    assert_eq!(lines[0]["settings"]["seed"], 5);
    assert_eq!(lines[0]["cpus"].as_array().unwrap().len(), cpus().min(2));
    let mut orders: BTreeMap<u64, Vec<String>> = BTreeMap::new();
    for round in rounds(&lines) {
        assert!(round["times"].as_u64().unwrap() >= 1 && round["elapsed_ns"].as_u64().unwrap() > 0, "{round}");
        orders.entry(round["round"].as_u64().unwrap()).or_default().push(point(round));
    }
    assert_eq!(orders.keys().copied().collect::<Vec<_>>(), [1, 2, 3]);
    for order in orders.values() {
        assert_eq!(order.len(), promised().len());
        assert_eq!(order.iter().cloned().collect::<BTreeSet<_>>(), promised());
    }
    assert!(orders[&1] != orders[&2] && orders[&2] != orders[&3], "as likely by chance as 1 in {}!", promised().len());
}

#[test]
fn only_named_limits_are_measured() {
    let lines = lines("clock_read memcpy --duration 50ms --rounds 2");
    let measured: BTreeSet<_> = rounds(&lines).iter().map(|line| line["limit"].as_str().unwrap()).collect();
    assert_eq!(measured, BTreeSet::from(["clock_read", "memcpy"]));
    // Within a round, 64 MiB take longer than 64 bytes on every machine.
    let of = |bytes: u64| {
        let found = rounds(&lines).into_iter().find(|line| line["bytes"] == bytes).unwrap();
        found["elapsed_ns"].as_u64().unwrap() as f64 / found["times"].as_u64().unwrap() as f64
    };
    assert!(of(1 << 26) > of(1 << 6));
}

#[test]
fn on_one_cpu_limits_that_need_two_are_unavailable() {
    let lines = lines("pipe_round_trip socketpair_round_trip --cpus 0 --duration 50ms --rounds 1");
    let lost: Vec<_> = lines.iter().filter(|line| line["line"] == "limit_unavailable").collect();
    assert_eq!(lost.len(), 2);
    for line in lost {
        assert_eq!(line["place"], "two_cpus");
        assert!(line["reason"].as_str().unwrap().contains("two CPUs"), "{line}");
    }
    assert!(rounds(&lines).iter().all(|line| line["place"] == "one_cpu"));
    assert_eq!(rounds(&lines).len(), 2);
}

/// The children of a process that have not ended.
fn children(parent: u32) -> Vec<Process> {
    let all = numbers().filter_map(Process::read);
    all.filter(|process| process.parent == parent as i32 && process.lives()).collect()
}

#[test]
fn the_death_of_a_peer_is_reported_and_other_limits_continue() {
    let words = ["limits", "socketpair_round_trip", "clock_read", "--cpus", "0", "--rounds", "60"];
    let mut started = engine().args(words).args(["--duration", "4s"]).stdout(Stdio::piped()).spawn().unwrap();
    let other = eventually("the process at the other end", || children(started.id()).pop());
    nix::sys::signal::kill(nix::unistd::Pid::from_raw(other.id), nix::sys::signal::Signal::SIGKILL).unwrap();
    let output = std::io::read_to_string(started.stdout.take().unwrap()).unwrap();
    assert!(started.wait().unwrap().success(), "{output}");
    let lines = parsed(&output);
    let lost = lines.iter().find(|line| line["line"] == "limit_unavailable" && line["place"] == "one_cpu");
    let lost = lost.unwrap_or_else(|| panic!("no reason is printed: {output}"));
    assert_eq!(lost["limit"], "socketpair_round_trip", "{lost}");
    assert_ne!(lost["reason"].as_str().unwrap(), "", "{lost}");
    assert_eq!(rounds(&lines).iter().filter(|line| line["limit"] == "clock_read").count(), 60);
}

#[test]
fn nothing_is_left_when_it_is_killed() {
    let mut started = engine()
        .args(["limits", "pipe_round_trip", "--duration", "1min", "--rounds", "1000"])
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let others = eventually("the processes at other ends", || {
        let found = children(started.id());
        (found.len() == cpus().min(2)).then_some(found)
    });
    started.kill().unwrap();
    started.wait().unwrap();
    for other in others {
        eventually("its end", || Process::read(other.id).is_none_or(|process| !process.lives()).then_some(()));
    }
}

#[test]
fn a_limit_without_memory_is_reported_and_the_rest_is_measured() {
    let limited = format!("ulimit -v 160000; exec {ENGINE} limits memcpy --duration 50ms --rounds 1");
    let ran = run(Command::new("sh").args(["-c", &limited]));
    assert_eq!(ran.status, Some(0), "{ran:?}");
    let lines = parsed(&ran.output);
    let lost = lines.iter().find(|line| line["line"] == "limit_unavailable").expect("64 MiB twice are too much");
    assert_eq!(lost["bytes"], 1 << 26);
    assert!(lost["reason"].as_str().unwrap().contains("memory"), "{lost}");
    assert!(rounds(&lines).iter().any(|line| line["bytes"] == 64));
}

#[test]
fn without_any_measurable_limit_it_fails() {
    let ran = run(Command::new("sh").args(["-c", &format!("ulimit -n 4; exec {ENGINE} limits pipe_transfer")]));
    assert_eq!(ran.status, Some(1), "{ran:?}");
    assert_eq!(ran.errors.lines().count(), 1, "{ran:?}");
    let lost: Vec<_> = parsed(&ran.output).into_iter().filter(|line| line["line"] == "limit_unavailable").collect();
    assert!(!lost.is_empty() && rounds(&parsed(&ran.output)).is_empty(), "{ran:?}");
    for line in lost {
        assert!(line["reason"].as_str().unwrap().contains("os error 24"), "EMFILE: {line}");
    }
}

#[test]
fn mistakes_are_refused_with_what_is_allowed() {
    let with = |arguments: &str| -> Ran { run(engine().arg("limits").args(arguments.split_whitespace())) };
    for (arguments, code, words) in [
        ("memcp", "arguments.invalid_value", vec!["memcp", "'memcpy'"]),
        ("nothing_like_it", "arguments.invalid_value", vec!["nothing_like_it", "system_call"]),
        ("--cpus 0,0", "limits.cpus", vec!["--cpus 0,0", "0,1"]),
        ("--cpus 4096", "cpus.unavailable", vec!["--cpus 4096"]),
        ("--cpus first", "arguments.invalid_value", vec!["--cpus", "first"]),
        ("--rounds 0", "setting.invalid_value", vec!["--rounds", "'0'", "from 1 to 10000"]),
        ("--duration 1e3", "setting.unknown_unit", vec!["--duration", "1e3"]),
        ("--parent 1", "process.not_parent", vec!["--parent 1"]),
    ] {
        refused(&with(arguments), code, &words);
    }
    let elsewhere = run(engine().args(["serve", "iterative", "--rounds", "3"]));
    refused(&elsewhere, "setting.unknown", &["--rounds", "limits"]);
}
