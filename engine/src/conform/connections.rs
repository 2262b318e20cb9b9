//! Connections that are reset, and clients that are slow, beside others.

use std::time::{Duration, Instant};

use crate::conform::case::{Case, always};
use crate::conform::connection::{Connection, in_words};
use crate::conform::protocol::{Exchange, Reply};
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

/// Pause of a slow client in the middle of its request or reply: more than the timeouts that are too short for a slow network.
const LONG_PAUSE: Duration = Duration::from_millis(1200);

/// Bytes of the replies to a slow reader: more than the send buffer of a server with the usual limit (tcp_wmem, 4 MiB).
const UNREAD: usize = 6 << 20;

/// Bytes of the replies that are cut short by a reset: more than the buffers of a slow reader and of its server.
const CUT_SHORT: usize = 1 << 20;

/// Maximum requests of a slow reader, and of a client that resets its connection in mid-reply.
const MOST_REQUESTS: (usize, usize) = (20_000, 64);

/// Time for the requests of a slow reader, by that of one.
const REQUESTS_TAKE: Duration = Duration::from_secs(2);

/// Replies of HTTP after which a server may end a connection without a word. Some end it after 100 requests, with others unread.
const ENOUGH: usize = 64;

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
    for number in 0..RESETS {
        let mut client = in_mid_reply(subject)?;
        // After the client's end, the reset is EPIPE for the server and raises SIGPIPE. Otherwise it is ECONNRESET at first.
        if number % 2 == 1 {
            client.half_close();
        }
        client.reset();
    }
    subject.still_serves()?;
    Ok(Verdict::Passed)
}

/// Returns a connection on which part of a reply has come.
pub fn in_mid_reply(subject: &mut Subject<'_>) -> Result<Connection, Fault> {
    let (exchange, times) = largest(subject, CUT_SHORT, MOST_REQUESTS.1)?;
    let mut client = subject.connect_slow()?;
    client.send_what_is_taken(&exchange.request.repeat(times));
    client.take(1, subject.patience);
    Ok(client)
}

/// Returns the exchange with the largest reply, and how often it makes so many bytes of replies.
fn largest(subject: &mut Subject<'_>, bytes: usize, most: usize) -> Result<(Exchange, usize), Fault> {
    let exchange = (subject.protocol.largest)(&subject.path);
    if !subject.protocol.keeps {
        return Ok((exchange, 1));
    }
    if let Reply::Exactly(reply) = &exchange.reply {
        let times = bytes.div_ceil(reply.len()).min(most);
        return Ok((exchange, times));
    }
    let (length, time) = match subject.largest_reply {
        Some(known) => known,
        None => {
            let mut client = subject.connect()?;
            let began = Instant::now();
            client.send(&exchange.request)?;
            let length = client.reply(&exchange)?.len();
            *subject.largest_reply.insert((length, began.elapsed()))
        }
    };
    let in_time = (REQUESTS_TAKE.as_nanos() / time.as_nanos().max(1)) as usize;
    Ok((exchange, bytes.div_ceil(length.max(1)).min(most).min(in_time.max(ENOUGH))))
}

fn slow_reader(subject: &mut Subject<'_>) -> Result<Verdict, Fault> {
    let (exchange, times) = largest(subject, UNREAD, MOST_REQUESTS.0)?;
    let mut slow = subject.connect_slow()?;
    let judged = slow.while_sending(&exchange.request.repeat(times), |slow| {
        let waiting = beside(subject, |step, _| {
            std::thread::sleep(if step == 1 { LONG_PAUSE } else { PAUSE });
            slow.take(100, Duration::from_millis(100));
            Ok(())
        })?;
        let ended = takes_all(subject, slow, &exchange, times)?;
        Ok((waiting, ended))
    });
    let (waiting, ended) = judged.map_err(|error| Fault::new("a connection", in_words(&error, subject.patience)))??;
    drop(slow);
    let verdict = after(waiting)?;
    subject.still_serves()?;
    Ok(ended.unwrap_or(verdict))
}

/// Receives the replies to a slow reader. Returns a verdict if the server used its freedom to end the connection.
fn takes_all(
    subject: &Subject<'_>,
    slow: &mut Connection,
    exchange: &Exchange,
    times: usize,
) -> Result<Option<Verdict>, Fault> {
    for number in 0..times {
        match slow.reply(exchange) {
            Ok(reply) if (subject.protocol.is_last)(&reply) => break,
            Ok(_) => {}
            Err(_) if subject.protocol.is_http && number >= ENOUGH && slow.has_ended_early() => {
                return Ok(Some(Verdict::Allowed(format!("it ends a connection after {number} requests"))));
            }
            Err(fault) => return Err(fault.when(&format!("to request {} of a slow reader", number + 1))),
        }
    }
    Ok(None)
}

fn slow_writer(subject: &mut Subject<'_>) -> Result<Verdict, Fault> {
    let exchange = subject.short();
    let mut slow = subject.connect()?;
    let (slowly, rest) = exchange.request.split_at((exchange.request.len() - 1).min(4 * STEPS));
    let mut parts = slowly.chunks(slowly.len().div_ceil(STEPS).max(1));
    let waiting = beside(subject, |step, _| {
        if step == 1 {
            std::thread::sleep(LONG_PAUSE);
        }
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
    mut slow: impl FnMut(usize, &mut Subject<'_>) -> Result<(), Fault>,
) -> Result<Option<(Connection, Exchange)>, Fault> {
    let mut waiting = None;
    for step in 0..STEPS {
        slow(step, subject)?;
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
