//! What a server has to do with any bytes: how many requests it serves, what it replies, and whether it refuses.
//!
//! The model is the workload's own session, called in this process with all bytes at once. A server calls it behind its design
//! and its sockets, with the bytes as they arrive; that must change nothing. The session itself is tested against
//! `tests/support/protocol.rs`, which is a second implementation: the model has to reproduce all of it.

use std::collections::BTreeMap;

use libtest_mimic::Trial;
use thunderherd_engine::base::setting::{Settings, Value};
use thunderherd_engine::count::tally::ErrorKind;
use thunderherd_engine::protocol::workload::{Input, More, Next, Service, Then};
use thunderherd_engine::transfer::inbox::Inbox;
use thunderherd_engine::transfer::outbox::Outbox;
use thunderherd_engine::transfer::primitive::Waits;
use thunderherd_engine::workloads::WORKLOADS;

use crate::rig::amid;
use crate::support::protocol::{PROTOCOLS, Protocol};

/// Bytes of replies on a connection above which there is no outcome: a client could not leave them unread.
const MOST_REPLIED: usize = 32 << 10;

/// The server side of a workload without a server.
pub struct Model {
    service: Box<dyn Service>,
}

/// What has to become of a connection whose client sends some bytes and then no more.
#[derive(Debug, Default)]
pub struct Outcome {
    pub requests: u64,
    pub reply: Vec<u8>,
    /// Kind of the tallied error.
    pub refused: Option<ErrorKind>,
    /// The server closes without waiting for the end of the client's bytes.
    pub early: bool,
    /// Bytes that it leaves unread then. The kernel may drop replies because of them (RST).
    pub unread: usize,
}

impl Model {
    /// The model of a server that was started with the options of a protocol and with these.
    pub fn new(protocol: &Protocol, options: &[&str]) -> Model {
        let workload = WORKLOADS.iter().find(|entry| entry.name == protocol.name).expect("it is registered").item;
        let needed = (protocol.options)();
        let words: Vec<&str> = needed.iter().map(String::as_str).chain(options.iter().copied()).collect();
        let given: BTreeMap<&str, Value> = words
            .chunks_exact(2)
            .map(|option| {
                let name = option[0].trim_start_matches('-').replace('-', "_");
                let setting = workload.service_settings.iter().find(|setting| setting.name == name);
                let setting = setting.expect("the options of a protocol are its workload's");
                (setting.name, setting.parse(option[1]).expect("the value is allowed"))
            })
            .collect();
        let settings = Settings::new(workload.service_settings, &given);
        let service = (workload.service)(&settings, Waits::InTheCall).expect("the settings are allowed");
        service.prepare().expect("there is room");
        Model { service }
    }

    /// Returns the outcome of these bytes; `None` if the replies are long, or as long as time allows.
    pub fn outcome(&self, bytes: &[u8]) -> Option<Outcome> {
        let mut session = self.service.open();
        let (mut inbox, mut outbox, mut outcome) = (Inbox::default(), Outbox::default(), Outcome::default());
        let (mut rest, mut want) = (bytes, session.first());
        loop {
            if inbox.unread().is_empty() {
                let part = rest.split_off(..want.most().min(rest.len())).expect("the part is in the rest");
                inbox.room(part.len().max(1))[..part.len()].copy_from_slice(part);
                inbox.filled(part.len());
            }
            let ended = inbox.unread().is_empty();
            let next = session.receive(&mut Input::new(&mut inbox, 1, 0, ended), &mut outbox);
            (outcome.early, outcome.unread) = (!ended, rest.len() + inbox.unread().len());
            let then = match next {
                Err(kind) => {
                    empty(&mut outbox, &mut outcome.reply);
                    outcome.refused = Some(kind);
                    return Some(outcome);
                }
                Ok(Next::Close) => Then::Close,
                Ok(Next::Receive(want)) => Then::Receive(want),
                Ok(Next::Answered(then)) => {
                    outcome.requests += 1;
                    then
                }
                Ok(Next::Begun(then)) => {
                    outcome.requests += 1;
                    while outcome.reply.len() <= MOST_REPLIED {
                        empty(&mut outbox, &mut outcome.reply);
                        match session.more(&mut outbox) {
                            More::Part => {}
                            More::Nothing => break,
                            // A reply of some duration.
                            More::End => return None,
                        }
                    }
                    then
                }
                Ok(Next::Work(job, then)) => {
                    job(&mut outbox).expect("what is needed for a reply is there");
                    outcome.requests += 1;
                    then
                }
            };
            empty(&mut outbox, &mut outcome.reply);
            if outcome.reply.len() > MOST_REPLIED {
                return None;
            }
            match then {
                Then::Receive(next) if !ended => want = next,
                _ => return Some(outcome),
            }
        }
    }
}

/// Moves everything in an outbox to a reply.
fn empty(outbox: &mut Outbox, reply: &mut Vec<u8>) {
    while let Some(piece) = outbox.front() {
        let (bytes, range) = piece.in_memory().expect("a file can be read");
        reply.extend_from_slice(&bytes[range.clone()]);
        outbox.sent(range.len() as u64);
    }
}

/// For each workload, a check of the model.
pub fn trials() -> Vec<Trial> {
    let trial = |protocol: &'static Protocol| {
        Trial::test(format!("model::{}::knows_what_the_suite_knows", protocol.name), move || {
            knows_what_the_suite_knows(protocol);
            Ok(())
        })
    };
    PROTOCOLS.iter().map(trial).collect()
}

fn knows_what_the_suite_knows(protocol: &Protocol) {
    let model = Model::new(protocol, &[]);
    let is = |bytes: &[u8], requests: u64, reply: &[u8], refused: Option<ErrorKind>| {
        let outcome = model.outcome(bytes).expect("the reply is short");
        assert_eq!((outcome.requests, outcome.refused), (requests, refused));
        assert!((protocol.alike)(&outcome.reply, reply, false), "the reply has {} bytes", outcome.reply.len());
    };
    let exchanges = (protocol.exchanges)();
    for exchange in &exchanges {
        amid(&exchange.request.escape_ascii().to_string(), || is(&exchange.request, 1, &exchange.reply, None));
    }
    let first = &exchanges[0];
    for wrong in protocol.wrongs() {
        amid(wrong.name, || is(&wrong.bytes, 0, &wrong.reply, Some(ErrorKind::BadRequest)));
    }
    if let Some(wrong) = protocol.wrongs().first() {
        let both = [&first.request[..], &wrong.bytes].concat();
        let replies = [&first.reply[..], &wrong.reply].concat();
        amid("a right one and a wrong one", || is(&both, 1, &replies, Some(ErrorKind::BadRequest)));
    }
    if !protocol.incomplete.is_empty() {
        amid("an incomplete request", || is(protocol.incomplete, 0, b"", Some(ErrorKind::Truncated)));
    }
}
