//! The CPU time of a server's whole process tree is compared with a control group made for the purpose. The kernel charges
//! it with everything that runs in it, including processes that end, are killed, or lose their parent.
//!
//! The group also contains the supervisor, whose own CPU time the kernel reports (/proc/ID/schedstat) and which is
//! subtracted. Everything is read while the server sleeps or is stopped, so all readings are of the same moment.

use std::fs;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use nix::sys::signal::Signal;
use serde_json::Value;

use crate::support::server::{Ending, Server};
use crate::support::{ENGINE, engine, eventually, process, run};

/// Maximum difference of the engine's figure from the kernel's, relative.
const TOLERANCE: f64 = 0.02;

/// Minimum share of the kernel's figure even for a CPU source that misses something.
const FLOOR: f64 = 0.5;

/// Tests of a design with every CPU source, named after the entities that it makes by the thousand.
macro_rules! by_every_source {
    ($($name:ident: $design:literal, $lives:ident, $test:ident;)+) => {
        $(mod $name {
            use super::{Lives, with_group};

            #[test]
            fn cgroup() {
                with_group("cgroup", $design, Lives::$lives, super::$test);
            }

            #[test]
            fn process_clocks() {
                with_group("process_clocks", $design, Lives::$lives, super::$test);
            }

            #[test]
            fn perf_event() {
                with_group("perf_event", $design, Lives::$lives, super::$test);
            }
        })+
    };
}

by_every_source! {
    a_thousand_short_lived_children: "fork_per_client", OfProcesses, from_first_to_last;
    workers_that_die_after_their_parent: "prefork", OfProcesses, workers_that_die_after_their_parent;
    a_thousand_threads_that_have_ended: "thread_per_client", OfThreads, from_first_to_last;
}

/// Runs a test in a separate control group. If there can be none, or the CPU source is unavailable, prints the reason.
fn with_group(source: &'static str, design: &'static str, lives: Lives, test: fn(&Measured)) {
    if let Some(reason) = unavailable(source) {
        return println!("skipped: {reason}");
    }
    match Group::new() {
        Ok(group) => test(&Measured { group, source, design, lives }),
        Err(reason) => println!("skipped: {reason}"),
    }
}

/// Returns why the engine cannot use this CPU source on this machine.
fn unavailable(source: &str) -> Option<String> {
    let counter = match source {
        "cgroup" => "cgroup_cpu",
        "perf_event" => "task_clock",
        other => other,
    };
    let listed = run(engine().args(["list", "counters", "--json"]));
    let counters: Vec<Value> = serde_json::from_str(&listed.output).expect("the counters are listed");
    let entry = counters.into_iter().find(|entry| entry["name"] == counter).expect("the counter is registered");
    entry["reason"].as_str().map(str::to_owned)
}

/// 1,000 connections, for each of which the design makes a process or a thread.
fn from_first_to_last(measured: &Measured) {
    let mut server = measured.start();
    let before = measured.read(&mut server);
    let ran = load(server.port, 200).wait_with_output().unwrap();
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stdout));
    server.snapshot_when("all connections closed", |snapshot| snapshot["tally"]["closed"] == 1000);
    let after = measured.read(&mut server);
    measured.window("1000 connections", &before, &after);
    server.close_input();
    let (ending, kernel) = measured.end(server);
    ending.is_good();
    measured.whole_life(&ending, kernel);
    measured.group.remove();
}

/// Kills the server's first process in the middle of a load. Its workers then become children of the supervisor, which is a
/// subreaper.
fn workers_that_die_after_their_parent(measured: &Measured) {
    let mut server = measured.start();
    let before = measured.read(&mut server);
    let load = load(server.port, 10_000_000);
    for requests in [3000, 6000] {
        let what = format!("{requests} connections");
        server.snapshot_when(&what, |snapshot| snapshot["tally"]["requests"].as_u64() > Some(requests));
        process::freeze(server.first);
        let last = measured.read_frozen(&mut server);
        process::thaw(server.first);
        measured.window(&what, &before, &last);
    }
    process::signal(server.first, Signal::SIGKILL);
    let (ending, kernel) = measured.end(server);
    ending.is_reported(&["SIGKILL"]);
    measured.whole_life(&ending, kernel);
    let ran = load.wait_with_output().unwrap();
    assert_eq!(ran.status.code(), Some(1), "a load whose server is gone has failed");
    measured.group.remove();
}

/// The entities that ended by the thousand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Lives {
    OfProcesses,
    OfThreads,
}

/// Starts a load of 5 children, outside the group.
fn load(port: u16, loops: u32) -> Child {
    let (connect, loops) = (format!("127.0.0.1:{port}"), loops.to_string());
    let mut command = engine();
    command.args(["load", "bytes", "--json", "--connect", &connect, "--children", "5", "--loops", &loops]);
    command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().expect("the engine can be started")
}

/// A server whose CPU time is measured by the engine and by the kernel.
struct Measured {
    group: Group,
    source: &'static str,
    design: &'static str,
    lives: Lives,
}

/// CPU time of the server at one moment, in nanoseconds.
struct Reading {
    engine: u64,
    kernel: u64,
}

impl Measured {
    /// Starts a server in the group. The shell that moves there becomes the supervisor. Its earlier usage, which the group
    /// was not charged with, is noted.
    fn start(&self) -> Server {
        let script = format!(
            "echo $$ >{0}/cgroup.procs && read -r used rest </proc/$$/schedstat && echo $used >{1} && exec \"$0\" \"$@\"",
            self.group.folder.display(),
            self.group.used_before.display(),
        );
        let mut command = Command::new("sh");
        command.args(["-c", &script, ENGINE]);
        // By default the control group must be used.
        let choice = if self.source == "cgroup" { "auto" } else { self.source };
        let server = Server::launch(&mut command, self.design, "bytes", &["--cpu-source", choice]);
        assert_eq!(server.ready["cpu_source"], self.source, "{}", server.ready);
        let says_too_low = server.ready["cpu_source_reason"].as_str().is_some_and(|reason| reason.contains("too low"));
        assert_eq!(says_too_low, self.source != "cgroup", "{}", server.ready);
        server.settle();
        server
    }

    /// Reads both while the server sleeps.
    fn read(&self, server: &mut Server) -> Reading {
        server.sleeps();
        self.read_frozen(server)
    }

    /// Reads both while the server is stopped.
    fn read_frozen(&self, server: &mut Server) -> Reading {
        let snapshot = server.snapshot();
        let supervisor = server.supervisor();
        eventually("the supervisor sleeps", || (process::thread_states(supervisor) == ['S']).then_some(()));
        let engine = snapshot["cpu_ns"].as_u64().expect("the source has a figure at any moment");
        Reading { engine, kernel: self.group.nanoseconds() + self.used_before() - process::cpu_nanoseconds(supervisor) }
    }

    /// Waits for the end. The supervisor's own CPU time is read after that, and before it is reaped.
    fn end(&self, server: Server) -> (Ending, u64) {
        let supervisor = server.supervisor();
        eventually("the supervisor has ended", || (process::Process::read(supervisor)?.state == 'Z').then_some(()));
        let kernel = self.group.nanoseconds() + self.used_before() - process::cpu_nanoseconds(supervisor);
        (server.wait(), kernel)
    }

    /// Usage of the supervisor before it entered the group.
    fn used_before(&self) -> u64 {
        let text = fs::read_to_string(&self.group.used_before).expect("the shell has written it");
        text.trim().parse().expect("it is a number")
    }

    /// Checks the difference of two readings. An inexact CPU source says so, and is too low, never too high: process clocks
    /// miss the last steps of threads; a perf event misses those of processes too, and a part of every switch.
    fn window(&self, what: &str, before: &Reading, after: &Reading) {
        let (difference, words) =
            self.compare(what, self.source, after.engine - before.engine, after.kernel - before.kernel);
        let exact = match self.source {
            "cgroup" => true,
            "process_clocks" => self.lives == Lives::OfProcesses,
            _ => false,
        };
        assert!(difference < TOLERANCE, "{words}");
        assert!(difference > if exact { -TOLERANCE } else { FLOOR - 1.0 }, "{words}");
    }

    /// Checks the summary. Its total is from the control group if there is one; user and system time are from getrusage,
    /// which misses only the last steps of detached threads.
    fn whole_life(&self, ending: &Ending, kernel: u64) {
        let summary = ending.summary();
        let number = |name: &str| summary[name].as_u64().expect("a number");
        let (difference, words) =
            self.compare("the whole life", "getrusage", number("user_ns") + number("system_ns"), kernel);
        assert!(difference < TOLERANCE, "{words}");
        let exact = self.lives == Lives::OfProcesses;
        assert!(difference > if exact { -TOLERANCE } else { FLOOR - 1.0 }, "{words}");
        if self.source == "cgroup" {
            let (difference, words) = self.compare("the whole life", "the summary", number("cpu_ns"), kernel);
            assert!(difference.abs() < TOLERANCE, "{words}");
        } else {
            assert_eq!(number("cpu_ns"), number("user_ns") + number("system_ns"), "{summary}");
        }
    }

    /// Returns the engine's figure relative to the kernel's, minus 1, and its text.
    fn compare(&self, what: &str, source: &str, engine: u64, kernel: u64) -> (f64, String) {
        let milliseconds = |nanoseconds: u64| nanoseconds as f64 / 1e6;
        let difference = engine as f64 / kernel as f64 - 1.0;
        let words = format!(
            "{}, {what}: {source} says {:.3} ms, the control group {:.3} ms, a difference of {:+.2} %",
            self.design,
            milliseconds(engine),
            milliseconds(kernel),
            100.0 * difference
        );
        println!("{words}");
        assert!(kernel > 20_000_000, "too little to be measured: {words}");
        (difference, words)
    }
}

/// A control group of the version 2 hierarchy (Linux, Documentation/admin-guide/cgroup-v2.rst).
struct Group {
    folder: PathBuf,
    /// File with the supervisor's usage before it entered the group.
    used_before: PathBuf,
}

impl Group {
    /// Makes a group below this process's. The error is the reason why there can be none.
    fn new() -> Result<Group, String> {
        static GROUPS: AtomicU32 = AtomicU32::new(0);
        let read = |file: &str| fs::read_to_string(file).map_err(|error| format!("{file}: {error}"));
        let mounts = read("/proc/self/mounts")?;
        let mut mounts = mounts.lines().map(|line| line.split(' ').collect::<Vec<_>>());
        let mount =
            mounts.find(|fields| fields.get(2) == Some(&"cgroup2")).ok_or("no cgroup2 file system is mounted")?;
        let groups = read("/proc/self/cgroup")?;
        let own = groups.lines().find_map(|line| line.strip_prefix("0::/")).ok_or("in no version 2 control group")?;
        let name = format!("cpu-accounting-{}-{}", std::process::id(), GROUPS.fetch_add(1, Relaxed));
        let folder = PathBuf::from(mount[1]).join(own).join(&name);
        fs::create_dir(&folder).map_err(|error| format!("{} cannot be made: {error}", folder.display()))?;
        let group = Group { folder, used_before: std::env::temp_dir().join(name) };
        let procs = group.folder.join("cgroup.procs");
        // A group can often be made even if no process may be moved into it.
        let mut probe = Command::new("sleep").arg("60").spawn().map_err(|error| format!("sleep: {error}"))?;
        let moved = fs::write(&procs, probe.id().to_string());
        let _ = probe.kill().and_then(|()| probe.wait());
        moved.map_err(|error| format!("{} cannot be written: {error}", procs.display()))?;
        if !group.folder.join("cpu.stat").exists() {
            return Err("the control group has no cpu.stat".to_owned());
        }
        Ok(group)
    }

    /// CPU time of everything that has ever run in the group.
    fn nanoseconds(&self) -> u64 {
        let text = fs::read_to_string(self.folder.join("cpu.stat")).expect("cpu.stat can be read");
        let number = text.lines().find_map(|line| line.strip_prefix("usage_usec ")).expect("cpu.stat has usage_usec");
        number.parse::<u64>().expect("it is a number") * 1000
    }

    /// Removes the group. That works only if the engine left neither a process nor a group in it.
    fn remove(&self) {
        eventually("the group is empty", || fs::remove_dir(&self.folder).ok());
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.used_before);
        if self.folder.exists() {
            // A test has failed. Its processes in the group are killed, if the kernel offers that (since 5.14).
            let _ = fs::write(self.folder.join("cgroup.kill"), "1");
            for below in fs::read_dir(&self.folder).into_iter().flatten().flatten() {
                let _ = fs::remove_dir(below.path());
            }
            let _ = fs::remove_dir(&self.folder);
        }
    }
}
