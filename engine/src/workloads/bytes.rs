//! The protocol of UNP chapter 30: the client sends a decimal number and a newline, the server answers with that many
//! bytes and waits for the next line until the end of file.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;

use crate::about::About;
use crate::inbox;
use crate::outbox::{Outbox, Piece};
use crate::primitive::{Waits, Want};
use crate::setting::{Kind, Setting, Settings};
use crate::sys::process::thread_cpu_time;
use crate::tally::ErrorKind;
use crate::workload::{Answer, Client, Conversation, Input, Next, Service, Session, Then, Workload};

pub static ENTRY: Workload = Workload {
    about: About {
        summary: "The client sends a number and a newline, the server answers with that many bytes",
        source: "UNP volume 1, third edition, section 30.3",
    },
    port: 8888,
    service_settings: &[LIMIT, SPIN],
    client_settings: &[BYTES, CHECK],
    service,
    client,
};

const LIMIT: Setting = Setting {
    name: "limit",
    help: "The most bytes that a client may ask for; the connection that asks for more is closed",
    unit: Some("bytes"),
    kind: Kind::Integer { minimum: 1, maximum: 1 << 30, default: 16384 },
};

const SPIN: Setting = Setting {
    name: "spin_microseconds",
    help: "CPU time to burn before every answer: a slowdown of known size, by which the measuring itself is tested",
    unit: Some("microseconds"),
    kind: Kind::Integer { minimum: 0, maximum: 1_000_000, default: 0 },
};

const BYTES: Setting = Setting {
    name: "bytes",
    help: "Bytes to ask for in every request",
    unit: Some("bytes"),
    kind: Kind::Integer { minimum: 1, maximum: 1 << 30, default: 4000 },
};

const CHECK: Setting = Setting {
    name: "check",
    help: "Compare replies with the bytes that our servers send, or only count them (for other servers)",
    unit: None,
    kind: Kind::Choice { choices: &["pattern", "count"], default: "pattern" },
};

const BUFFER: Want = Want::AtMost(inbox::CAPACITY);

/// The longest line that is taken for a number: room for any 64-bit number, a sign and white space.
const LONGEST_LINE: usize = 64;

/// The bytes that our servers send. The period is a prime, so that a piece that is lost, repeated or out of place does
/// not go unseen.
fn pattern(length: u64) -> Arc<[u8]> {
    let period: Vec<u8> = (0..251).collect();
    let length = length as usize;
    let mut bytes = period.repeat(length.div_ceil(period.len()));
    bytes.truncate(length);
    bytes.into()
}

fn service(settings: &Settings, _waits: Waits) -> Result<Box<dyn Service>> {
    let spin = Duration::from_micros(settings.integer(SPIN.name));
    Ok(Box::new(Bytes { payload: pattern(settings.integer(LIMIT.name)), spin }))
}

struct Bytes {
    payload: Arc<[u8]>,
    spin: Duration,
}

impl Service for Bytes {
    fn open(&self) -> Box<dyn Session> {
        Box::new(BytesSession { payload: Arc::clone(&self.payload), spin: self.spin, line: Vec::new() })
    }
}

struct BytesSession {
    payload: Arc<[u8]>,
    spin: Duration,
    line: Vec<u8>,
}

impl Session for BytesSession {
    fn first(&self) -> Want {
        BUFFER
    }

    fn receive(&mut self, input: &mut Input<'_>, outbox: &mut Outbox) -> std::result::Result<Next, ErrorKind> {
        if input.ended {
            return if self.line.is_empty() { Ok(Next::Close) } else { Err(ErrorKind::Truncated) };
        }
        let newline = input.bytes().iter().position(|&byte| byte == b'\n');
        let part = &input.bytes()[..newline.unwrap_or(input.bytes().len())];
        if self.line.len() + part.len() > LONGEST_LINE {
            return Err(ErrorKind::BadRequest);
        }
        self.line.extend_from_slice(part);
        let taken = part.len() + usize::from(newline.is_some());
        input.take(taken);
        if newline.is_none() {
            return Ok(Next::Receive(BUFFER));
        }
        let length = number(&self.line).filter(|length| (1..=self.payload.len()).contains(length));
        self.line.clear();
        let reply = Piece::Bytes(Arc::clone(&self.payload), 0..length.ok_or(ErrorKind::BadRequest)?);
        if self.spin.is_zero() {
            answer(reply, outbox);
            return Ok(Next::Answered(Then::Receive(BUFFER)));
        }
        let spin = self.spin;
        let work = move |outbox: &mut Outbox| {
            burn(spin);
            answer(reply, outbox);
        };
        Ok(Next::Work(Box::new(work), Then::Receive(BUFFER)))
    }
}

fn answer(reply: Piece, outbox: &mut Outbox) {
    outbox.push(reply);
    outbox.end_message();
}

/// Uses the CPU for so long, by this thread's own clock: to be interrupted does not count.
fn burn(time: Duration) {
    let end = thread_cpu_time() + time;
    while thread_cpu_time() < end {
        std::hint::spin_loop();
    }
}

/// The number on a line, white space around it (a telnet's carriage return) allowed.
fn number(line: &[u8]) -> Option<usize> {
    std::str::from_utf8(line).ok()?.trim().parse().ok()
}

fn client(settings: &Settings) -> Result<Box<dyn Client>> {
    let bytes = settings.integer(BYTES.name);
    let request = format!("{bytes}\n").into_bytes().into();
    let expected = (settings.word(CHECK.name) == "pattern").then(|| pattern(bytes));
    Ok(Box::new(Asker { request, bytes: bytes as usize, expected }))
}

#[derive(Clone)]
struct Asker {
    request: Arc<[u8]>,
    bytes: usize,
    expected: Option<Arc<[u8]>>,
}

impl Client for Asker {
    fn open(&self) -> Box<dyn Conversation> {
        Box::new(BytesConversation { asker: self.clone(), received: 0 })
    }
}

/// Room for one byte more than is due: a reply that is too long must not look complete because the buffer was full.
fn one_more(due: usize) -> Want {
    Want::AtMost(if due < inbox::CAPACITY { due + 1 } else { inbox::CAPACITY - 1 })
}

struct BytesConversation {
    asker: Asker,
    received: usize,
}

impl Conversation for BytesConversation {
    fn ask(&mut self, outbox: &mut Outbox) -> Want {
        self.received = 0;
        outbox.push(Piece::Bytes(Arc::clone(&self.asker.request), 0..self.asker.request.len()));
        outbox.end_message();
        one_more(self.asker.bytes)
    }

    fn receive(&mut self, input: &mut Input<'_>) -> std::result::Result<Answer, String> {
        let Asker { bytes, expected, .. } = &self.asker;
        if input.ended {
            return Err(format!("the reply ended after {} of {bytes} bytes", self.received));
        }
        let part = input.bytes();
        let received = self.received + part.len() + input.not_stored;
        if received > *bytes {
            return Err(format!("the reply has more than the {bytes} bytes that were asked for"));
        }
        if let Some(expected) = expected {
            let expected = &expected[self.received..][..part.len()];
            if let Some(place) = part.iter().zip(expected).position(|(seen, expected)| seen != expected) {
                return Err(format!(
                    "byte {} of the reply is {}, and our servers send {} there (--check count for other servers)",
                    self.received + place,
                    part[place],
                    expected[place]
                ));
            }
        }
        input.take(input.bytes().len());
        self.received = received;
        Ok(if received == *bytes { Answer::Complete } else { Answer::Receive(one_more(bytes - received)) })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::inbox::Inbox;
    use crate::setting::Value;

    /// Gives a session what a peer sends, cut into segments; returns the bytes of each answer, or the error.
    fn answers(segments: &[&[u8]]) -> std::result::Result<Vec<u64>, ErrorKind> {
        let service = service(&Settings::new([&LIMIT, &SPIN], &BTreeMap::new()), Waits::InTheCall).unwrap();
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
    fn wherever_a_request_is_cut_its_answer_is_the_same() {
        let text = b"4000\n1\n16384\r\n";
        for cut in 0..text.len() {
            assert_eq!(answers(&[&text[..cut], &text[cut..]]), Ok(vec![4000, 1, 16384]), "cut at {cut}");
        }
        let single: Vec<&[u8]> = text.chunks(1).collect();
        assert_eq!(answers(&single), Ok(vec![4000, 1, 16384]));
    }

    #[test]
    fn what_is_no_number_within_the_limit_is_refused() {
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

    /// Gives a conversation a reply, cut into segments.
    fn judge(check: &str, bytes: u64, segments: &[&[u8]], ended: bool) -> std::result::Result<Answer, String> {
        let given = BTreeMap::from([("bytes", Value::Integer(bytes)), ("check", Value::Word(check.to_owned()))]);
        let mut conversation = client(&Settings::new([&BYTES, &CHECK], &given)).unwrap().open();
        conversation.ask(&mut Outbox::default());
        let mut inbox = Inbox::default();
        let mut answer = Answer::Receive(one_more(bytes as usize));
        for segment in segments {
            inbox.room(segment.len()).copy_from_slice(segment);
            inbox.filled(segment.len());
            answer = conversation.receive(&mut Input::new(&mut inbox, 1, 0, false))?;
        }
        if ended { conversation.receive(&mut Input::new(&mut inbox, 1, 0, true)) } else { Ok(answer) }
    }

    #[test]
    fn a_reply_is_right_only_byte_by_byte() {
        let right = pattern(600);
        assert_eq!(judge("pattern", 600, &[&right], false), Ok(Answer::Complete));
        assert_eq!(judge("pattern", 600, &[&right[..7], &right[7..]], false), Ok(Answer::Complete));
        assert_eq!(judge("pattern", 600, &[&right[..599]], false), Ok(Answer::Receive(Want::AtMost(2))));
        assert!(judge("pattern", 600, &[&right[..599]], true).unwrap_err().contains("599 of 600"));
        assert!(judge("pattern", 599, &[&right], false).unwrap_err().contains("more than the 599"));
        let mut wrong = right.to_vec();
        wrong[300] ^= 1;
        assert!(judge("pattern", 600, &[&wrong], false).unwrap_err().contains("byte 300"));
        assert_eq!(judge("count", 600, &[&wrong], false), Ok(Answer::Complete));
        let moved: Vec<u8> = right[1..].iter().chain(&right[..1]).copied().collect();
        assert!(judge("pattern", 600, &[&moved], false).is_err());
    }
}
