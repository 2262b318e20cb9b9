//! The transfer of CSS 503, program 4: the client says how many iterations come and sends 1500 bytes for each, in as many
//! pieces and by the calls that are to be compared; the server answers with the number of its read calls.
//!
//! The server never reads past the end of an iteration, and the calls that read the count are not counted: so there are as
//! many reads as iterations at least. Those that found nothing count, as they are system calls like any other: a server whose
//! sockets do not block makes some, and one that spins makes many. Only the design `io_uring`, whose operations take what has
//! come, may need fewer than iterations: there a completed operation counts as a read.

mod client;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use anyhow::{Context, Result};

use crate::about::About;
use crate::outbox::{Outbox, Piece};
use crate::primitive::{Waits, Want};
use crate::setting::{Kind, Setting, Settings};
use crate::sys::shared::SharedArray;
use crate::tally::ErrorKind;
use crate::workload::{Account, Agreement, COMMON, End, Input, KEEP, Next, Relation, Service, Session, Then, Workload};

pub static ENTRY: Workload = Workload {
    about: About {
        summary: "A count of iterations, then 1500 bytes for each in several pieces; the server's count of reads is the reply",
        source: "CSS 503 Systems Programming, University of Washington Bothell, program 4",
    },
    port: 12345,
    service_settings: &[COUNT_FORM, REPETITION_LIMIT, KEEP],
    client_settings: &[client::REPETITIONS, client::BUFFERS, client::BUFFER_SIZE, COUNT_FORM, KEEP],
    agreements: &[
        Agreement { client: client::REPETITIONS, relation: Relation::AtMost, service: REPETITION_LIMIT },
        Agreement { client: COUNT_FORM, relation: Relation::Equal, service: COUNT_FORM },
        // A client that closes is no trouble to a server that would go on.
        Agreement { client: KEEP, relation: Relation::AtMost, service: KEEP },
    ],
    products: &[client::PIECES],
    takes_unstored: &[End::Service],
    lasting: &[End::Client],
    sender: End::Client,
    original: Some(client::original),
    service,
    client: client::client,
    ..COMMON
};

const COUNT_FORM: Setting = Setting {
    name: "count_form",
    help: "How the counts of iterations and of reads are sent: as decimal digits and a newline, or as 4 bytes of which the \
           lowest or the highest comes first",
    unit: None,
    kind: Kind::Choice { choices: &["decimal", "little_endian", "big_endian"], default: "decimal" },
    for_more: None,
};

const REPETITION_LIMIT: Setting = Setting {
    name: "repetition_limit",
    help: "The most iterations that a client may announce; the connection that announces more is closed",
    unit: Some("iterations"),
    kind: Kind::Integer { minimum: 1, maximum: MOST_REPETITIONS, default: 1_000_000 },
    for_more: None,
};

/// So many that the count of reads fits into 4 bytes, even if each read brought one byte; of more reads, which brought nothing,
/// as many are told, and accounted for.
const MOST_REPETITIONS: u64 = u32::MAX as u64 / ITERATION as u64;

/// Bytes of an iteration.
const ITERATION: usize = 1500;

/// The name of the sum that both ends account for: the reads of all requests.
const SERVER_READS: &str = "server_reads";

/// The longest line that is taken for a count: room for any 64-bit number and white space.
const LONGEST_LINE: usize = 64;

/// How a count is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum CountForm {
    Decimal,
    LittleEndian,
    BigEndian,
}

impl CountForm {
    fn of(settings: &Settings) -> Self {
        match settings.word(COUNT_FORM.name) {
            "little_endian" => CountForm::LittleEndian,
            "big_endian" => CountForm::BigEndian,
            _ => CountForm::Decimal,
        }
    }

    fn encode(self, count: u64) -> Vec<u8> {
        let number = u32::try_from(count).unwrap_or(u32::MAX);
        match self {
            CountForm::Decimal => format!("{count}\n").into_bytes(),
            CountForm::LittleEndian => number.to_le_bytes().to_vec(),
            CountForm::BigEndian => number.to_be_bytes().to_vec(),
        }
    }
}

/// A count on its way in.
struct Count {
    form: CountForm,
    bytes: Vec<u8>,
}

impl Count {
    fn new(form: CountForm) -> Self {
        Count { form, bytes: Vec::new() }
    }

    /// Bytes that are certain to belong to it: of a line that may end anywhere, one.
    fn due(&self) -> usize {
        if self.form == CountForm::Decimal { 1 } else { 4 - self.bytes.len() }
    }

    /// Takes what belongs to it; `None` where more has to come. The error is what has come so far and is no count.
    fn take(&mut self, input: &mut Input<'_>) -> std::result::Result<Option<u64>, Vec<u8>> {
        while self.bytes.len() < LONGEST_LINE {
            let Some(&byte) = input.bytes().first() else { return Ok(None) };
            input.take(1);
            self.bytes.push(byte);
            let complete = match self.form {
                CountForm::Decimal => byte == b'\n',
                _ => self.bytes.len() == 4,
            };
            if complete {
                let bytes = std::mem::take(&mut self.bytes);
                return self.decode(&bytes).map(Some).ok_or(bytes);
            }
        }
        Err(std::mem::take(&mut self.bytes))
    }

    fn decode(&self, bytes: &[u8]) -> Option<u64> {
        let number = |of: fn([u8; 4]) -> u32| Some(u64::from(of(bytes.try_into().ok()?)));
        match self.form {
            CountForm::LittleEndian => number(u32::from_le_bytes),
            CountForm::BigEndian => number(u32::from_be_bytes),
            // White space around it is allowed: a telnet sends a carriage return.
            CountForm::Decimal => std::str::from_utf8(bytes).ok()?.trim().parse().ok(),
        }
    }
}

fn service(settings: &Settings, _waits: Waits) -> Result<Box<dyn Service>> {
    let reads = SharedArray::new(1).context("shared memory could not be mapped")?;
    Ok(Box::new(Blast {
        form: CountForm::of(settings),
        limit: settings.integer(REPETITION_LIMIT.name),
        keep: settings.boolean(KEEP.name),
        reads: Arc::new(reads),
    }))
}

#[derive(Clone)]
struct Blast {
    form: CountForm,
    limit: u64,
    keep: bool,
    /// Of all requests.
    reads: Arc<SharedArray<AtomicU64>>,
}

impl Service for Blast {
    fn open(&self) -> Box<dyn Session> {
        let blast = self.clone();
        Box::new(BlastSession { count: Count::new(self.form), blast, iterations: 0, due: ITERATION, reads: 0 })
    }

    fn account(&self) -> std::result::Result<Account, String> {
        Ok(Account::from([(SERVER_READS, self.reads[0].load(Relaxed))]))
    }
}

struct BlastSession {
    blast: Blast,
    count: Count,
    /// Those to come, with the one that is on its way; 0: the count of them is to come.
    iterations: u64,
    /// Bytes of the present iteration that are to come.
    due: usize,
    reads: u64,
}

impl BlastSession {
    fn want(&self) -> Want {
        match self.iterations {
            0 => Want::Stored(self.count.due()),
            _ => Want::Exactly(self.due),
        }
    }

    fn take_iterations(&mut self, input: &mut Input<'_>) {
        let mut not_stored = input.not_stored;
        while self.iterations > 0 {
            let unread = input.bytes().len();
            if not_stored + unread == 0 {
                return;
            }
            let discarded = not_stored.min(self.due);
            let read = unread.min(self.due - discarded);
            not_stored -= discarded;
            input.take(read);
            self.due -= discarded + read;
            if self.due == 0 {
                self.due = ITERATION;
                self.iterations -= 1;
            }
        }
    }
}

impl Session for BlastSession {
    fn first(&self) -> Want {
        self.want()
    }

    fn receive(&mut self, input: &mut Input<'_>, outbox: &mut Outbox) -> std::result::Result<Next, ErrorKind> {
        if input.ended {
            let at_rest = self.iterations == 0 && self.count.bytes.is_empty();
            return if at_rest { Ok(Next::Close) } else { Err(ErrorKind::Truncated) };
        }
        if self.iterations == 0 {
            let count = self.count.take(input).map_err(|_| ErrorKind::BadRequest)?;
            let Some(count) = count else { return Ok(Next::Receive(self.want())) };
            if !(1..=self.blast.limit).contains(&count) {
                return Err(ErrorKind::BadRequest);
            }
            (self.iterations, self.reads) = (count, 0);
        } else {
            self.reads += input.calls;
        }
        self.take_iterations(input);
        if self.iterations > 0 {
            return Ok(Next::Receive(self.want()));
        }
        // What came together with its count, which only operations of a ring bring, came by one.
        let reads = self.reads.clamp(1, u32::MAX.into());
        self.blast.reads[0].fetch_add(reads, Relaxed);
        let reply = self.blast.form.encode(reads);
        let length = reply.len();
        outbox.push(Piece::Bytes(reply.into(), 0..length));
        outbox.end_message();
        Ok(Next::Answered(if self.blast.keep { Then::Receive(self.want()) } else { Then::Close }))
    }
}
