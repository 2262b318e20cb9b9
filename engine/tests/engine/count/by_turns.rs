//! More events than the CPU has counters for, with processes that start and end.

use serde_json::Value;

use crate::support::server::Server;
use crate::support::{engine, run};

/// Five pairs whose ratios are reported. All but the last are groups.
const PAIRS: [[&str; 2]; 5] = [
    ["l1_dcache_loads", "l1_dcache_load_misses"],
    ["cpu_cycles", "instructions"],
    ["branch_instructions", "branch_misses"],
    ["cache_references", "cache_misses"],
    ["dTLB-loads", "dTLB-load-misses"],
];

/// Returns these events as reported by a server that forks for every client, and by its load.
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

/// Extrapolation depends on the tree's run time. The kernel loses a part of it in each event whose task ends while other
/// events have the counters, and not the same part for two events of a group.
#[test]
fn events_that_take_turns_cover_the_run_time_of_ended_processes() {
    let names = PAIRS.concat().join(",");
    for (who, line) in counted(&format!("task_clock,{names}")) {
        let shared: Vec<&str> = PAIRS.concat().into_iter().filter(|name| !line["counters"][*name].is_null()).collect();
        if !shared.iter().any(|name| line["multiplexing"][*name]["scaled"] == true) {
            println!("skipped: no event takes turns on this machine: {line}");
            continue;
        }
        let ran = number(&line["counters"]["task_clock"], "task_clock");
        for name in &shared {
            let share = number(&line["multiplexing"][*name]["enabled_ns"], name) / ran;
            assert!((0.98..=1.02).contains(&share), "{who}: {name} covers {share} of {ran} ns: {line}");
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
