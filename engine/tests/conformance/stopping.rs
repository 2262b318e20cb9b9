//! The end of a server: replies in flight are finished, silent clients do not delay it, and every client is counted.

use std::time::Duration;

use nix::sys::signal::Signal;
use serde_json::Value;

use crate::faults;
use crate::rig::{Case, Listed, Rig};
use crate::support::client::Client;
use crate::support::{eventually, process};

pub const FAULTS: &[Listed] = faults![
    #[needs_a_large_reply]
    sigint_drains,
    #[needs_a_large_reply]
    sigterm_drains,
    #[needs_a_large_reply]
    the_end_of_standard_input_drains,
    stopped_as_a_connection_ends,
    a_silent_client_does_not_keep_the_server,
    no_time_to_drain,
    a_second_sigint_ends_at_once,
    clients_in_the_queue_are_reset_and_tallied,
    every_client_is_tallied_at_the_end,
];

fn sigint_drains(case: &Case) {
    drains(case, |rig| rig.server.signal(Signal::SIGINT));
}

fn sigterm_drains(case: &Case) {
    drains(case, |rig| rig.server.signal(Signal::SIGTERM));
}

fn the_end_of_standard_input_drains(case: &Case) {
    drains(case, |rig| rig.server.close_input());
}

/// A connection in flight still gets its whole reply, and no client gets a new one.
fn drains(case: &Case, stop: fn(&mut Rig<'_>)) {
    let options = [vec!["--drain", "10min"], case.protocol.large_options()].concat();
    let mut rig = Rig::new(case, &options);
    let large = case.large();
    let mut client = rig.connect_slow();
    client.send(&large.request);
    client.receive(&large.reply[..10_000]);
    stop(&mut rig);
    rig.server.stops_listening();
    let refused = std::net::TcpStream::connect(("127.0.0.1", rig.server.port));
    assert_eq!(refused.err().map(|error| error.kind()), Some(std::io::ErrorKind::ConnectionRefused));
    assert!(!rig.server.has_ended(), "the server did not wait for a connection in flight");
    client.half_close();
    client.receive_to_end(&large.reply[10_000..]);
    rig.expected.requests += 1;
    let ending = rig.server.wait();
    ending.is_good();
    rig.expected.holds(&ending);
}

/// The stop arrives just when a worker is done with its client and reports it.
fn stopped_as_a_connection_ends(case: &Case) {
    for _ in 0..5 {
        let server = case.start(&case.pool("3"));
        let exchange = case.exchange();
        let mut clients: Vec<Client> = (0..3).map(|_| case.client(&server)).collect();
        for client in &mut clients {
            client.send(&exchange.request);
            client.half_close();
        }
        for client in &mut clients {
            client.receive_to_end(&exchange.reply);
        }
        server.stop().is_good();
    }
}

fn a_silent_client_does_not_keep_the_server(case: &Case) {
    silent_client_at_the_end(case, "200ms");
}

fn no_time_to_drain(case: &Case) {
    silent_client_at_the_end(case, "0");
}

fn silent_client_at_the_end(case: &Case, drain: &str) {
    let mut rig = Rig::new(case, &["--drain", drain]);
    let mut silent = rig.connect();
    rig.until("connections", rig.expected.connections);
    let Rig { server, expected, .. } = rig;
    let ending = server.stop();
    silent.receive_until_cut(b"");
    ending.is_good();
    let tally = &ending.summary()["tally"];
    assert_eq!(tally["connections"], expected.connections, "{tally}");
    assert_eq!(tally["requests"], expected.requests, "{tally}");
    assert_eq!(tally["errors"], serde_json::json!({}), "{tally}");
}

/// A second signal skips the wait for connections in flight.
fn a_second_sigint_ends_at_once(case: &Case) {
    let mut rig = Rig::new(case, &["--drain", "10min"]);
    let silent = rig.connect();
    rig.until("connections", rig.expected.connections);
    rig.server.signal(Signal::SIGINT);
    // timeout(1) signals its child, and then its child's group: that is one stop, not two.
    rig.server.signal(Signal::SIGTERM);
    rig.server.stops_listening();
    std::thread::sleep(Duration::from_millis(200));
    assert!(!rig.server.has_ended(), "the first interrupt lets connections in flight end");
    rig.server.signal(Signal::SIGINT);
    let ending = rig.server.wait();
    ending.is_good();
    drop(silent);
}

/// Connections that the server never accepted. It is stopped meanwhile, as with Ctrl-Z, so that it cannot accept them.
fn clients_in_the_queue_are_reset_and_tallied(case: &Case) {
    let mut rig = Rig::new(case, &["--drain", "50ms"]);
    process::freeze(rig.server.first);
    let mut queued: Vec<Client> = (0..5).map(|_| Client::connect(rig.server.port)).collect();
    rig.expected.error(&["queued_at_stop"], 5);
    let Rig { server, expected, .. } = rig;
    let ending = server.stop();
    ending.is_good();
    expected.holds(&ending);
    queued.iter_mut().for_each(|client| assert_eq!(client.receive_until_cut(b""), 0));
}

/// More clients than a small pool can serve, and then the end: each of them is in the tally, as a connection or as queued at
/// the stop.
fn every_client_is_tallied_at_the_end(case: &Case) {
    let mut options = case.smallest();
    options.extend(["--drain".to_owned(), "50ms".to_owned()]);
    let mut rig = Rig::new(case, &options.iter().map(String::as_str).collect::<Vec<_>>());
    let clients: Vec<Client> = (0..6).map(|_| rig.connect()).collect();
    let mut last = (Value::Null, 0);
    eventually("the server has accepted all clients that it can", || {
        let snapshot = rig.server.snapshot();
        let mut tally = snapshot["tally"].clone();
        if rig.server.spins() {
            // The client still receives nothing.
            tally["receive_calls"] = Value::Null;
        }
        let now = serde_json::json!([tally, snapshot["listen_queue"]]);
        last = if now == last.0 { (now, last.1 + 1) } else { (now, 0) };
        (last.1 > 20).then_some(())
    });
    let Rig { server, expected, .. } = rig;
    let ending = server.stop();
    ending.is_good();
    drop(clients);
    let tally = &ending.summary()["tally"];
    let seen = tally["connections"].as_u64().unwrap_or(0) + tally["errors"]["queued_at_stop"].as_u64().unwrap_or(0);
    assert_eq!(seen, expected.connections, "connections and queued_at_stop together in {tally}");
}
