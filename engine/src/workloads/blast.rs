//! The transfer of CSS 503, program 4: the client says how many iterations come and sends 1500 bytes for each, in as many
//! pieces and by the calls that are to be compared; the server answers with the number of its read calls.
//!
//! The server never reads past the end of an iteration, and the calls that read the count are not counted: so there are as
//! many reads as iterations at least. Those that found nothing count, as they are system calls like any other: a server whose
//! sockets do not block makes some, and one that spins makes many. Only the design `io_uring`, whose operations take what has
//! come, may need fewer than iterations: there a completed operation counts as a read.

mod client;
mod count;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use anyhow::{Context, Result};

use crate::base::about::About;
use crate::base::setting::{Kind, Setting, Settings};
use crate::count::tally::ErrorKind;
use crate::protocol::workload::{
    Account, Agreement, COMMON, End, Input, KEEP, Next, Relation, Service, Session, Then, Workload,
};
use crate::sys::memory::shared::SharedArray;
use crate::transfer::outbox::{Outbox, Piece};
use crate::transfer::primitive::{Waits, Want};

use count::{COUNT_FORM, Count, CountForm, ITERATION, MOST_REPETITIONS, SERVER_READS};

pub static ENTRY: Workload = Workload {
    about: About {
        summary: "The client sends a count of iterations, then 1500 bytes for each in several pieces; the server \
                  replies with its number of reads",
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

const REPETITION_LIMIT: Setting = Setting {
    name: "repetition_limit",
    help: "Maximum number of iterations that a client may announce; the server closes a connection that announces \
           more",
    unit: Some("iterations"),
    kind: Kind::Integer { minimum: 1, maximum: MOST_REPETITIONS, default: 1_000_000 },
    for_more: None,
};

fn service(settings: &Settings, _waits: Waits) -> Result<Box<dyn Service>> {
    let reads = SharedArray::new(1).context("cannot map shared memory")?;
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
