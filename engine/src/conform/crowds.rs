//! Many clients at once, what is left of them, and the stop while they are connected.

use crate::conform::case::{Case, STOPS, always};
use crate::conform::connection::Connection;
use crate::conform::connections::{in_mid_reply, in_mid_request};
use crate::conform::processes::Processes;
use crate::conform::subject::Subject;
use crate::conform::verdict::{Fault, Verdict};

pub const CASES: &[Case] = &[
    Case {
        number: 14,
        name: "200 connections at once",
        rule: "200 clients that are connected at the same time are all served",
        source: "",
        applies: always,
        needed_by: None,
        run: many_at_once,
    },
    Case {
        number: 15,
        name: "nothing is left of ended connections",
        rule: "After connections have ended, by a close or a reset, descriptors and memory return to their first values",
        source: "",
        applies: always,
        needed_by: None,
        run: nothing_left,
    },
    Case {
        number: STOPS,
        name: "stop under load",
        rule: "After SIGTERM the server ends in time, though connections are open, and leaves no process behind",
        source: "",
        applies: always,
        needed_by: None,
        run: stop_under_load,
    },
];

const MANY: usize = 200;

/// Connections of a round, after which descriptors and memory are measured.
const ROUND: usize = 100;

/// Descriptors and processes that may be more after a round: far fewer than its connections.
const MORE: usize = ROUND / 10;

/// Growth of memory in a round that is worth another round: 16 KiB a connection.
const GROWTH_KIB: u64 = 16 * ROUND as u64;

/// Rounds in each of which memory has to grow before that is a fault.
const ROUNDS: usize = 3;

/// Connections of each kind that are open when the server is stopped.
const AT_STOP: usize = 5;

fn many_at_once(subject: &mut Subject<'_>) -> Result<Verdict, Fault> {
    let mut clients: Vec<Connection> = Vec::new();
    let mut refused = None;
    while clients.len() < MANY && refused.is_none() {
        match subject.connect() {
            Ok(client) => clients.push(client),
            Err(fault) if clients.is_empty() => return Err(fault),
            Err(fault) => refused = Some(fault.came),
        }
    }
    let taken = clients.len();
    let exchange = subject.short();
    for client in &mut clients {
        client.send(&exchange.request)?;
    }
    // In the order in which they came, since a server may serve one after another.
    for (number, mut client) in clients.into_iter().enumerate() {
        let reply = client.reply(&exchange);
        reply.map_err(|fault| fault.when(&format!("to client {} of {taken}", number + 1)))?;
    }
    subject.still_serves()?;
    Ok(match refused {
        None => Verdict::Passed,
        Some(came) => Verdict::Allowed(format!("with {taken} connections open, a further one: {came}")),
    })
}

fn nothing_left(subject: &mut Subject<'_>) -> Result<Verdict, Fault> {
    let processes = match Processes::at(subject.address) {
        Ok(processes) => processes,
        Err(reason) => return Ok(Verdict::NotJudged(reason)),
    };
    round(subject)?;
    let mut before = processes.at_rest();
    for number in 1..=ROUNDS {
        round(subject)?;
        let (now, excess) = processes.return_to(&before, MORE, subject.patience);
        if excess > MORE {
            return Err(Fault::new(
                format!("{} descriptors, as before", before.descriptors()),
                format!("{}, after {ROUND} connections had ended", now.descriptors()),
            ));
        }
        let now = processes.at_rest();
        if now.kib <= before.kib + GROWTH_KIB {
            break;
        }
        if number == ROUNDS {
            return Err(Fault::new(
                format!("memory as before, {} KiB", before.kib),
                format!("{} KiB after {ROUND} more connections, and growth in each of {ROUNDS} rounds", now.kib),
            ));
        }
        before = now;
    }
    Ok(Verdict::Passed)
}

/// Makes connections that end in every way.
fn round(subject: &mut Subject<'_>) -> Result<(), Fault> {
    for number in 0..ROUND {
        match number % 4 {
            0 => in_mid_request(subject)?.reset(),
            1 => in_mid_reply(subject)?.reset(),
            _ => {
                let exchange = subject.short();
                subject.asks(&exchange)?;
            }
        }
    }
    Ok(())
}

fn stop_under_load(subject: &mut Subject<'_>) -> Result<Verdict, Fault> {
    let mut open: Vec<Connection> = Vec::new();
    for number in 0..3 * AT_STOP {
        let opened = match number % 3 {
            0 => subject.connect(),
            1 => in_mid_request(subject),
            _ => unread(subject),
        };
        match opened {
            Ok(client) => open.push(client),
            Err(fault) if open.is_empty() => return Err(fault),
            // A server may take few connections at once.
            Err(_) => break,
        }
    }
    match subject.host.stop() {
        None => return Ok(Verdict::NotJudged("this command did not start the server".to_owned())),
        Some(Err(came)) => return Err(Fault::new("the end of the server in time, with no process left", came)),
        Some(Ok(())) => {}
    }
    for client in &mut open {
        if client.everything().1.is_none() {
            return Err(Fault::new("the end of every connection", "a connection that stays open after the stop"));
        }
    }
    match subject.connect() {
        Err(_) => Ok(Verdict::Passed),
        Ok(_) => Err(Fault::new("no server at its address", "a connection after the stop")),
    }
}

/// Returns a connection on which a request was sent and no reply read.
fn unread(subject: &mut Subject<'_>) -> Result<Connection, Fault> {
    let exchange = subject.short();
    let mut client = subject.connect_slow()?;
    client.send(&exchange.request)?;
    Ok(client)
}
