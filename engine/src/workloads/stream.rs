//! Bytes in one direction, as iperf and netperf send them: an announced number, or until the time is over. Either end
//! sends them, and the other counts what arrives.
//!
//! The client's request is a line; there may be several on a connection:
//!
//! | request | what follows |
//! |---|---|
//! | `put N` | the client sends N bytes; the server answers with that number and a newline |
//! | `put` | the client sends until it sends no more (shutdown); the server answers with how many bytes came, and closes |
//! | `get N` | the server sends N bytes |
//! | `get Nus` | the server sends for N microseconds, and then no more (shutdown) |
//!
//! Byte number i of a stream is i % 65,536 % 251, however the stream is cut into messages: the receiver need not know
//! how it was cut.

mod client;
mod receiving;
mod reel;
mod request;
mod sums;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use anyhow::{Context, Result};

use crate::base::about::About;
use crate::base::setting::Settings;
use crate::count::tally::ErrorKind;
use crate::protocol::workload::{
    Account, COMMON, End, Input, MeasuredBy, More, Next, Service, Session, Then, Workload,
};
use crate::sys::clock::now;
use crate::sys::memory::shared::SharedArray;
use crate::transfer::outbox::Outbox;
use crate::transfer::primitive::{Waits, Want};

use receiving::{RECEIVE_SIZE, Receiving, VERIFY};
use reel::Reel;
use request::{LONGEST_LINE, Request, say};
use sums::Sums;

pub static ENTRY: Workload = Workload {
    about: About {
        summary: "Bytes in one direction, for a given time or an announced number, from memory or from a file",
        source: "iperf.fr; hewlettpackard.github.io/netperf, TCP_STREAM and TCP_MAERTS",
    },
    port: 5201,
    service_settings: &[reel::MESSAGE_SIZE, reel::SOURCE, reel::SOURCE_SIZE, RECEIVE_SIZE, VERIFY],
    client_settings: &[
        client::DIRECTION,
        client::STREAM_SIZE,
        reel::MESSAGE_SIZE,
        reel::SOURCE,
        reel::SOURCE_SIZE,
        RECEIVE_SIZE,
        VERIFY,
    ],
    takes_unstored: &[End::Service, End::Client],
    lasting: &[End::Client],
    sender: End::Client,
    measured_by: MeasuredBy::BytesToServer,
    direction: Some(client::TURNED),
    service,
    client: client::client,
    ..COMMON
};

fn service(settings: &Settings, _waits: Waits) -> Result<Box<dyn Service>> {
    Ok(Box::new(Stream {
        receiving: Receiving::new(settings),
        reel: Arc::new(Reel::new(settings)),
        sums: Arc::new(SharedArray::new(1).context("cannot map shared memory")?),
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

    fn prepare(&self) -> Result<()> {
        self.reel.make()
    }

    fn source_bytes(&self) -> Option<u64> {
        self.reel.file_bytes()
    }
}

struct StreamSession {
    stream: Stream,
    line: Vec<u8>,
    going: Going,
    /// Bytes of the current stream put into the outbox so far.
    sent: u64,
    /// Position in the reel.
    next: u64,
}

/// State of the connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Going {
    /// Idle: the next line is expected.
    Nothing,
    /// Receiving: bytes received so far, and bytes expected, or `None` for all bytes up to the end.
    In { came: u64, due: Option<u64> },
    /// Sending: bytes left.
    Out(u64),
    /// Sending until this time (CLOCK_MONOTONIC, nanoseconds).
    OutUntil(u64),
}

impl StreamSession {
    fn want(&self) -> Want {
        match self.going {
            Going::In { due, .. } => self.stream.receiving.want(due.unwrap_or(u64::MAX)),
            _ => Want::Stored(LONGEST_LINE - self.line.len()),
        }
    }

    /// Takes a line and its meaning; `None` if more of it must come.
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

    /// The stream has arrived completely.
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
