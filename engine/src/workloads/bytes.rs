//! The protocol of UNP chapter 30: the client sends a decimal number and a newline. The server replies with that many
//! bytes, and waits for the next line until the end of file.

use std::sync::Arc;

use anyhow::Result;
use arrayvec::ArrayVec;

use crate::base::about::About;
use crate::base::setting::{Kind, Setting, Settings};
use crate::base::unit::Unit;
use crate::count::tally::ErrorKind;
use crate::protocol::pattern::{BYTES, CHECK, Reception, pattern};
use crate::protocol::spin::{COMPUTE, Spin};
use crate::protocol::stall::{STALL, STALL_EVERY, Stalls};
use crate::protocol::workload::{
    Agreement, Answer, COMMON, Client, Conversation, End, Input, Instead, Next, Relation, Service, Session, Then,
    Workload,
};
use crate::requests::numbering::REQUEST_SEED;
use crate::requests::sizes::{SIZES, USUAL_MOST};
use crate::requests::traffic::{SizesInTurn, Traffic};
use crate::sys::clock::now;
use crate::transfer::outbox::{Outbox, Piece};
use crate::transfer::primitive::{Waits, Want};

pub static ENTRY: Workload = Workload {
    about: About {
        summary: "The client sends a number and a newline; the server replies with that many bytes",
        source: "UNP volume 1, third edition, section 30.3",
    },
    port: 8888,
    service_settings: &[LIMIT, COMPUTE, STALL, STALL_EVERY],
    client_settings: &[BYTES, SIZES, REQUEST_SEED, CHECK],
    agreements: &[
        Agreement { client: BYTES, relation: Relation::AtMost, service: LIMIT },
        Agreement { client: SIZES, relation: Relation::AtMost, service: LIMIT },
    ],
    instead: &[Instead { given: SIZES, of: BYTES }],
    made_anew: &[(End::Client, SIZES)],
    takes_unstored: &[End::Client],
    lasting: &[End::Service, End::Client],
    pipelines: true,
    service,
    client,
    ..COMMON
};

const LIMIT: Setting = Setting {
    name: "limit",
    help: "Maximum number of bytes that a client may request; the server closes a connection that requests more",
    unit: Unit::Bytes,
    kind: Kind::Integer { minimum: 1, maximum: 1 << 30, default: USUAL_MOST },
    for_more: None,
};

/// The longest line accepted as a number: room for any 64-bit number, a sign and white space.
const LONGEST_LINE: usize = 64;

fn service(settings: &Settings, _waits: Waits) -> Result<Box<dyn Service>> {
    Ok(Box::new(Bytes {
        payload: pattern(settings.integer(LIMIT.name)),
        spin: Spin::new(settings),
        stalls: Stalls::new(settings, now())?,
    }))
}

struct Bytes {
    payload: Arc<[u8]>,
    spin: Spin,
    stalls: Stalls,
}

impl Service for Bytes {
    fn open(&self) -> Box<dyn Session> {
        let Bytes { payload, spin, stalls } = self;
        Box::new(BytesSession { payload: Arc::clone(payload), spin: *spin, stalls: *stalls, line: ArrayVec::new() })
    }
}

struct BytesSession {
    payload: Arc<[u8]>,
    spin: Spin,
    stalls: Stalls,
    line: ArrayVec<u8, LONGEST_LINE>,
}

impl Session for BytesSession {
    fn first(&self) -> Want {
        Want::ANYTHING
    }

    fn receive(&mut self, input: &mut Input<'_>, outbox: &mut Outbox) -> std::result::Result<Next, ErrorKind> {
        if input.ended {
            return if self.line.is_empty() { Ok(Next::Close) } else { Err(ErrorKind::Truncated) };
        }
        let bytes = input.bytes();
        let Some(end) = bytes.iter().position(|&byte| byte == b'\n') else {
            let all = bytes.len();
            self.line.try_extend_from_slice(bytes).map_err(|_| ErrorKind::BadRequest)?;
            input.take(all);
            return Ok(Next::Receive(Want::ANYTHING));
        };
        // Most lines arrive in one part, and need no copy.
        let length = if self.line.is_empty() && end <= LONGEST_LINE {
            number(&bytes[..end])
        } else {
            self.line.try_extend_from_slice(&bytes[..end]).map_err(|_| ErrorKind::BadRequest)?;
            number(&self.line)
        };
        input.take(end + 1);
        self.line.clear();
        let length = length.filter(|length| (1..=self.payload.len()).contains(length));
        let reply = Piece::Bytes(Arc::clone(&self.payload), 0..length.ok_or(ErrorKind::BadRequest)?);
        let BytesSession { spin, stalls, .. } = *self;
        if spin.is_zero() && stalls.is_none() {
            answer(reply, outbox);
            return Ok(Next::Answered(Then::Receive(Want::ANYTHING)));
        }
        let work = move |outbox: &mut Outbox| {
            stalls.wait();
            spin.burn();
            answer(reply, outbox);
            Ok(())
        };
        Ok(Next::Work(Box::new(work), Then::Receive(Want::ANYTHING)))
    }
}

fn answer(reply: Piece, outbox: &mut Outbox) {
    outbox.push(reply);
    outbox.end_message();
}

/// Parses the number on a line; white space around it is allowed (telnet sends a carriage return).
fn number(line: &[u8]) -> Option<usize> {
    let digits = line.trim_ascii();
    let digits = digits.strip_prefix(b"+").unwrap_or(digits);
    if digits.is_empty() {
        return None;
    }
    digits.iter().try_fold(0_usize, |number, digit| {
        let units = digit.checked_sub(b'0').filter(|units| *units < 10)?;
        number.checked_mul(10)?.checked_add(units.into())
    })
}

fn client(settings: &Settings) -> Result<Box<dyn Client>> {
    let sizes = SizesInTurn::new(settings, &BYTES)?;
    let reception = Reception::new(settings, sizes.largest());
    let always = sizes.fixed().map(|bytes| (bytes, line(bytes)));
    Ok(Box::new(BytesClient { always, sizes, arrival: None, reception }))
}

/// A request.
fn line(bytes: u64) -> Arc<[u8]> {
    format!("{bytes}\n").into_bytes().into()
}

#[derive(Clone)]
struct BytesClient {
    /// The size and the encoded request, if all requests are alike.
    always: Option<(u64, Arc<[u8]>)>,
    sizes: SizesInTurn,
    /// Draw of the next request.
    arrival: Option<u64>,
    reception: Reception,
}

impl Client for BytesClient {
    fn open(&self) -> Box<dyn Conversation> {
        Box::new(self.clone())
    }

    fn traffic(&self) -> Option<Traffic> {
        self.sizes.traffic()
    }

    fn largest(&self) -> Option<u64> {
        self.sizes.is_given().then(|| self.sizes.largest())
    }

    fn longest_request(&self) -> Option<u64> {
        Some(line(self.sizes.largest()).len() as u64)
    }
}

impl Conversation for BytesClient {
    fn numbered(&mut self, arrival: u64) {
        self.arrival = Some(arrival);
    }

    fn ask(&mut self, outbox: &mut Outbox) -> Want {
        let (bytes, request) = self.always.clone().unwrap_or_else(|| {
            let bytes = self.sizes.next(self.arrival.take());
            (bytes, line(bytes))
        });
        let length = request.len();
        outbox.push(Piece::Bytes(request, 0..length));
        outbox.end_message();
        self.reception.begin(bytes)
    }

    fn receive(&mut self, input: &mut Input<'_>) -> std::result::Result<Answer, String> {
        self.reception.receive(input)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::transfer::inbox::Inbox;

    /// Gives a session the peer's bytes, cut into segments; returns the bytes of each reply, or the error.
    fn answers(segments: &[&[u8]]) -> std::result::Result<Vec<u64>, ErrorKind> {
        let service = service(&Settings::new(ENTRY.service_settings, &BTreeMap::new()), Waits::InTheCall).unwrap();
        let mut session = service.open();
        let (mut inbox, mut answers) = (Inbox::default(), Vec::new());
        for segment in segments {
            inbox.room(segment.len()).copy_from_slice(segment);
            inbox.filled(segment.len());
            while !inbox.unread().is_empty() {
                let mut outbox = Outbox::default();
                if let Next::Answered(_) = session.receive(&mut Input::new(&mut inbox, 1, 0, false), &mut outbox)? {
                    answers.push(outbox.bytes());
                }
            }
        }
        Ok(answers)
    }

    #[test]
    fn a_request_cut_anywhere_gets_the_same_reply() {
        let text = b"4000\n1\n16384\r\n";
        for cut in 0..text.len() {
            assert_eq!(answers(&[&text[..cut], &text[cut..]]), Ok(vec![4000, 1, 16384]), "cut at {cut}");
        }
        let single: Vec<&[u8]> = text.chunks(1).collect();
        assert_eq!(answers(&single), Ok(vec![4000, 1, 16384]));
    }

    #[test]
    fn a_number_that_is_invalid_or_too_large_is_refused() {
        for line in ["0", "-1", "16385", "99999999999999999999", "letters", "", "4000 4000", "0x10", "1e3"] {
            assert_eq!(answers(&[format!("{line}\n").as_bytes()]), Err(ErrorKind::BadRequest), "{line}");
        }
        assert_eq!(answers(&[&[b'1'; LONGEST_LINE + 1]]), Err(ErrorKind::BadRequest));
        assert_eq!(answers(&[&[0; 4096]]), Err(ErrorKind::BadRequest));
    }

    proptest::proptest! {
        #[test]
        fn no_input_makes_a_session_panic(segments in proptest::collection::vec(proptest::collection::vec(proptest::num::u8::ANY, 1..100), 0..10)) {
            let segments: Vec<&[u8]> = segments.iter().map(Vec::as_slice).collect();
            let _ = answers(&segments);
        }
    }
}
