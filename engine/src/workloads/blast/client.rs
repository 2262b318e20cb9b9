//! The client side: 1500 bytes per iteration, contiguous in one buffer, in pieces of the configured size.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use anyhow::{Context, Result};

use super::count::{Count, CountForm, ITERATION, LONGEST_LINE, MOST_REPETITIONS, SERVER_READS};
use crate::base::mistake::{Blame, mistake_with_hint};
use crate::base::setting::{Kind, Setting, Settings};
use crate::base::unit::Unit;
use crate::base::window::Window;
use crate::protocol::pattern::pattern;
use crate::protocol::workload::{
    Account, Answer, Client, Conversation, Figures, Input, KEEP, More, Outcome, PAYLOAD_BEGAN, PAYLOAD_BYTES,
    PAYLOAD_ENDED, PAYLOAD_NANOSECONDS, Product, REQUESTS, last,
};
use crate::sys::clock::now;
use crate::sys::memory::shared::SharedArray;
use crate::transfer::outbox::{Outbox, PART, Piece};
use crate::transfer::primitive::Want;

/// Iterations per request.
pub const REPETITIONS: Setting = Setting {
    name: "repetitions",
    help: "Iterations per request, each of 1500 bytes",
    unit: Unit::Of("iterations"),
    kind: Kind::Integer { minimum: 1, maximum: MOST_REPETITIONS, default: 20_000 },
    for_more: Some(
        "for more, use several requests (--loops): the protocol has 4 bytes for the number of reads, and a read may \
         return a single byte",
    ),
};

/// Pieces per iteration.
pub const BUFFERS: Setting = Setting {
    name: "buffers",
    help: "Pieces per iteration; pieces times piece size (--buffer-size) must be 1500 bytes",
    unit: Unit::Of("pieces"),
    kind: Kind::Integer { minimum: 1, maximum: ITERATION as u64, default: 15 },
    for_more: Some(AN_ITERATION),
};

/// Size of each piece.
pub const BUFFER_SIZE: Setting = Setting {
    name: "buffer_size",
    help: "Size of each piece in bytes; pieces (--buffers) times piece size must be 1500 bytes",
    unit: Unit::Bytes,
    kind: Kind::Integer { minimum: 1, maximum: ITERATION as u64, default: 100 },
    for_more: Some(AN_ITERATION),
};

/// For [`Setting::for_more`].
const AN_ITERATION: &str = "an iteration has 1500 bytes in this protocol; for more bytes, use more --repetitions";

/// A time in nanoseconds shorter than any system call takes.
const LEAST_CALL: u64 = 10;

/// An iteration is cut into pieces of equal size.
pub const PIECES: Product = Product { settings: [BUFFERS, BUFFER_SIZE], product: ITERATION as u64 };

/// Iterations put into the outbox at a time.
const IN_A_PART: u64 = (PART / ITERATION) as u64;

// Figures besides the payload: sums over the requests, and the values of the last request.
const SENDING: &str = "sending_ns";
const ROUND_TRIP: &str = "round_trip_ns";

/// Makes the client side.
pub fn client(settings: &Settings) -> Result<Box<dyn Client>> {
    let [repetitions, buffers, buffer_size] =
        [REPETITIONS, BUFFERS, BUFFER_SIZE].map(|setting| settings.integer(setting.name));
    if buffers * buffer_size != PIECES.product {
        let (fitting, size) = nearest(buffers, buffer_size);
        return Err(mistake_with_hint(
            "blast.not_an_iteration",
            format!(
                "--buffers {buffers} and --buffer-size {buffer_size} are {} bytes, but an iteration has {ITERATION}",
                buffers * buffer_size
            ),
            format!("the nearest values that fit: --buffers {fitting} --buffer-size {size}"),
        )
        .blaming(&PIECES.settings.map(|setting| setting.name)));
    }
    let sums = SharedArray::<Sums>::new(1).context("cannot map shared memory")?;
    sums[0].began.store(u64::MAX, Relaxed);
    Ok(Box::new(Blaster {
        form: CountForm::of(settings),
        repetitions,
        piece: buffer_size,
        announcement: CountForm::of(settings).encode(repetitions).into(),
        // The reply does not show whether the server closes after it.
        complete: if settings.boolean(KEEP.name) { Answer::Complete } else { Answer::Last },
        iterations: pattern(IN_A_PART * ITERATION as u64),
        sums: Arc::new(sums),
    }))
}

/// Finds the two numbers whose product is 1500 bytes and that are closest to the given ones, each as a ratio.
fn nearest(buffers: u64, buffer_size: u64) -> (u64, u64) {
    let far = |seen: u64, fitting: u64| (seen as f64 / fitting as f64).ln().powi(2);
    let all = 1..=ITERATION as u64;
    let fitting = all.filter(|number| (ITERATION as u64).is_multiple_of(*number));
    let pairs = fitting.map(|number| (number, ITERATION as u64 / number));
    let distance = |&(number, size): &(u64, u64)| far(buffers, number) + far(buffer_size, size);
    pairs.min_by(|one, other| distance(one).total_cmp(&distance(other))).expect("1 piece of all bytes fits")
}

/// Formats the output of the source's client for the mean request: `Test (1): time = 459085 usec, #reads = 22291,
/// throughput 0.523 Gbps`. The number is that of the source's test with this send primitive; other primitives have
/// names.
pub fn original(outcome: &Outcome<'_>) -> String {
    let figure = |name: &str| outcome.figures.get(name).copied().unwrap_or_default() as f64;
    let requests = figure(REQUESTS);
    if requests == 0.0 {
        return String::new();
    }
    format!(
        "Test ({}): time = {:.0} usec, #reads = {:.0}, throughput {:.3} Gbps\n",
        outcome.primitive,
        figure(ROUND_TRIP) / requests / 1e3,
        figure(SERVER_READS) / requests,
        figure(PAYLOAD_BYTES) * 8.0 / figure(ROUND_TRIP)
    )
}

#[derive(Clone)]
struct Blaster {
    form: CountForm,
    repetitions: u64,
    /// The encoded count of iterations.
    announcement: Arc<[u8]>,
    piece: u64,
    complete: Answer,
    /// The bytes of the iterations put into the outbox at a time.
    iterations: Arc<[u8]>,
    sums: Arc<SharedArray<Sums>>,
}

/// State shared by all processes and threads of a load.
#[derive(Default)]
struct Sums {
    /// Reads of all requests; the other fields cover only counted requests.
    reads_told: AtomicU64,
    requests: AtomicU64,
    sending: Sum,
    round_trip: Sum,
    reads: Sum,
    /// Time at which the first counted request began; the maximum value while there is none.
    began: AtomicU64,
    /// Time at which the last counted request was answered.
    ended: AtomicU64,
}

/// Sums over all counted requests, and the values of the last.
#[derive(Default)]
struct Sum {
    together: AtomicU64,
    last: AtomicU64,
}

impl Sum {
    fn add(&self, value: u64) {
        self.together.fetch_add(value, Relaxed);
        self.last.store(value, Relaxed);
    }
}

impl Client for Blaster {
    fn open(&self) -> Box<dyn Conversation> {
        let count = Count::new(self.form);
        Box::new(BlastConversation {
            blaster: self.clone(),
            count,
            left: 0,
            requested: 0,
            began: None,
            sent: 0,
            answered: 0,
            reads: 0,
        })
    }

    fn account(&self) -> Account {
        Account::from([(SERVER_READS, self.sums[0].reads_told.load(Relaxed))])
    }

    fn figures(&self) -> Figures {
        let sums = &self.sums[0];
        let requests = sums.requests.load(Relaxed);
        let of_each = [(SENDING, &sums.sending), (ROUND_TRIP, &sums.round_trip), (SERVER_READS, &sums.reads)];
        let of_each = of_each.into_iter().flat_map(|(name, sum)| {
            [(name.to_owned(), sum.together.load(Relaxed)), (last(name), sum.last.load(Relaxed))]
        });
        let of_all = [
            (REQUESTS, requests),
            (PAYLOAD_BYTES, requests * self.repetitions * ITERATION as u64),
            (PAYLOAD_NANOSECONDS, sums.round_trip.together.load(Relaxed)),
        ];
        let edges = [(PAYLOAD_BEGAN, sums.began.load(Relaxed)), (PAYLOAD_ENDED, sums.ended.load(Relaxed))];
        let edges = edges.into_iter().filter(|_| requests > 0);
        of_all.into_iter().chain(edges).map(|(name, value)| (name.to_owned(), value)).chain(of_each).collect()
    }
}

struct BlastConversation {
    blaster: Blaster,
    count: Count,
    /// Iterations of the request not yet put into an outbox.
    left: u64,
    /// Time at which the request began; all times are CLOCK_MONOTONIC.
    requested: u64,
    /// Time at which the count had been sent.
    began: Option<u64>,
    /// Time at which the last byte had been handed to the kernel.
    sent: u64,
    /// Time at which the reply had arrived.
    answered: u64,
    reads: u64,
}

impl Conversation for BlastConversation {
    fn ask(&mut self, outbox: &mut Outbox) -> Want {
        (self.left, self.requested, self.began) = (self.blaster.repetitions, now(), None);
        self.count = Count::new(self.blaster.form);
        let announcement = &self.blaster.announcement;
        outbox.push(Piece::Bytes(Arc::clone(announcement), 0..announcement.len()));
        outbox.end_message();
        Want::AtMost(LONGEST_LINE)
    }

    /// The source's client reads the clock after it has sent the count, and after it has sent everything.
    fn more(&mut self, outbox: &mut Outbox, _window: &Window) -> More {
        self.began.get_or_insert_with(now);
        if self.left == 0 {
            self.sent = now();
            return More::Nothing;
        }
        let iterations = self.left.min(IN_A_PART);
        self.left -= iterations;
        let bytes = iterations as usize * ITERATION;
        let all = Piece::Bytes(Arc::clone(&self.blaster.iterations), 0..bytes);
        outbox.push_messages(all, ITERATION as u64, self.blaster.piece);
        More::Part
    }

    fn receive(&mut self, input: &mut Input<'_>) -> std::result::Result<Answer, String> {
        if input.ended {
            return Err(format!(
                "the server closed before it reported its number of reads, after {} bytes",
                self.count.bytes.len()
            ));
        }
        let told = self.count.take(input).map_err(|bytes| {
            format!("the server's number of reads is not a number: {:?}", String::from_utf8_lossy(&bytes))
        })?;
        let Some(reads) = told else {
            return Ok(Answer::Receive(Want::AtMost(LONGEST_LINE - self.count.bytes.len())));
        };
        self.answered = now();
        let bytes = self.blaster.repetitions * ITERATION as u64;
        let took = self.answered - self.requested;
        // A read returns a byte at least, and reads that returned nothing took time.
        if !(1..=bytes + took / LEAST_CALL).contains(&reads) {
            let took = took as f64 / 1e6;
            return Err(format!("the server reports {bytes} bytes in {reads} reads, within {took:.3} ms"));
        }
        self.reads = reads;
        self.blaster.sums[0].reads_told.fetch_add(reads, Relaxed);
        Ok(self.blaster.complete)
    }

    fn counts(&mut self) {
        let (sums, began) = (&self.blaster.sums[0], self.began.unwrap_or(self.sent));
        sums.sending.add(self.sent.saturating_sub(began));
        sums.round_trip.add(self.answered.saturating_sub(began));
        sums.reads.add(self.reads);
        sums.began.fetch_min(began, Relaxed);
        sums.ended.fetch_max(self.answered, Relaxed);
        sums.requests.fetch_add(1, Relaxed);
    }

    fn kept_by(&self) -> Option<&'static str> {
        Some("--keep-connections true")
    }
}
