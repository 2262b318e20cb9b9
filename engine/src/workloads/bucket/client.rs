//! The client side: random delays and buckets, the same ones for every server.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use anyhow::{Context, Result};

use super::request::{BUCKETS, DELAY_SUM, number};
use crate::base::mistake::{Blame, mistake};
use crate::base::setting::{Kind, Setting, Settings};
use crate::base::unit::Unit;
use crate::protocol::workload::{Account, Answer, Client, Conversation, Input, KEEP};
use crate::sys::memory::shared::SharedArray;
use crate::transfer::outbox::{Outbox, Piece};
use crate::transfer::primitive::Want;

/// For [`Setting::for_more`].
const A_LARGER_UNIT: &str = "for longer delays, use a server with a larger unit (--unit, \
                             --unit-iterations)";

/// Minimum delay of a request.
pub const DELAY_MINIMUM: Setting = Setting {
    name: "delay_minimum",
    help: "Minimum delay of a request, in the server's units",
    unit: Unit::None,
    kind: Kind::Integer { minimum: 0, maximum: 1_000_000, default: 1 },
    for_more: Some(A_LARGER_UNIT),
};

/// Maximum delay of a request.
pub const DELAY_MAXIMUM: Setting = Setting {
    name: "delay_maximum",
    help: "Maximum delay of a request, in the server's units",
    unit: Unit::None,
    kind: Kind::Integer { minimum: 0, maximum: 1_000_000, default: 3 },
    for_more: Some(A_LARGER_UNIT),
};

/// Seed of the requests.
pub const SEED: Setting = Setting {
    name: "seed",
    help: "Seed of the random requests; the same seed gives the same requests",
    unit: Unit::None,
    kind: Kind::Integer { minimum: 0, maximum: u32::MAX as u64, default: 1 },
    for_more: Some("this seed has 32 bits; any other value works as well"),
};

/// The digits of a 64-bit number, its newline, and one more byte, so that an overlong reply is detected.
const LONGEST_REPLY: usize = 22;

/// Makes the client side.
pub fn client(settings: &Settings) -> Result<Box<dyn Client>> {
    let [minimum, maximum, buckets, seed] =
        [DELAY_MINIMUM, DELAY_MAXIMUM, BUCKETS, SEED].map(|setting| settings.integer(setting.name));
    if minimum > maximum {
        return Err(mistake(
            "bucket.delays_reversed",
            format!("--delay-minimum {minimum} is larger than --delay-maximum {maximum}"),
        )
        .blaming(&[DELAY_MINIMUM.name, DELAY_MAXIMUM.name]));
    }
    // The reply does not show whether the server closes after it.
    let complete = if settings.boolean(KEEP.name) { Answer::Complete } else { Answer::Last };
    let requests = Requests { delays: minimum..=maximum, buckets, seed };
    let shared = SharedArray::new(1).context("cannot map shared memory")?;
    Ok(Box::new(BucketClient { requests, complete, shared: Arc::new(shared) }))
}

/// All possible requests, by index. Each client takes the next index, so every server gets the same delays and buckets,
/// whatever the order of its clients.
#[derive(Clone)]
struct Requests {
    delays: std::ops::RangeInclusive<u64>,
    buckets: u64,
    seed: u64,
}

impl Requests {
    fn draw(&self, index: u64) -> (u64, u64) {
        // The seed takes the upper half, so that the sequences of two seeds never overlap.
        let place = (self.seed << 31).wrapping_add(index) << 1;
        let delays = self.delays.end() - self.delays.start() + 1;
        (self.delays.start() + below(delays, split_mix(place)), below(self.buckets, split_mix(place | 1)))
    }
}

/// Output number `index` of SplitMix64 (Steele, Lea, Flood: Fast splittable pseudorandom number generators, OOPSLA
/// 2014); its only state is that number.
fn split_mix(index: u64) -> u64 {
    let mut bits = index.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ (bits >> 31)
}

/// A number below the bound, uniform except for a bias of about 2^-43.
fn below(bound: u64, bits: u64) -> u64 {
    ((u128::from(bits) * u128::from(bound)) >> 64) as u64
}

/// A request.
fn line(delay: u64, bucket: u64) -> Vec<u8> {
    format!("{delay},{bucket}\n").into_bytes()
}

struct BucketClient {
    requests: Requests,
    complete: Answer,
    shared: Arc<SharedArray<Shared>>,
}

/// State shared by all processes and threads of a load.
#[derive(Default)]
struct Shared {
    next: AtomicU64,
    delays_answered: AtomicU64,
}

impl Client for BucketClient {
    fn open(&self) -> Box<dyn Conversation> {
        let (requests, shared) = (self.requests.clone(), Arc::clone(&self.shared));
        Box::new(BucketConversation { requests, complete: self.complete, shared, delay: 0, reply: Vec::new() })
    }

    fn account(&self) -> Account {
        Account::from([(DELAY_SUM, self.shared[0].delays_answered.load(Relaxed))])
    }

    fn longest_request(&self) -> Option<u64> {
        Some(line(*self.requests.delays.end(), self.requests.buckets - 1).len() as u64)
    }
}

struct BucketConversation {
    requests: Requests,
    complete: Answer,
    shared: Arc<SharedArray<Shared>>,
    delay: u64,
    reply: Vec<u8>,
}

impl Conversation for BucketConversation {
    fn ask(&mut self, outbox: &mut Outbox) -> Want {
        self.reply.clear();
        let (delay, bucket) = self.requests.draw(self.shared[0].next.fetch_add(1, Relaxed));
        self.delay = delay;
        let request = line(delay, bucket);
        let length = request.len();
        outbox.push(Piece::Bytes(request.into(), 0..length));
        outbox.end_message();
        Want::AtMost(LONGEST_REPLY)
    }

    fn kept_by(&self) -> Option<&'static str> {
        Some("--keep-connections true")
    }

    fn receive(&mut self, input: &mut Input<'_>) -> std::result::Result<Answer, String> {
        self.reply.extend_from_slice(input.bytes());
        input.take(input.bytes().len());
        let seen = || String::from_utf8_lossy(&self.reply);
        if input.ended {
            return Err(format!("the reply ended after {} bytes: {:?}", self.reply.len(), seen()));
        }
        let Some(newline) = self.reply.iter().position(|&byte| byte == b'\n') else {
            return match LONGEST_REPLY - self.reply.len() {
                0 => Err(format!("the reply is not a number: {:?}", seen())),
                room => Ok(Answer::Receive(Want::AtMost(room))),
            };
        };
        let value = std::str::from_utf8(&self.reply[..newline]).ok().and_then(number);
        match value {
            Some(value) if newline + 1 == self.reply.len() && value >= self.delay => {
                self.shared[0].delays_answered.fetch_add(self.delay, Relaxed);
                Ok(self.complete)
            }
            _ => Err(format!("a bucket that grew by {} cannot hold the reported {:?}", self.delay, seen())),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use super::*;
    use crate::base::setting::Value;
    use crate::transfer::inbox::Inbox;

    fn new(given: &[(&'static str, u64)]) -> Result<Box<dyn Client>> {
        let given = given.iter().map(|&(name, number)| (name, Value::Integer(number))).collect::<BTreeMap<_, _>>();
        client(&Settings::new([&DELAY_MINIMUM, &DELAY_MAXIMUM, &BUCKETS, &SEED, &KEEP], &given))
    }

    fn asked(client: &dyn Client) -> Vec<u8> {
        let mut outbox = Outbox::default();
        client.open().ask(&mut outbox);
        let Some(Piece::Bytes(bytes, range)) = outbox.front() else { panic!("a request comes from memory") };
        bytes[range.clone()].to_vec()
    }

    #[test]
    fn the_generator_is_the_one_that_is_cited() {
        // The first outputs of the reference implementation (Vigna, splitmix64.c) for seed 0.
        let reference = [0xe220_a839_7b1d_cdaf, 0x6e78_9e6a_a1b9_65f4, 0x06c4_5d18_8009_454f];
        assert_eq!([0, 1, 2].map(split_mix), reference);
    }

    #[test]
    fn the_same_seed_asks_the_same_within_the_bounds() {
        let ask = |seed| {
            let client = new(&[("delay_minimum", 2), ("delay_maximum", 4), ("buckets", 5), ("seed", seed)]).unwrap();
            (0..2000).map(|_| asked(client.as_ref())).collect::<Vec<_>>()
        };
        let first = ask(1);
        assert_eq!(first, ask(1));
        assert_ne!(first, ask(2));
        let kinds: BTreeSet<String> = first.iter().map(|line| String::from_utf8(line.clone()).unwrap()).collect();
        let all: BTreeSet<String> = (2..=4).flat_map(|delay| (0..5).map(move |b| format!("{delay},{b}\n"))).collect();
        assert_eq!(kinds, all);
        for kind in all {
            let count = first.iter().filter(|line| **line == kind.as_bytes()).count();
            assert!((80..190).contains(&count), "{kind:?}: {count} of 2000, 133 are due");
        }
    }

    #[test]
    fn bounds_that_contradict_each_other_are_refused() {
        let error = new(&[("delay_minimum", 4)]).err().unwrap().to_string();
        assert!(error.contains("--delay-minimum 4") && error.contains("--delay-maximum 3"), "{error}");
        assert!(new(&[("delay_minimum", 3)]).is_ok());
    }

    /// Gives a conversation a reply, cut into segments; also returns what was accounted for.
    fn judge(segments: &[&str], ended: bool) -> (std::result::Result<Answer, String>, u64) {
        let client = new(&[("delay_minimum", 3)]).unwrap();
        let mut conversation = client.open();
        conversation.ask(&mut Outbox::default());
        let mut inbox = Inbox::default();
        let mut answer = Ok(Answer::Receive(Want::AtMost(LONGEST_REPLY)));
        for segment in segments {
            inbox.room(segment.len()).copy_from_slice(segment.as_bytes());
            inbox.filled(segment.len());
            answer = conversation.receive(&mut Input::new(&mut inbox, 1, 0, false));
        }
        if ended {
            answer = conversation.receive(&mut Input::new(&mut inbox, 1, 0, true));
        }
        (answer, client.account()[DELAY_SUM])
    }

    #[test]
    fn a_reply_is_a_number_no_less_than_the_delay() {
        for right in [&["3\n"][..], &["12", "34\n"], &["18446744073709551615\n"], &["3", "\n"]] {
            assert_eq!(judge(right, false), (Ok(Answer::Last), 3), "{right:?}");
        }
        assert_eq!(judge(&["3"], false), (Ok(Answer::Receive(Want::AtMost(21))), 0));
        for wrong in
            ["2\n", "\n", "-3\n", "+3\n", "3 \n", "3\n4", "x\n", "18446744073709551616\n", "1111111111111111111111"]
        {
            let (answer, accounted) = judge(&[wrong], false);
            assert!(answer.is_err() && accounted == 0, "{wrong:?}: {answer:?}");
        }
        assert!(judge(&["3"], true).0.unwrap_err().contains("ended after 1 bytes"));
    }
}
