//! Bytes one way, as iperf and netperf send them: as many as were announced, or until time is up. Either end sends them, and
//! the other counts what has come.
//!
//! The client's request is a line, of which there may be several on a connection:
//!
//! | request | what follows |
//! |---|---|
//! | `put N` | the client sends N bytes; the server answers with that number and a newline |
//! | `put` | the client sends until it sends no more (shutdown); the server answers with how many bytes came, and closes |
//! | `get N` | the server sends N bytes |
//! | `get Nus` | the server sends for N microseconds, and then no more (shutdown) |
//!
//! Byte number i of a stream is i % 65,536 % 251, however it is cut into messages: so the receiver need not know how it was.

mod client;
mod reel;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use anyhow::{Context, Result};

use crate::about::About;
use crate::outbox::{Outbox, Piece};
use crate::pattern::difference;
use crate::primitive::{Waits, Want};
use crate::setting::{Kind, Setting, Settings};
use crate::sys::clock::now;
use crate::sys::shared::SharedArray;
use crate::tally::ErrorKind;
use crate::workload::{Account, COMMON, End, Input, MeasuredBy, More, Next, Service, Session, Then, Workload};

use reel::Reel;

pub static ENTRY: Workload = Workload {
    about: About {
        summary: "Bytes one way, for a time or as many as are announced, from memory or from a file",
        source: "iperf.fr; hewlettpackard.github.io/netperf, TCP_STREAM and TCP_MAERTS",
    },
    port: 5201,
    service_settings: &[reel::MESSAGE_BYTES, reel::SOURCE, reel::SOURCE_BYTES, RECEIVE_BYTES, VERIFY],
    client_settings: &[
        client::DIRECTION,
        client::STREAM_BYTES,
        reel::MESSAGE_BYTES,
        reel::SOURCE,
        reel::SOURCE_BYTES,
        RECEIVE_BYTES,
        VERIFY,
    ],
    takes_unstored: &[End::Service, End::Client],
    lasting: &[End::Client],
    sender: End::Client,
    measured_by: MeasuredBy::BytesToServer,
    service,
    client: client::client,
    ..COMMON
};

const RECEIVE_BYTES: Setting = Setting {
    name: "receive_bytes",
    help: "The most that one receive of a stream takes",
    unit: Some("bytes"),
    kind: Kind::Integer { minimum: 1, maximum: 16 << 20, default: 128 << 10 },
    for_more: Some("no receive takes more than the socket's buffer holds (sysctl net.ipv4.tcp_rmem)"),
};

const VERIFY: Setting = Setting {
    name: "verify",
    help: "Which bytes of a stream the receiver compares with those that are sent: all, the first 64 of each receive, or \
           none; bytes that are not stored are counted only",
    unit: None,
    kind: Kind::Choice { choices: &["all", "sample", "none"], default: "sample" },
    for_more: None,
};

/// Bytes of each receive that are compared as a sample.
const SAMPLE: usize = 64;

/// Bytes that are compared by one comparison.
const AT_A_TIME: usize = 64 << 10;

/// Names of the sums that both ends account for: bytes of all streams that have come to their end.
const TO_SERVER: &str = "bytes_streamed_to_server";
const TO_CLIENT: &str = "bytes_streamed_to_client";

/// The longest line that is taken for a request, with its newline.
const LONGEST_LINE: usize = 32;

/// The most bytes that a stream may announce.
const MOST_BYTES: u64 = 1 << 60;

/// The longest that a stream may last: a day.
const MOST_MICROSECONDS: u64 = 86_400_000_000;

/// What a line asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Request {
    /// So many bytes come, or as many as come before the end.
    Put(Option<u64>),
    /// So many bytes are to be sent.
    Get(u64),
    /// For so many microseconds.
    GetFor(u64),
}

impl Request {
    fn parse(line: &[u8]) -> Option<Self> {
        let line = std::str::from_utf8(line).ok()?;
        let number = |text: &str, most: u64| {
            let digits = text.bytes().all(|byte| byte.is_ascii_digit());
            text.parse().ok().filter(|number| digits && (1..=most).contains(number))
        };
        match line.split_once(' ') {
            None if line == "put" => Some(Request::Put(None)),
            Some(("put", bytes)) => number(bytes, MOST_BYTES).map(|bytes| Request::Put(Some(bytes))),
            Some(("get", amount)) => match amount.strip_suffix("us") {
                Some(time) => number(time, MOST_MICROSECONDS).map(Request::GetFor),
                None => number(amount, MOST_BYTES).map(Request::Get),
            },
            _ => None,
        }
    }

    fn line(self) -> Arc<[u8]> {
        let line = match self {
            Request::Put(None) => "put\n".to_owned(),
            Request::Put(Some(bytes)) => format!("put {bytes}\n"),
            Request::Get(bytes) => format!("get {bytes}\n"),
            Request::GetFor(microseconds) => format!("get {microseconds}us\n"),
        };
        line.into_bytes().into()
    }
}

/// Puts a line into the outbox, as a message of its own.
fn say(line: Arc<[u8]>, outbox: &mut Outbox) {
    let length = line.len();
    outbox.push(Piece::Bytes(line, 0..length));
    outbox.end_message();
}

/// How an end takes the bytes of a stream that comes to it.
#[derive(Clone)]
struct Receiving {
    most: usize,
    /// How many bytes of each receive are compared.
    compared: usize,
    /// Bytes as they come next at any place of a stream, so many.
    expected: Arc<[u8]>,
}

impl Receiving {
    fn new(settings: &Settings) -> Self {
        let compared = match settings.word(VERIFY.name) {
            "all" => usize::MAX,
            "sample" => SAMPLE,
            _ => 0,
        };
        let expected = reel::bytes_of_a_stream(AT_A_TIME + reel::PERIOD).into();
        Receiving { most: settings.integer(RECEIVE_BYTES.name) as usize, compared, expected }
    }

    fn want(&self, due: u64) -> Want {
        Want::Exactly(due.min(self.most as u64) as usize)
    }

    /// Takes what has come of a stream, of which so many bytes came before and so many are due; says how many came. The error
    /// says which byte is wrong.
    fn take(&self, input: &mut Input<'_>, before: u64, due: u64) -> std::result::Result<u64, String> {
        let not_stored = input.not_stored as u64;
        let part = (input.bytes().len() as u64).min(due - not_stored) as usize;
        let from = before + not_stored;
        let compared = &input.bytes()[..part.min(self.compared)];
        for (index, seen) in compared.chunks(AT_A_TIME).enumerate() {
            let from = from + (index * AT_A_TIME) as u64;
            let expected = &self.expected[(from % reel::PERIOD as u64) as usize..][..seen.len()];
            if let Some(place) = difference(seen, expected) {
                return Err(format!(
                    "byte {} of the stream is {}, and {} is sent there (--verify none for other programs)",
                    from + place as u64,
                    seen[place],
                    expected[place]
                ));
            }
        }
        input.take(part);
        Ok(not_stored + part as u64)
    }
}

/// Bytes of streams that have come to their end, in memory that processes share.
#[derive(Default)]
struct Sums {
    to_server: AtomicU64,
    to_client: AtomicU64,
}

impl Sums {
    fn account(&self) -> Account {
        Account::from([(TO_SERVER, self.to_server.load(Relaxed)), (TO_CLIENT, self.to_client.load(Relaxed))])
    }
}

fn service(settings: &Settings, _waits: Waits) -> Result<Box<dyn Service>> {
    Ok(Box::new(Stream {
        receiving: Receiving::new(settings),
        reel: Arc::new(Reel::new(settings)?),
        sums: Arc::new(SharedArray::new(1).context("shared memory could not be mapped")?),
    }))
}

#[derive(Clone)]
struct Stream {
    receiving: Receiving,
    reel: Arc<Reel>,
    sums: Arc<SharedArray<Sums>>,
}

impl Service for Stream {
    fn open(&self) -> Box<dyn Session> {
        Box::new(StreamSession { stream: self.clone(), line: Vec::new(), going: Going::Nothing, sent: 0, next: 0 })
    }

    fn account(&self) -> std::result::Result<Account, String> {
        Ok(self.sums[0].account())
    }
}

struct StreamSession {
    stream: Stream,
    line: Vec<u8>,
    going: Going,
    /// Bytes of the present stream that have been put into the outbox.
    sent: u64,
    /// Where the reel goes on.
    next: u64,
}

/// What goes over the connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Going {
    /// Nothing: a line is to come.
    Nothing,
    /// Bytes come; so many have come, and so many are due, or as many as come before the end.
    In { came: u64, due: Option<u64> },
    /// So many bytes go.
    Out(u64),
    /// Bytes go until this moment (CLOCK_MONOTONIC, nanoseconds).
    OutUntil(u64),
}

impl StreamSession {
    fn want(&self) -> Want {
        match self.going {
            Going::In { due, .. } => self.stream.receiving.want(due.unwrap_or(u64::MAX)),
            _ => Want::Stored(LONGEST_LINE - self.line.len()),
        }
    }

    /// Takes a line, and what is to be done by it; `None` where more of it has to come.
    fn take_line(&mut self, input: &mut Input<'_>) -> std::result::Result<Option<Request>, ErrorKind> {
        let room = LONGEST_LINE - self.line.len();
        let newline = input.bytes().iter().take(room).position(|&byte| byte == b'\n');
        let part = newline.unwrap_or(input.bytes().len().min(room));
        self.line.extend_from_slice(&input.bytes()[..part]);
        input.take(part + usize::from(newline.is_some()));
        if newline.is_some() {
            return Request::parse(&std::mem::take(&mut self.line)).map(Some).ok_or(ErrorKind::BadRequest);
        }
        if self.line.len() == LONGEST_LINE { Err(ErrorKind::BadRequest) } else { Ok(None) }
    }

    /// All has come.
    fn received(&mut self, came: u64, then: Then, outbox: &mut Outbox) -> Next {
        self.stream.sums[0].to_server.fetch_add(came, Relaxed);
        self.going = Going::Nothing;
        say(format!("{came}\n").into_bytes().into(), outbox);
        Next::Answered(then)
    }
}

impl Session for StreamSession {
    fn first(&self) -> Want {
        self.want()
    }

    fn receive(&mut self, input: &mut Input<'_>, outbox: &mut Outbox) -> std::result::Result<Next, ErrorKind> {
        if input.ended {
            return match self.going {
                Going::In { came, due: None } => Ok(self.received(came, Then::Close, outbox)),
                Going::Nothing if self.line.is_empty() => Ok(Next::Close),
                _ => Err(ErrorKind::Truncated),
            };
        }
        if self.going == Going::Nothing {
            let Some(request) = self.take_line(input)? else { return Ok(Next::Receive(self.want())) };
            (self.sent, self.next) = (0, 0);
            self.going = match request {
                Request::Put(due) => Going::In { came: 0, due },
                Request::Get(bytes) => Going::Out(bytes),
                Request::GetFor(microseconds) => Going::OutUntil(now() + microseconds * 1000),
            };
        }
        let Going::In { came, due } = self.going else {
            return Ok(Next::Begun(Then::Receive(Want::Stored(LONGEST_LINE))));
        };
        let new =
            self.stream.receiving.take(input, came, due.unwrap_or(u64::MAX)).map_err(|_| ErrorKind::BadRequest)?;
        let (came, due) = (came + new, due.map(|due| due - new));
        if due == Some(0) {
            return Ok(self.received(came, Then::Receive(Want::Stored(LONGEST_LINE)), outbox));
        }
        self.going = Going::In { came, due };
        Ok(Next::Receive(self.want()))
    }

    fn more(&mut self, outbox: &mut Outbox) -> More {
        let (left, end) = match self.going {
            Going::Out(bytes) => (bytes - self.sent, More::Nothing),
            Going::OutUntil(end) => (if now() < end { u64::MAX } else { 0 }, More::End),
            Going::Nothing | Going::In { .. } => return More::Nothing,
        };
        if left == 0 {
            self.stream.sums[0].to_client.fetch_add(self.sent, Relaxed);
            self.going = Going::Nothing;
            return end;
        }
        self.sent += self.stream.reel.put(&mut self.next, left, outbox);
        More::Part
    }
}
