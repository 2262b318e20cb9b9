//! The message of eight fields of CSE 638, assignment PA02: the client sends as many bytes as the fields have together.
//! The server replies with its fields, which are separate in memory. This repeats until the client closes.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use anyhow::{Context, Result};

use crate::base::about::About;
use crate::base::setting::{Kind, Setting, Settings};
use crate::base::unit::Unit;
use crate::count::tally::ErrorKind;
use crate::protocol::pattern::{CHECK, difference, pattern};
use crate::protocol::workload::{
    Agreement, Answer, COMMON, Client, Conversation, End, Figures, Input, Next, Outcome, PAYLOAD_BYTES, Relation,
    Service, Session, Then, Workload,
};
use crate::sys::memory::shared::SharedArray;
use crate::transfer::outbox::{Outbox, Piece};
use crate::transfer::primitive::Want;

pub static ENTRY: Workload = Workload {
    about: About {
        summary: "Request and reply have the same length; the reply has 8 fields, which are separate in memory",
        source: "CSE 638 Graduate Systems, IIIT Delhi, assignment PA02",
    },
    port: 8080,
    service_settings: &[FIELD_SIZE],
    client_settings: &[FIELD_SIZE, CHECK],
    agreements: &[Agreement { client: FIELD_SIZE, relation: Relation::Equal, service: FIELD_SIZE }],
    takes_unstored: &[End::Service, End::Client],
    laid_out: &[End::Client],
    lasting: &[End::Client],
    original: Some(original),
    service: |settings, _| Ok(Box::new(Fields { field_size: field_size(settings) })),
    client,
    ..COMMON
};

const FIELD_SIZE: Setting = Setting {
    name: "field_size",
    help: "Size of each of the 8 fields of a message",
    unit: Unit::Bytes,
    kind: Kind::Integer { minimum: 1, maximum: 1 << 20, default: 1024 },
    for_more: Some("for longer messages, use the workload stream"),
};

/// Fields of a message.
const FIELDS: usize = 8;

/// Maximum size of one receive of a message: a whole message, for fields of up to 128 KiB.
const MOST: usize = 1 << 20;

fn field_size(settings: &Settings) -> usize {
    settings.integer(FIELD_SIZE.name) as usize
}

struct Fields {
    field_size: usize,
}

impl Service for Fields {
    /// Each connection has its own fields, allocated here, and freed when it has ended and the kernel is done with
    /// them.
    fn open(&self) -> Box<dyn Session> {
        let message = pattern((FIELDS * self.field_size) as u64);
        let fields = message.chunks(self.field_size).map(Arc::from).collect();
        Box::new(FieldsSession { fields, message: message.len(), due: message.len() })
    }
}

struct FieldsSession {
    fields: Vec<Arc<[u8]>>,
    /// Bytes per message.
    message: usize,
    /// Bytes of the current request still to come.
    due: usize,
}

impl FieldsSession {
    fn want(&self) -> Want {
        Want::Exactly(self.due.min(MOST))
    }
}

impl Session for FieldsSession {
    fn first(&self) -> Want {
        self.want()
    }

    fn receive(&mut self, input: &mut Input<'_>, outbox: &mut Outbox) -> std::result::Result<Next, ErrorKind> {
        if input.ended {
            return if self.due == self.message { Ok(Next::Close) } else { Err(ErrorKind::Truncated) };
        }
        // A receive never wants more than this request has, so bytes that were not stored belong to it.
        self.due -= input.not_stored;
        let part = input.bytes().len().min(self.due);
        input.take(part);
        self.due -= part;
        if self.due > 0 {
            return Ok(Next::Receive(self.want()));
        }
        self.due = self.message;
        for field in &self.fields {
            outbox.push(Piece::Bytes(Arc::clone(field), 0..field.len()));
        }
        outbox.end_message();
        Ok(Next::Answered(Then::Receive(self.want())))
    }
}

fn client(settings: &Settings) -> Result<Box<dyn Client>> {
    let field_size = field_size(settings);
    let length = FIELDS * field_size;
    Ok(Box::new(FieldsClient {
        request: vec![b'A'; length].into(),
        field_size,
        expected: (settings.word(CHECK.name) == "pattern").then(|| pattern(length as u64)),
        messages: Arc::new(SharedArray::new(1).context("cannot map shared memory")?),
    }))
}

/// Formats the output of the source's client, with numbers in place of its threads' addresses.
fn original(outcome: &Outcome<'_>) -> String {
    let line = |(index, messages)| format!("THREAD {} MESSAGES {messages}\n", index + 1);
    match outcome.requests {
        Some(requests) => requests.iter().enumerate().map(line).collect(),
        None => "too many threads to count their messages separately\n".to_owned(),
    }
}

#[derive(Clone)]
struct FieldsClient {
    request: Arc<[u8]>,
    field_size: usize,
    expected: Option<Arc<[u8]>>,
    /// Counted messages of all connections that have ended.
    messages: Arc<SharedArray<AtomicU64>>,
}

impl Client for FieldsClient {
    fn open(&self) -> Box<dyn Conversation> {
        Box::new(FieldsConversation { client: self.clone(), received: 0, counted: 0 })
    }

    fn figures(&self) -> Figures {
        Figures::from([(PAYLOAD_BYTES.to_owned(), self.messages[0].load(Relaxed) * self.request.len() as u64)])
    }
}

struct FieldsConversation {
    client: FieldsClient,
    /// Bytes of the current reply so far.
    received: usize,
    /// Counted messages.
    counted: u64,
}

impl FieldsConversation {
    /// Wants at most the rest of a field: the source's client receives field by field.
    fn want(&self) -> Want {
        Want::Exactly((self.client.field_size - self.received % self.client.field_size).min(MOST))
    }
}

impl Conversation for FieldsConversation {
    fn ask(&mut self, outbox: &mut Outbox) -> Want {
        self.received = 0;
        outbox.push(Piece::Bytes(Arc::clone(&self.client.request), 0..self.client.request.len()));
        outbox.end_message();
        self.want()
    }

    fn receive(&mut self, input: &mut Input<'_>) -> std::result::Result<Answer, String> {
        let length = self.client.request.len();
        if input.ended {
            return Err(format!("the reply ended after {} of {length} bytes", self.received));
        }
        self.received += input.not_stored;
        let part = input.bytes().len().min(length - self.received);
        if let Some(expected) = &self.client.expected {
            let (seen, expected) = (&input.bytes()[..part], &expected[self.received..][..part]);
            if let Some(place) = difference(seen, expected) {
                let byte = self.received + place;
                return Err(format!(
                    "byte {} of field {} is {}; our servers send {} (--check count for other servers)",
                    byte % self.client.field_size,
                    byte / self.client.field_size + 1,
                    seen[place],
                    expected[place]
                ));
            }
        }
        input.take(part);
        self.received += part;
        Ok(if self.received == length { Answer::Complete } else { Answer::Receive(self.want()) })
    }

    fn counts(&mut self) {
        self.counted += 1;
    }
}

impl Drop for FieldsConversation {
    /// Added when the connection ends: clients would contend for a shared counter at every message.
    fn drop(&mut self) {
        self.client.messages[0].fetch_add(self.counted, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::base::setting::Value;
    use crate::base::window::Window;
    use crate::transfer::inbox::Inbox;
    use crate::transfer::primitive::Waits;
    use crate::workloads::both_ends::Between;

    fn settings(field_size: u64, check: &str) -> Settings {
        let given =
            BTreeMap::from([("field_size", Value::Integer(field_size)), ("check", Value::Word(check.to_owned()))]);
        Settings::new(ENTRY.client_settings, &given)
    }

    fn ends(field_size: u64, check: &str) -> (Box<dyn Service>, Box<dyn Client>) {
        let settings = settings(field_size, check);
        ((ENTRY.service)(&settings, Waits::InTheCall).unwrap(), client(&settings).unwrap())
    }

    #[test]
    fn a_message_is_eight_fields_that_lie_apart_and_are_the_connections_own() {
        let (service, _) = ends(64, "pattern");
        let (mut session, mut inbox, mut outbox) = (service.open(), Inbox::default(), Outbox::default());
        inbox.room(512);
        inbox.filled(512);
        let next = session.receive(&mut Input::new(&mut inbox, 1, 0, false), &mut outbox);
        assert!(matches!(next, Ok(Next::Answered(Then::Receive(Want::Exactly(512))))));
        let fields: Vec<Arc<[u8]>> = outbox
            .message()
            .map(|piece| match piece {
                Piece::Bytes(bytes, range) if range == (0..64) && bytes.len() == 64 => bytes,
                piece => panic!("not a field: {piece:?}"),
            })
            .collect();
        assert_eq!((fields.len(), fields.concat()), (8, pattern(512).to_vec()));
        // References of the session, the outbox and this test; none outlives the connection.
        assert!(fields.iter().all(|field| Arc::strong_count(field) == 3));
        drop((session, outbox));
        assert!(fields.iter().all(|field| Arc::strong_count(field) == 1));
    }

    #[test]
    fn a_reply_is_received_field_by_field() {
        let (_, client) = ends(1000, "pattern");
        let (mut conversation, mut inbox) = (client.open(), Inbox::default());
        assert_eq!(conversation.ask(&mut Outbox::default()), Want::Exactly(1000));
        let reply = pattern(8000);
        for (from, to, left) in [(0, 1000, 1000), (1000, 1300, 700), (1300, 2000, 1000), (2000, 7999, 1)] {
            inbox.room(to - from).copy_from_slice(&reply[from..to]);
            inbox.filled(to - from);
            let answer = conversation.receive(&mut Input::new(&mut inbox, 1, 0, false));
            assert_eq!(answer, Ok(Answer::Receive(Want::Exactly(left))), "{from} to {to}");
        }
    }

    #[test]
    fn a_wrong_byte_is_reported_with_its_field() {
        let judge = |check: &str, reply: &[u8]| {
            let (_, client) = ends(100, check);
            let (mut conversation, mut inbox) = (client.open(), Inbox::default());
            conversation.ask(&mut Outbox::default());
            inbox.room(reply.len()).copy_from_slice(reply);
            inbox.filled(reply.len());
            match conversation.receive(&mut Input::new(&mut inbox, 1, 0, false)) {
                Ok(Answer::Receive(_)) => conversation.receive(&mut Input::new(&mut inbox, 1, 0, true)),
                answer => answer,
            }
        };
        let mut reply = pattern(800).to_vec();
        assert_eq!(judge("pattern", &reply), Ok(Answer::Complete));
        assert!(judge("pattern", &reply[..799]).unwrap_err().contains("799 of 800"));
        reply[250] ^= 1;
        let message = judge("pattern", &reply).unwrap_err();
        assert!(message.contains("byte 50 of field 3 is 251") && message.contains("send 250"), "{message}");
        assert_eq!(judge("count", &reply), Ok(Answer::Complete));
    }

    #[test]
    fn a_peer_that_ends_within_a_request_has_cut_it_short() {
        let (service, _) = ends(64, "pattern");
        let mut inbox = Inbox::default();
        let mut session = service.open();
        let mut end = |inbox: &mut Inbox| session.receive(&mut Input::new(inbox, 1, 0, true), &mut Outbox::default());
        assert!(matches!(end(&mut inbox), Ok(Next::Close)));
        let mut session = service.open();
        inbox.room(511);
        inbox.filled(511);
        session.receive(&mut Input::new(&mut inbox, 1, 0, false), &mut Outbox::default()).unwrap();
        let ended = session.receive(&mut Input::new(&mut inbox, 1, 0, true), &mut Outbox::default());
        assert!(matches!(ended, Err(ErrorKind::Truncated)));
    }

    #[test]
    fn the_sources_lines_have_a_message_count_for_each_client() {
        let (settings, figures) = (settings(64, "pattern"), Figures::new());
        let outcome =
            Outcome { primitive: "sendmsg", settings: &settings, requests: Some(&[243, 7]), figures: &figures };
        assert_eq!(original(&outcome), "THREAD 1 MESSAGES 243\nTHREAD 2 MESSAGES 7\n");
    }

    proptest::proptest! {
        #[test]
        fn both_ends_agree_however_the_bytes_come(
            field_size in proptest::sample::select(vec![1u64, 7, 64, 1024, 4096]),
            cuts in proptest::collection::vec(1usize..200_000, 1..6),
            discards in proptest::bool::ANY,
        ) {
            let cuts: Vec<usize> = cuts.iter().map(|cut| *cut.max(&(field_size as usize / 10))).collect();
            let (service, client) = ends(field_size, "pattern");
            let (window, discard) = (Window::whole_life(), if discards { ENTRY.takes_unstored } else { &[] });
            {
                let mut between = Between::new(service.as_ref(), client.open(), &window, &cuts, discard);
                for _ in 0..2 {
                    proptest::prop_assert_eq!(between.exchange(), Ok(Answer::Complete));
                }
                proptest::prop_assert_eq!(between.close(), Ok(()));
            }
            proptest::prop_assert_eq!(client.figures()["payload_bytes"], 2 * 8 * field_size);
        }
    }
}
