//! System calls by name and wake-ups, compared with perf stat(1) and strace(1).
//!
//! Each tool runs the same fixed-count trial. The calls for each connection and request are the same in all of them; calls
//! that depend on timing differ somewhat from run to run.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::support::server::Server;
use crate::support::{ENGINE, Unprivileged, engine, eventually, run};

/// Calls by name.
type Calls = BTreeMap<String, u64>;

/// Allowed difference beyond the calls of every connection: one wait more or less, or a signal that coincides with another.
const ROOM: u64 = 12;

/// Calls whose number depends on timing.
const BY_CHANCE: [&str; 8] =
    ["clock_gettime", "clock_nanosleep", "epoll_wait", "futex", "poll", "restart_syscall", "rt_sigreturn", "wait4"];

/// Calls by which a server removes leftovers of killed servers on the machine, such as control groups.
const OF_THE_MACHINE: [&str; 2] = ["rmdir", "statx"];

/// Calls that allocate memory for threads. Their number depends on how many threads exist at a time.
const OF_STACKS: [&str; 3] = ["mmap", "mprotect", "munmap"];

/// Calls that only `count` makes, to run its command as a child.
const OF_A_CHILD: [&str; 3] = ["prctl", "getppid", "others"];

/// Calls that a signal can interrupt in this trial, and that are then repeated: at most once for each signal.
const INTERRUPTED: [&str; 2] = ["accept4", "clone"];

/// Names whose events belong to another implementation.
const TRACED_AS: [(&str, &str); 3] = [("sendfile", "sendfile64"), ("fstat", "newfstat"), ("stat", "newstat")];

/// strace counts calls as they return, and these never do.
const WITHOUT_RETURN: [&str; 2] = ["exit", "exit_group"];

/// Returns the differences between these calls and their reference. A name that only the other tool counts is a difference
/// if it occurs more than rarely: this program counts it among `others`.
fn differences(counted: &Calls, other: Other, reference: &Calls) -> Vec<String> {
    let of = |calls: &Calls, name: &str| calls.get(name).copied().unwrap_or_default();
    let is_held = |name: &&str| {
        let is_strange_to_strace = other == Other::Strace && WITHOUT_RETURN.contains(name);
        let is_left_out = [&BY_CHANCE[..], &OF_A_CHILD, &OF_THE_MACHINE].iter().any(|names| names.contains(name));
        !(is_left_out || is_strange_to_strace)
    };
    let apart = counted.keys().map(String::as_str).filter(is_held).filter_map(|name| {
        let (ours, theirs) = (of(counted, name), of(reference, name));
        let signals = |calls| if INTERRUPTED.contains(&name) { of(calls, "rt_sigreturn") } else { 0 };
        let of_stacks = if OF_STACKS.contains(&name) { 8 * ROOM } else { ROOM };
        let room = of_stacks.max(signals(counted)).max(signals(reference));
        (ours.abs_diff(theirs) > room).then(|| format!("{name}: {ours}, not {theirs}"))
    });
    let is_hidden = |(name, calls): &(&String, &u64)| {
        !counted.contains_key(*name) && **calls > ROOM && !OF_THE_MACHINE.contains(&name.as_str())
    };
    let hidden =
        reference.iter().filter(is_hidden).map(|(name, calls)| format!("{name}: counted among others, {calls} times"));
    apart.chain(hidden).collect()
}

/// Returns the calls by name in a line.
fn counted(line: &Value) -> Calls {
    let counters = line["counters"].as_object().unwrap();
    let named = counters.iter().filter_map(|(name, value)| Some((name.strip_prefix("system_calls.")?, value)));
    named.map(|(name, value)| (name.to_owned(), value.as_u64().unwrap())).collect()
}

/// Whether this machine can count system calls; prints the reason if not.
fn can_be_counted() -> bool {
    let listed: Vec<Value> = serde_json::from_str(&run(engine().args(["list", "counters", "--json"])).output).unwrap();
    let entry = listed.iter().find(|entry| entry["name"] == "system_calls").unwrap();
    if entry["available"] != true {
        println!("skipped: {}", entry["reason"]);
    }
    entry["available"] == true
}

/// Another program that counts.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Other {
    Strace,
    Perf,
}

impl Other {
    /// Returns the command that counts what is appended to it, and the file that it writes.
    fn command(self, names: &Calls, tag: &str) -> (Command, PathBuf) {
        let file = std::env::temp_dir().join(format!("thunderherd-{self:?}-{tag}-{}", std::process::id()));
        let mut command = Command::new(if self == Other::Strace { "strace" } else { "perf" });
        match self {
            Other::Strace => drop(command.args(["-f", "-c", "-o"]).arg(&file)),
            Other::Perf => {
                command.args(["stat", "-x", ",", "-o"]).arg(&file);
                for name in names.keys().filter(|name| *name != "others") {
                    let traced = TRACED_AS.iter().find(|(called, _)| called == name).map(|(_, traced)| *traced);
                    command.args(["-e", &format!("syscalls:sys_enter_{}", traced.unwrap_or(name))]);
                }
            }
        }
        (command, file)
    }

    /// Parses its output.
    fn read(self, file: &PathBuf) -> Calls {
        let text = std::fs::read_to_string(file).unwrap();
        let _ = std::fs::remove_file(file);
        let line = |line: &str| match self {
            // Columns: % time, seconds, usecs/call, calls, errors if there were any, name.
            Other::Strace => {
                let words: Vec<&str> = line.split_whitespace().collect();
                let calls = words.get(3)?.parse().ok()?;
                (words[0].parse::<f64>().is_ok() && words.last() != Some(&"total"))
                    .then(|| (words.last().unwrap().to_string(), calls))
            }
            Other::Perf => {
                let fields: Vec<&str> = line.split(',').collect();
                let name = fields.get(2)?.strip_prefix("syscalls:sys_enter_")?;
                let called = TRACED_AS.iter().find(|(_, traced)| *traced == name).map(|(called, _)| *called);
                Some((called.unwrap_or(name).to_owned(), fields[0].parse().ok()?))
            }
        };
        let calls: Calls = text.lines().filter_map(line).collect();
        assert!(!calls.is_empty(), "{self:?} printed nothing readable: {text}");
        calls
    }

    fn works(self) -> bool {
        let probe =
            if self == Other::Strace { "strace -c -f true" } else { "perf stat -e raw_syscalls:sys_enter true" };
        let probe = run(Command::new("sh").args(["-c", probe]));
        if probe.status != Some(0) {
            println!("skipped: {self:?} does not work on this machine: {}", probe.errors.trim());
        }
        probe.status == Some(0)
    }
}

const LOAD: [&str; 6] = ["bytes", "--children", "3", "--loops", "100", "--json"];

/// The server reads the clock of its CPU time repeatedly, which is a system call.
const SPINNING: &str = "prefork --compute 20us";

/// Runs a server of this design (with options) through its whole life, by a command that begins with these words. Returns
/// its last line.
fn serve(mut command: Command, design: &str) -> Value {
    command.arg("serve").args(design.split(' ')).args(["--control", "--listen", "127.0.0.1:0"]);
    let mut server = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("it can be started");
    let mut lines = BufReader::new(server.stdout.take().unwrap()).lines().map(|line| line.unwrap());
    let ready: Value = serde_json::from_str(&lines.next().expect("the server prints a line")).unwrap();
    let connect = format!("127.0.0.1:{}", ready["port"]);
    let ran = run(engine().arg("load").args(LOAD).args(["--connect", &connect]));
    assert_eq!(ran.status, Some(0), "{ran:?}");
    drop(server.stdin.take());
    let last = lines.last().expect("the server prints its summary");
    eventually("the server ends", || server.try_wait().unwrap());
    serde_json::from_str(&last).unwrap()
}

fn count() -> Command {
    let mut command = engine();
    command.args(["count", "--count", "system_calls", "--"]);
    command
}

/// Calls of processes and threads that start and end are lost most easily.
#[test]
fn system_calls_of_servers_are_those_of_strace_and_perf() {
    if !can_be_counted() {
        return;
    }
    // The others have no process or thread that ends before the server does.
    for design in ["fork_per_client", "thread_per_client", SPINNING] {
        let life = serve(count(), design);
        let ours = counted(&life);
        assert!(ours["sendto"] >= 300 && ours["accept4"] >= 300 && ours["recvfrom"] >= 300, "{design}: {ours:?}");
        let all = life["counters"]["system_calls"].as_u64().unwrap();
        assert_eq!(all, ours.values().sum::<u64>(), "{design}: each call has a name or is among others");
        for other in [Other::Strace, Other::Perf].into_iter().filter(|other| other.works()) {
            let (mut command, file) = other.command(&ours, design);
            command.arg(ENGINE);
            serve(command, design);
            let theirs = other.read(&file);
            assert_eq!(differences(&ours, other, &theirs), Vec::<String>::new(), "{design}, {other:?}: {theirs:?}");
            // Counts that miss ended children, or count a call twice, fail here.
            for wrong in [|calls: u64| calls / 2, |calls| calls * 2] {
                let wrong = ours.iter().map(|(name, &calls)| (name.clone(), wrong(calls))).collect();
                let found = differences(&wrong, other, &theirs);
                assert!(found.iter().any(|each| each.starts_with("sendto: ")), "{design}, {other:?}: {found:?}");
            }
        }
    }
}

#[test]
fn system_calls_of_a_load_are_those_of_strace_and_perf() {
    if !can_be_counted() {
        return;
    }
    let server = Server::start("prefork", "bytes", &[]);
    let connect = format!("127.0.0.1:{}", server.port);
    let load = |command: &mut Command| {
        let ran = run(command.arg("load").args(LOAD).args(["--connect", &connect]));
        assert_eq!(ran.status, Some(0), "{ran:?}");
        ran
    };
    let ran = load(&mut count());
    let ours = counted(&serde_json::from_str(ran.output.lines().last().unwrap()).unwrap());
    assert_eq!(
        (ours["connect"], ours["sendto"]),
        (300, 300),
        "a client's calls for a connection do not depend on timing"
    );
    for other in [Other::Strace, Other::Perf].into_iter().filter(|other| other.works()) {
        let (mut command, file) = other.command(&ours, "load");
        load(command.arg(ENGINE));
        let theirs = other.read(&file);
        assert_eq!(differences(&ours, other, &theirs), Vec::<String>::new(), "{other:?}: {theirs:?}");
        assert_eq!((theirs["connect"], theirs["sendto"]), (300, 300), "{other:?}");
    }
}

/// Calls that differ from run to run are compared with perf stat of the same run, which also includes the calls of `count`
/// itself.
#[test]
fn calls_that_depend_on_timing_are_those_of_perf_of_the_same_run() {
    if !can_be_counted() || !Other::Perf.works() {
        return;
    }
    let names: Calls = BY_CHANCE.into_iter().map(|name| (name.to_owned(), 0)).collect();
    let waiting = [
        ("epoll", "epoll_wait"),
        ("poll", "poll"),
        ("fork_per_client", "wait4"),
        ("prethread_queue", "futex"),
        (SPINNING, "clock_gettime"),
    ];
    for (design, waits) in waiting {
        let (mut command, file) = Other::Perf.command(&names, &format!("same-{design}"));
        command.args([ENGINE, "count", "--count", "system_calls", "--"]);
        let ours = counted(&serve(command, design));
        let theirs = Other::Perf.read(&file);
        println!("{design}: perf has {theirs:?}");
        assert!(ours[waits] > ROOM, "{design} must make many {waits}: {ours:?}");
        for (name, all) in theirs {
            let own = all.checked_sub(ours[&name]);
            assert!(own.is_some_and(|own| own <= ROOM), "{design}, {name}: {}, perf has {all}", ours[&name]);
        }
    }
}

/// An event that this machine lacks is null with the reason everywhere, and its user gets a warning at once, with the
/// nearest name.
#[test]
fn a_missing_event_is_unavailable_with_the_nearest_name() {
    let server = Server::start("prefork", "bytes", &[]);
    let connect = format!("127.0.0.1:{}", server.port);
    let load = ["load", "bytes", "--children", "1", "--loops", "3", "--connect", &connect];
    let pmu = [
        ("nothing/at-all/", &["no PMU 'nothing'"][..]),
        ("software/no-such-event/", &["'software' has no event and no key 'no-such-event'"]),
    ];
    let traced = [
        ("sched:sched_wakup", &["'sched' has no event 'sched_wakup'", "did you mean sched:sched_wakeup?"][..]),
        ("schedd:sched_waking", &["no subsystem 'schedd'", "did you mean sched:sched_waking?"]),
        ("syscalls:sys_enter_", &["sys_enter_"]),
    ];
    let traced = if can_be_counted() { &traced[..] } else { &[] };
    for (name, words) in pmu.iter().chain(traced) {
        let asked = format!("{name},task_clock");
        let holds = |reason: &str| {
            assert!(words.iter().all(|word| reason.contains(word)), "{name}: {words:?} are not in {reason}");
        };
        let ran = run(engine().args(load).args(["--json", "--count", &asked]));
        let line: Value = serde_json::from_str(&ran.output).unwrap();
        assert_eq!((ran.status, line["counters"].get(name)), (Some(0), Some(&Value::Null)), "{ran:?}");
        assert!(line["counters"]["task_clock"].is_u64(), "the others are counted: {line}");
        holds(line["unavailable"][name].as_str().unwrap());
        assert!(ran.errors.contains(&format!("warning: --count {name} will be unavailable: ")), "{ran:?}");
        assert_eq!(ran.errors.lines().count(), 1, "once: {ran:?}");
        holds(&ran.errors);

        let ran = run(engine().args(load).args(["--count", &asked]));
        assert!(ran.output.contains(&format!("{name}: unavailable: ")), "{ran:?}");
        let ran = run(engine().args(["count", "--count", &asked, "--"]).args(load).arg("--json"));
        let life: Value = serde_json::from_str(ran.output.lines().last().unwrap()).unwrap();
        assert_eq!((ran.status, life["counters"].get(name)), (Some(0), Some(&Value::Null)), "{ran:?}");
        holds(life["unavailable"][name].as_str().unwrap());

        let mut counted = Server::start("prefork", "bytes", &["--count", &asked]);
        holds(counted.ready["counters"][name].as_str().unwrap());
        assert_eq!(counted.snapshot()["counters"].get(name), Some(&Value::Null), "{name}");
        let ending = counted.stop();
        assert_eq!(ending.summary()["counters"].get(name), Some(&Value::Null), "{}", ending.summary());
        holds(ending.summary()["unavailable"][name].as_str().unwrap());
    }
}

/// tracefs belongs to root: the message says so, and names a remedy.
#[test]
fn a_user_without_tracefs_gets_the_reason() {
    let Ok(user) = Unprivileged::new().inspect_err(|reason| println!("skipped: {reason}")) else { return };
    let listed = run(user.command(None).args(["list", "counters", "--json"]));
    let listed: Vec<Value> = serde_json::from_str(&listed.output).unwrap();
    let reasons = ["system_calls", "wakeups"].map(|name| {
        let entry = listed.iter().find(|entry| entry["name"] == name).unwrap();
        (entry["available"] == false).then(|| entry["reason"].as_str().unwrap().to_owned())
    });
    let [Some(of_calls), Some(of_wakeups)] = reasons else { return println!("skipped: a user may use tracefs here") };
    for reason in [&of_calls, &of_wakeups] {
        assert!(reason.contains("mount") && reason.contains("tracing"), "{reason}");
    }
    let load = ["load", "bytes", "--connect", "127.0.0.1:1", "--children", "1", "--loops", "1", "--json"];
    let ran = run(user.command(None).args(load).args(["--count", "system_calls,sched:sched_switch"]));
    let result: Value = serde_json::from_str(ran.output.lines().last().unwrap()).unwrap();
    assert_eq!(result["unavailable"]["system_calls"], of_calls, "{result}");
    assert_eq!(result["counters"].get("sched:sched_switch"), Some(&Value::Null), "{result}");
}

/// If tracefs is mounted nowhere, root's process mounts it privately, and leaves no mount behind.
#[test]
fn root_needs_no_tracefs_to_be_mounted() {
    let load =
        "load bytes --connect 127.0.0.1:1 --children 1 --loops 1 --json --count system_calls,syscalls:sys_enter_socket";
    let without = "umount --all --types tracefs && umount --all --types debugfs && ! grep -q tracefs /proc/self/mounts";
    let words = format!("{without} || exit 77; \"$0\" {load}; grep -c tracefs /proc/self/mounts");
    let ran = run(Command::new("unshare").args(["--mount", "sh", "-c", &words, ENGINE]));
    if ran.errors.contains("unshare") || ran.status == Some(77) {
        return println!("skipped: no mount namespace without tracefs: {ran:?}");
    }
    let mut lines = ran.output.lines().rev();
    assert_eq!(lines.next(), Some("0"), "{ran:?}");
    let result: Value = serde_json::from_str(lines.next().unwrap()).unwrap();
    if !result["unavailable"]["system_calls"].is_null() {
        return println!("skipped: {}", result["unavailable"]["system_calls"]);
    }
    for name in ["system_calls.connect", "syscalls:sys_enter_socket"] {
        assert!(result["counters"][name].as_u64() > Some(0), "{name}: {result}");
    }
}

/// Compares one and the same run: perf stat of `count` includes `count` itself, so its totals are larger.
#[test]
fn totals_are_those_of_perf_of_the_same_run() {
    if !can_be_counted() || !Other::Perf.works() {
        return;
    }
    let server = Server::start("prefork", "bytes", &[]);
    let connect = format!("127.0.0.1:{}", server.port);
    let events = ["raw_syscalls:sys_enter", "sched:sched_waking", "minor-faults", "cpu-clock"];
    let counters = "system_calls,wakeups,minor_faults,cpu_clock,sched:sched_waking";
    let mut command = Command::new("perf");
    command.args(["stat", "-x", ",", "-e", &events.join(","), ENGINE, "count", "--count", counters, "load"]);
    let ran = run(command.args(["bytes", "--children", "10", "--loops", "200", "--json", "--connect", &connect]));
    assert_eq!(ran.status, Some(0), "{ran:?}");
    let life: Value = serde_json::from_str(ran.output.lines().last().unwrap()).unwrap();
    let ours = |name: &str| life["counters"][name].as_u64().unwrap_or_else(|| panic!("{name} in {life}"));
    let theirs = |event: &str| -> f64 {
        let line = ran.errors.lines().find(|line| line.contains(event)).unwrap_or_else(|| panic!("{event}: {ran:?}"));
        line.split(',').next().unwrap().parse().unwrap()
    };
    println!("perf stat: {}\ncount: {life}", ran.errors.trim());
    // Finding and opening an event takes four calls, for each of more than a hundred names.
    for (name, event, room) in [
        ("system_calls", "raw_syscalls:sys_enter", 1500.0),
        ("wakeups", "sched:sched_waking", 200.0),
        ("minor_faults", "minor-faults", 2000.0),
    ] {
        let more = theirs(event) - ours(name) as f64;
        assert!((0.0..=room).contains(&more), "{name}: perf has {more} more");
    }
    assert!(ours("system_calls") > 2000 * 5 && ours("wakeups") > 1000, "{life}");
    assert_eq!(ours("sched:sched_waking"), ours("wakeups"), "the same event by its own name");
    let share = ours("cpu_clock") as f64 / 1e6 / theirs("cpu-clock");
    assert!((0.5..=1.01).contains(&share), "cpu_clock is {share} of perf's");
}

/// Compares the processor's events, if the machine has them: perf stat of `count` includes the load. Both count at once, so
/// counters may be too few, and extrapolated counts have a larger tolerance.
#[test]
fn the_processors_events_are_those_of_perf_of_the_same_run() {
    let pairs = [("cpu_cycles", "cycles"), ("instructions", "instructions")];
    let listed = run(engine().args(["list", "counters", "--json"]));
    let listed: Vec<Value> = serde_json::from_str(&listed.output).unwrap();
    let lacks = |name: &str| listed.iter().any(|entry| entry["name"] == name && entry["available"] == false);
    if let Some((name, _)) = pairs.iter().find(|(name, _)| lacks(name)) {
        return println!("skipped: {name} is unavailable on this machine");
    }
    if !can_be_counted() || !Other::Perf.works() {
        return;
    }
    let server = Server::start("prefork", "bytes", &[]);
    let connect = format!("127.0.0.1:{}", server.port);
    let mut command = Command::new("perf");
    command.args([
        "stat",
        "-x",
        ",",
        "-e",
        "cycles,instructions",
        ENGINE,
        "count",
        "--count",
        "cpu_cycles,instructions",
    ]);
    let ran =
        run(command.args(["load", "bytes", "--children", "4", "--loops", "2000", "--json", "--connect", &connect]));
    assert_eq!(ran.status, Some(0), "{ran:?}");
    let life: Value = serde_json::from_str(ran.output.lines().last().unwrap()).unwrap();
    println!("perf stat: {}\ncount: {life}", ran.errors.trim());
    for (name, event) in pairs {
        let line = ran.errors.lines().find(|line| line.contains(event)).unwrap_or_else(|| panic!("{event}: {ran:?}"));
        let fields: Vec<&str> = line.split(',').collect();
        let (theirs, counted_for): (f64, f64) = (fields[0].parse().unwrap(), fields[4].parse().unwrap());
        let is_scaled = counted_for < 100.0 || life["multiplexing"][name]["scaled"] == true;
        let share = life["counters"][name].as_f64().unwrap() / theirs;
        // The tool that starts first also counts how the kernel starts the other: more cycles than instructions.
        let right = if is_scaled { 0.6..=1.4 } else { 0.8..=1.02 };
        assert!(right.contains(&share), "{name} is {share} of perf's, scaled: {is_scaled}");
    }
}

/// Compares events by perf's names, one per run, so that there are enough counters. Event 0xc0 counts instructions on any
/// x86.
#[test]
fn events_by_perfs_names_are_those_of_perf_of_the_same_run() {
    if !Other::Perf.works() {
        return;
    }
    let server = Server::start("prefork", "bytes", &[]);
    let connect = format!("127.0.0.1:{}", server.port);
    let of_this_processor: &[&str] = if cfg!(target_arch = "x86_64") {
        &["r00c0", "cpu/event=0xc0,umask=0x0/", "cpu/event=192,inv=0/", "cpu/config=0xc0/", "cpu/instructions/"]
    } else {
        &[]
    };
    let everywhere = ["instructions", "branches", "cache-references", "branch-misses", "dTLB-loads", "L1-icache-loads"];
    for event in everywhere.iter().chain(of_this_processor) {
        let mut command = Command::new("perf");
        command.args(["stat", "-x", ";", "-e", event, ENGINE, "count", "--count", event, "load", "bytes", "--json"]);
        let ran = run(command.args(["--children", "4", "--loops", "500", "--connect", &connect]));
        if ran.errors.contains("Cannot find PMU") {
            let mut count = engine();
            count.args(["count", "--count", event, "load", "bytes", "--json", "--connect", &connect]);
            let ours = run(&mut count);
            assert!(ours.output.contains("this kernel has no PMU"), "{event}: perf has {ran:?}, we {ours:?}");
            println!("skipped: perf reports for {event}: {}", ran.errors);
            continue;
        }
        assert_eq!(ran.status, Some(0), "{ran:?}");
        let life: Value = serde_json::from_str(ran.output.lines().last().unwrap()).unwrap();
        let (name, ours) = life["counters"].as_object().unwrap().iter().next().unwrap();
        let line = ran.errors.lines().find(|line| line.contains(event)).unwrap_or_else(|| panic!("{event}: {ran:?}"));
        let fields: Vec<&str> = line.split(';').collect();
        let Ok(theirs) = fields[0].parse::<f64>() else {
            assert!(ours.is_null() && life["unavailable"][name].is_string(), "{event}: perf has {line}, we {life}");
            println!("skipped: perf reports for {event}: {line}");
            continue;
        };
        let share = ours.as_f64().unwrap_or_else(|| panic!("{event} in {life}")) / theirs;
        println!("{event}: {ours}, {share:.3} of perf's");
        let is_scaled = fields[4].parse::<f64>().unwrap() < 100.0 || life["multiplexing"][name]["scaled"] == true;
        let right = if is_scaled { 0.5..=1.5 } else { 0.7..=1.02 };
        assert!(right.contains(&share), "{event} is {share} of perf's, scaled: {is_scaled}");
    }
}
