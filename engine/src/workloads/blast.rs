//! The transfer of CSS 503, program 4. The client announces a number of iterations and sends 1500 bytes for each, in
//! the pieces and by the calls under comparison. The server replies with the number of its read calls.
//!
//! The server never reads past the end of an iteration, and reads of the announcement do not count, so there are at
//! least as many reads as iterations. Reads that found nothing count, since they are system calls too: a server with
//! non-blocking sockets makes some, and a busy-polling server makes many. Only the design `io_uring`, whose operations
//! take whatever has arrived, may need fewer reads than iterations: there each completed operation counts as a read.

mod client;
mod count;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use anyhow::{Context, Result};

use crate::base::about::About;
use crate::base::setting::{Kind, Setting, Settings};
use crate::base::unit::Unit;
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
        // A server may keep connections that the client closes after each reply.
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
    unit: Unit::Of("iterations"),
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
    /// Sums over all requests.
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
    /// Iterations to come, including the current one; 0: the next count is expected.
    iterations: u64,
    /// Bytes of the current iteration still to come.
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
        // Bytes that arrived together with their count, which happens only with operations of a ring, came by one read.
        let reads = self.reads.clamp(1, u32::MAX.into());
        self.blast.reads[0].fetch_add(reads, Relaxed);
        let reply = self.blast.form.encode(reads);
        let length = reply.len();
        outbox.push(Piece::Bytes(reply.into(), 0..length));
        outbox.end_message();
        Ok(Next::Answered(if self.blast.keep { Then::Receive(self.want()) } else { Then::Close }))
    }
}
