//! Features that a machine, or a policy on it, does not offer: listed with the reason, and refused in one line.

use serde_json::Value;

use crate::support::client::Client;
use crate::support::protocol::bytes;
use crate::support::server::Server;
use crate::support::{Ran, Unprivileged, engine, one_line, refused, run, seccomp};

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
        // If the administrator has also forbidden it, that is the reason.
        assert!(reason.contains("io_uring_setup"), "{reason}");
        assert!(reason.contains(word) || reason.contains("kernel.io_uring_disabled"), "{reason}");
        assert_eq!(design["available"], false, "{design}");

        let listed = under(error, &["list", "designs"]).output;
        assert!(listed.contains(reason), "{listed}");

        let ran = under(error, &["serve", "io_uring", "--listen", "127.0.0.1:0"]);
        refused(&ran, "design.unavailable", &["io_uring", reason]);
    }
}

#[test]
fn a_load_that_is_to_wait_with_a_ring_is_refused_with_the_reason() {
    let load = ["load", "bytes", "--connect", "127.0.0.1:1", "--load", "closed_connections", "--loops", "1"];
    for error in [libc::EPERM, libc::ENOSYS] {
        let ran = under(error, &[&load[..], &["--back-end", "io_uring"]].concat());
        one_line(&ran, 2, &["--back-end", "io_uring_setup"]);
        // With another back end it continues, and finds that nobody listens.
        assert_eq!(under(error, &load).status, Some(1));
    }
}

/// Filters of containers that are older than epoll_pwait2 answer EPERM to it, as to every call that they do not know.
#[test]
fn a_load_with_epoll_needs_no_call_that_an_old_filter_forbids() {
    let server = Server::start("thread_per_client", "bytes", &[]);
    for error in [libc::EPERM, libc::ENOSYS] {
        for ends in ["--loops 20", "--duration 100ms --connections kept --think 1ms"] {
            let mut command = engine();
            command.args(["load", "bytes", "--connect", server.address(), "--load", "closed_connections", "--json"]);
            seccomp::forbid(command.args(ends.split(' ')), libc::SYS_epoll_pwait2, error);
            let ran = run(&mut command);
            assert_eq!(ran.status, Some(0), "{error} {ends}: {ran:?}");
        }
    }
}

/// What is done without a call is listed for `doctor`, next to whether the call exists.
#[test]
fn a_call_that_is_replaced_is_listed_with_what_is_done_instead() {
    let mut command = engine();
    seccomp::forbid(command.args(["list", "--json"]), libc::SYS_epoll_pwait2, libc::EPERM);
    let listed: Value = serde_json::from_str(&run(&mut command).output).expect("list --json prints an object");
    let fallbacks = listed["fallbacks"].as_array().unwrap_or_else(|| panic!("{listed}"));
    let forbidden = fallbacks.iter().find(|each| each["name"] == "epoll_pwait2(2)").expect("it is listed");
    assert_eq!((&forbidden["available"], &forbidden["since"]), (&false.into(), &"5.11".into()), "{forbidden}");
    assert!(forbidden["reason"].as_str().is_some_and(|text| text.contains("seccomp")), "{forbidden}");
    assert!(forbidden["instead"].as_str().is_some_and(|text| text.contains("ppoll")), "{forbidden}");
}

/// Checks the test's own filter: everything that it does not forbid works under it.
#[test]
fn the_filter_forbids_nothing_else() {
    let listed = under(libc::EPERM, &["list", "designs", "--json"]);
    let designs: Vec<Value> = serde_json::from_str(&listed.output).unwrap();
    assert!(designs.iter().any(|design| design["available"] == true), "{listed:?}");
    let mut command = engine();
    seccomp::forbid(&mut command, libc::SYS_io_uring_setup, libc::EPERM);
    let server = Server::launch(&mut command, "tokio", "bytes", &[]);
    Client::connect(server.port).exchange(&bytes(4000));
    server.stop().is_good();
}

/// A runtime that cannot make its threads ends with a message, instead of serving with fewer.
#[test]
fn a_runtime_whose_threads_cannot_be_made_is_reported() {
    let Ok(user) = Unprivileged::new().inspect_err(|reason| println!("skipped: {reason}")) else { return };
    let options = ["--runtime", "multi_thread", "--worker-threads", "15"];
    let server = Server::launch(&mut user.command(Some(8)), "tokio", "bytes", &options);
    server.wait().is_reported(&["cannot create the runtime", "--worker-threads", "ulimit -u"]);
}

/// Work for a pool that cannot make its first thread: that connection is closed and tallied, and the server continues.
#[test]
fn work_that_finds_no_thread_is_tallied() {
    let Ok(user) = Unprivileged::new().inspect_err(|reason| println!("skipped: {reason}")) else { return };
    let options = ["--work", "blocking_pool", "--compute", "10us"];
    let mut server = Server::launch(&mut user.command(None), "tokio", "bytes", &options);
    user.limit_processes(server.first, 1);
    let exchange = bytes(4000);
    for _ in 0..3 {
        let mut client = Client::connect(server.port);
        client.send(&exchange.request);
        client.receive_until_cut(b"");
    }
    server.snapshot_when("three refusals, all closed", |snapshot| {
        snapshot["tally"]["errors"]["resource_limit"] == 3 && snapshot["tally"]["closed"] == 3
    });
    // Requests that need no thread are answered as before.
    Client::connect(server.port).half_close();
    server.snapshot_when("four closed", |snapshot| snapshot["tally"]["closed"] == 4);
    let ending = server.stop();
    assert_eq!(ending.summary()["died"], serde_json::Value::Null);
    ending.leaves_nothing();
}

/// Features of each entry are listed, each tried. A filter makes exactly the entries unavailable that need the forbidden
/// feature.
#[test]
fn the_features_of_an_entry_are_listed_and_tried() {
    let mut command = engine();
    seccomp::forbid(command.args(["list", "primitives", "--json"]), libc::SYS_splice, libc::EPERM);
    let primitives: Vec<Value> = serde_json::from_str(&run(&mut command).output).expect("list --json prints a list");
    for primitive in &primitives {
        let rests_on = primitive["rests_on"].as_array().unwrap_or_else(|| panic!("{primitive}"));
        assert!(!rests_on.is_empty(), "{primitive}");
        let splice = rests_on.iter().find(|feature| feature["name"] == "splice(2)");
        assert_eq!(splice.is_some(), primitive["name"] == "splice" || primitive["name"] == "vmsplice", "{primitive}");
        let Some(splice) = splice else { continue };
        assert_eq!((&splice["since"], &splice["available"]), (&"2.6.17".into(), &false.into()), "{splice}");
        assert!(splice["reason"].as_str().unwrap().contains("seccomp"), "{splice}");
        assert_eq!((&primitive["available"], &primitive["reason"]), (&false.into(), &splice["reason"]), "{primitive}");
    }
}
