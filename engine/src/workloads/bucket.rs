//! The homework ERSS HW4: a request names a delay and a bucket. The server is busy for the delay, and adds it to the
//! bucket.

mod buckets;
mod client;
mod request;

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use crate::base::about::About;
use crate::base::setting::{Kind, Setting, Settings};
use crate::base::unit::{MICROSECOND, MINUTE, SECOND, Unit};
use crate::count::tally::ErrorKind;
use crate::protocol::workload::{
    Account, Agreement, COMMON, Input, KEEP, Next, Relation, Service, Session, Then, Workload,
};
use crate::transfer::outbox::{Outbox, Piece};
use crate::transfer::primitive::{Waits, Want};

use buckets::Buckets;
use request::{BUCKETS, DELAY_SUM, request};

pub static ENTRY: Workload = Workload {
    about: About {
        summary: "Request: a delay and a bucket; the server is busy for the delay, adds it to the bucket and replies \
                  with the bucket's value",
        source: "ERSS (ECE 568), Duke University, homework 4",
    },
    port: 12345,
    service_settings: &[BUCKETS, LOCK, BUSY, UNIT, ITERATIONS, DELAY_LIMIT, KEEP],
    client_settings: &[client::DELAY_MINIMUM, client::DELAY_MAXIMUM, BUCKETS, client::SEED, KEEP],
    agreements: &[
        Agreement { client: BUCKETS, relation: Relation::AtMost, service: BUCKETS },
        Agreement { client: client::DELAY_MINIMUM, relation: Relation::AtMost, service: DELAY_LIMIT },
        Agreement { client: client::DELAY_MAXIMUM, relation: Relation::AtMost, service: DELAY_LIMIT },
        // A server may keep connections that the client closes after each reply.
        Agreement { client: KEEP, relation: Relation::AtMost, service: KEEP },
    ],
    service,
    client: client::client,
    ..COMMON
};

const LOCK: Setting = Setting {
    name: "lock",
    help: "How the server serializes changes of a bucket: one lock for all buckets, one lock per bucket, or atomic \
           addition",
    unit: Unit::None,
    kind: Kind::Choice { choices: &["one", "per_bucket", "atomic"], default: "one" },
    for_more: None,
};

const BUSY: Setting = Setting {
    name: "busy",
    help: "Meaning of a delay: elapsed time, or a fixed amount of work, which takes longer if the CPU is shared",
    unit: Unit::None,
    kind: Kind::Choice { choices: &["wall_clock", "fixed_work"], default: "wall_clock" },
    for_more: None,
};

const UNIT: Setting = Setting {
    name: "unit",
    help: "Duration of a delay of 1 in elapsed time: the time scale",
    unit: Unit::Time { resolution: MICROSECOND },
    kind: Kind::Integer { minimum: MICROSECOND, maximum: MINUTE, default: SECOND },
    for_more: None,
};

/// Not calibrated, so that it is the same work on every machine and in every run.
const ITERATIONS: Setting = Setting {
    name: "unit_iterations",
    help: "Steps of arithmetic in a delay of 1 as fixed work; a step takes a few CPU cycles",
    unit: Unit::Of("steps"),
    kind: Kind::Integer { minimum: 1, maximum: 100_000_000_000, default: 1_000_000 },
    for_more: None,
};

const DELAY_LIMIT: Setting = Setting {
    name: "delay_limit",
    help: "Maximum delay that a client may request; the server closes a connection that requests more",
    unit: Unit::None,
    kind: Kind::Integer { minimum: 0, maximum: 1_000_000, default: 1000 },
    for_more: None,
};

/// The longest line accepted as a request: room for two 64-bit numbers and white space.
const LONGEST_LINE: usize = 64;

fn service(settings: &Settings, _waits: Waits) -> Result<Box<dyn Service>> {
    let buckets = Buckets::new(settings.integer(BUCKETS.name) as usize, settings.word(LOCK.name));
    Ok(Box::new(BucketService {
        buckets: Arc::new(buckets.context("cannot map the buckets")?),
        busy: match settings.word(BUSY.name) {
            "wall_clock" => Busy::WallClock(settings.time(UNIT.name)),
            _ => Busy::FixedWork(settings.integer(ITERATIONS.name)),
        },
        delay_limit: settings.integer(DELAY_LIMIT.name),
        then: if settings.boolean(KEEP.name) { Then::Receive(Want::ANYTHING) } else { Then::Close },
    }))
}

#[derive(Clone)]
struct BucketService {
    buckets: Arc<Buckets>,
    busy: Busy,
    delay_limit: u64,
    then: Then,
}

impl Service for BucketService {
    fn open(&self) -> Box<dyn Session> {
        Box::new(BucketSession { service: self.clone(), line: Vec::new() })
    }

    fn account(&self) -> std::result::Result<Account, String> {
        Ok(Account::from([(DELAY_SUM, self.buckets.sum()?)]))
    }
}

struct BucketSession {
    service: BucketService,
    line: Vec<u8>,
}

impl Session for BucketSession {
    fn first(&self) -> Want {
        Want::ANYTHING
    }

    fn receive(&mut self, input: &mut Input<'_>, _outbox: &mut Outbox) -> std::result::Result<Next, ErrorKind> {
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
            return Ok(Next::Receive(Want::ANYTHING));
        }
        let BucketService { buckets, busy, delay_limit, then } = self.service.clone();
        let (delay, bucket) = request(&std::mem::take(&mut self.line))
            .filter(|&(delay, bucket)| delay <= delay_limit && bucket < buckets.count() as u64)
            .ok_or(ErrorKind::BadRequest)?;
        let work = move |outbox: &mut Outbox| {
            busy.be_for(delay);
            let value = buckets.grow(bucket as usize, delay).map_err(|error| ErrorKind::of(&error))?;
            let reply = format!("{value}\n").into_bytes();
            let length = reply.len();
            outbox.push(Piece::Bytes(reply.into(), 0..length));
            outbox.end_message();
            Ok(())
        };
        Ok(Next::Work(Box::new(work), then))
    }
}

/// Way in which the server spends a delay.
#[derive(Debug, Clone, Copy)]
enum Busy {
    /// Polls the clock until the delay is over, as the homework says: time waiting for a CPU counts as delay.
    WallClock(Duration),
    /// Does arithmetic without reading the clock: takes longer if the CPU is shared.
    FixedWork(u64),
}

impl Busy {
    fn be_for(self, delay: u64) {
        match self {
            Busy::WallClock(unit) => {
                let end = Instant::now() + Duration::from_micros(unit.as_micros() as u64 * delay);
                while Instant::now() < end {}
            }
            Busy::FixedWork(iterations) => {
                let mut number = std::hint::black_box(1u64);
                for _ in 0..iterations * delay {
                    // Each step depends on the one before (a linear congruential generator; Knuth's MMIX constants),
                    // and the compiler cannot predict the result.
                    number = number.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                    std::hint::black_box(&mut number);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests;
