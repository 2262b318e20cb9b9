//! What comes in goes out: RFC 862 over TCP.

use std::sync::Arc;

use anyhow::Result;

use crate::about::About;
use crate::inbox;
use crate::mistake::mistake;
use crate::outbox::{Outbox, Piece};
use crate::pattern::{BYTES, CHECK, Reception, pattern};
use crate::primitive::{Waits, Want};
use crate::setting::Settings;
use crate::tally::ErrorKind;
use crate::workload::{Answer, COMMON, Client, Conversation, End, Input, Next, Service, Session, Then, Workload};

pub static ENTRY: Workload = Workload {
    about: About { summary: "What the client sends, the server sends back", source: "RFC 862" },
    // The RFC's own port, 7, needs a privilege.
    port: 7777,
    client_settings: &[BYTES, CHECK],
    takes_unstored: &[End::Client],
    lasting: &[End::Client],
    service: |_: &Settings, _: Waits| -> Result<Box<dyn Service>> { Ok(Box::new(Echo)) },
    client,
    ..COMMON
};

const BUFFER: Want = Want::AtMost(inbox::CAPACITY);

/// The most that a client sends before it receives. The server takes no more in while it cannot send, so a client that
/// does not read meanwhile waits for ever once all buffers between the two are full; the smallest that Linux gives them
/// hold more than this (tcp(7), tcp_rmem and tcp_wmem).
const MOST: usize = 64 * 1024;

/// Either end of the serving side: there is nothing to remember.
struct Echo;

impl Service for Echo {
    fn open(&self) -> Box<dyn Session> {
        Box::new(Echo)
    }
}

impl Session for Echo {
    fn first(&self) -> Want {
        BUFFER
    }

    /// Whatever one receive brought counts as one request: the protocol has no other bounds.
    fn receive(&mut self, input: &mut Input<'_>, outbox: &mut Outbox) -> std::result::Result<Next, ErrorKind> {
        if input.ended {
            return Ok(Next::Close);
        }
        let bytes: Arc<[u8]> = input.bytes().into();
        input.take(bytes.len());
        let length = bytes.len();
        outbox.push(Piece::Bytes(bytes, 0..length));
        outbox.end_message();
        Ok(Next::Answered(Then::Receive(BUFFER)))
    }
}

fn client(settings: &Settings) -> Result<Box<dyn Client>> {
    let reception = Reception::new(settings);
    if reception.bytes() > MOST {
        return Err(mistake(format!(
            "--bytes is {}, but echo takes at most {MOST}: the client sends all of them before it receives any, and \
             larger messages may fill every buffer between the two",
            reception.bytes()
        )));
    }
    Ok(Box::new(Asker { message: pattern(reception.bytes() as u64), reception }))
}

#[derive(Clone)]
struct Asker {
    message: Arc<[u8]>,
    reception: Reception,
}

impl Client for Asker {
    fn open(&self) -> Box<dyn Conversation> {
        Box::new(self.clone())
    }
}

impl Conversation for Asker {
    fn ask(&mut self, outbox: &mut Outbox) -> Want {
        outbox.push(Piece::Bytes(Arc::clone(&self.message), 0..self.message.len()));
        outbox.end_message();
        self.reception.begin()
    }

    fn receive(&mut self, input: &mut Input<'_>) -> std::result::Result<Answer, String> {
        self.reception.receive(input)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::inbox::Inbox;
    use crate::setting::Value;

    fn echoed(segments: &[Vec<u8>]) -> Vec<u8> {
        let (mut session, mut inbox, mut echoed) = (Echo.open(), Inbox::default(), Vec::new());
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
        fn whatever_comes_in_goes_out(segments in proptest::collection::vec(proptest::collection::vec(proptest::num::u8::ANY, 1..100), 0..10)) {
            proptest::prop_assert_eq!(echoed(&segments), segments.concat());
        }
    }

    #[test]
    fn a_message_that_no_buffers_hold_is_refused_with_the_limit() {
        let with = |bytes| Settings::new([&BYTES, &CHECK], &BTreeMap::from([("bytes", Value::Integer(bytes))]));
        assert!(client(&with(65536)).is_ok());
        let error = client(&with(65537)).err().unwrap().to_string();
        assert!(error.contains("--bytes is 65537") && error.contains("65536"), "{error}");
    }
}
