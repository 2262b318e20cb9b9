//! The server sends back what it receives: RFC 862 over TCP.
//!
//! The protocol has no boundaries between requests, so the server counts receives; a long message takes several. Both
//! ends account for bytes, which must be equal.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use anyhow::{Context, Result};

use crate::base::about::About;
use crate::base::setting::{Kind, Setting, Settings};
use crate::count::tally::ErrorKind;
use crate::protocol::pattern::{self, CHECK, Reception, pattern};
use crate::protocol::workload::{
    Account, Answer, COMMON, Client, Conversation, End, Input, Instead, Next, Service, Session, Then, Workload,
};
use crate::requests::numbering::REQUEST_SEED;
use crate::requests::sizes::SIZES;
use crate::requests::traffic::{SizesInTurn, Traffic};
use crate::sys::memory::shared::SharedArray;
use crate::transfer::outbox::{Outbox, Piece};
use crate::transfer::primitive::{Waits, Want};

pub static ENTRY: Workload = Workload {
    about: About { summary: "The server sends back what the client sends", source: "RFC 862" },
    // The RFC's port, 7, is privileged.
    port: 7777,
    client_settings: &[BYTES, SIZES, REQUEST_SEED, CHECK],
    instead: &[Instead { given: SIZES, of: BYTES }],
    takes_unstored: &[End::Client],
    lasting: &[End::Client],
    pipelines: true,
    counts_requests: false,
    service,
    client,
    ..COMMON
};

/// Maximum message size: a client sends a whole message before it receives. The server stops receiving while it cannot
/// send, so a larger message could fill all buffers and deadlock. The smallest buffers that Linux uses hold more than
/// this (tcp(7), tcp_rmem and tcp_wmem).
const MOST: u64 = 64 * 1024;

/// Message size; the client sends a whole message before it receives any of it.
const BYTES: Setting = Setting {
    kind: Kind::Integer { minimum: 1, maximum: MOST, default: 4000 },
    for_more: Some(
        "for longer messages, use the workload stream: echo sends the whole message before it receives any \
                    of it",
    ),
    ..pattern::BYTES
};

/// Name of the sum that both ends account for: the bytes of all echoed messages.
const ECHOED: &str = "echoed_bytes";

/// Sum of one end, shared by its processes.
#[derive(Clone)]
struct Echoed(Arc<SharedArray<AtomicU64>>);

impl Echoed {
    fn new() -> Result<Self> {
        Ok(Echoed(Arc::new(SharedArray::new(1).context("cannot map shared memory")?)))
    }

    fn add(&self, bytes: usize) {
        self.0[0].fetch_add(bytes as u64, Relaxed);
    }

    fn account(&self) -> Account {
        Account::from([(ECHOED, self.0[0].load(Relaxed))])
    }
}

fn service(_settings: &Settings, _waits: Waits) -> Result<Box<dyn Service>> {
    Ok(Box::new(Echo { echoed: Echoed::new()? }))
}

/// The server side, and each of its connections: there is no other state.
#[derive(Clone)]
struct Echo {
    echoed: Echoed,
}

impl Service for Echo {
    fn open(&self) -> Box<dyn Session> {
        Box::new(self.clone())
    }

    fn account(&self) -> std::result::Result<Account, String> {
        Ok(self.echoed.account())
    }
}

impl Session for Echo {
    fn first(&self) -> Want {
        Want::ANYTHING
    }

    /// Each receive counts as one request: see [`Workload::counts_requests`].
    fn receive(&mut self, input: &mut Input<'_>, outbox: &mut Outbox) -> std::result::Result<Next, ErrorKind> {
        if input.ended {
            return Ok(Next::Close);
        }
        let bytes: Arc<[u8]> = input.bytes().into();
        input.take(bytes.len());
        let length = bytes.len();
        self.echoed.add(length);
        outbox.push(Piece::Bytes(bytes, 0..length));
        outbox.end_message();
        Ok(Next::Answered(Then::Receive(Want::ANYTHING)))
    }
}

fn client(settings: &Settings) -> Result<Box<dyn Client>> {
    let sizes = SizesInTurn::new(settings, &BYTES)?;
    let (message, reception) = (pattern(sizes.largest()), Reception::new(settings, sizes.largest()));
    Ok(Box::new(EchoClient { message, bytes: 0, sizes, arrival: None, reception, echoed: Echoed::new()? }))
}

#[derive(Clone)]
struct EchoClient {
    /// The longest message; every message is a prefix of it.
    message: Arc<[u8]>,
    /// Current message.
    bytes: usize,
    sizes: SizesInTurn,
    /// Draw of the next message.
    arrival: Option<u64>,
    reception: Reception,
    echoed: Echoed,
}

impl Client for EchoClient {
    fn open(&self) -> Box<dyn Conversation> {
        Box::new(self.clone())
    }

    fn account(&self) -> Account {
        self.echoed.account()
    }

    fn traffic(&self) -> Option<Traffic> {
        self.sizes.traffic()
    }

    fn largest(&self) -> Option<u64> {
        self.sizes.is_given().then(|| self.sizes.largest())
    }

    fn longest_request(&self) -> Option<u64> {
        Some(self.sizes.largest())
    }
}

impl Conversation for EchoClient {
    fn numbered(&mut self, arrival: u64) {
        self.arrival = Some(arrival);
    }

    fn ask(&mut self, outbox: &mut Outbox) -> Want {
        let bytes = self.sizes.next(self.arrival.take());
        self.bytes = bytes as usize;
        outbox.push(Piece::Bytes(Arc::clone(&self.message), 0..self.bytes));
        outbox.end_message();
        self.reception.begin(bytes)
    }

    fn receive(&mut self, input: &mut Input<'_>) -> std::result::Result<Answer, String> {
        let answer = self.reception.receive(input)?;
        if answer == Answer::Complete {
            self.echoed.add(self.bytes);
        }
        Ok(answer)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::base::setting::Value;
    use crate::transfer::inbox::Inbox;

    /// Returns what a service sends back for input in such segments.
    fn echoed(service: &dyn Service, segments: &[Vec<u8>]) -> Vec<u8> {
        let (mut session, mut inbox, mut echoed) = (service.open(), Inbox::default(), Vec::new());
        for segment in segments {
            inbox.room(segment.len()).copy_from_slice(segment);
            inbox.filled(segment.len());
            let mut outbox = Outbox::default();
            let next = session.receive(&mut Input::new(&mut inbox, 1, 0, false), &mut outbox);
            assert!(matches!(next, Ok(Next::Answered(Then::Receive(_)))));
            assert!(inbox.unread().is_empty());
            for piece in outbox.message() {
                let Piece::Bytes(bytes, range) = piece else { panic!("an echo comes from memory") };
                echoed.extend_from_slice(&bytes[range.clone()]);
            }
        }
        echoed
    }

    proptest::proptest! {
        #[test]
        fn every_byte_is_echoed(segments in proptest::collection::vec(proptest::collection::vec(proptest::num::u8::ANY, 1..100), 0..10)) {
            let service = service(&settings(1), Waits::InTheCall).unwrap();
            proptest::prop_assert_eq!(echoed(service.as_ref(), &segments), segments.concat());
            let account = service.account().unwrap();
            proptest::prop_assert_eq!(account[ECHOED], segments.concat().len() as u64);
        }
    }

    fn settings(bytes: u64) -> Settings {
        Settings::new(ENTRY.client_settings, &BTreeMap::from([("bytes", Value::Integer(bytes))]))
    }

    #[test]
    fn both_ends_account_for_the_bytes_of_a_message_however_it_is_cut() {
        let (bytes, service) = (50_000, service(&settings(1), Waits::InTheCall).unwrap());
        let client = client(&settings(bytes)).unwrap();
        let (mut conversation, mut inbox, mut outbox) = (client.open(), Inbox::default(), Outbox::default());
        conversation.ask(&mut outbox);
        let segments: Vec<Vec<u8>> = pattern(bytes).chunks(9_999).map(<[u8]>::to_vec).collect();
        let mut answer = None;
        for segment in &segments {
            assert!(client.account()[ECHOED] == 0, "a message counts when all of it is back");
            let back = echoed(service.as_ref(), std::slice::from_ref(segment));
            inbox.room(back.len()).copy_from_slice(&back);
            inbox.filled(back.len());
            answer = Some(conversation.receive(&mut Input::new(&mut inbox, 1, 0, false)).unwrap());
        }
        assert_eq!(answer, Some(Answer::Complete));
        assert_eq!(client.account(), service.account().unwrap());
        assert_eq!(client.account()[ECHOED], bytes);
    }

    #[test]
    fn a_message_that_no_buffers_hold_is_refused_with_the_limit() {
        assert_eq!(BYTES.parse("65536").unwrap(), Value::Integer(65536));
        let error = BYTES.parse("65537").unwrap_err().to_string();
        assert!(error.contains("--bytes") && error.contains("'65537'") && error.contains("64KiB"), "{error}");
    }
}
