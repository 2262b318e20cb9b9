//! Requested counters over a window, over a whole life, and from exec to exit, and unavailable counters.
//!
//! They are compared with other figures of the kernel: getrusage, and `perf stat` if it is installed.

use std::io::Write;
use std::process::Command;

use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::sys::signal::Signal;
use nix::unistd::Pid;
use serde_json::{Value, json};

use crate::support::client::Client;
use crate::support::gated::Gated;
use crate::support::lines::number_of;
use crate::support::lines::schema;
use crate::support::server::Server;
use crate::support::{ENGINE, Ran, Unprivileged, engine, eventually, process, run};

const SWITCHES: [&str; 2] = ["voluntary_switches", "involuntary_switches"];
const PERF: [&str; 4] = ["task_clock", "context_switches", "cpu_migrations", "page_faults"];
const HARDWARE: [&str; 4] = ["cpu_cycles", "cache_misses", "llc_load_misses", "l1_dcache_load_misses"];

/// Returns the kernel's counters that this machine can read, and the reasons for the others. The processor's counters are
/// listed separately, since virtual machines mostly lack them.
fn countable() -> (Vec<String>, Vec<String>) {
    let listed = run(engine().args(["list", "counters", "--json"]));
    let counters: Vec<Value> = serde_json::from_str(&listed.output).expect("the counters are listed");
    let countable = counters.iter().filter(|entry| entry["countable"] == true);
    let name = |entry: &Value| entry["name"].as_str().unwrap().to_owned();
    let names: Vec<String> = countable.clone().map(name).collect();
    for expected in SWITCHES.iter().chain(&PERF).chain(&HARDWARE) {
        assert!(names.iter().any(|name| name == expected), "{expected} is not among {names:?}");
    }
    let of_kernel = countable.filter(|entry| !HARDWARE.contains(&entry["name"].as_str().unwrap()));
    let (here, elsewhere): (Vec<&Value>, Vec<&Value>) = of_kernel.partition(|entry| entry["available"] == true);
    let reasons = elsewhere.iter().map(|entry| format!("{}: {}", name(entry), entry["reason"])).collect();
    (here.into_iter().map(name).collect(), reasons)
}

/// Returns the readable counters for `--count`; `None` if those of perf are not among them.
fn all_counters() -> Option<String> {
    let (names, reasons) = countable();
    if reasons.is_empty() {
        return Some(names.join(","));
    }
    println!("skipped: {reasons:?}");
    None
}

fn load(port: u16, children: u32, loops: u32, counters: &str) -> Value {
    let (connect, children, loops) = (format!("127.0.0.1:{port}"), children.to_string(), loops.to_string());
    let fixed = ["load", "bytes", "--json", "--connect", &connect, "--children", &children, "--loops", &loops];
    let ran = run(engine().args(fixed).args(["--count", counters]));
    assert_eq!(ran.status, Some(0), "{ran:?}");
    serde_json::from_str(&ran.output).unwrap()
}

#[track_caller]
fn sum(line: &Value, names: [&str; 2]) -> u64 {
    names.iter().map(|name| number_of(line, name)).sum()
}

/// Compares with another figure of the same events, which may have begun somewhat earlier and ended somewhat later.
#[track_caller]
fn at_most_below(what: &str, counted: u64, reference: u64, room: u64) {
    assert!(counted <= reference + 2, "{what}: {counted} is more than {reference}");
    assert!(counted + room >= reference, "{what}: {counted} is more than {room} below {reference}");
}

/// Both sources count living processes exactly at any moment. perf misses the last switch of ended processes, and /proc
/// omits threads that ended in a living process.
#[test]
fn a_window_and_the_whole_life_of_a_server_are_counted() {
    let Some(counters) = all_counters() else { return };
    for (design, processes_end) in [("prefork", false), ("prethread_queue", false), ("fork_per_client", true)] {
        let mut server = Server::start(design, "bytes", &["--count", &counters]);
        for name in counters.split(',') {
            assert_eq!(server.ready["counters"].get(name), Some(&Value::Null), "{}", server.ready);
        }
        server.settle();
        let before = server.snapshot();
        let result = load(server.port, 3, 200, "voluntary_switches");
        server.snapshot_when("all are closed", |snapshot| snapshot["tally"]["closed"] == 600);
        server.sleeps();
        let after = server.snapshot();
        let window = |name| number_of(&after["counters"], name) - number_of(&before["counters"], name);
        let from_proc = window("voluntary_switches") + window("involuntary_switches");
        assert_eq!(result["unavailable"], json!({}), "{result}");
        // A preemption during exit is a switch too: on a busy machine a process has more than one after its last count.
        let room = if processes_end { 3 * 600 } else { 0 };
        at_most_below(&format!("{design}, switches of a window"), window("context_switches"), from_proc, room + 2);
        assert!(from_proc > 0 && window("page_faults") > 0, "{design}: {before} {after}");
        let clock = after["cpu_ns"].as_u64().zip(before["cpu_ns"].as_u64()).map(|(after, before)| after - before);
        if let Some(clock) = clock {
            let share = window("task_clock") as f64 / clock as f64;
            assert!((0.3..1.1).contains(&share), "{design}: task_clock is {share} of the CPU time");
        }
        let ending = server.stop();
        ending.is_good();
        let summary = ending.summary();
        for name in SWITCHES {
            assert_eq!(summary["counters"][name], summary[name], "{design}: {name} in {summary}");
        }
        let counted = |name| number_of(&summary["counters"], name);
        at_most_below("switches of the life", counted("context_switches"), sum(summary, SWITCHES), room + 100);
        let faults = sum(summary, ["minor_faults", "major_faults"]);
        at_most_below("faults of the life", counted("page_faults"), faults, 100);
    }
}

/// The CPU time of a load on one CPU is at most the time over which it was counted, however late it was read. The figures
/// include its work after the last reply, when it closes connections and waits for its children.
#[test]
fn counts_of_a_load_lie_within_its_reported_time() {
    let (names, reasons) = countable();
    if !names.iter().any(|name| name == "task_clock") {
        println!("skipped: {reasons:?}");
        return;
    }
    let mut server = Server::start("prefork", "bytes", &["--pool", "2", "--count", "task_clock"]);
    let before = server.snapshot();
    assert!(number_of(&before, "read_ns") >= number_of(&before, "monotonic_ns"), "{before}");
    let usable = sched_getaffinity(Pid::from_raw(0)).unwrap();
    let cpu = (0..CpuSet::count()).find(|&cpu| usable.is_set(cpu).unwrap()).unwrap().to_string();
    let connect = format!("127.0.0.1:{}", server.port);
    for children in ["1", "40"] {
        let words = ["load", "bytes", "--json", "--cpus", &cpu, "--connect", &connect, "--children", children];
        let ran = run(engine().args(words).args(["--loops", "20", "--count", "task_clock"]));
        assert_eq!(ran.status, Some(0), "{ran:?}");
        let line: Value = serde_json::from_str(&ran.output).unwrap();
        let (from, to) = (number_of(&line, "counted_from_ns"), number_of(&line, "counted_to_ns"));
        let (began, ended) = (number_of(&line, "started_monotonic_ns"), number_of(&line, "ended_monotonic_ns"));
        assert!(from <= began && began < ended && ended <= to, "{line}");
        assert!(number_of(&line["counters"], "task_clock") <= to - from, "{line}");
    }
    server.stop().is_good();
}

/// The sum over living threads does not fall when threads end, and includes them once their process has ended.
#[test]
fn ended_threads_are_counted() {
    let mut server = Server::start("thread_per_client", "bytes", &["--count", "voluntary_switches"]);
    server.settle();
    let mut last = 0;
    for round in 1..=4 {
        let clients: Vec<_> = (0..20).map(|_| Client::connect(server.port)).collect();
        eventually("every client has a thread", || (process::thread_states(server.first).len() == 21).then_some(()));
        server.sleeps();
        let with_threads = number_of(&server.snapshot()["counters"], "voluntary_switches");
        assert!(with_threads >= last + 20, "round {round}: {with_threads} after {last}, and 20 threads sleep");
        drop(clients);
        server.snapshot_when("all are closed", |snapshot| snapshot["tally"]["closed"] == 20 * round);
        eventually("the threads have ended", || (process::thread_states(server.first).len() == 1).then_some(()));
        let without = number_of(&server.snapshot()["counters"], "voluntary_switches");
        assert!(without >= with_threads, "round {round}: {without} after {with_threads}");
        last = without;
    }
    let ending = server.stop();
    let summary = ending.summary();
    assert_eq!(summary["counters"]["voluntary_switches"], summary["voluntary_switches"], "{summary}");
    assert!(number_of(summary, "voluntary_switches") >= last);
}

/// Workers reaped by the supervisor, because their parent was killed, are counted too.
#[test]
fn a_server_whose_first_process_was_killed_is_counted() {
    let server = Server::start("prefork", "bytes", &["--count", "voluntary_switches,involuntary_switches"]);
    server.settle();
    load(server.port, 3, 100, "voluntary_switches");
    process::signal(server.first, Signal::SIGKILL);
    let ending = server.wait();
    let summary = ending.summary();
    for name in SWITCHES {
        assert_eq!(summary["counters"][name], summary[name], "{name} in {summary}");
    }
    assert!(number_of(summary, "voluntary_switches") > 0, "{summary}");
}

#[test]
fn a_load_is_counted_with_its_children() {
    let Some(counters) = all_counters() else { return };
    let server = Server::start("prefork", "bytes", &[]);
    let result = load(server.port, 4, 150, &counters);
    assert_eq!(result["unavailable"], json!({}), "{result}");
    let counted = |name| number_of(&result["counters"], name);
    for name in SWITCHES {
        // On a busy machine each process may be preempted between the two readings.
        assert!(counted(name).abs_diff(number_of(&result, name)) <= 3 + 4 * 5, "{name} in {result}");
    }
    at_most_below("switches", counted("context_switches"), sum(&result, SWITCHES) + 3, 50 + 4 * 5);
    let faults = sum(&result, ["minor_faults", "major_faults"]);
    assert!(counted("page_faults").abs_diff(faults) <= 50, "{result}");
    assert!(counted("task_clock") > 0, "{result}");
    let ran = run(engine().args(["load", "bytes", "--connect", &format!("127.0.0.1:{}", server.port)]).args([
        "--children",
        "1",
        "--loops",
        "2",
        "--count",
        "page_faults",
        "--count",
        "voluntary_switches",
    ]));
    assert!(ran.output.contains("page faults: ") && ran.output.contains("voluntary switches: "), "{ran:?}");
}

fn serve_counted(design: &str) -> Gated {
    Gated::serve(&["count", "--count", "voluntary_switches"], design)
}

#[test]
fn a_server_is_counted_from_exec_to_exit() {
    let schema: Value = serde_json::from_str(&run(engine().arg("schema")).output).unwrap();
    let mut counted = serve_counted("fork_per_client");
    let ready = counted.line("ready");
    let port = number_of(&ready, "port") as u16;
    assert_ne!(number_of(&ready, "supervisor_pid") as i32, counted.id());
    load(port, 2, 50, "voluntary_switches");
    counted.input.as_mut().unwrap().write_all(b"snapshot\n").unwrap();
    // The last requests may not have been counted yet.
    assert!(number_of(&counted.line("snapshot")["tally"], "connections") > 0);
    counted.input = None;
    let summary = counted.line("summary");
    assert_eq!(summary["tally"]["requests"], 100, "{summary}");
    let (life, status) = counted.end("life");
    schema::check(&schema, &life).unwrap();
    assert_eq!((status, &life["status"]), (Some(0), &json!(0)), "{life}");
    assert_eq!(life["counters"]["voluntary_switches"], life["voluntary_switches"], "{life}");
    // The count includes the supervisor.
    for name in ["user_ns", "system_ns", "voluntary_switches", "minor_faults"] {
        assert!(number_of(&life, name) >= number_of(&summary, name), "{name} in {life} and in {summary}");
    }
    assert!(number_of(&life, "elapsed_ns") > 0, "{life}");
}

#[test]
fn a_signal_is_passed_on() {
    for signal in [Signal::SIGINT, Signal::SIGTERM] {
        let counted = serve_counted("prefork");
        counted.line("ready");
        process::signal(counted.id(), signal);
        counted.line("summary");
        let (life, status) = counted.end("life");
        assert_eq!((status, &life["status"]), (Some(0), &json!(0)), "{signal}: {life}");
    }
    // Two signals at once, as from timeout(1). A load that noticed a second interrupt would end without its line.
    let server = Server::start("prefork", "bytes", &[]);
    let connect = format!("127.0.0.1:{}", server.port);
    let fixed = ["count", "load", "bytes", "--json", "--connect", &connect, "--children", "2", "--loops", "10000000"];
    let counted = Gated::start(engine().args(fixed));
    eventually("the load sends requests", || (process::family(counted.id()).len() == 4).then_some(()));
    process::signal(counted.id(), Signal::SIGINT);
    process::signal(counted.id(), Signal::SIGINT);
    assert_eq!(counted.line("load")["interrupted"], true);
    let (life, status) = counted.end("life");
    assert_eq!((status, &life["status"]), (Some(1), &json!(1)), "an interrupted load is not complete: {life}");
}

#[test]
fn nothing_is_left_of_a_count_that_was_killed() {
    for signal in [Signal::SIGKILL, Signal::SIGABRT] {
        let counted = serve_counted("prefork");
        counted.line("ready");
        let family = process::family(counted.id());
        assert!(family.len() > 2, "{family:?}");
        process::signal(counted.id(), signal);
        eventually("none of the family lives", || family.iter().all(|&id| !process::lives(id)).then_some(()));
    }
}

/// A load generator that is not ours, as a shell command.
fn generated(script: &str) -> Gated {
    Gated::start(engine().args(["generate", "--count", "context_switches", "--", "sh", "-c", script]))
}

#[test]
fn what_a_load_generator_leaves_is_killed_and_counted() {
    // A session and an environment of its own hide a process from a search by either.
    let busy = "i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done; exec sleep 600";
    let counted =
        generated(&format!("setsid env -i sh -c '{busy}' & echo '{{\"line\":\"pid\",\"pid\":'$!'}}'; sleep 2; exit 3"));
    let left = number_of(&counted.line("pid"), "pid") as i32;
    let (life, status) = counted.end("life");
    assert_eq!((status, &life["status"]), (Some(3), &json!(3)), "{life}");
    assert!(!process::lives(left), "{left}");
    assert!(number_of(&life, "user_ns") > 20_000_000, "the process that was killed is counted: {life}");
}

#[test]
fn a_load_generator_that_ignores_a_signal_is_killed() {
    let counted = generated("trap '' TERM; echo '{\"line\":\"deaf\"}'; while :; do sleep 600; done");
    counted.line("deaf");
    process::signal(counted.id(), Signal::SIGTERM);
    let (life, status) = counted.end("life");
    assert_eq!((status, &life["status"]), (Some(137), &json!(137)), "{life}");
}

#[test]
fn a_command_that_was_killed_is_counted_to_its_end() {
    let counted = serve_counted("prefork");
    let ready = counted.line("ready");
    let family = process::family(counted.id());
    process::signal(number_of(&ready, "supervisor_pid") as i32, Signal::SIGKILL);
    let (life, status) = counted.end("life");
    assert_eq!((status, &life["status"]), (Some(137), &json!(137)), "128 and SIGKILL: {life}");
    assert_eq!(life["counters"]["voluntary_switches"], life["voluntary_switches"], "{life}");
    assert!(family.iter().all(|&id| !process::lives(id)), "{family:?}");
}

/// Usage of the counting process before it became one, as a launcher, belongs to no life.
#[test]
fn the_past_of_a_launcher_is_not_counted() {
    let script = "i=0; while [ $i -lt 200 ]; do i=$((i+1)); /bin/true; done; exec \"$0\" \"$@\"";
    let load = ["load", "bytes", "--connect", "127.0.0.1:1", "--children", "1", "--json"];
    let past = run(Command::new("sh").args(["-c", script, ENGINE, "count"]).args(load));
    let alone = run(engine().arg("count").args(load));
    let life = |ran: &Ran| -> Value { serde_json::from_str(ran.output.lines().last().unwrap()).unwrap() };
    let faults = [&past, &alone].map(|ran| number_of(&life(ran), "minor_faults"));
    assert!(faults[0].abs_diff(faults[1]) < 200, "each of 200 programs had dozens of faults: {faults:?}");
    assert_eq!([past.status, alone.status], [Some(1); 2], "{past:?}");
}

/// As under taskset(1): pinned before its life begins, it never migrates.
#[test]
fn a_pinned_command_is_not_counted_as_moved() {
    let usable = sched_getaffinity(Pid::from_raw(0)).unwrap();
    let cpus: Vec<usize> = (0..CpuSet::count()).filter(|&cpu| usable.is_set(cpu).unwrap()).collect();
    let ([first, .., last], Some(_)) = (cpus.as_slice(), all_counters()) else { return println!("skipped: one CPU") };
    // For this thread, and for the processes it starts.
    let mut elsewhere = CpuSet::new();
    elsewhere.set(*first).unwrap();
    sched_setaffinity(Pid::from_raw(0), &elsewhere).unwrap();
    let load = ["load", "bytes", "--connect", "127.0.0.1:1", "--children", "2", "--json", "--cpus", &last.to_string()];
    let ran = run(engine().args(["count", "--count", "cpu_migrations"]).args(load));
    let life: Value = serde_json::from_str(ran.output.lines().last().unwrap()).unwrap();
    assert_eq!(life["counters"]["cpu_migrations"], 0, "{ran:?}");
}

#[test]
fn counts_are_those_of_perf_stat() {
    let Some(counters) = all_counters() else { return };
    let events = "task-clock,context-switches,cpu-migrations,page-faults";
    let probe = run(Command::new("sh").args(["-c", &format!("perf stat -x, -e {events} true")]));
    if probe.status != Some(0) || !probe.errors.contains("context-switches") {
        println!("skipped: perf stat does not work here: {}", probe.errors);
        return;
    }
    let server = Server::start("prefork", "bytes", &[]);
    let connect = format!("127.0.0.1:{}", server.port);
    // perf also counts the counting process: one start of the engine and one fork.
    let mut command = Command::new("perf");
    command.args(["stat", "-x", ",", "-e", events, ENGINE, "count", "--count", &counters, "load", "bytes", "--json"]);
    let ran = run(command.args(["--connect", &connect, "--children", "20", "--loops", "100"]));
    assert_eq!(ran.status, Some(0), "{ran:?}");
    let life: Value = serde_json::from_str(ran.output.lines().last().unwrap()).unwrap();
    let of_perf = |event: &str| -> f64 {
        let line = ran.errors.lines().find(|line| line.contains(event)).unwrap_or_else(|| panic!("{event}: {ran:?}"));
        line.split(',').next().unwrap().parse().unwrap_or_else(|error| panic!("{error}: {line}"))
    };
    let counted = |name: &str| number_of(&life["counters"], name) as f64;
    println!("perf stat: {}\ncount: {life}", ran.errors.trim());
    // perf prints milliseconds.
    let clock = counted("task_clock") / 1e6;
    assert!(clock <= of_perf("task-clock") * 1.01 && clock >= of_perf("task-clock") * 0.7, "{clock}: {ran:?}");
    for (name, event, room) in
        [("context_switches", "context-switches", 30.0), ("cpu_migrations", "cpu-migrations", 10.0)]
    {
        let difference = of_perf(event) - counted(name);
        assert!((0.0..=room).contains(&difference), "{name}: {difference} in {ran:?}");
    }
    let start = run(Command::new("perf").args(["stat", "-x", ",", "-e", "page-faults", ENGINE, "--version"]));
    let start: f64 = start.errors.trim().split(',').next().unwrap().parse().unwrap();
    let difference = of_perf("page-faults") - counted("page_faults");
    assert!((0.0..=2.0 * start).contains(&difference), "{difference} faults, {start} for a start: {ran:?}");
}

/// perf_event_paranoid forbids users events that see the kernel: null with the reason everywhere.
#[test]
fn a_forbidden_event_is_unavailable_with_the_reason() {
    let paranoid = std::fs::read_to_string("/proc/sys/kernel/perf_event_paranoid").unwrap_or_default();
    if paranoid.trim().parse::<i32>().ok().is_none_or(|value| value < 2) {
        println!("skipped: kernel.perf_event_paranoid is '{}', which forbids nothing", paranoid.trim());
        return;
    }
    let Ok(user) = Unprivileged::new().inspect_err(|reason| println!("skipped: {reason}")) else { return };
    let is_reason = |value: &Value| {
        let text = value.as_str().unwrap_or_else(|| panic!("{value} is no reason"));
        assert!(text.contains("perf_event_open") && text.contains("perf_event_paranoid=1"), "{text}");
    };
    let names = "context_switches,voluntary_switches";

    let listed = run(user.command(None).args(["list", "counters", "--json"]));
    let listed: Vec<Value> = serde_json::from_str(&listed.output).unwrap();
    for name in ["context_switches", "cpu_migrations", "page_faults"] {
        let entry = listed.iter().find(|entry| entry["name"] == name).unwrap();
        assert_eq!(entry["available"], false, "{entry}");
        is_reason(&entry["reason"]);
    }

    let options = ["--count", names];
    let mut server = Server::launch(&mut user.command(None), "prefork", "bytes", &options);
    is_reason(&server.ready["counters"]["context_switches"]);
    assert_eq!(server.ready["counters"]["voluntary_switches"], Value::Null);
    let snapshot = server.snapshot();
    assert_eq!(snapshot["counters"].get("context_switches"), Some(&Value::Null), "{snapshot}");
    assert!(snapshot["counters"]["voluntary_switches"].is_u64(), "{snapshot}");
    let connect = format!("127.0.0.1:{}", server.port);
    let load = ["load", "bytes", "--connect", &connect, "--children", "1", "--loops", "2"];

    let ran = run(user.command(None).args(load).args(["--count", names, "--json"]));
    let result: Value = serde_json::from_str(&ran.output).unwrap();
    assert_eq!((ran.status, result["counters"].get("context_switches")), (Some(0), Some(&Value::Null)), "{result}");
    is_reason(&result["unavailable"]["context_switches"]);
    let ran = run(user.command(None).args(load).args(["--count", names]));
    assert!(ran.output.contains("context switches: unavailable: perf_event_open"), "{ran:?}");

    let ran = run(user.command(None).args(["count", "--count", names, "--"]).args(load).arg("--json"));
    let life: Value = serde_json::from_str(ran.output.lines().last().unwrap()).unwrap();
    assert_eq!((ran.status, life["counters"].get("context_switches")), (Some(0), Some(&Value::Null)), "{life}");
    is_reason(&life["unavailable"]["context_switches"]);
    assert_eq!(life["counters"]["voluntary_switches"], life["voluntary_switches"], "{life}");

    let ending = server.stop();
    assert_eq!(ending.summary()["counters"].get("context_switches"), Some(&Value::Null), "{}", ending.summary());
}

/// perf's name for a counter of the list gives that counter, once.
#[test]
fn a_counter_may_be_requested_by_perfs_name() {
    let load = ["load", "bytes", "--connect", "127.0.0.1:1", "--children", "1", "--loops", "1", "--json"];
    let names = "cs,context-switches,context_switches,cycles,faults,L1-dcache-loads,task-clock";
    let ran = run(engine().args(load).args(["--count", names]));
    let result: Value = serde_json::from_str(ran.output.lines().last().unwrap()).unwrap();
    let counted: Vec<&String> = result["counters"].as_object().unwrap().keys().collect();
    assert_eq!(counted, ["context_switches", "cpu_cycles", "l1_dcache_loads", "page_faults", "task_clock"], "{ran:?}");
    let listed: Value = serde_json::from_str(&run(engine().args(["list", "--json"])).output).unwrap();
    let entry = listed["counters"].as_array().unwrap().iter().find(|entry| entry["name"] == "cpu_cycles").unwrap();
    assert_eq!(entry["names_of_perf"], json!(["cpu-cycles", "cycles"]));
    let others = listed["events_of_perf"].as_array().unwrap();
    assert!(others.contains(&json!("ref-cycles")) && !others.contains(&json!("cycles")), "{others:?}");
}

#[test]
fn commands_and_counters_that_count_does_not_support_are_refused() {
    for (arguments, words) in [
        ("serve prefork --count contxt_switches", &["contxt_switches", "similar", "'context_switches'"][..]),
        ("load bytes --connect 127.0.0.1:1 --count page_falts", &["page_falts", "'page_faults'"]),
        ("count --count cgroup_cpu -- serve prefork", &["cgroup_cpu", "possible values", "context_switches"]),
        ("count --count= -- serve prefork", &["--count", "possible values"]),
        ("load bytes --connect 127.0.0.1:1 --count sched:", &["sched:", "possible values"]),
        ("load bytes --connect 127.0.0.1:1 --count ../x:y", &["../x:y", "possible values"]),
        ("load bytes --connect 127.0.0.1:1 --count cpu/cache-misses", &["'cpu/cache-misses'", "cpu/cache-misses/"]),
        ("load bytes --connect 127.0.0.1:1 --count cpu/event=x/,task_clock", &["--count cpu/event=x/", "0x3c"]),
        ("load bytes --connect 127.0.0.1:1 --count cycles:u", &["cycles:u", "hint: write cycles;"]),
        ("load bytes --connect 127.0.0.1:1 --count sched:sched_switch:k", &["hint: write sched:sched_switch;"]),
        ("load bytes --connect 127.0.0.1:1 --count dTLB-load-mises", &["hint: did you mean dTLB-load-misses?"]),
        ("count", &["serve"]),
        ("count -- list", &["[arguments.not_serve_or_load]", "list"]),
        ("count -- count -- serve prefork", &["[arguments.not_serve_or_load]", "count"]),
        ("count -- serve prefrok", &["prefrok", "'prefork'"]),
        ("count serve prefork --parent 1", &["[arguments.parent_behind_command]"]),
        ("count --parent 1 -- serve prefork", &["--parent 1"]),
    ] {
        let ran = run(engine().args(arguments.split(' ')));
        crate::support::one_line(&ran, 2, words);
    }
    let ran = run(engine().args(["count", "--", "serve", "--help"]));
    assert!(ran.status == Some(0) && ran.output.contains("Usage:"), "{ran:?}");
}

/// If the processor has such an event, it counts something. Otherwise, or if a virtual machine hides it, the figure is null
/// everywhere, next to the reason, for server and load.
#[test]
fn events_of_the_processor_are_counted_or_refused_with_the_reason() {
    let listed = run(engine().args(["list", "counters", "--json"]));
    let listed: Vec<Value> = serde_json::from_str(&listed.output).unwrap();
    let names = HARDWARE.join(",");
    let mut server = Server::start("prefork", "bytes", &["--count", &names]);
    let result = load(server.port, 2, 50, &names);
    let snapshot = server.snapshot();
    let ready = server.ready.clone();
    let ending = server.stop();
    let summary = ending.summary();
    for name in HARDWARE {
        let entry = listed.iter().find(|entry| entry["name"] == name).unwrap();
        // Each event separately: together they may exceed the processor's counters, which is also a reason.
        if entry["available"] == true && result["unavailable"].get(name).is_none() {
            let counted = [&snapshot["counters"], &summary["counters"], &result["counters"]];
            // A cache may be large enough for all loads of such a short life.
            assert!(counted.iter().all(|line| number_of(line, name) > 0 || name.contains("miss")), "{name}: {summary}");
            continue;
        }
        for (line, reason) in [
            (&snapshot["counters"], &summary["unavailable"][name]),
            (&summary["counters"], &summary["unavailable"][name]),
            (&result["counters"], &result["unavailable"][name]),
        ] {
            assert_eq!(line.get(name), Some(&Value::Null), "{name}: {line}");
            let reason = reason.as_str().unwrap_or_else(|| panic!("{name} has no reason: {summary} {result}"));
            assert!(
                reason.contains("perf_event_open") || reason.contains("does not count") || reason.contains("counters")
            );
        }
        if entry["available"] == false {
            assert_eq!(ready["counters"][name], entry["reason"], "{ready}");
            println!("{name}: {}", entry["reason"]);
        }
    }
}
