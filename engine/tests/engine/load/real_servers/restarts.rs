//! Servers of the distribution that start again, or read their configuration again, while they are under load.

use std::process::Stdio;
use std::time::Duration;

use nix::sys::signal::Signal;
use serde_json::{Value, json};

use super::{RealServer, loads};
use crate::support::event_loops::{back_ends, count};
use crate::support::{engine, eventually};

/// Loads that end by time, with persistent connections.
fn timed() -> Vec<String> {
    let open = back_ends().into_iter().map(|back_end| format!("--load open --rate 2000 {back_end} --clients 8"));
    loads().into_iter().map(|load| load + " --clients 4").chain(open).collect()
}

/// Seconds of a load that is to have replies before something happens to its server, and after it. On a busy machine, the load
/// may be over too soon.
const SECONDS: [u64; 4] = [1, 3, 9, 27];

/// Runs a load, and does something to its server once it has had replies.
fn while_loaded(server: &mut RealServer, options: &str, act: impl FnOnce(&mut RealServer)) -> Value {
    let before = server.logged("200");
    let mut command = engine();
    command.args([
        "load",
        "http",
        "--connect",
        &format!("127.0.0.1:{}", server.port),
        "--path",
        "/page.html",
        "--json",
    ]);
    command.args(options.split_whitespace()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut load = command.spawn().unwrap();
    eventually("the server has had requests, or the load is over", || {
        (server.logged("200") > before + 100 || load.try_wait().unwrap().is_some()).then_some(())
    });
    act(server);
    let output = load.wait_with_output().unwrap();
    serde_json::from_slice(output.stdout.rsplit(|byte| *byte == b'\n').nth(1).unwrap()).unwrap()
}

/// Its workers close their idle connections, and answer what they have taken.
#[test]
fn a_reload_costs_no_request() {
    let servers = [(RealServer::nginx(""), Signal::SIGHUP), (RealServer::apache(""), Signal::SIGUSR1)];
    for (server, reload) in servers {
        let Some(mut server) = server else { continue };
        for which in timed() {
            let before = server.logged("200");
            let line = while_loaded(&mut server, &format!("{which} --duration 1s"), |server| {
                for _ in 0..3 {
                    server.signal(reload);
                    std::thread::sleep(Duration::from_millis(200));
                }
            });
            assert_eq!(&line["tally"]["errors"], &json!({}), "{} {which}: {line}", server.program.display());
            let replies = count(&line, "tally.requests");
            server.has_logged("200", before, replies);
        }
    }
}

/// It has no listener for a while. Failures are counted, and the load goes on when it is there again.
#[test]
fn a_server_that_starts_again_is_met_again() {
    for mut server in [RealServer::nginx(""), RealServer::apache("")].into_iter().flatten() {
        for which in timed() {
            let is_met = SECONDS.into_iter().any(|seconds| is_met_again(&mut server, &which, seconds));
            assert!(is_met, "{which}");
        }
    }
}

/// Whether a load of so many seconds was refused by the server that starts again, and then had replies of it.
fn is_met_again(server: &mut RealServer, which: &str, seconds: u64) -> bool {
    let before = server.logged("200");
    let mut at_restart = 0;
    let options = format!("{which} --give-up 100 --duration {seconds}s");
    let line = while_loaded(server, &options, |server| {
        server.starts_again(Duration::from_millis(100));
        at_restart = server.logged("200");
    });
    let replies = count(&line, "tally.requests");
    let kinds = line["tally"]["errors"].as_object().unwrap();
    let errors: u64 = kinds.values().map(|each| each.as_u64().unwrap()).sum();
    // A server logs a reply after it has sent it. A reply may have been written and not read.
    let logged = eventually("the server has logged every reply", || {
        let logged = server.logged("200") - before;
        (logged >= replies).then_some(logged)
    });
    let most = replies + errors + count(&line, "tally.sent_again");
    assert!((replies..=most).contains(&logged), "{logged}, {which}: {line}");
    kinds.contains_key("refused") && server.logged("200") > at_restart
}
