//! Profiles: stacks of servers and loads over real sockets, in the kernel and in the program.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::support::gated::Gated;
use crate::support::lines::number_of;
use crate::support::lines::schema;
use crate::support::server::Server;
use crate::support::{Ran, Unprivileged, engine, eventually, one_line, process, refused, run, seccomp};

/// A separate file, removed on drop.
struct Written(PathBuf);

impl Written {
    fn new(name: &str) -> Written {
        Written(std::env::temp_dir().join(format!("thunderherd-{}-{name}", std::process::id())))
    }

    fn path(&self) -> &str {
        self.0.to_str().expect("a path of this test")
    }
}

impl Drop for Written {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

/// A profile read from its file.
struct Profile {
    header: Value,
    stacks: Vec<Value>,
}

impl Profile {
    fn read(path: &Path) -> Profile {
        let schema: Value = serde_json::from_str(&run(engine().arg("schema")).output).unwrap();
        let text = fs::read_to_string(path).unwrap();
        let mut lines = text.lines().map(|line| {
            let line: Value = serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"));
            schema::check(&schema, &line).unwrap();
            line
        });
        let header = lines.next().expect("a first line");
        assert_eq!(header["line"], "profile", "{header}");
        Profile { header, stacks: lines.collect() }
    }

    /// Checks properties of every profile whose buffers have room for all samples.
    fn check(&self) {
        assert_eq!(self.header["lost"], 0, "{}", self.header);
        self.check_samples();
    }

    /// Checks properties of every profile, whether or not samples were lost.
    fn check_samples(&self) {
        let (from, to) = (number_of(&self.header, "from_ns"), number_of(&self.header, "to_ns"));
        let mut samples = 0;
        for stack in &self.stacks {
            assert_eq!(stack["line"], "stack");
            let times: Vec<u64> =
                stack["at_ns"].as_array().unwrap().iter().map(|time| time.as_u64().unwrap()).collect();
            assert!(times.is_sorted() && times[0] >= from && times[times.len() - 1] <= to, "{from} to {to}: {stack}");
            samples += times.len() as u64;
            // A program calls the kernel, never the reverse.
            let modes: Vec<&str> = frames(stack).map(|(_, mode)| mode).collect();
            assert!(modes.is_sorted_by_key(|mode| *mode == "kernel"), "{stack}");
        }
        assert_eq!(number_of(&self.header, "samples"), samples, "{}", self.header);
        assert_eq!(self.header["frame_pointers"], true, "{}", self.header);
    }

    /// Number of samples whose functions have these parts in their names, in this order, outermost first.
    fn samples(&self, parts: &[(&str, &str)]) -> usize {
        let has = |stack: &&Value| {
            let mut frames = frames(stack);
            parts.iter().all(|(part, mode)| frames.any(|(name, of)| of == *mode && name.contains(part)))
        };
        self.stacks.iter().filter(has).map(|stack| stack["at_ns"].as_array().unwrap().len()).sum()
    }
}

fn frames(stack: &Value) -> impl Iterator<Item = (&str, &str)> {
    let frames = stack["frames"].as_array().expect("frames");
    frames.iter().map(|frame| (frame[0].as_str().unwrap(), frame[1].as_str().unwrap()))
}

/// Runs a load without a server under `profile`.
fn unanswered(options: &[&str]) -> Ran {
    let load = ["load", "bytes", "--connect", "127.0.0.1:1", "--children", "1", "--json"];
    run(engine().arg("profile").args(options).args(load))
}

/// Returns why this machine takes no samples, if so.
fn perf_refused() -> Option<String> {
    let written = Written::new("probe");
    let ran = unanswered(&["--event", "cpu-clock", "--output", written.path()]);
    ran.errors.contains("perf_event_open").then(|| {
        println!("skipped: {}", ran.errors);
        ran.errors
    })
}

/// Events in a process or thread of a client are sampled, however short its life, including its time in the kernel.
#[test]
fn a_server_with_forked_children_and_threads_is_sampled() {
    if perf_refused().is_some() {
        return;
    }
    // In a single-threaded process, the C library's send has its caller's frame pointer.
    let in_child = [("::serve", "user"), ("send", "kernel")];
    let in_thread = [("start", "user"), ("thunderherd_engine", "user"), ("", "kernel")];
    for (design, parts) in [("fork_per_client", &in_child[..]), ("thread_per_client", &in_thread[..])] {
        let written = Written::new(design);
        let mut server = Gated::serve(&["profile", "--event", "cpu-clock", "--output", written.path()], design);
        let port = number_of(&server.line("ready"), "port").to_string();
        let connect = format!("127.0.0.1:{port}");
        let load = run(engine().args(["load", "bytes", "--connect", &connect, "--children", "2", "--loops", "1000"]));
        assert_eq!(load.status, Some(0), "{load:?}");
        server.input = None;
        assert_eq!(server.line("summary")["tally"]["requests"], 2000);
        let (line, status) = server.end("profile");
        assert_eq!((status, &line["status"]), (Some(0), &json!(0)), "{line}");

        let profile = Profile::read(&written.0);
        assert_eq!(profile.header, line, "the first line of the file is the last one that is printed");
        profile.check();
        assert_eq!(line["event"], "cpu-clock", "{line}");
        assert_eq!(line["why_not_cycles"], "--event cpu-clock was requested", "{line}");
        assert!(profile.stacks.iter().any(|stack| stack["command"] == "thunderherd-engine"));
        if line["kernel_symbols"] != true || line["scope"] != "cpus" {
            println!("skipped: {line}");
            continue;
        }
        assert!(profile.samples(parts) > 5, "{design}: {parts:?} is not in {:#?}", profile.stacks);
        // Each second of CPU time has the expected number of samples, although no process lives for a whole sampling period.
        let cpu_ns = number_of(&line, "user_ns") + number_of(&line, "system_ns");
        let due = cpu_ns as f64 / 1e9 * number_of(&line, "frequency_hertz") as f64;
        let share = number_of(&line, "samples") as f64 / due;
        assert!((0.4..2.5).contains(&share), "{design}: {share} of {due} samples in {line}");
    }
}

#[test]
fn a_load_is_sampled_with_the_machines_event() {
    if perf_refused().is_some() {
        return;
    }
    let written = Written::new("load");
    let server = Server::start("prefork", "bytes", &[]);
    let connect = format!("127.0.0.1:{}", server.port);
    let load = ["load", "bytes", "--connect", &connect, "--children", "2", "--loops", "500", "--json"];
    let ran = run(engine().args(["profile", "--frequency", "499", "--output", written.path()]).args(load));
    assert_eq!(ran.status, Some(0), "{ran:?}");
    let lines: Vec<Value> = ran.output.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!((lines.len(), &lines[0]["line"]), (2, &json!("load")), "{ran:?}");
    let profile = Profile::read(&written.0);
    assert_eq!(profile.header, lines[1]);
    profile.check();
    assert_eq!(profile.header["frequency_hertz"], 499);
    let clock = profile.header["event"] == "cpu-clock";
    assert_eq!(profile.header["why_not_cycles"].is_string(), clock, "{}", profile.header);
    if profile.header["kernel_symbols"] == true {
        assert!(profile.samples(&[("connect", "kernel")]) > 0, "{:#?}", profile.stacks);
    }
    // An event requested by name either works or is refused with the reason.
    let written = Written::new("cycles");
    let ran = unanswered(&["--event", "cycles", "--output", written.path()]);
    if clock {
        one_line(&ran, 1, &["--event cycles", profile.header["why_not_cycles"].as_str().unwrap()]);
    } else {
        assert_eq!(Profile::read(&written.0).header["event"], "cycles");
    }
}

#[test]
fn a_signal_ends_the_command_and_its_profile_is_written() {
    if perf_refused().is_some() {
        return;
    }
    let written = Written::new("signal");
    let server = Gated::serve(&["profile", "--output", written.path()], "prefork");
    let ready = server.line("ready");
    process::signal(number_of(&ready, "supervisor_pid") as i32, nix::sys::signal::Signal::SIGKILL);
    let (line, status) = server.end("profile");
    assert_eq!((status, &line["status"]), (Some(137), &json!(137)), "128 and SIGKILL: {line}");
    Profile::read(&written.0).check();

    let server = Gated::serve(&["profile", "--output", written.path()], "prefork");
    server.line("ready");
    let family = process::family(server.id());
    process::signal(server.id(), nix::sys::signal::Signal::SIGKILL);
    eventually("none of the family lives", || family.iter().all(|&id| !process::lives(id)).then_some(()));
}

#[test]
fn refused_sampling_is_reported_and_nothing_is_run() {
    let written = Written::new("refused");
    fs::write(&written.0, "an earlier profile").unwrap();
    let load = ["load", "bytes", "--connect", "127.0.0.1:1", "--json"];
    let mut command = engine();
    command.args(["profile", "--output", written.path()]).args(load);
    seccomp::forbid(&mut command, libc::SYS_perf_event_open, libc::EPERM);
    one_line(&run(&mut command), 1, &["perf_event_open"]);
    assert_eq!(fs::read_to_string(&written.0).unwrap(), "an earlier profile");

    let paranoid = fs::read_to_string("/proc/sys/kernel/perf_event_paranoid").unwrap_or_default();
    if paranoid.trim().parse::<i32>().ok().is_none_or(|value| value < 2) {
        return println!("skipped: kernel.perf_event_paranoid is '{}', which forbids nothing", paranoid.trim());
    }
    let Ok(user) = Unprivileged::new().inspect_err(|reason| println!("skipped: {reason}")) else { return };
    let written = Written::new("forbidden");
    let ran = run(user.command(None).args(["profile", "--output", written.path()]).args(load));
    let setting = format!("kernel.perf_event_paranoid is {}", paranoid.trim());
    one_line(&ran, 1, &[&setting, "sysctl kernel.perf_event_paranoid=1"]);
}

#[test]
fn mistakes_are_refused_before_anything_runs() {
    let written = Written::new("mistake");
    let output = ["--output", written.path()];
    let load = ["load", "bytes", "--connect", "127.0.0.1:1"];
    let profile = |options: &[&str], words: &[&str]| run(engine().arg("profile").args(options).args(words));
    refused(&profile(&[], &load), "arguments.missing", &["--output <FILE>"]);
    refused(&profile(&output, &[]), "arguments.missing", &["serve ... | load ..."]);
    refused(&profile(&output, &["list"]), "arguments.not_serve_or_load", &["profile", "list"]);
    let own = [&output[..], &["--frequency", "0"]].concat();
    refused(&profile(&own, &load), "arguments.invalid_value", &["--frequency", "0 is not in 1..=10000"]);
    let own = [&output[..], &["--event", "cycle"]].concat();
    refused(&profile(&own, &load), "arguments.invalid_value", &["'cycle'", "auto, cycles, cpu-clock"]);
    let theirs = [&load[..], &["--parent", "1"]].concat();
    refused(&profile(&output, &theirs), "arguments.parent_behind_command", &["--parent", "profile"]);
    let theirs = [&load[..], &["--childern", "1"]].concat();
    refused(&profile(&output, &theirs), "arguments.unknown", &["--childern", "--children"]);
    let nowhere = ["--output", "/nowhere/at/all"];
    refused(&profile(&nowhere, &load), "profile.output", &["--output /nowhere/at/all", "No such file"]);
    assert!(!written.0.exists(), "nothing was started");
}

/// Describes a profile beforehand: its properties, or why none is possible.
#[test]
fn a_check_reports_whether_a_profile_is_possible() {
    let checked = |command: &mut std::process::Command, options: &[&str]| -> Value {
        let ran = run(command.args(["profile", "--check"]).args(options));
        assert_eq!(ran.status, Some(0), "{ran:?}");
        let line: Value = serde_json::from_str(&ran.output).unwrap_or_else(|error| panic!("{error}: {ran:?}"));
        let schema: Value = serde_json::from_str(&run(engine().arg("schema")).output).unwrap();
        schema::check(&schema, &line).unwrap();
        assert_eq!(line["line"], "profile_check", "{line}");
        line
    };
    let here = checked(&mut engine(), &[]);
    assert_eq!(here["reason"].is_null(), here["event"].is_string() && here["scope"].is_string(), "{here}");
    assert_eq!(here["frequency_hertz"], 997);
    if here["reason"].is_null() {
        // A profile taken afterwards has the same properties.
        let written = Written::new("checked");
        unanswered(&["--output", written.path()]);
        let taken = Profile::read(&written.0).header;
        for name in ["event", "why_not_cycles", "scope", "why_not_cpus", "kernel_symbols", "frame_pointers"] {
            assert_eq!(taken[name], here[name], "{name}");
        }
    }

    let mut command = engine();
    seccomp::forbid(&mut command, libc::SYS_perf_event_open, libc::EPERM);
    let refused = checked(&mut command, &[]);
    assert!(refused["reason"].as_str().unwrap().contains("perf_event_open"), "{refused}");
    assert_eq!((&refused["event"], &refused["scope"]), (&Value::Null, &Value::Null));

    let most = fs::read_to_string("/proc/sys/kernel/perf_event_max_sample_rate").unwrap_or_default();
    if most.trim().parse::<u64>().is_ok_and(|most| most < 10_000) {
        let often = checked(&mut engine(), &["--frequency", "10000"]);
        assert!(often["reason"].as_str().unwrap().contains("perf_event_max_sample_rate=10000"), "{often}");
    }
    let ran = run(engine().args(["profile", "--check", "serve", "iterative"]));
    crate::support::refused(&ran, "arguments.conflict", &["--check"]);

    let Ok(user) = Unprivileged::new().inspect_err(|reason| println!("skipped: {reason}")) else { return };
    let theirs = checked(&mut user.command(None), &[]);
    let paranoid = fs::read_to_string("/proc/sys/kernel/perf_event_paranoid").unwrap_or_default();
    match paranoid.trim().parse::<i32>().unwrap_or_default() {
        ..=0 => assert_eq!(theirs["scope"], "cpus", "{theirs}"),
        1 => assert!(theirs["scope"] == "tree" && theirs["why_not_cpus"].is_string(), "{theirs}"),
        2.. => {
            let reason = theirs["reason"].as_str().unwrap();
            assert!(reason.contains("sysctl kernel.perf_event_paranoid=1"), "{theirs}");
            assert!(theirs["kernel_symbols"].as_str().unwrap().contains("kernel.kptr_restrict"), "{theirs}");
        }
    }
}

/// All profiles of a user share the memory that the user may lock: a server's profile leaves room for its load's.
#[test]
fn two_profiles_at_once_have_room_without_privilege() {
    let Ok(user) = Unprivileged::new().inspect_err(|reason| println!("skipped: {reason}")) else { return };
    let checked = run(user.sampling().args(["profile", "--check"]));
    if !checked.output.contains("\"reason\":null") {
        return println!("skipped: {checked:?}");
    }
    let written = ["of-server", "of-load"].map(Written::new);
    let serve = ["--", "serve", "prefork", "--control", "--listen", "127.0.0.1:0"];
    let mut server = Gated::start(user.sampling().args(["profile", "--output", written[0].path()]).args(serve));
    let connect = format!("127.0.0.1:{}", server.line("ready")["port"]);
    let load = ["load", "bytes", "--connect", &connect, "--children", "1", "--loops", "50", "--json"];
    let ran = run(user.sampling().args(["profile", "--output", written[1].path()]).args(load));
    assert_eq!(ran.status, Some(0), "{ran:?}");
    server.input = None;
    server.line("summary");
    server.end("profile");
    for each in &written {
        // On a busy machine the small buffers of both may overflow.
        Profile::read(&each.0).check_samples();
    }
}
