//! When any process of a run dies, nothing of the run survives it.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use serde_json::Value;

use crate::support::client::Client;
use crate::support::lines::{list, name};
use crate::support::server::Server;
use crate::support::{ENGINE, engine, eventually, eventually_within, process, protocol};

/// How long survivors may take: the kernel signals them at once, but on a busy machine they wait for a CPU.
const AT_ONCE: Duration = Duration::from_secs(30);

/// Signals that end a process at once: of faults, and SIGKILL. Others are interrupts, after which a program still prints what it
/// has. SIGSEGV and SIGBUS are excluded: a Rust program handles them to detect stack overflow, and continues if there was none.
const DEADLY: [Signal; 6] =
    [Signal::SIGKILL, Signal::SIGABRT, Signal::SIGILL, Signal::SIGTRAP, Signal::SIGFPE, Signal::SIGSYS];

/// Bytes of a reply larger than any buffer.
const IN_FLIGHT: &str = "8000000";

fn designs() -> Vec<String> {
    list("designs").iter().map(|design| name(design).to_owned()).collect()
}

/// Checks that none of these processes lives.
///
/// # Panics
/// If one still lives. Then it prints what /proc/ID/status says of it.
fn all_gone(what: &str, processes: &[i32]) {
    let deadline = Instant::now() + AT_ONCE;
    loop {
        let living: Vec<i32> = processes.iter().copied().filter(|&id| process::lives(id)).collect();
        if living.is_empty() {
            return;
        }
        let status = |id: &i32| std::fs::read_to_string(format!("/proc/{id}/status")).unwrap_or_default();
        let states = || living.iter().map(status).collect::<Vec<_>>().join("\n");
        assert!(
            Instant::now() < deadline,
            "{what}: of {processes:?}, {living:?} live after {AT_ONCE:?}:\n{}",
            states()
        );
        std::thread::sleep(Duration::from_millis(3));
    }
}

/// Starts a server that serves one client, in mid-reply, and has several others.
fn busy(design: &str) -> (Server, Vec<Client>) {
    let server = Server::start(design, "bytes", &["--limit", IN_FLIGHT]);
    server.settle();
    let mut clients: Vec<Client> = (0..3).map(|_| Client::connect_slow(server.port)).collect();
    clients[0].send(format!("{IN_FLIGHT}\n").as_bytes());
    clients[0].receive(&protocol::bytes(1000).reply);
    server.sleeps();
    (server, clients)
}

#[test]
fn death_of_the_supervisor_by_any_signal() {
    for (design, other) in designs().into_iter().zip(DEADLY[1..].iter().cycle()) {
        for signal in [DEADLY[0], *other] {
            let (server, clients) = busy(&design);
            let family = process::family(server.supervisor());
            assert!(family.contains(&server.first), "{family:?}");
            process::signal(server.supervisor(), signal);
            all_gone(&format!("{design} after {signal} to its supervisor"), &family);
            // Including those that were just being forked.
            eventually_within(AT_ONCE, "the server's group is empty", || server.processes().is_empty().then_some(()));
            server.stops_listening();
            drop(clients);
        }
    }
}

#[test]
fn death_of_the_server_process() {
    for design in designs() {
        let (server, clients) = busy(&design);
        let processes = server.processes();
        process::signal(server.first, Signal::SIGKILL);
        all_gone(&design, &processes);
        server.wait().is_reported(&["SIGKILL"]);
        drop(clients);
    }
}

/// As started by a program that runs the engine: python, a shell, make.
#[test]
fn death_of_the_program_that_started_a_server() {
    for design in designs() {
        for signal in [Signal::SIGKILL, Signal::SIGHUP] {
            let mut parent = started_by_a_shell(&format!("serve {design} --control --listen 127.0.0.1:0"));
            let mut line = String::new();
            BufReader::new(parent.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
            let ready: Value = serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line}"));
            let family = process::family(parent.id() as i32);
            for key in ["supervisor_pid", "server_pid"] {
                assert!(family.contains(&(ready[key].as_i64().unwrap() as i32)), "{key} is not in {family:?}");
            }
            process::signal(parent.id() as i32, signal);
            all_gone(&format!("{design} after {signal} to what had started it"), &family);
            parent.wait().unwrap();
        }
    }
}

#[test]
fn death_of_the_program_that_started_a_load() {
    let server = Server::start("prefork", "bytes", &[]);
    for signal in [Signal::SIGKILL, Signal::SIGHUP] {
        let mut parent = started_by_a_shell(&endless_load(server.port));
        let shell = parent.id() as i32;
        let family = whole_family(shell, 2 + CHILDREN);
        process::signal(shell, signal);
        all_gone(&format!("a load after {signal} to what had started it"), &family);
        parent.wait().unwrap();
    }
}

#[test]
fn death_of_the_first_process_of_a_load() {
    let server = Server::start("prefork", "bytes", &[]);
    for signal in DEADLY.into_iter().chain([Signal::SIGTERM, Signal::SIGHUP]) {
        let mut load = engine().args(endless_load(server.port).split(' ')).stdout(Stdio::null()).spawn().unwrap();
        let family = whole_family(load.id() as i32, 1 + CHILDREN);
        process::signal(load.id() as i32, signal);
        load.wait().unwrap();
        all_gone(&format!("a load after {signal}"), &family);
    }
}

/// The load ends with its child, long before its time, and fails.
#[test]
fn death_of_a_child_of_a_load() {
    let server = Server::start("prefork", "bytes", &[]);
    let arguments = format!("load bytes --json --connect 127.0.0.1:{} --children 3 --loops 10000000", server.port);
    let mut load = engine();
    let load = load.args(arguments.split(' ')).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let parent = load.id() as i32;
    let victim = eventually("the load has its children", || {
        let children = process::children(parent);
        (children.len() == 3).then(|| children[0])
    });
    // Stopped before it can end by itself, and then killed.
    process::signal(victim, Signal::SIGSTOP);
    process::signal(victim, Signal::SIGKILL);
    let output = load.wait_with_output().unwrap();
    let line: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(1), "{line}");
    assert_eq!((&line["tally"]["workers_lost"], &line["expected_requests"]), (&1.into(), &30_000_000.into()), "{line}");
    assert!(line["first_error"].as_str().is_some_and(|text| text.contains("SIGKILL")), "{line}");
    assert!(process::children(parent).is_empty());
    assert_eq!(
        line["tally"]["errors"],
        serde_json::json!({}),
        "those that are ended for its sake are no errors: {line}"
    );
}

/// A load without any successful request ends with its server.
#[test]
fn death_of_the_server_under_a_load() {
    let server = Server::start("prefork", "bytes", &[]);
    let mut load = engine();
    let load =
        load.args(endless_load(server.port).split(' ')).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    whole_family(load.id() as i32, 1 + CHILDREN);
    process::signal(server.supervisor(), Signal::SIGKILL);
    drop(server);
    let output = load.wait_with_output().unwrap();
    let line: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(1), "{line}");
    let errors = &line["tally"]["errors"];
    assert!(["refused", "reset"].iter().any(|&kind| errors[kind].as_u64().is_some_and(|count| count > 0)), "{line}");
}

const CHILDREN: usize = 4;

fn endless_load(port: u16) -> String {
    format!("load bytes --json --connect 127.0.0.1:{port} --children {CHILDREN} --loops 10000000")
}

/// Returns all processes below one, once there are as many as expected.
fn whole_family(ancestor: i32, size: usize) -> Vec<i32> {
    eventually("all processes have been started", || {
        let family = process::family(ancestor);
        (family.len() == size).then_some(family)
    })
}

/// Starts a shell that runs the engine with `--parent` and its own number, and waits. Its standard input stays open.
fn started_by_a_shell(arguments: &str) -> Child {
    // A background job would read /dev/null.
    let script = format!("exec 3<&0; {ENGINE} {arguments} --parent $$ <&3 & wait");
    let mut command = Command::new("sh");
    command.args(["-c", &script]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("there is a shell")
}
