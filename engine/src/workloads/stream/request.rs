//! The line by which a client requests or announces a stream.

use std::sync::Arc;

use crate::transfer::outbox::{Outbox, Piece};

/// The longest line accepted as a request, including its newline.
pub const LONGEST_LINE: usize = 32;

/// Maximum bytes that a stream may announce.
pub const MOST_BYTES: u64 = 1 << 60;

/// Maximum duration of a stream: a day.
pub const MOST_MICROSECONDS: u64 = 86_400_000_000;

/// Meaning of a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Request {
    /// The client sends this many bytes, or everything up to the end.
    Put(Option<u64>),
    /// The server sends this many bytes.
    Get(u64),
    /// The server sends for this many microseconds.
    GetFor(u64),
}

impl Request {
    pub fn parse(line: &[u8]) -> Option<Self> {
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

    pub fn line(self) -> Arc<[u8]> {
        let line = match self {
            Request::Put(None) => "put\n".to_owned(),
            Request::Put(Some(bytes)) => format!("put {bytes}\n"),
            Request::Get(bytes) => format!("get {bytes}\n"),
            Request::GetFor(microseconds) => format!("get {microseconds}us\n"),
        };
        line.into_bytes().into()
    }
}

/// Puts a line into the outbox, as a separate message.
pub fn say(line: Arc<[u8]>, outbox: &mut Outbox) {
    let length = line.len();
    outbox.push(Piece::Bytes(line, 0..length));
    outbox.end_message();
}
