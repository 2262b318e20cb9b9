//! What cannot be is refused before the first connection: one line that names the option, what was seen and what is allowed,
//! and exit status 2.

use std::collections::BTreeSet;
use std::process::Command;

use serde_json::Value;

use crate::support::lines::name;
use crate::support::unserved::Untouched;
use crate::support::{Unprivileged, catalogue, engine, engine_with_descriptors, one_line, run};

/// What is no number, or none that a setting could take.
const NO_NUMBERS: [&str; 9] = ["", " ", "-1", "1e3", "1.5", "x", "0x10", "1_000", "99999999999999999999"];

fn settings(of: &Value) -> &[Value] {
    of.as_array().map(Vec::as_slice).unwrap_or_default()
}

/// Values that a setting does not take, as they are typed.
fn impossible(setting: &Value) -> Vec<String> {
    let number = |key: &str| setting[key].as_u64().unwrap();
    match setting["kind"].as_str().unwrap() {
        "integer" => {
            let (minimum, maximum) = (number("minimum"), number("maximum"));
            let others = [0, 1_000_000_000_000, minimum.saturating_sub(1), maximum.saturating_add(1)];
            let outside = others.into_iter().filter(|other| !(minimum..=maximum).contains(other));
            NO_NUMBERS.map(str::to_owned).into_iter().chain(outside.map(|other| other.to_string())).collect()
        }
        "boolean" => ["", "maybe", "1", "TRUE"].map(str::to_owned).into(),
        "choice" => ["", "nosuch", "0"].map(str::to_owned).into(),
        "text" => {
            let too_long = "x".repeat(number("longest") as usize + 1);
            vec![String::new(), "a b".to_owned(), "\u{e9}".to_owned(), too_long]
        }
        other => panic!("a test of settings of the kind {other} is missing"),
    }
}

/// What helps whoever has typed this, if it is a number beyond the largest: every number of a load says that.
fn for_more(setting: &Value, typed: &str) -> Option<String> {
    let maximum = setting["maximum"].as_u64()?;
    let help = setting["for_more"].as_str().unwrap_or_else(|| panic!("{setting} does not say how to have more"));
    let is_more = typed.parse::<u128>().is_ok_and(|number| number > maximum.into());
    is_more.then(|| format!("{maximum}; {help}"))
}

/// What an allowed value is, as the message has it.
fn allowed(setting: &Value) -> Vec<String> {
    match setting["kind"].as_str().unwrap() {
        "integer" => vec![format!("a whole number from {} to {}", setting["minimum"], setting["maximum"])],
        "boolean" => vec!["true or false".to_owned()],
        "choice" => settings(&setting["choices"]).iter().map(|choice| choice.as_str().unwrap().to_owned()).collect(),
        _ => vec![format!("1 to {} visible ASCII characters", setting["longest"])],
    }
}

#[test]
fn every_setting_of_every_load_and_workload_refuses_what_it_cannot_be() {
    let (catalogue, listener) = (catalogue(), Untouched::new());
    let mut tried = BTreeSet::new();
    let mut try_all = |workload: &str, load: &str, of: &[Value]| {
        for setting in of {
            let option = format!("--{}", name(setting).replace('_', "-"));
            for value in impossible(setting) {
                let (seen, allowed) = (format!("'{value}'"), allowed(setting));
                let help = for_more(setting, &value);
                let words: Vec<&str> =
                    [&option, &seen].into_iter().chain(&allowed).chain(&help).map(String::as_str).collect();
                listener.refuses(workload, &["--load", load, &option, &value], &words);
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
            listener.refuses("bytes", &["--primitive", name(primitive), &option, &most], &[&option, &help]);
        }
    }
    for expected in ["clients", "children", "rate", "milliseconds", "bytes", "timeout_milliseconds", "source_addresses"]
    {
        assert!(tried.contains(expected), "{expected} is not among {tried:?}");
    }
}

#[test]
fn options_that_are_no_settings_refuse_what_they_cannot_be() {
    let listener = Untouched::new();
    for value in ["", "x", "-1", "1e3", "1000000000000", "99999999999999999999"] {
        listener.refuses("bytes", &[&format!("--cpus={value}")], &["--cpus", value]);
    }
    for value in ["", "x", "1e3", "1000000000000"] {
        listener.refuses("bytes", &[&format!("--parent={value}")], &["--parent", value]);
    }
    for value in ["-1", "0", "2147483647"] {
        listener.refuses("bytes", &[&format!("--parent={value}")], &["--parent", value, "not this process's parent"]);
    }
    // A port that is none, or none that can be asked.
    for (connect, word) in [("127.0.0.1:65536", "HOST:PORT"), ("127.0.0.1:", "HOST:PORT"), ("127.0.0.1:0", "port 0")] {
        one_line(&run(engine().args(["load", "bytes", "--connect", connect])), 2, &["--connect", connect, word]);
    }
}

/// Each value is possible, and together they are not.
#[test]
fn what_contradicts_itself_is_refused_with_what_to_change() {
    let listener = Untouched::new();
    let refused = |workload: &str, options: &str, words: &[&str]| {
        listener.refuses(workload, &options.split_whitespace().collect::<Vec<_>>(), words);
    };
    let event_loops = ["--load closed_connections", "--load open --milliseconds 10"];
    for load in event_loops {
        for (options, words) in [
            ("--connections per_request --pipeline 2", &["--pipeline 2", "--connections kept"][..]),
            (
                "--connections per_request --requests-per-connection 2",
                &["--requests-per-connection 2", "--connections kept"],
            ),
            ("--clients 2 --threads 3", &["--threads 3", "2", "--clients 3"]),
            (
                "--connections kept --clients 100000 --pipeline 1024 --source-addresses 254",
                &["102400000", "--clients", "--pipeline", "1048576"],
            ),
            ("--back-end io_uring --receive recv", &["--receive", "--back-end io_uring", "leave one"]),
        ] {
            refused("bytes", &format!("{load} {options}"), words);
        }
    }
    refused("bytes", "--load open --milliseconds 0", &["--milliseconds", "1 to 86400000"]);
    refused("bytes", "--load open --milliseconds 10 --loops 5", &["--loops"]);
    refused("stream", "--load open --milliseconds 10", &["open load", "a closed load"]);
    for load in ["closed_threads", "closed_connections"] {
        refused("bytes", &format!("--load {load} --loops 3 --milliseconds 5"), &["--loops and --milliseconds"]);
        refused("bytes", &format!("--load {load} --warm-up-milliseconds 5"), &["--warm-up-milliseconds"]);
    }
    refused("bytes", "--load closed_connections --ramp-up-milliseconds 5 --back-end nosuch", &["--back-end"]);
}

/// What one load cannot have, several together can.
#[test]
fn more_than_one_load_has_is_refused_with_how_to_have_it() {
    let listener = Untouched::new();
    for (option, most) in [("--rate", "10000000"), ("--clients", "100000")] {
        listener.refuses("bytes", &["--load", "open", option, "1000000000000"], &[option, most, "thunderherd merge"]);
        let ran = listener.load("bytes", &["--load", "open", option, "0"]);
        assert!(!ran.errors.contains("merge"), "{ran:?}");
    }
}

/// Whatever a setting allows at the most is either done or refused before the first connection, with what would allow it.
#[test]
fn more_than_this_process_may_have_is_refused_with_how_to_raise_the_limit() {
    let listener = Untouched::new();
    let connect = listener.address();
    for load in [
        "--load closed_threads",
        "--load closed_connections",
        "--load closed_connections --back-end io_uring",
        "--load open --milliseconds 10",
    ] {
        let ran = run(engine_with_descriptors(1000)
            .args(["load", "bytes", "--connect", &connect, "--clients", "5000"])
            .args(load.split_whitespace()));
        if ran.errors.contains("is not available on this machine") {
            println!("skipped: {}", ran.errors);
            continue;
        }
        one_line(&ran, 2, &["--clients 5000", "descriptors", "1000", "fewer --clients", "raise the hard limit"]);
    }
    // What each thread waits with is one, too.
    let threads = ["--load", "closed_connections", "--connections", "kept", "--clients", "800", "--threads", "200"];
    let ran = run(engine_with_descriptors(1000).args(["load", "bytes", "--connect", &connect]).args(threads));
    one_line(&ran, 2, &["--clients 800", "1024 descriptors", "may have 1000"]);
    // So are those of each thread's primitives.
    for primitive in ["splice", "vmsplice"] {
        let threads = ["--load", "closed_threads", "--clients", "400", "--primitive", primitive];
        let ran = run(engine_with_descriptors(1000).args(["load", "bytes", "--connect", &connect]).args(threads));
        one_line(&ran, 2, &["--clients 400", "1224 descriptors", "may have 1000"]);
    }
    listener.is_untouched("a load of too many threads");
}

/// What a load of one client needs is no matter of its clients.
#[test]
fn where_fewer_clients_would_not_help_only_more_descriptors_are_told() {
    let listener = Untouched::new();
    let connect = listener.address();
    for (load, least) in [("closed_threads", 25), ("closed_connections", 26), ("open", 26)] {
        let load = ["load", "bytes", "--connect", &connect, "--load", load, "--clients", "2"];
        let ran = run(engine_with_descriptors(20).args(load));
        let needed = format!("needs {} descriptors, but this process may have 20", least + 1);
        let of_one = format!("a single client needs {least}");
        one_line(&ran, 2, &["--clients 2", &needed, &of_one, "raise the hard limit"]);
        assert!(!ran.errors.contains("fewer") && !ran.errors.contains("merge"), "{ran:?}");
        // One fewer client can be had.
        let ran = run(engine_with_descriptors(least).args(load));
        one_line(&ran, 2, &["fewer --clients", "merge"]);
    }
    listener.is_untouched("a load of too many clients");
}

/// Who has no privilege cannot raise the hard limit, and is told so.
#[test]
fn the_limit_is_raised_by_whoever_may() {
    let listener = Untouched::new();
    let connect = listener.address();
    let load = ["load", "bytes", "--connect", &connect, "--load", "closed_connections", "--clients", "90"];
    let Ok(user) = Unprivileged::new().inspect_err(|reason| println!("skipped: {reason}")) else { return };
    let unprivileged = user.command(None);
    let mut command = Command::new("prlimit");
    command.args(["--nofile=100:100"]).arg(unprivileged.get_program()).args(unprivileged.get_args()).args(load);
    let ran = run(&mut command);
    one_line(&ran, 2, &["no privilege (CAP_SYS_RESOURCE): sudo prlimit --pid $$ --nofile=115:115"]);
    assert!(!ran.errors.contains("ulimit"), "{ran:?}");
    let ran = run(engine_with_descriptors(100).args(load));
    let may = if may_raise(115) {
        "ulimit -Hn 115 && ulimit -n 115"
    } else {
        "no privilege (CAP_SYS_RESOURCE): sudo prlimit"
    };
    one_line(&ran, 2, &[may]);
    listener.is_untouched("a load of too many clients");
}

/// Whether a shell here may raise its hard limit on descriptors from a lower one.
fn may_raise(wanted: u32) -> bool {
    let tried = Command::new("sh").args(["-c", &format!("ulimit -n 100 && ulimit -Hn {wanted}")]).output();
    tried.is_ok_and(|tried| tried.status.success())
}
