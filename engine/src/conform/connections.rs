//! Connections that are reset, and clients that are slow, beside others.

use std::time::Duration;

use crate::conform::case::{Case, always};
use crate::conform::connection::Connection;
use crate::conform::protocol::Exchange;
use crate::conform::subject::Subject;
use crate::conform::verdict::{Fault, Verdict};

pub const CASES: &[Case] = &[
    Case {
        number: 10,
        name: "reset in mid-request",
        rule: "A client that resets its connection during a request disturbs no other",
        source: "",
        applies: always,
        needed_by: None,
        run: reset_in_mid_request,
    },
    Case {
        number: 11,
        name: "reset in mid-reply",
        rule: "A client that resets its connection during a reply disturbs no other",
        source: "",
        applies: always,
        needed_by: None,
        run: reset_in_mid_reply,
    },
    Case {
        number: 12,
        name: "slow reader beside a fast client",
        rule: "A client that takes its replies slowly gets all of them; others may have to wait for it",
        source: "",
        applies: always,
        needed_by: None,
        run: slow_reader,
    },
    Case {
        number: 13,
        name: "slow writer beside a fast client",
        rule: "A client that sends its request slowly gets its reply; others may have to wait for it",
        source: "",
        applies: always,
        needed_by: None,
        run: slow_writer,
    },
];

const RESETS: usize = 20;

/// Times that a slow client does something, and a fast one makes a request.
const STEPS: usize = 5;

/// Pause of a client that sends slowly.
const PAUSE: Duration = Duration::from_millis(2);

/// Bytes of requests of the slow reader, and the number of them: the replies are larger than the usual buffers.
const REQUESTS: (usize, usize) = (5000, 64);

fn reset_in_mid_request(subject: &mut Subject<'_>) -> Result<Verdict, Fault> {
    for _ in 0..RESETS {
        in_mid_request(subject)?.reset();
    }
    subject.still_serves()?;
    Ok(Verdict::Passed)
}

/// Returns a connection on which part of a request was sent.
pub fn in_mid_request(subject: &mut Subject<'_>) -> Result<Connection, Fault> {
    let exchange = subject.short();
    let mut client = subject.connect()?;
    client.send_in_vain(&exchange.request[..exchange.request.len() / 2]);
    Ok(client)
}

fn reset_in_mid_reply(subject: &mut Subject<'_>) -> Result<Verdict, Fault> {
    for _ in 0..RESETS {
        in_mid_reply(subject)?.reset();
    }
    subject.still_serves()?;
    Ok(Verdict::Passed)
}

/// Returns a connection on which part of a reply has come.
pub fn in_mid_reply(subject: &mut Subject<'_>) -> Result<Connection, Fault> {
    let exchange = (subject.protocol.largest)(&subject.path);
    let mut client = subject.connect_slow()?;
    client.send(&exchange.request)?;
    client.take(1, subject.patience);
    Ok(client)
}

fn slow_reader(subject: &mut Subject<'_>) -> Result<Verdict, Fault> {
    let exchange = (subject.protocol.largest)(&subject.path);
    let (length, most) = REQUESTS;
    let times = if subject.protocol.keeps { (length / exchange.request.len()).clamp(1, most) } else { 1 };
    let mut slow = subject.connect_slow()?;
    slow.send(&exchange.request.repeat(times))?;
    let waiting = beside(subject, |_| {
        slow.take(100, Duration::from_millis(100));
        Ok(())
    })?;
    for number in 0..times {
        let reply = slow.reply(&exchange);
        let reply = reply.map_err(|fault| fault.when(&format!("to request {} of a slow reader", number + 1)))?;
        if (subject.protocol.is_last)(&reply) {
            break;
        }
    }
    drop(slow);
    after(waiting)
}

fn slow_writer(subject: &mut Subject<'_>) -> Result<Verdict, Fault> {
    let exchange = subject.short();
    let mut slow = subject.connect()?;
    let (slowly, rest) = exchange.request.split_at((exchange.request.len() - 1).min(4 * STEPS));
    let mut parts = slowly.chunks(slowly.len().div_ceil(STEPS).max(1));
    let waiting = beside(subject, |_| {
        for byte in parts.next().unwrap_or_default() {
            slow.send(&[*byte])?;
            std::thread::sleep(PAUSE);
        }
        Ok(())
    })?;
    for part in parts {
        slow.send(part)?;
    }
    slow.send(rest)?;
    slow.reply(&exchange).map_err(|fault| fault.when("to a slow writer"))?;
    drop(slow);
    after(waiting)
}

/// Lets a slow client do something, and a fast one make a request, in turn. Returns the fast client that has to wait.
fn beside(
    subject: &mut Subject<'_>,
    mut slow: impl FnMut(&mut Subject<'_>) -> Result<(), Fault>,
) -> Result<Option<(Connection, Exchange)>, Fault> {
    let mut waiting = None;
    for _ in 0..STEPS {
        slow(subject)?;
        if waiting.is_none() {
            waiting = subject.asks_beside().map_err(|fault| fault.when("beside a slow client"))?;
        }
    }
    Ok(waiting)
}

/// Judges after the slow client has gone: another that had to wait gets its reply.
fn after(waiting: Option<(Connection, Exchange)>) -> Result<Verdict, Fault> {
    let Some((mut client, exchange)) = waiting else { return Ok(Verdict::Passed) };
    client.reply(&exchange).map_err(|fault| fault.when("after a slow client had gone"))?;
    Ok(Verdict::Allowed("another client had to wait for the slow one".to_owned()))
}
