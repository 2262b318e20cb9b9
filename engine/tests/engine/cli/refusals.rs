//! Further refusals of the command line, and how they are printed.

use std::fs::File;
use std::process::Stdio;

use crate::support::{Unprivileged, engine, eventually, mistake, refused, with};

/// For an unknown option, the message lists the available ones, and the commands that have this setting, if any.
#[test]
fn an_unknown_option_is_refused_with_the_available_ones() {
    let load = "load bytes --connect 127.0.0.1:1";
    for (arguments, words) in [
        ("serve epoll_offload --threads 0", &["epoll_offload", "--threads", "load --load", "--pool", "--backlog"][..]),
        ("serve prefork --workload http --path /x", &["prefork with http", "--path", "load http"]),
        ("serve prefork --children 3", &["--children", "load --load closed;", "--respawn"]),
        ("serve iterative --ring 3", &["--ring", "serve prethread_queue;"]),
        (&format!("{load} --pool 3"), &["closed with bytes", "--pool", "serve prefork,", "--children"]),
        (&format!("{load} --backlog 3"), &["--backlog", "serve;"]),
        (&format!("count -- {load} --zzz 3"), &["--zzz"]),
        ("list --zzz", &["'--zzz'"]),
        ("serve prefork -x", &["'-x'"]),
    ] {
        let ran = with(arguments);
        let of_clap = words.len() == 1 && words[0].starts_with('\'');
        refused(&ran, if of_clap { "arguments.unknown" } else { "setting.unknown" }, words);
        assert!(!ran.errors.contains("as a value"), "{}", ran.errors);
    }
}

#[test]
fn settings_without_effect_are_refused() {
    for load in ["closed_threads", "closed_connections"] {
        let load = format!("load bytes --connect 127.0.0.1:1 --load {load}");
        mistake(&format!("{load} --loops 3 --duration 100ms"), "load.two_ends", &["--loops", "--duration"]);
        mistake(&format!("{load} --warm-up 100ms"), "load.warm_up_without_window", &["--warm-up", "--duration"]);
        assert_eq!(with(&format!("{load} --loops 1 --duration 0")).status, Some(1), "nobody listens there");
    }
}

#[test]
fn a_folder_without_processes_is_refused() {
    let empty = std::env::temp_dir().join(format!("thunderherd-no-processes-{}", std::process::id()));
    std::fs::create_dir_all(empty.join("self")).unwrap();
    for (proc, why) in
        [("/nowhere", "No such file"), ("/dev/null", "Not a directory"), (empty.to_str().unwrap(), "no process")]
    {
        let command = format!("serve prefork --workload top_processes --listen 127.0.0.1:0 --proc {proc}");
        mistake(&command, "top_processes.no_processes", &["--proc", proc, why]);
    }
    std::fs::remove_dir_all(empty).unwrap();
}

/// A reader of a pipe that goes away, as `head` does, is no mistake, and no reason to panic. The exit status is that of the
/// command.
#[test]
fn a_reader_that_goes_away_is_no_error() {
    let user = Unprivileged::new().inspect_err(|reason| println!("serve prefork is skipped: {reason}")).ok();
    let command = |arguments: &str| {
        let mut command = engine();
        command.args(arguments.split(' '));
        command
    };
    let mut cases = vec![
        (command("list --json"), 0),
        (command("schema"), 0),
        (command("serve --help"), 0),
        // Its standard input has ended already, so it stops at once, and nobody reads its lines.
        (command("serve prefork --control --listen 127.0.0.1:0"), 0),
        (command("load bytes --connect 127.0.0.1:1 --load closed --children 2"), 1),
        (command("load bytes --connect 127.0.0.1:1 --load closed_threads --show"), 1),
        (command("load bytes --connect 127.0.0.1:1 --load closed_connections --json"), 1),
        (command("serve prefrok"), 2),
        (command("count --count task_clock serve iterative --listen nowhere"), 2),
    ];
    if let Some(user) = &user {
        let mut command = user.command(Some(3));
        command.args(["serve", "prefork", "--listen", "127.0.0.1:0"]);
        cases.push((command, 1));
    }
    for (mut command, status) in cases {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let errors = writer.try_clone().unwrap();
        let mut child = command.stdin(Stdio::null()).stdout(writer).stderr(errors).spawn().expect("it starts");
        let ended = eventually("it ends", || child.try_wait().unwrap());
        assert_eq!(ended.code(), Some(status), "{command:?}: {ended}");
    }
}

/// If there is a reader, a failed write is a failure.
#[test]
fn a_failed_write_of_output_is_reported() {
    let full = File::options().write(true).open("/dev/full").unwrap();
    let output = engine().arg("schema").stdout(full).output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{errors}");
    assert!(errors.contains("os error 28"), "{errors}");
}
