//! Impossible values are refused before the first connection: a line with the option and the value, a code, a hint with the
//! allowed values, and exit status 2.

use std::collections::BTreeSet;
use std::process::Command;

use serde_json::Value;

use crate::support::lines::name;
use crate::support::unserved::Untouched;
use crate::support::{Unprivileged, catalogue, engine, engine_with_descriptors, refused, run};

const INVALID: &str = "setting.invalid_value";

/// Values that are no numbers, numbers out of any setting's range, and numbers with unknown units.
const NO_NUMBERS: [(&str, &str); 9] = [
    ("", INVALID),
    (" ", INVALID),
    ("-1", INVALID),
    ("x", INVALID),
    ("1e3", "setting.unknown_unit"),
    ("0x10", "setting.unknown_unit"),
    ("1_000", "setting.unknown_unit"),
    ("1 Kib", "setting.unknown_unit"),
    ("1.5", "setting.not_whole"),
];

fn settings(of: &Value) -> &[Value] {
    of.as_array().map(Vec::as_slice).unwrap_or_default()
}

/// Whether values of a setting are typed with a unit of time.
fn is_time(setting: &Value) -> bool {
    setting["unit"] == "ns"
}

/// Values that a setting does not take, as typed, with the code of the refusal.
fn impossible(setting: &Value) -> Vec<(String, &'static str)> {
    let number = |key: &str| setting[key].as_u64().unwrap();
    let invalid = |words: &[&str]| words.iter().map(|word| ((*word).to_owned(), INVALID)).collect();
    match setting["kind"].as_str().unwrap() {
        "integer" => {
            let (minimum, maximum, step) = (number("minimum"), number("maximum"), number("resolution"));
            let others = [0, 1_000_000_000_000_000_000, minimum.saturating_sub(step), maximum.saturating_add(step)];
            let outside = others.into_iter().filter(|other| !(minimum..=maximum).contains(other));
            let unit = if is_time(setting) { "ns" } else { "" };
            let mut values: Vec<(String, &str)> = outside.map(|other| (format!("{other}{unit}"), INVALID)).collect();
            values.push((format!("99999999999999999999{unit}"), INVALID));
            let no_numbers = NO_NUMBERS.map(|(value, code)| match (is_time(setting), value) {
                (true, "1.5") => ("1", "setting.no_unit"),
                _ => (value, code),
            });
            values.extend(no_numbers.map(|(value, code)| (value.to_owned(), code)));
            if is_time(setting) {
                values.push(("1.5ns".to_owned(), "setting.not_whole"));
            }
            values
        }
        "boolean" => invalid(&["", "maybe", "1", "TRUE"]),
        "choice" => invalid(&["", "nosuch", "0"]),
        "text" => {
            let too_long = "x".repeat(number("longest") as usize + 1);
            match setting["form"].as_str().unwrap() {
                "free" => invalid(&[&too_long]),
                "lines" => invalid(&["", "\u{e9}", &too_long]),
                _ => invalid(&["", "a b", "\u{e9}", &too_long]),
            }
        }
        other => panic!("a test of settings of the kind {other} is missing"),
    }
}

/// The hint for a number beyond the maximum. Every number of a load has one.
fn for_more(setting: &Value, typed: &str) -> Option<String> {
    let maximum = setting["maximum"].as_u64()?;
    let help = setting["for_more"].as_str().unwrap_or_else(|| panic!("{setting} does not say how to have more"));
    let number = typed.strip_suffix("ns").unwrap_or(typed);
    let is_more = number.parse::<u128>().is_ok_and(|number| number > maximum.into());
    is_more.then(|| format!("; {help}"))
}

/// Allowed values, as in the message.
fn allowed(setting: &Value) -> Vec<String> {
    match setting["kind"].as_str().unwrap() {
        "integer" if setting["unit"].is_string() => vec![" from ".to_owned(), " to ".to_owned()],
        "integer" => vec![format!("a whole number from {} to {}", setting["minimum"], setting["maximum"])],
        "boolean" => vec!["true or false".to_owned()],
        "choice" => settings(&setting["choices"]).iter().map(|choice| choice.as_str().unwrap().to_owned()).collect(),
        _ if setting["form"] == "free" => vec![format!("0 to {} bytes of text", setting["longest"])],
        _ => vec![format!("1 to {} visible ASCII characters", setting["longest"])],
    }
}

#[test]
fn every_setting_of_every_load_and_workload_refuses_impossible_values() {
    let (catalogue, listener) = (catalogue(), Untouched::new());
    let mut tried = BTreeSet::new();
    let mut try_all = |workload: &str, load: &str, of: &[Value]| {
        for setting in of {
            let option = format!("--{}", name(setting).replace('_', "-"));
            for (value, code) in impossible(setting) {
                let seen = if code == INVALID { format!("'{value}'") } else { value.clone() };
                let allowed = if code == "setting.no_unit" { Vec::new() } else { allowed(setting) };
                let help = for_more(setting, &value);
                let words: Vec<&str> =
                    [&option, &seen].into_iter().chain(&allowed).chain(&help).map(String::as_str).collect();
                listener.refuses(code, workload, &["--load", load, &option, &value], &words);
            }
            tried.insert(name(setting).to_owned());
        }
    };
    for load in settings(&catalogue["loads"]) {
        try_all("bytes", name(load), settings(&load["settings"]));
    }
    for workload in settings(&catalogue["workloads"]) {
        try_all(name(workload), "closed_connections", settings(&workload["client_settings"]));
    }
    try_all("bytes", "closed", settings(&catalogue["load_settings"]));
    for primitive in settings(&catalogue["primitives"]) {
        for setting in settings(&primitive["settings"]).iter().filter(|setting| setting["kind"] == "integer") {
            let option = format!("--{}", name(setting).replace('_', "-"));
            let most = (u128::from(setting["maximum"].as_u64().unwrap()) + 1).to_string();
            let help = for_more(setting, &most).unwrap();
            let arguments = ["--primitive", name(primitive), &option, &most];
            listener.refuses("setting.invalid_value", "bytes", &arguments, &[&option, &help]);
        }
    }
    for expected in ["clients", "children", "rate", "duration", "bytes", "timeout", "source_addresses"] {
        assert!(tried.contains(expected), "{expected} is not among {tried:?}");
    }
}

#[test]
fn other_options_refuse_impossible_values() {
    let listener = Untouched::new();
    for value in ["", "x", "-1", "1e3", "1000000000000", "99999999999999999999"] {
        // The largest number that parses is a CPU that the machine does not have.
        let code = if value == "1000000000000" { "cpus.unavailable" } else { "arguments.invalid_value" };
        listener.refuses(code, "bytes", &[&format!("--cpus={value}")], &["--cpus", value]);
    }
    for value in ["1-0", "0-", "-1", "0--1", "0-99999999", "0-1-2"] {
        listener.refuses("arguments.invalid_value", "bytes", &[&format!("--cpus={value}")], &["--cpus", value]);
    }
    for value in ["", "x", "1e3", "1000000000000"] {
        listener.refuses("arguments.invalid_value", "bytes", &[&format!("--parent={value}")], &["--parent", value]);
    }
    for value in ["-1", "0", "2147483647"] {
        listener.refuses("process.not_parent", "bytes", &[&format!("--parent={value}")], &["--parent", value]);
    }
    // Invalid ports, and ports that cannot be connected to.
    for (connect, code) in [
        ("127.0.0.1:65536", "address.invalid"),
        ("127.0.0.1:", "address.invalid"),
        ("127.0.0.1:0", "address.port_zero"),
    ] {
        refused(&run(engine().args(["load", "bytes", "--connect", connect])), code, &["--connect", connect]);
    }
}

/// Each value is possible alone, but not together.
#[test]
fn contradictions_are_refused_with_a_remedy() {
    let listener = Untouched::new();
    let refused = |workload: &str, options: &str, code: &str, words: &[&str]| {
        listener.refuses(code, workload, &options.split_whitespace().collect::<Vec<_>>(), words);
    };
    let event_loops = ["--load closed_connections", "--load open --duration 10ms"];
    for load in event_loops {
        for (options, code, words) in [
            (
                "--connections per_request --pipeline 2",
                "load.needs_another_setting",
                &["--pipeline", "--connections"][..],
            ),
            (
                "--connections per_request --requests-per-connection 2",
                "load.needs_another_setting",
                &["--requests-per-connection", "--connections"],
            ),
            ("--clients 2 --threads 3", "load.more_than_another_setting", &["--threads 3", "2", "--clients 3"]),
            (
                "--connections kept --clients 100000 --pipeline 1024 --source-addresses 254",
                "load.product_too_large",
                &["102400000", "--clients", "--pipeline", "1048576"],
            ),
            (
                "--back-end io_uring --receive recv",
                "load.primitive_without_part",
                &["--receive", "--back-end io_uring"],
            ),
        ] {
            refused("bytes", &format!("{load} {options}"), code, words);
        }
    }
    refused("bytes", "--load open --duration 0", "setting.invalid_value", &["--duration", "1ms to 24h"]);
    refused("bytes", "--load open --duration 10ms --loops 5", "setting.unknown", &["--loops"]);
    refused("stream", "--load open --duration 10ms", "load.open_needs_replies", &["closed load"]);
    for load in ["closed_threads", "closed_connections"] {
        let both = format!("--load {load} --loops 3 --duration 5ms");
        refused("bytes", &both, "load.two_ends", &["--loops", "--duration"]);
        let alone = format!("--load {load} --warm-up 5ms");
        refused("bytes", &alone, "load.warm_up_without_window", &["--warm-up"]);
    }
    let nosuch = "--load closed_connections --ramp-up 5ms --back-end nosuch";
    refused("bytes", nosuch, "setting.invalid_value", &["--back-end"]);
}

/// Hints for loads that one process cannot make, but several can.
#[test]
fn values_beyond_one_load_are_refused_with_a_remedy() {
    let listener = Untouched::new();
    for (option, most) in [("--rate", "10000000"), ("--clients", "100000")] {
        let arguments = ["--load", "open", option, "1000000000000"];
        listener.refuses("setting.invalid_value", "bytes", &arguments, &[option, most, "thunderherd merge"]);
        let ran = listener.load("bytes", &["--load", "open", option, "0"]);
        assert!(!ran.errors.contains("merge"), "{ran:?}");
    }
}

/// The maximum of every setting either works or is refused before the first connection, with a remedy.
#[test]
fn values_beyond_this_process_are_refused_with_a_remedy() {
    let listener = Untouched::new();
    let connect = listener.address();
    for load in [
        "--load closed_threads",
        "--load closed_connections",
        "--load closed_connections --back-end io_uring",
        "--load open --duration 10ms",
    ] {
        let ran = run(engine_with_descriptors(1000)
            .args(["load", "bytes", "--connect", &connect, "--clients", "5000"])
            .args(load.split_whitespace()));
        if ran.errors.contains("[back_end.unavailable]") {
            println!("skipped: {}", ran.errors);
            continue;
        }
        refused(
            &ran,
            "load.too_few_descriptors",
            &["--clients 5000", "1000", "fewer --clients", "raise the hard limit"],
        );
    }
    // The descriptor that each thread waits with counts.
    let threads = ["--load", "closed_connections", "--connections", "kept", "--clients", "800", "--threads", "200"];
    let ran = run(engine_with_descriptors(1000).args(["load", "bytes", "--connect", &connect]).args(threads));
    refused(&ran, "load.too_few_descriptors", &["--clients 800", "1024", "1000"]);
    // So do those of each thread's primitives.
    for primitive in ["splice", "vmsplice"] {
        let threads = ["--load", "closed_threads", "--clients", "400", "--primitive", primitive];
        let ran = run(engine_with_descriptors(1000).args(["load", "bytes", "--connect", &connect]).args(threads));
        refused(&ran, "load.too_few_descriptors", &["--clients 400", "1224", "1000"]);
    }
    listener.is_untouched("a load of too many threads");
}

/// The needs of a load with one client do not depend on its number of clients.
#[test]
fn if_fewer_clients_would_not_help_the_hint_names_only_descriptors() {
    let listener = Untouched::new();
    let connect = listener.address();
    for (load, least) in [("closed_threads", 25), ("closed_connections", 26), ("open", 26)] {
        let load = ["load", "bytes", "--connect", &connect, "--load", load, "--clients", "2"];
        let ran = run(engine_with_descriptors(20).args(load));
        let (needed, of_one) = ((least + 1).to_string(), format!("a single client needs {least}"));
        refused(&ran, "load.too_few_descriptors", &["--clients 2", &needed, "20", &of_one, "raise the hard limit"]);
        assert!(!ran.errors.contains("fewer") && !ran.errors.contains("merge"), "{ran:?}");
        // One client fewer fits.
        let ran = run(engine_with_descriptors(least).args(load));
        refused(&ran, "load.too_few_descriptors", &["fewer --clients", "merge"]);
    }
    listener.is_untouched("a load of too many clients");
}

/// A user without privilege cannot raise the hard limit, and the hint says so.
#[test]
fn the_hint_for_the_limit_depends_on_privilege() {
    let listener = Untouched::new();
    let connect = listener.address();
    let load = ["load", "bytes", "--connect", &connect, "--load", "closed_connections", "--clients", "90"];
    let Ok(user) = Unprivileged::new().inspect_err(|reason| println!("skipped: {reason}")) else { return };
    let unprivileged = user.command(None);
    let mut command = Command::new("prlimit");
    command.args(["--nofile=100:100"]).arg(unprivileged.get_program()).args(unprivileged.get_args()).args(load);
    let ran = run(&mut command);
    refused(
        &ran,
        "load.too_few_descriptors",
        &["no privilege (CAP_SYS_RESOURCE): sudo prlimit --pid $$ --nofile=115:115"],
    );
    assert!(!ran.errors.contains("ulimit"), "{ran:?}");
    let ran = run(engine_with_descriptors(100).args(load));
    let may = if may_raise(115) {
        "ulimit -Hn 115 && ulimit -n 115"
    } else {
        "no privilege (CAP_SYS_RESOURCE): sudo prlimit"
    };
    refused(&ran, "load.too_few_descriptors", &[may]);
    listener.is_untouched("a load of too many clients");
}

/// Whether a shell on this machine may raise its hard limit on descriptors.
fn may_raise(wanted: u32) -> bool {
    let tried = Command::new("sh").args(["-c", &format!("ulimit -n 100 && ulimit -Hn {wanted}")]).output();
    tried.is_ok_and(|tried| tried.status.success())
}
