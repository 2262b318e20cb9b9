//! What a machine, or a policy on it, does not offer: it is listed with the reason, and refused in one line.

mod support;

use serde_json::Value;
use support::{Ran, engine, run, seccomp};

fn under(error: i32, arguments: &[&str]) -> Ran {
    let mut command = engine();
    seccomp::forbid(command.args(arguments), libc::SYS_io_uring_setup, error);
    run(&mut command)
}

fn ring_of(listed: &str) -> Value {
    let designs: Vec<Value> = serde_json::from_str(listed).expect("list --json prints a list");
    designs.into_iter().find(|design| design["name"] == "io_uring").expect("it is registered")
}

#[test]
fn a_ring_that_a_filter_forbids_is_listed_with_the_reason_and_refused() {
    for (error, word) in [(libc::EPERM, "policy"), (libc::ENOSYS, "seccomp")] {
        let listed = under(error, &["list", "designs", "--json"]);
        let design = ring_of(&listed.output);
        let reason = design["reason"].as_str().unwrap_or_else(|| panic!("{design}"));
        // Where the administrator has forbidden it besides, that is what is said.
        assert!(reason.contains("io_uring_setup"), "{reason}");
        assert!(reason.contains(word) || reason.contains("kernel.io_uring_disabled"), "{reason}");
        assert_eq!(design["available"], false, "{design}");

        let listed = under(error, &["list", "designs"]).output;
        assert!(listed.contains(&format!("not available here: {reason}")), "{listed}");

        let ran = under(error, &["serve", "io_uring", "--listen", "127.0.0.1:0"]);
        assert_eq!((ran.status, ran.output.as_str()), (Some(2), ""), "{ran:?}");
        assert_eq!(ran.errors.lines().count(), 1, "{ran:?}");
        assert!(ran.errors.contains("io_uring cannot run here") && ran.errors.contains(reason), "{ran:?}");
    }
}

/// The filter is the test's, and what it does not forbid works under it.
#[test]
fn what_the_filter_does_not_forbid_is_not_refused() {
    let listed = under(libc::EPERM, &["list", "designs", "--json"]);
    let designs: Vec<Value> = serde_json::from_str(&listed.output).unwrap();
    assert!(designs.iter().any(|design| design["available"] == true), "{listed:?}");
    let mut command = engine();
    seccomp::forbid(&mut command, libc::SYS_io_uring_setup, libc::EPERM);
    let server = support::server::Server::launch(&mut command, "tokio", "bytes", &[]);
    support::client::Client::connect(server.port).exchange(&support::protocol::bytes(4000));
    server.stop().is_good();
}
