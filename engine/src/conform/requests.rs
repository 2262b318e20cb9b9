//! Requests in usual and unusual forms, one client at a time.

use std::time::{Duration, Instant};

use crate::conform::case::{Case, Need, always};
use crate::conform::connection::{End, in_words};
use crate::conform::protocol::{Exchange, Reply};
use crate::conform::subject::Subject;
use crate::conform::verdict::{Fault, Verdict, bytes, quoted};

pub const CASES: &[Case] = &[
    Case {
        number: 1,
        name: "correct replies",
        rule: "Each request gets its reply and no further byte, whatever its size",
        source: "",
        applies: always,
        needed_by: Some(Need::AnyLoad),
        run: correct_replies,
    },
    Case {
        number: 2,
        name: "several requests on one connection",
        rule: "After a reply, the next request on the connection gets its reply",
        source: "",
        applies: |protocol| protocol.keeps,
        needed_by: Some(Need::KeptConnections),
        run: several_requests,
    },
    Case {
        number: 3,
        name: "request split in two",
        rule: "A request gets its reply wherever it is cut into two segments: at each of its first 512 bytes, and at 64 others",
        source: "",
        applies: always,
        needed_by: None,
        run: split_in_two,
    },
    Case {
        number: 4,
        name: "request byte by byte",
        rule: "A request whose bytes come one by one, or the first 512 of them, gets its reply",
        source: "",
        applies: always,
        needed_by: None,
        run: byte_by_byte,
    },
    Case {
        number: 5,
        name: "pipelined requests",
        rule: "Requests that come together get their replies in the order of the requests",
        source: "",
        applies: |protocol| protocol.keeps,
        needed_by: Some(Need::Pipelining),
        run: pipelined,
    },
    Case {
        number: 6,
        name: "half-closed connection",
        rule: "A client that has sent a request and closed its sending half still gets the reply, and then the end without a reset",
        source: "",
        applies: always,
        needed_by: None,
        run: half_closed,
    },
    Case {
        number: 7,
        name: "empty request",
        rule: "A connection that ends without a request is closed, and others are served",
        source: "",
        applies: always,
        needed_by: None,
        run: empty,
    },
    Case {
        number: 8,
        name: "garbage",
        rule: "Bytes that are no request, or any bytes where they are free, and their client's end disturb no other client; their connection should be closed",
        source: "",
        applies: always,
        needed_by: None,
        run: garbage,
    },
    Case {
        number: 9,
        name: "giant request",
        rule: "A request of 1 MiB gets an error, a reply or the end (echo: its bytes), and others are served",
        source: "",
        applies: always,
        needed_by: None,
        run: giant,
    },
];

/// Exchanges of a case.
const EXCHANGES: usize = 16;

/// Bytes at the beginning of a request that are cut off and sent one by one, and places behind them at which it is cut.
const SINGLY: (usize, usize) = (512, 64);

/// Numbers of the exchange that is repeated: one with a short reply, and one of some KiB for a protocol without requests.
const REPEATED: (usize, usize) = (5, 4);

/// Wait for further bytes behind a reply.
const NO_MORE: Duration = Duration::from_secs(1);

/// Bytes of pipelined requests, more than a server receives at once, and the time for fewer of them if the server is slow.
const BURST: (usize, Duration) = (64 << 10, Duration::from_secs(2));

/// Pipelined requests of HTTP: a server may end a connection after 100.
const BURST_OF_HTTP: usize = 60;

/// Bytes of pipelined requests: all of them fit into the buffers while nobody receives.
const PIPELINED: usize = 8 << 10;

fn correct_replies(subject: &mut Subject<'_>) -> Result<Verdict, Fault> {
    for number in 0..EXCHANGES {
        let exchange = subject.exchange(number);
        subject.asks(&exchange).map_err(|fault| of_request(fault, &exchange))?;
    }
    if subject.plain {
        return Ok(Verdict::Passed);
    }
    for exchange in (subject.protocol.endings)() {
        subject.asks(&exchange).map_err(|fault| of_request(fault, &exchange))?;
    }
    for exchange in (subject.protocol.lenient)() {
        read_or_refused(subject, &exchange).map_err(|fault| of_request(fault, &exchange))?;
    }
    Ok(Verdict::Passed)
}

/// Judges a request that a server may read, or refuse with words of its own or the end.
fn read_or_refused(subject: &mut Subject<'_>, exchange: &Exchange) -> Result<(), Fault> {
    let Reply::Exactly(right) = &exchange.reply else { return Ok(()) };
    let mut client = subject.connect()?;
    client.send_in_vain(&exchange.request);
    client.half_close();
    let (actual, _) = client.everything();
    drop(client);
    let begins_alike = actual.iter().zip(right).all(|(actual, right)| actual == right);
    if actual != *right && !actual.is_empty() && begins_alike {
        return Err(Fault::new(exchange.reply.in_words() + " or none", bytes(actual.len())));
    }
    subject.still_serves()
}

/// Adds the request to a fault.
fn of_request(fault: Fault, exchange: &Exchange) -> Fault {
    fault.when(&format!("to the request {}", quoted(&exchange.request)))
}

fn several_requests(subject: &mut Subject<'_>) -> Result<Verdict, Fault> {
    let mut client = subject.connect()?;
    for number in 0..EXCHANGES {
        let exchange = subject.exchange(number);
        let asked = client.send(&exchange.request).and_then(|()| client.reply(&exchange));
        let reply = asked.map_err(|fault| fault.when(&format!("to request {} of the connection", number + 1)))?;
        if (subject.protocol.is_last)(&reply) {
            return closed_after(number);
        }
    }
    client.half_close();
    client.ends()?;
    Ok(Verdict::Passed)
}

/// Judges a server that says with a reply that it will close.
pub fn closed_after(number: usize) -> Result<Verdict, Fault> {
    Ok(Verdict::Allowed(format!("it says with reply {} that it closes the connection", number + 1)))
}

fn split_in_two(subject: &mut Subject<'_>) -> Result<Verdict, Fault> {
    let exchange = subject.short();
    let length = exchange.request.len();
    let mut cuts: Vec<usize> = (1..length.min(SINGLY.0)).collect();
    if length > SINGLY.0 {
        let behind = length - SINGLY.0;
        cuts.extend((1..SINGLY.1).map(|_| SINGLY.0 + subject.chance.below(behind)));
        cuts.push(length - 1);
    }
    let (mut sent, mut ends) = (0, true);
    for cut in cuts {
        let (first, rest) = exchange.request.split_at(cut);
        let mut client = subject.connect()?;
        client.send(first)?;
        subject.host.await_taken(sent + cut as u64, &client);
        let replied = client.send(rest).and_then(|()| client.reply(&exchange));
        client.half_close();
        // A server that does not end the connection then fails another case, and is waited for once.
        let ended = replied.and_then(|_| if ends { client.no_more(NO_MORE) } else { Ok(false) });
        ends = ended.map_err(|fault| fault.when(&format!("to a request cut after {}", bytes(cut))))?;
        sent += length as u64;
    }
    Ok(Verdict::Passed)
}

fn byte_by_byte(subject: &mut Subject<'_>) -> Result<Verdict, Fault> {
    let exchange = subject.short();
    let mut client = subject.connect()?;
    let (singly, together) = exchange.request.split_at(exchange.request.len().min(SINGLY.0));
    for (place, byte) in singly.iter().enumerate() {
        client.send(&[*byte])?;
        subject.host.await_taken(place as u64 + 1, &client);
    }
    client.send(together)?;
    client.reply(&exchange)?;
    client.half_close();
    client.no_more(NO_MORE)?;
    Ok(Verdict::Passed)
}

fn pipelined(subject: &mut Subject<'_>) -> Result<Verdict, Fault> {
    let mut exchanges = Vec::new();
    let mut length = 0;
    for number in 0..3 * EXCHANGES {
        let exchange = subject.exchange(number);
        // Of long requests only a few fit.
        if exchanges.len() >= 2 && length + exchange.request.len() > PIPELINED {
            break;
        }
        length += exchange.request.len();
        exchanges.push(exchange);
    }
    let began = Instant::now();
    let mut client = subject.connect()?;
    client.send(&exchanges.iter().flat_map(|exchange| exchange.request.clone()).collect::<Vec<_>>())?;
    for (number, exchange) in exchanges.iter().enumerate() {
        let reply = client.reply(exchange);
        let reply = reply.map_err(|fault| fault.when(&format!("to request {} of {}", number + 1, exchanges.len())))?;
        if (subject.protocol.is_last)(&reply) {
            return closed_after(number);
        }
    }
    client.half_close();
    client.ends()?;
    drop(client);
    let of_one = began.elapsed() / exchanges.len() as u32;
    burst(subject, (BURST.1.as_nanos() / of_one.as_nanos().max(1)) as usize)
}

/// Sends the same request many times at once.
fn burst(subject: &mut Subject<'_>, most: usize) -> Result<Verdict, Fault> {
    let mut most = most.max(2);
    let mut exchange = match subject.protocol {
        protocol if protocol.is_http => subject.short(),
        protocol if protocol.framed => subject.exchange(REPEATED.0),
        _ => subject.exchange(REPEATED.1),
    };
    if subject.protocol.is_http {
        most = most.min(BURST_OF_HTTP);
        let end = exchange.request.len() - b"\r\n".len();
        let padding = format!("X-Padding: {}\r\n", "x".repeat(BURST.0 / BURST_OF_HTTP));
        exchange.request.splice(end..end, padding.into_bytes());
    }
    let times = (BURST.0 / exchange.request.len()).clamp(2, most);
    // Another request first, so that no buffer ends where a request does.
    let first = subject.exchange(0);
    let mut client = subject.connect()?;
    let requests = [first.request.as_slice(), &exchange.request.repeat(times)].concat();
    let judged = client.while_sending(&requests, |client| {
        let reply = client.reply(&first)?;
        if (subject.protocol.is_last)(&reply) {
            return closed_after(0);
        }
        for number in 1..=times {
            let reply = client.reply(&exchange);
            let reply =
                reply.map_err(|fault| fault.when(&format!("to request {} of {} in a row", number + 1, times + 1)))?;
            if (subject.protocol.is_last)(&reply) {
                return closed_after(number);
            }
        }
        Ok(Verdict::Passed)
    });
    judged.map_err(|error| Fault::new("a connection", in_words(&error, subject.patience)))?
}

fn half_closed(subject: &mut Subject<'_>) -> Result<Verdict, Fault> {
    for number in 0..4 {
        let exchange = subject.exchange(number);
        let mut client = subject.connect()?;
        client.send(&exchange.request)?;
        client.half_close();
        if let Err(fault) = client.reply(&exchange) {
            // "A client, server, or proxy MAY close the transport connection at any time" (RFC 9112, section 9.5). Proxies take
            // the end for that of a client that has given up.
            if subject.protocol.is_http && client.has_ended_early() {
                drop(client);
                subject.still_serves()?;
                return Ok(Verdict::Warned(fault));
            }
            return Err(fault);
        }
        // The server has taken all that was sent, so its close is no reset. A reset may overtake the reply in a network.
        if client.ends()? == End::Reset {
            return Err(Fault::new("the end of the connection", "a reset after the reply"));
        }
    }
    Ok(Verdict::Passed)
}

fn empty(subject: &mut Subject<'_>) -> Result<Verdict, Fault> {
    const AFTERWARDS: &str = "after a connection that ended without a byte";
    for _ in 0..10 {
        let client = subject.connect().map_err(|fault| fault.when(AFTERWARDS))?;
        drop(client);
    }
    let mut client = subject.connect().map_err(|fault| fault.when(AFTERWARDS))?;
    client.half_close();
    // A server of HTTP may say that it has waited for a request in vain.
    if !(subject.protocol.is_http && client.http(false).is_ok_and(|reply| reply.is(4))) {
        client.ends().map_err(|fault| fault.when("without a byte"))?;
    }
    drop(client);
    subject.still_serves().map_err(|fault| fault.when(AFTERWARDS))?;
    Ok(Verdict::Passed)
}

fn garbage(subject: &mut Subject<'_>) -> Result<Verdict, Fault> {
    let mut all: Vec<Vec<u8>> = subject.protocol.garbage.iter().map(|each| each.to_vec()).collect();
    for _ in 0..3 {
        let length = 1 + subject.chance.below(4096);
        all.push(subject.chance.bytes(length));
    }
    let mut open = None;
    for garbage in all {
        let mut client = subject.connect()?;
        client.send_in_vain(&garbage);
        client.half_close();
        if open.is_none() && client.everything().1.is_none() {
            open = Some(garbage);
        }
        drop(client);
        subject.still_serves()?;
    }
    Ok(match open {
        None => Verdict::Passed,
        Some(garbage) => Verdict::Warned(Fault::new(
            "the end of the connection",
            format!("no end after {} and the client's end", quoted(&garbage)),
        )),
    })
}

fn giant(subject: &mut Subject<'_>) -> Result<Verdict, Fault> {
    let giant = (subject.protocol.giant)(&subject.path);
    // Replies to a slow reader show a server that sends part of them.
    let mut client = if subject.protocol.framed { subject.connect()? } else { subject.connect_slow()? };
    let (actual, end) = client.send_all_and_receive(&giant);
    drop(client);
    subject.still_serves()?;
    if !subject.protocol.framed && actual != giant {
        return Err(Fault::new(format!("{} as they were sent", bytes(giant.len())), other(&giant, &actual)));
    }
    Ok(match end {
        None if actual.is_empty() => Verdict::Warned(Fault::new(
            "an error, a reply or the end of the connection",
            format!("nothing after a request of {}", bytes(giant.len())),
        )),
        _ => Verdict::Passed,
    })
}

/// Describes what came of some bytes that were to come back.
fn other(sent: &[u8], actual: &[u8]) -> String {
    match sent.iter().zip(actual).position(|(sent, actual)| sent != actual) {
        Some(place) => format!("{}, of which byte {place} differs", bytes(actual.len())),
        None => bytes(actual.len()),
    }
}
