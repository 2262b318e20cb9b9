//! Keepers: of a program that is not ours, no process outlives a kill of any process above it.

use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Command, Stdio};
use std::time::Duration;

use nix::sys::signal::Signal;

use crate::support::gated::Gated;
use crate::support::{ENGINE, engine, eventually, eventually_within, process};

/// Time for everything to end after a kill. A program has 5 s to end after SIGTERM.
const GONE: Duration = Duration::from_secs(10);

/// Signals that end a process at once.
const KILLS: [Signal; 2] = [Signal::SIGKILL, Signal::SIGABRT];

/// A shell's command that starts what does not end with the shell: a child, and an orphan in a session of its own.
const LEAVES: &str = "sleep 600 & (setsid sleep 600 &)";

/// Processes of which each started the next one: a shell, the keeper, the supervisor, and the first of the program.
const CHAIN: usize = 4;

/// Starts a command of the engine from a shell, with `--parent` and the shell's number.
fn from_a_shell(words: &[&str]) -> Gated {
    // A background job would read /dev/null.
    let script = "exec 3<&0; command=$1; shift; \"$0\" \"$command\" --parent $$ \"$@\" <&3 & wait";
    Gated::start(Command::new("sh").args(["-c", script, ENGINE]).args(words))
}

/// Returns a process and its descendants, once there are as many as expected.
fn whole_family(ancestor: i32, size: usize) -> Vec<i32> {
    eventually("all processes have been started", || {
        let family = process::family(ancestor);
        (family.len() == size).then_some(family)
    })
}

/// Checks that these processes end soon.
#[track_caller]
fn all_end(family: &[i32], why: &str) {
    eventually_within(GONE, why, || family.iter().all(|&id| !process::lives(id)).then_some(()));
}

/// Kills each process of the chain. The command prints a line of this kind when it has started `size` processes with the shell.
fn nothing_outlives_a_kill(words: &[&str], line: &str, size: usize) {
    for signal in KILLS {
        for victim in 0..CHAIN {
            let started = from_a_shell(words);
            started.line(line);
            let family = whole_family(started.id(), size);
            process::signal(family[victim], signal);
            all_end(&family, &format!("after {signal} of process {victim} of {family:?} all have ended"));
        }
    }
}

#[test]
fn nothing_of_a_server_outlives_a_kill_of_any_process_above_it() {
    let script = format!("{LEAVES}; {ENGINE} serve prethread bytes --listen {{host}}:{{port}} & wait");
    let words = ["host", "--listen", "127.0.0.1:0", "--", "sh", "-c", &script];
    // With the supervisor and the process of our own server.
    nothing_outlives_a_kill(&words, "ready", CHAIN + 4);
}

#[test]
fn nothing_of_a_load_generator_outlives_a_kill_of_any_process_above_it() {
    let script = format!("{LEAVES}; echo '{{\"line\":\"started\"}}'; wait");
    nothing_outlives_a_kill(&["generate", "--", "sh", "-c", &script], "started", CHAIN + 2);
}

/// As a shell kills a job.
#[test]
fn nothing_outlives_a_kill_of_the_keepers_group() {
    let script = format!("{LEAVES}; echo '{{\"line\":\"started\"}}'; wait");
    let mut command = engine();
    let started = Gated::start(command.args(["generate", "--", "sh", "-c", &script]).process_group(0));
    started.line("started");
    let family = whole_family(started.id(), CHAIN - 1 + 2);
    process::kill_group(started.id());
    all_end(&family, "all have ended");
}

#[test]
fn a_keeper_ends_by_the_signal_that_killed_its_supervisor() {
    for signal in KILLS {
        let mut command = engine();
        let command = command.args(["generate", "--", "sleep", "600"]).stdin(Stdio::null()).stdout(Stdio::null());
        let mut keeper = command.spawn().expect("the engine can be started");
        let supervisor = eventually("it has a supervisor", || process::children(keeper.id() as i32).pop());
        process::signal(supervisor, signal);
        let status = eventually("it ends", || keeper.try_wait().unwrap());
        assert_eq!(status.signal(), Some(signal as i32), "{status}");
    }
}
