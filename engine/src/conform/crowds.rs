//! Many clients at once, what is left of them, and a pause and the stop while they are connected.

use std::time::Duration;

use crate::conform::case::{Case, STOPS, always};
use crate::conform::connection::Connection;
use crate::conform::connections::{in_mid_reply, in_mid_request};
use crate::conform::processes::Processes;
use crate::conform::protocol::Exchange;
use crate::conform::subject::Subject;
use crate::conform::verdict::{Fault, Verdict};
use crate::sys::process;
use crate::sys::signal::Signal;

pub const CASES: &[Case] = &[
    Case {
        number: 14,
        name: "200 connections at once",
        rule: "200 clients that are connected at the same time, and whose requests differ and come together, get their own replies",
        source: "",
        applies: always,
        needed_by: None,
        run: many_at_once,
    },
    Case {
        number: 15,
        name: "nothing is left of ended connections",
        rule: "After connections have ended, by a close or a reset, with a request, garbage or no byte, no descriptor, thread, process or memory of theirs is left",
        source: "",
        applies: always,
        needed_by: None,
        run: nothing_left,
    },
    Case {
        number: 17,
        name: "paused server",
        rule: "A server that is stopped by SIGSTOP and goes on with SIGCONT serves its clients as before",
        source: "",
        applies: always,
        needed_by: None,
        run: paused,
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

/// Times that so many clients are connected at once.
const CROWDS: usize = 4;

/// Time for which a server is stopped, and then goes on before the next request.
const STOPPED: Duration = Duration::from_millis(50);

/// Connections of a round, after which descriptors, threads, processes and memory are measured.
const ROUND: usize = 100;

/// Descriptors, threads and processes that are a leak if each of [`ROUNDS`] rounds leaves as many more.
const LEFT: usize = 4;

/// Rounds after which descriptors, threads and processes are a leak.
const ROUNDS: usize = 4;

/// Memory that is a leak if each of [`MEMORY_ROUNDS`] rounds leaves as much more: 4 KiB a connection.
const LEFT_KIB: u64 = 4 * ROUND as u64;

/// Rounds after which memory is a leak. The heap of a garbage collector grows in fewer.
const MEMORY_ROUNDS: usize = 12;

/// Connections of each kind that are open when the server is stopped.
const AT_STOP: usize = 5;

fn many_at_once(subject: &mut Subject<'_>) -> Result<Verdict, Fault> {
    for _ in 0..CROWDS {
        let verdict = crowd(subject)?;
        if verdict != Verdict::Passed {
            return Ok(verdict);
        }
    }
    Ok(Verdict::Passed)
}

/// Lets many clients connect, then make a request each, and only then receive. Their requests differ, so that a server that
/// mixes two of them up is seen.
fn crowd(subject: &mut Subject<'_>) -> Result<Verdict, Fault> {
    let mut clients: Vec<Connection> = Vec::new();
    let mut refused = None;
    while clients.len() < MANY && refused.is_none() {
        match subject.connect() {
            Ok(client) => clients.push(client),
            Err(fault) if clients.is_empty() => return Err(fault),
            Err(fault) => refused = Some(fault.actual),
        }
    }
    let taken = clients.len();
    let exchanges: Vec<Exchange> = (0..taken).map(|number| own(subject, number)).collect();
    for (client, exchange) in clients.iter_mut().zip(&exchanges) {
        client.send(&exchange.request)?;
    }
    // In the order in which they came, since a server may serve one after another.
    for (number, (mut client, exchange)) in clients.into_iter().zip(&exchanges).enumerate() {
        let reply = client.reply(exchange);
        client.half_close();
        // The reply to another client may begin as this one does.
        let ended = reply.and_then(|_| client.ends());
        ended.map_err(|fault| fault.when(&format!("to client {} of {taken}", number + 1)))?;
    }
    subject.still_serves()?;
    Ok(match refused {
        None => Verdict::Passed,
        Some(actual) => Verdict::Allowed(format!("with {taken} connections open, a further one: {actual}")),
    })
}

/// Returns the exchange of one of many clients. Every second client of HTTP asks for a path that the server may not have.
fn own(subject: &mut Subject<'_>, number: usize) -> Exchange {
    match subject.protocol {
        protocol if protocol.is_http && number % 2 == 1 => subject.exchange(2),
        // Bytes of any number are a request.
        protocol if !protocol.framed => subject.exchange(number),
        _ => subject.short(),
    }
}

fn nothing_left(subject: &mut Subject<'_>) -> Result<Verdict, Fault> {
    let processes = match Processes::at(subject.address) {
        Ok(processes) => processes,
        Err(reason) => return Ok(Verdict::NotJudged(reason)),
    };
    // The first round makes what is made once: pools, buffers, caches.
    round(subject)?;
    let first = processes.at_rest();
    let (mut before, mut holds, mut grows) = (first.clone(), true, true);
    for number in 1..=MEMORY_ROUNDS {
        round(subject)?;
        let mut now = processes.at_rest();
        holds &= now.excess_over(&before) >= LEFT;
        grows &= now.kib >= before.kib + LEFT_KIB;
        if holds && number == ROUNDS {
            // A server may take its time to end a connection.
            now = processes.return_to(&first, LEFT, subject.patience);
            if now.excess_over(&first) >= LEFT * ROUNDS {
                let (expected, actual) = now.in_words(&first);
                let ended = ROUND * ROUNDS;
                return Err(Fault::new(
                    format!("{expected}, as before"),
                    format!("{actual} after {ended} more connections"),
                ));
            }
            holds = false;
        }
        if !holds && !grows {
            return Ok(Verdict::Passed);
        }
        before = now;
    }
    let (grown, connections) = (before.kib - first.kib, ROUND * MEMORY_ROUNDS);
    // A program with a heap of its own may reserve it at once and use it piece by piece before it collects garbage.
    if before.reserved_kib < first.reserved_kib + grown / 2 {
        let grown = format!("{grown} KiB more after {connections} connections, of memory that it had reserved before");
        return Ok(Verdict::Allowed(grown));
    }
    Err(Fault::new(
        format!("memory as before, {} KiB", first.kib),
        format!(
            "{} KiB after {connections} more connections, and growth in each of {MEMORY_ROUNDS} rounds",
            before.kib
        ),
    ))
}

/// Makes connections that end in every way.
fn round(subject: &mut Subject<'_>) -> Result<(), Fault> {
    let garbage = subject.protocol.garbage;
    for number in 0..ROUND {
        match number % 5 {
            0 => in_mid_request(subject)?.reset(),
            1 => in_mid_reply(subject)?.reset(),
            2 => drop(subject.connect()?),
            3 if !garbage.is_empty() => {
                let mut client = subject.connect()?;
                client.send_in_vain(garbage[number / 5 % garbage.len()]);
                let _ = client.await_taken();
            }
            _ => {
                let exchange = subject.short();
                subject.asks(&exchange)?;
            }
        }
    }
    Ok(())
}

/// Stops the server's processes for a moment. System calls that wait may end with EINTR then (signal(7)).
fn paused(subject: &mut Subject<'_>) -> Result<Verdict, Fault> {
    if !subject.host.has_started() {
        return Ok(Verdict::NotJudged("this command did not start the server".to_owned()));
    }
    let processes = match Processes::at(subject.address) {
        Ok(processes) => processes.list(),
        Err(reason) => return Ok(Verdict::NotJudged(reason)),
    };
    // The first pause meets a server that waits for a connection, and the second one that waits for a request.
    let pause = || {
        processes.iter().for_each(|&each| process::pass_on(Signal::SIGSTOP, each));
        std::thread::sleep(STOPPED);
        processes.iter().for_each(|&each| process::pass_on(Signal::SIGCONT, each));
        std::thread::sleep(STOPPED);
    };
    pause();
    subject.still_serves().map_err(|fault| fault.when("after a pause without clients"))?;
    let exchange = subject.short();
    let (first, rest) = exchange.request.split_at(exchange.request.len() / 2);
    let mut client = subject.connect()?;
    client.send(first)?;
    let _ = client.await_taken();
    pause();
    client
        .send(rest)
        .and_then(|()| client.reply(&exchange))
        .map_err(|fault| fault.when("after a pause in mid-request"))?;
    drop(client);
    subject.still_serves()?;
    Ok(Verdict::Passed)
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
        Some(Err(actual)) => return Err(Fault::new("the end of the server in time, with no process left", actual)),
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
