//! Numbers of a load's requests. The size and kind of a request follow from its number, whichever client sends it.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use rand_xoshiro::rand_core::{Rng, SeedableRng};
use rand_xoshiro::{SplitMix64, Xoshiro256PlusPlus};

use crate::base::setting::{A_NUMBER_OF_64_BITS, Kind, Setting, Settings};
use crate::base::unit::Unit;
use crate::sys::memory::shared::SharedArray;

/// Seed of sizes and kinds.
pub const REQUEST_SEED: Setting = Setting {
    name: "request_seed",
    help: "Seed of the requests; the same seed gives the same sequence of sizes and kinds. Concurrent loads need \
           different seeds",
    unit: Unit::None,
    kind: Kind::Integer { minimum: 0, maximum: u64::MAX, default: 1 },
    for_more: Some(A_NUMBER_OF_64_BITS),
};

/// One request, before it is made.
pub struct Draw {
    /// Its number in the load, counted from 0; in an open load, that of its arrival.
    pub number: u64,
    /// Random bits for its size and kind, which no other request shares.
    pub random: Xoshiro256PlusPlus,
}

impl Draw {
    /// Makes the draw of a request from its number and the load's seed.
    pub fn new(seed: u64, number: u64) -> Self {
        // Neighbouring numbers and seeds must give independent results.
        let mixed = |value: u64| SplitMix64::seed_from_u64(value).next_u64();
        let random = Xoshiro256PlusPlus::seed_from_u64(mixed(seed ^ mixed(number)));
        Draw { number, random }
    }
}

/// Counter of a load's requests, in memory that its processes share.
#[derive(Clone)]
pub struct Numbering {
    seed: u64,
    sums: Arc<SharedArray<Sums>>,
}

#[derive(Default)]
struct Sums {
    made: AtomicU64,
    sized: AtomicU64,
    bytes: AtomicU64,
}

impl Numbering {
    /// Makes the numbering of a load with these settings, including [`REQUEST_SEED`].
    pub fn new(settings: &Settings) -> io::Result<Self> {
        Ok(Numbering { seed: settings.integer(REQUEST_SEED.name), sums: Arc::new(SharedArray::new(1)?) })
    }

    /// Returns the next request. If the load has arrivals, their number is used instead of the order of creation.
    pub fn next(&self, arrival: Option<u64>) -> Draw {
        let made = self.sums[0].made.fetch_add(1, Relaxed);
        Draw::new(self.seed, arrival.unwrap_or(made))
    }

    /// Counts a request for this many bytes.
    pub fn count(&self, bytes: u64) {
        self.sums[0].sized.fetch_add(1, Relaxed);
        self.sums[0].bytes.fetch_add(bytes, Relaxed);
    }

    /// The seed.
    pub fn seed(&self) -> u64 {
        self.seed
    }

    /// Number of requests.
    pub fn made(&self) -> u64 {
        self.sums[0].made.load(Relaxed)
    }

    /// Number of requests with a size, and the sum of their sizes.
    pub fn sums(&self) -> (u64, u64) {
        (self.sums[0].sized.load(Relaxed), self.sums[0].bytes.load(Relaxed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_draw_follows_from_seed_and_number_and_from_nothing_else() {
        let first = |seed, number| Draw::new(seed, number).random.next_u64();
        let mut seen = std::collections::HashSet::new();
        for seed in 0..30 {
            for number in 0..30 {
                assert_eq!(first(seed, number), first(seed, number));
                assert!(seen.insert(first(seed, number)), "seed {seed}, number {number}");
            }
        }
    }
}
