//! Signals that end programs: a load, a server and their counts end with what they have, as after SIGINT.

use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::time::Duration;

use serde_json::{Value, json};

use crate::support::gated::Gated;
use crate::support::interactive::terminal;
use crate::support::lines::number;
use crate::support::server::Server;
use crate::support::{ENGINE, engine, process};

const LOADS: [&str; 3] = ["closed", "closed_threads", "closed_connections"];

/// Numbers of the signals that ask a program to end (signal(7)). Real-time signals have no name.
fn interrupts() -> Vec<i32> {
    let with_names = [
        libc::SIGINT,
        libc::SIGTERM,
        libc::SIGHUP,
        libc::SIGQUIT,
        libc::SIGUSR1,
        libc::SIGUSR2,
        libc::SIGALRM,
        libc::SIGVTALRM,
        libc::SIGPROF,
        libc::SIGIO,
        libc::SIGPWR,
        libc::SIGSTKFLT,
        libc::SIGXCPU,
        libc::SIGXFSZ,
    ];
    with_names.into_iter().chain([libc::SIGRTMIN(), libc::SIGRTMIN() + 3, libc::SIGRTMAX()]).collect()
}

/// Makes a command start with this action for a signal. The tests themselves may run under nohup.
fn with_action(command: &mut Command, signal: i32, action: libc::sighandler_t) -> &mut Command {
    // SAFETY: between fork and exec it makes one system call, and allocates nothing.
    unsafe {
        command.pre_exec(move || {
            (libc::signal(signal, action) != libc::SIG_ERR).then_some(()).ok_or_else(std::io::Error::last_os_error)
        })
    }
}

fn endless(load: &str, server: &Server) -> Command {
    let mut command = engine();
    command.args(["load", "bytes", "--json", "--load", load, "--loops", "10000000", "--connect", server.address()]);
    command
}

/// Waits until a load has sent further requests.
fn sends(server: &mut Server) {
    let before = number(&server.snapshot()["tally"]["requests"]);
    server.snapshot_when("the load sends requests", |snapshot| number(&snapshot["tally"]["requests"]) > before + 100);
}

/// Checks the line and the status of an interrupted load.
#[track_caller]
fn is_interrupted((result, status): (Value, Option<i32>), signal: i32) {
    assert_eq!((status, &result["interrupted"]), (Some(1), &true.into()), "{signal}: {result}");
    assert_eq!(result["tally"]["errors"], json!({}), "{signal}: {result}");
    for count in [&result["tally"]["requests"], &result["connecting"]["requests"]] {
        // The server has counted more, since it is the first to know.
        assert!(number(count) > 50, "{signal}: {result}");
    }
}

#[test]
fn each_signal_that_ends_programs_ends_a_load_with_its_result() {
    let mut server = Server::start("thread_per_client", "bytes", &[]);
    for load in LOADS {
        for signal in interrupts() {
            let running = Gated::start(with_action(&mut endless(load, &server), signal, libc::SIG_DFL));
            sends(&mut server);
            process::signal_by_number(running.id(), signal);
            is_interrupted(running.end("load"), signal);
        }
    }
}

#[test]
fn each_signal_that_ends_programs_stops_a_server() {
    for signal in interrupts() {
        let server =
            Server::launch(with_action(&mut engine(), signal, libc::SIG_DFL), "prethread", "bytes", &["--pool", "2"]);
        process::signal_by_number(server.supervisor(), signal);
        server.wait().is_good();
    }
}

#[test]
fn each_signal_that_ends_programs_stops_a_server_that_is_not_ours() {
    let command = [ENGINE, "serve", "prethread", "bytes", "--listen", "{host}:{port}"];
    for signal in interrupts() {
        let mut host = engine();
        host.args(["host", "--listen", "127.0.0.1:0", "--"]).args(command);
        let host = Gated::start(with_action(&mut host, signal, libc::SIG_DFL));
        host.line("ready");
        process::signal_by_number(host.id(), signal);
        let (summary, status) = host.end("summary");
        assert_eq!((status, &summary["died"]), (Some(0), &Value::Null), "{signal}: {summary}");
    }
}

#[test]
fn each_signal_that_ends_programs_ends_a_count_with_its_line() {
    for signal in interrupts() {
        let mut counted = engine();
        counted.args(["count", "--count", "voluntary_switches", "--"]);
        counted.args(["serve", "prethread", "--control", "--listen", "127.0.0.1:0"]);
        let counted = Gated::start(with_action(&mut counted, signal, libc::SIG_DFL));
        counted.line("ready");
        process::signal_by_number(counted.id(), signal);
        counted.line("summary");
        let (life, status) = counted.end("life");
        assert_eq!((status, &life["status"]), (Some(0), &json!(0)), "{signal}: {life}");
    }
}

/// As nohup(1) starts a program.
#[test]
fn a_signal_that_the_caller_ignores_stays_ignored() {
    for signal in [libc::SIGHUP, libc::SIGQUIT, libc::SIGRTMIN()] {
        let ignoring = &mut engine();
        let mut server =
            Server::launch(with_action(ignoring, signal, libc::SIG_IGN), "thread_per_client", "bytes", &[]);
        process::signal_by_number(server.supervisor(), signal);
        for load in LOADS {
            let running = Gated::start(with_action(&mut endless(load, &server), signal, libc::SIG_IGN));
            sends(&mut server);
            process::signal_by_number(running.id(), signal);
            // Longer than the load would take to end.
            std::thread::sleep(Duration::from_millis(200));
            sends(&mut server);
            process::signal_by_number(running.id(), libc::SIGTERM);
            is_interrupted(running.end("load"), signal);
        }
        server.stop().is_good();
    }
}

/// The kernel signals only the first process of the terminal's session, which passes the signal on.
#[test]
fn a_count_on_a_terminal_that_hangs_up_ends_with_its_line() {
    let mut server = Server::start("thread_per_client", "bytes", &[]);
    let mut counted = engine();
    counted.args(["count", "--count", "voluntary_switches", "--"]).args(endless("closed", &server).get_args());
    with_action(&mut counted, libc::SIGHUP, libc::SIG_DFL);
    let (ours, theirs) = terminal();
    let lead_session = || {
        // SAFETY: the calls take numbers.
        let leads = unsafe { libc::setsid() != -1 && libc::ioctl(libc::STDIN_FILENO, libc::TIOCSCTTY, 0) == 0 };
        if leads { Ok(()) } else { Err(std::io::Error::last_os_error()) }
    };
    // SAFETY: between fork and exec it makes two system calls, and allocates nothing.
    unsafe { counted.pre_exec(lead_session) };
    let counted = Gated::start_with_input(&mut counted, Stdio::from(theirs));
    sends(&mut server);
    drop(ours);
    assert_eq!(counted.line("load")["interrupted"], true);
    let (life, status) = counted.end("life");
    assert_eq!((status, &life["status"]), (Some(1), &json!(1)), "{life}");
}
