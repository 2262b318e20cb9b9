//! Servers, loads and programs that are not ours, run as another user by root.

use std::process::Command;

use serde_json::Value;

use crate::support::server::Server;
use crate::support::{Unprivileged, engine, process, refused, run};

/// A user of every distribution.
const NOBODY: &str = "nobody";

/// The user of a process, if it lives.
fn user_of(id: i32) -> Option<String> {
    let status = std::fs::read_to_string(format!("/proc/{id}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("Uid:"))?;
    Some(line.split_whitespace().next()?.to_owned())
}

fn number_of(name: &str) -> String {
    let ran = run(Command::new("id").args(["-u", name]));
    ran.output.trim().to_owned()
}

fn is_root() -> bool {
    number_of("root") == run(Command::new("id").arg("-u")).output.trim()
}

#[test]
fn every_process_of_a_server_runs_as_the_user_and_is_counted() {
    if !is_root() {
        return println!("skipped: only root can run something as another user");
    }
    for design in ["iterative", "fork_per_client", "prefork", "thread_per_client", "epoll", "io_uring"] {
        let mut server = Server::start(design, "bytes", &["--user", NOBODY]);
        assert_eq!(user_of(server.supervisor()).as_deref(), Some("0"));
        let (client, nobody) = (crate::support::client::Client::connect(server.port), Some(number_of(NOBODY)));
        // It changes its user before it accepts.
        crate::support::eventually("every process runs as the user", || {
            server.processes().into_iter().all(|id| user_of(id) == nobody).then_some(())
        });
        drop(client);
        assert!(server.snapshot()["cpu_ns"].as_u64().is_some(), "{design}");
        server.stop().is_good();
    }
}

#[test]
fn a_killed_supervisor_takes_a_server_of_another_user_with_it() {
    if !is_root() {
        return println!("skipped: only root can run something as another user");
    }
    let server = Server::start("prefork", "bytes", &["--user", NOBODY]);
    let family = server.processes();
    process::kill_and_wait(server.supervisor());
    crate::support::eventually("its processes have ended", || {
        family.iter().all(|&id| !process::lives(id)).then_some(())
    });
}

#[test]
fn a_load_and_a_command_run_as_the_user() {
    if !is_root() {
        return println!("skipped: only root can run something as another user");
    }
    let server = Server::start("epoll", "bytes", &[]);
    let connect = format!("127.0.0.1:{}", server.port);
    let ran = run(engine().args(["load", "bytes", "--connect", &connect, "--user", NOBODY, "--json"]));
    assert_eq!(ran.status, Some(0), "{ran:?}");
    let line: Value = ran.output.lines().filter_map(|line| serde_json::from_str(line).ok()).next_back().unwrap();
    assert!(line["tally"]["requests"].as_u64() > Some(0) && line["tally"]["errors"] == serde_json::json!({}), "{line}");
    let ran = run(engine().args(["generate", "--user", NOBODY, "--", "id", "-u"]));
    assert_eq!(ran.output.lines().next(), Some(number_of(NOBODY).as_str()), "{ran:?}");
}

#[test]
fn an_unknown_user_is_refused() {
    if !is_root() {
        return println!("skipped: only root can run something as another user");
    }
    let ran = run(engine().args(["serve", "epoll", "--user", "no-such-user", "--listen", "127.0.0.1:0"]));
    refused(&ran, "user.unknown", &["--user no-such-user", "/etc/passwd"]);
}

#[test]
fn only_root_may_choose_a_user() {
    let words = ["serve", "epoll", "--user", NOBODY, "--listen", "127.0.0.1:0"];
    let ran = match (is_root(), Unprivileged::new()) {
        (false, _) => run(engine().args(words)),
        (true, Ok(user)) => run(user.command(None).args(words)),
        (true, Err(reason)) => return println!("skipped: {reason}"),
    };
    refused(&ran, "user.not_root", &["--user nobody"]);
}
