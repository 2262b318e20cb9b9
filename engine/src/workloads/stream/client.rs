//! The client side: sends a stream and gets the server's count, or requests a stream and counts its bytes.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context, Result};

use super::receiving::{RECEIVE_SIZE, Receiving, VERIFY};
use super::reel::{MESSAGE_SIZE, Reel, SOURCE, SOURCE_SIZE};
use super::request::{LONGEST_LINE, MOST_MICROSECONDS, Request, say};
use super::sums::Sums;
use crate::base::mistake::{Blame, mistake_with_hint};
use crate::base::setting::{Kind, Setting, Settings, Value};
use crate::base::unit::Unit;
use crate::base::window::Window;
use crate::client::load::DURATION;
use crate::protocol::workload::{
    Account, Answer, Client, Conversation, Direction, Figures, Input, MeasuredBy, More, PAYLOAD_BYTES,
};
use crate::sys::clock::now;
use crate::sys::memory::shared::SharedArray;
use crate::transfer::outbox::Outbox;
use crate::transfer::primitive::Want;

/// Direction of the stream.
pub const DIRECTION: Setting = Setting {
    name: "direction",
    help: "Direction of the stream",
    unit: Unit::None,
    kind: Kind::Choice { choices: &[TO_SERVER, TO_CLIENT], default: TO_SERVER },
    for_more: None,
};

const TO_SERVER: &str = "to_server";
const TO_CLIENT: &str = "to_client";

/// Settings that depend on [`DIRECTION`].
pub const TURNED: Direction = Direction {
    setting: DIRECTION,
    to_server: TO_SERVER,
    to_client: TO_CLIENT,
    of_sender: &[MESSAGE_SIZE, SOURCE, SOURCE_SIZE],
    of_receiver: &[RECEIVE_SIZE, VERIFY],
};

/// Length of a stream.
pub const STREAM_SIZE: Setting = Setting {
    name: "stream_size",
    help: "Length of each stream in bytes; 0: until the load ends by time",
    unit: Unit::Bytes,
    kind: Kind::Integer { minimum: 0, maximum: 1 << 50, default: 0 },
    for_more: Some("for more, use 0: a stream lasts until the load ends by time"),
};

/// Tolerance, as a share of the time: how much early a stream with a time may end, because the clocks of two machines
/// differ.
const TOO_SOON: u64 = 1000;

/// Makes the client side.
pub fn client(settings: &Settings) -> Result<Box<dyn Client>> {
    let bytes = Some(settings.integer(STREAM_SIZE.name)).filter(|&bytes| bytes > 0);
    let timed = matches!(settings.values().get(DURATION.name), Some(Value::Integer(1..)));
    if bytes.is_none() && !timed {
        return Err(mistake_with_hint(
            "stream.no_end",
            "the stream has neither a length nor a duration",
            "give --stream-size 1GiB or the like, or --duration 10s with a --load that ends by time",
        )
        .blaming(&[STREAM_SIZE.name]));
    }
    let to_server = settings.word(DIRECTION.name) == TO_SERVER;
    let request = match (to_server, bytes) {
        (true, bytes) => Some(Request::Put(bytes)),
        (false, Some(bytes)) => Some(Request::Get(bytes)),
        // The time is known only when the request is sent.
        (false, None) => None,
    };
    Ok(Box::new(Streamer {
        to_server,
        bytes,
        request: request.map(Request::line),
        sent: Arc::default(),
        receiving: Receiving::new(settings),
        reel: Arc::new(Reel::new(settings)),
        shared: Arc::new(SharedArray::new(1).context("cannot map shared memory")?),
    }))
}

#[derive(Clone)]
struct Streamer {
    to_server: bool,
    /// Length of a stream that does not end with the load's window.
    bytes: Option<u64>,
    /// The line of each request, if all are the same.
    request: Option<Arc<[u8]>>,
    /// Other lines: one per client, in a load that ends by time. They are kept, like everything that clients send,
    /// because a peer may read from this memory at any time later.
    sent: Arc<Mutex<Vec<Arc<[u8]>>>>,
    receiving: Receiving,
    reel: Arc<Reel>,
    shared: Arc<SharedArray<Shared>>,
}

/// State shared by all processes and threads of a load.
#[derive(Default)]
struct Shared {
    sums: Sums,
    payload_bytes: AtomicU64,
}

impl Client for Streamer {
    fn prepare(&self) -> Result<()> {
        self.reel.make()
    }

    fn source_bytes(&self) -> Option<u64> {
        self.reel.file_bytes()
    }

    fn open(&self) -> Box<dyn Conversation> {
        let streamer = self.clone();
        Box::new(StreamConversation {
            streamer,
            requested: 0,
            time: 0,
            said: false,
            moved: 0,
            next: 0,
            line: Vec::new(),
        })
    }

    fn account(&self) -> Account {
        self.shared[0].sums.account()
    }

    fn measured_by(&self) -> MeasuredBy {
        // Bytes at the receiving end, as iperf3 counts them: sent bytes may still be in flight.
        if self.to_server { MeasuredBy::BytesToServer } else { MeasuredBy::BytesToClients }
    }

    fn figures(&self) -> Figures {
        Figures::from([(PAYLOAD_BYTES.to_owned(), self.shared[0].payload_bytes.load(Relaxed))])
    }
}

struct StreamConversation {
    streamer: Streamer,
    /// Time at which the stream was requested (CLOCK_MONOTONIC, nanoseconds).
    requested: u64,
    /// Requested length of the stream in nanoseconds; 0 if no time was given.
    time: u64,
    /// The request's line has been put into the outbox.
    said: bool,
    /// Bytes of the stream sent or received so far.
    moved: u64,
    /// Position in the reel.
    next: u64,
    /// The server's count, as received so far.
    line: Vec<u8>,
}

impl StreamConversation {
    fn want(&self) -> Want {
        match self.streamer.to_server {
            true => Want::Stored(LONGEST_LINE - self.line.len()),
            false => self.streamer.receiving.want(self.due()),
        }
    }

    /// Bytes of the stream left.
    fn due(&self) -> u64 {
        self.streamer.bytes.map_or(u64::MAX, |bytes| bytes - self.moved)
    }

    fn complete(&mut self) -> Answer {
        let sums = &self.streamer.shared[0].sums;
        let sum = if self.streamer.to_server { &sums.to_server } else { &sums.to_client };
        sum.fetch_add(self.moved, Relaxed);
        if self.streamer.bytes.is_some() { Answer::Complete } else { Answer::Last }
    }

    fn receive_count(&mut self, input: &mut Input<'_>) -> std::result::Result<Answer, String> {
        self.line.extend_from_slice(input.bytes());
        input.take(input.bytes().len());
        let seen = || String::from_utf8_lossy(&self.line);
        if input.ended {
            return Err(format!("the server closed before it reported how many bytes arrived: {:?}", seen()));
        }
        let Some((b'\n', digits)) = self.line.split_last() else {
            return match LONGEST_LINE - self.line.len() {
                0 => Err(format!("the server's number of bytes is not a number: {:?}", seen())),
                _ => Ok(Answer::Receive(self.want())),
            };
        };
        if digits != self.moved.to_string().as_bytes() {
            return Err(format!(
                "the server reports {:?} received bytes, but {} were sent",
                seen().trim_end(),
                self.moved
            ));
        }
        Ok(self.complete())
    }

    fn receive_stream(&mut self, input: &mut Input<'_>) -> std::result::Result<Answer, String> {
        if !input.ended {
            self.moved += self.streamer.receiving.take(input, self.moved, self.due())?;
            return Ok(if self.due() == 0 { self.complete() } else { Answer::Receive(self.want()) });
        }
        let lasted = now().saturating_sub(self.requested);
        match self.streamer.bytes {
            Some(bytes) => Err(format!("the stream ended after {} of {bytes} bytes", self.moved)),
            None if lasted < self.time - self.time / TOO_SOON => {
                Err(format!("the stream ended after {} of {} milliseconds", lasted / 1_000_000, self.time / 1_000_000))
            }
            None => Ok(self.complete()),
        }
    }
}

impl Conversation for StreamConversation {
    fn ask(&mut self, outbox: &mut Outbox) -> Want {
        self.requested = now();
        (self.time, self.moved, self.next) = (0, 0, 0);
        self.line.clear();
        self.said = self.streamer.request.is_some();
        if let Some(request) = &self.streamer.request {
            say(Arc::clone(request), outbox);
        }
        self.want()
    }

    fn more(&mut self, outbox: &mut Outbox, window: &Window) -> More {
        if !self.streamer.to_server {
            if std::mem::replace(&mut self.said, true) {
                return More::Nothing;
            }
            self.requested = now();
            let microseconds =
                window.edges().end.saturating_sub(self.requested).div_ceil(1000).clamp(1, MOST_MICROSECONDS);
            self.time = microseconds * 1000;
            let line = Request::GetFor(microseconds).line();
            self.streamer.sent.lock().unwrap_or_else(PoisonError::into_inner).push(Arc::clone(&line));
            say(line, outbox);
            return More::Part;
        }
        match self.streamer.bytes {
            Some(_) if self.due() == 0 => return More::Nothing,
            None if window.is_over(now()) => return More::End,
            _ => {}
        }
        let due = self.due();
        self.moved += self.streamer.reel.put(&mut self.next, due, outbox);
        More::Part
    }

    fn receive(&mut self, input: &mut Input<'_>) -> std::result::Result<Answer, String> {
        if self.streamer.to_server { self.receive_count(input) } else { self.receive_stream(input) }
    }

    fn counts(&mut self) {
        self.streamer.shared[0].payload_bytes.fetch_add(self.moved, Relaxed);
    }
}
