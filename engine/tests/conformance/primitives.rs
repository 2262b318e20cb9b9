//! Every primitive at the serving end: with well-behaved clients under every design, with others under one design for each
//! way of waiting, and with every workload. Combinations that do not fit are refused with the reason.
//!
//! A test's name is `design --option primitive::workload::what_happens`: the primitive is an option of the server, and the
//! tests are those of every design.

use libtest_mimic::{Completion, Trial};
use serde_json::Value;

use crate::rig::{Case, Kind, Listed, Rig};
use crate::support::protocol::{Exchange, PROTOCOLS, Protocol};
use crate::support::{self, engine, one_line, process};
use crate::{clients, faults, name};

/// A design for each way of waiting that most primitives support: in the call, level-triggered readiness, and edge-triggered
/// readiness.
const REPRESENTATIVES: [&str; 3] = ["thread_per_client", "epoll", "epoll_edge"];

/// Tests of every pair of design and primitive.
const EVERYWHERE: &[Listed] = faults![right_replies_and_a_right_account];

/// Tests of the representatives with each primitive.
const FAULTS: &[Listed] = faults![a_thousand_connections_leave_nothing_behind];

/// Tests of designs that depend on how bytes are moved.
const OF_DESIGNS: [&str; 5] =
    ["resets_in_mid_reply", "resets_at_random_moments", "nothing_to_do", "a_slow_reader", "stopped_and_continued"];

/// Makes the tests of one design with every primitive.
pub fn trials(catalogue: &Value, design: &Value, kind: Kind) -> Vec<Trial> {
    let mut trials = Vec::new();
    for primitive in catalogue["primitives"].as_array().expect("a list") {
        let option = if primitive["moves"] == "out" { "--primitive" } else { "--receive" };
        let mut with = design.clone();
        with["name"] = format!("{} {option} {}", name(design), name(primitive)).into();
        with["completes"] = primitive["completes"].clone();
        if let Some(reason) = primitive["reason"].as_str() {
            let reason = reason.to_owned();
            trials.push(Trial::ignorable_test(name(&with), move || Ok(Completion::ignored_with(reason))));
            continue;
        }
        for (number, protocol) in PROTOCOLS.iter().enumerate() {
            let tests = tests(&name(design), number == 0);
            if tests.is_empty() {
                continue;
            }
            if let Some(reason) = hole(catalogue, design, primitive, protocol) {
                trials.push(refused(&name(&with), protocol, reason));
                continue;
            }
            for (fault, test) in tests {
                let case = Case { design: with.clone(), kind, protocol };
                let title = format!("{}::{}::{fault}", case.name(), protocol.name);
                trials.push(Trial::ignorable_test(title, move || test(&case)));
            }
        }
    }
    trials
}

/// Returns the tests of a design, with the first of the workloads or with another.
fn tests(design: &str, first: bool) -> Vec<Listed> {
    let representative = REPRESENTATIVES.contains(&design);
    let mut tests = if first || representative { EVERYWHERE.to_vec() } else { Vec::new() };
    if first && representative {
        tests.extend(FAULTS);
        tests.extend(clients::FAULTS.iter().filter(|(name, _)| OF_DESIGNS.contains(name)));
        assert_eq!(tests.len(), EVERYWHERE.len() + FAULTS.len() + OF_DESIGNS.len());
    }
    tests
}

/// Returns why they do not fit, as listed by the program.
fn hole(catalogue: &Value, design: &Value, primitive: &Value, protocol: &Protocol) -> Option<String> {
    let holes = catalogue["holes"].as_array().expect("a list");
    let hole = holes.iter().find(|hole| {
        let of_service = hole["workload"] == protocol.name && hole["end"] == "service";
        hole["primitive"] == primitive["name"] && (hole["design"] == design["name"] || of_service)
    })?;
    Some(hole["reason"].as_str().expect("a hole has a reason").to_owned())
}

/// Makes a test that the command line refuses the pair with this reason, and starts nothing.
fn refused(title: &str, protocol: &'static Protocol, reason: String) -> Trial {
    let words = title.to_owned();
    Trial::test(format!("{title}::{}::is_refused", protocol.name), move || {
        let mut command = engine();
        command.arg("serve").args(words.split(' ')).args(["--workload", protocol.name, "--listen", "127.0.0.1:0"]);
        one_line(&support::run(&mut command), 2, &[&reason, "list --matrix"]);
        Ok(())
    })
}

/// Small replies and one larger than all buffers, several on a connection, byte by byte. All bytes and completions are
/// counted.
fn right_replies_and_a_right_account(case: &Case) {
    // One client at a time needs only one worker.
    let mut rig = Rig::new(case, &[case.protocol.large_options(), case.pool("2")].concat());
    let mut client = rig.connect();
    // With the options for a large reply, only the first of the other replies is known.
    let (first, all) = (case.exchange(), (case.protocol.exchanges)());
    let exchanges: Vec<&Exchange> = match case.protocol.large_exchange() {
        Some(large) => vec![&first, large, &first],
        None => all.iter().collect(),
    };
    client.send(&exchanges.iter().flat_map(|exchange| exchange.request.clone()).collect::<Vec<_>>());
    for exchange in &exchanges {
        client.receive(&exchange.reply);
        rig.expected.requests += 1;
    }
    rig.asks(&mut client, &first);
    client.half_close();
    client.receive_to_end(b"");
    // The same exchange at the beginning and at the end.
    let others = [&first; 3];
    let bytes =
        |of: fn(&Exchange) -> &Vec<u8>| exchanges.iter().chain(&others).map(|each| of(each).len()).sum::<usize>();
    let (sent, received) = (bytes(|exchange| &exchange.reply), bytes(|exchange| &exchange.request));
    let tally = rig.finish_with_tally();
    assert_eq!((&tally["bytes_sent"], &tally["bytes_received"]), (&sent.into(), &received.into()), "{tally}");
    let [requests, completions, copied] =
        ["requests", "completions", "completions_copied"].map(|name| tally[name].as_u64().expect("a count"));
    if case.design["completes"] == true {
        let framed = case.protocol.framed;
        assert!(completions > 0 && (completions >= requests || !framed) && copied == completions, "loopback: {tally}");
    } else {
        assert_eq!((completions, copied), (0, 0), "{tally}");
    }
}

/// After a thousand connections, some of them persistent for a while, the server has no more descriptors, processes or
/// threads than after the first.
fn a_thousand_connections_leave_nothing_behind(case: &Case) {
    let mut rig = Rig::new(case, &[]);
    let exchange = case.exchange();
    let mut kept = std::collections::VecDeque::new();
    for _ in 0..1000 {
        let mut client = rig.connect();
        rig.asks(&mut client, &exchange);
        kept.push_back(client);
        if kept.len() > 20 {
            kept.pop_front();
        }
    }
    drop(kept);
    rig.catches_up();
    support::eventually("the server's threads are those that it had, and one that waits for completions", || {
        let threads = process::thread_states(rig.server.first).len();
        let own = if case.name().starts_with("tokio") { threads } else { 1 };
        (threads <= own + 1).then_some(())
    });
    rig.finish();
}
