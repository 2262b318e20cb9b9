//! More events than the CPU has counters for, of processes that come and go.

use serde_json::Value;

use crate::support::server::Server;
use crate::support::{engine, run};

/// Five pairs, each divided by each other: a group, but for the last.
const PAIRS: [[&str; 2]; 5] = [
    ["l1_dcache_loads", "l1_dcache_load_misses"],
    ["cpu_cycles", "instructions"],
    ["branch_instructions", "branch_misses"],
    ["cache_references", "cache_misses"],
    ["dTLB-loads", "dTLB-load-misses"],
];

/// What a server that forks for every client and its load say of these events.
fn counted(counters: &str) -> [(&'static str, Value); 2] {
    let server = Server::start("fork_per_client", "bytes", &["--count", counters]);
    let connect = format!("127.0.0.1:{}", server.port);
    let load = ["load", "bytes", "--json", "--children", "8", "--loops", "200", "--count", counters, "--connect"];
    let ran = run(engine().args(load).arg(connect));
    assert_eq!(ran.status, Some(0), "{ran:?}");
    let load = serde_json::from_str(ran.output.lines().last().unwrap()).unwrap();
    let ending = server.stop();
    [("server", ending.summary().clone()), ("load", load)]
}

#[track_caller]
fn number(line: &Value, name: &str) -> f64 {
    line.as_f64().unwrap_or_else(|| panic!("{name}: {line}"))
}

/// What is extrapolated rests on how long the tree ran: the kernel forgets some of it in each event whose task ends while others
/// have the counters, and of two events of one group not the same.
#[test]
fn events_that_take_turns_are_of_all_the_time_that_processes_ran_which_have_ended() {
    let names = PAIRS.concat().join(",");
    for (who, line) in counted(&format!("task_clock,{names}")) {
        let shared: Vec<&str> = PAIRS.concat().into_iter().filter(|name| !line["counters"][*name].is_null()).collect();
        if !shared.iter().any(|name| line["multiplexing"][*name]["scaled"] == true) {
            println!("skipped: nothing takes turns here: {line}");
            continue;
        }
        let ran = number(&line["counters"]["task_clock"], "task_clock");
        for name in &shared {
            let share = number(&line["multiplexing"][*name]["enabled_ns"], name) / ran;
            assert!((0.98..=1.02).contains(&share), "{who}: {name} is said to be of {share} of {ran} ns: {line}");
        }
        for [whole, part] in PAIRS.into_iter().filter(|pair| pair.iter().all(|name| shared.contains(name))) {
            let (all, some) = (&line["multiplexing"][whole], &line["multiplexing"][part]);
            if all["running_ns"] != some["running_ns"] {
                continue; // It is in no group, or a figure of it was read while it ran.
            }
            let raw = number(&some["counted"], part) / number(&all["counted"], whole);
            let shown = number(&line["counters"][part], part) / number(&line["counters"][whole], whole);
            assert!((raw / shown - 1.0).abs() < 0.002, "{who}: {part} by {whole} is {shown}, counted {raw}: {line}");
        }
    }
}

#[test]
fn events_that_have_the_counters_to_themselves_are_not_extrapolated() {
    for (who, line) in counted("cpu_cycles,instructions") {
        for name in ["cpu_cycles", "instructions"] {
            if line["counters"][name].is_null() {
                println!("skipped: {}", line["unavailable"][name]);
                continue;
            }
            let times = &line["multiplexing"][name];
            assert_eq!((&times["scaled"], &times["counted"]), (&Value::Bool(false), &line["counters"][name]), "{who}");
        }
    }
}
