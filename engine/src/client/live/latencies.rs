//! Latencies of a running load, for the line on its terminal.
//!
//! Client threads own their histograms, which nobody else may read while they run. For the line they count each reply once
//! more, in buckets that all threads and processes of the load share: one addition to memory that mostly one thread uses,
//! some 5 ns. A load without the line has no buckets, and pays for one comparison.

use std::io;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use crate::client::histograms::Scale;
use crate::sys::memory::shared::SharedArray;

/// Buckets for all numbers, 16 per power of two: a percentile is off by 3 % at most.
const SCALE: Scale = Scale { step_bits: 4, powers: u64::BITS };

/// Number of buckets.
const BUCKETS: usize = SCALE.buckets();

/// Maximum number of sets of buckets. Threads beyond share them.
const MOST_SETS: usize = 64;

/// Minimum number of latencies beyond a percentile, as in the final result.
const BEYOND: u64 = crate::client::histograms::BEYOND;

/// The buckets.
pub struct LiveLatencies {
    buckets: SharedArray<AtomicU32>,
    sets: usize,
}

impl LiveLatencies {
    /// Makes empty buckets for a load with this many threads or processes of clients.
    pub fn new(workers: usize) -> io::Result<Self> {
        let sets = workers.clamp(1, MOST_SETS);
        Ok(LiveLatencies { buckets: SharedArray::new(sets * BUCKETS)?, sets })
    }

    /// Counts a latency in nanoseconds of the client with this number, counted from 1. Clients of one thread have numbers
    /// that differ by a multiple of the number of threads.
    pub fn note(&self, client: usize, latency: u64) {
        self.buckets[(client - 1) % self.sets * BUCKETS + SCALE.bucket(latency)].fetch_add(1, Relaxed);
    }

    /// Returns the number of latencies in each bucket so far. The numbers wrap.
    pub fn counts(&self) -> Vec<u32> {
        let mut sums = vec![0_u32; BUCKETS];
        for set in self.buckets.chunks(BUCKETS) {
            for (sum, bucket) in sums.iter_mut().zip(set) {
                *sum = sum.wrapping_add(bucket.load(Relaxed));
            }
        }
        sums
    }
}

/// Returns a percentile of the latencies between two [`LiveLatencies::counts`]; `None` if too few lie beyond it.
pub fn percentile_between(before: &[u32], after: &[u32], quantile: f64) -> Option<u64> {
    let between = || after.iter().zip(before).map(|(after, before)| u64::from(after.wrapping_sub(*before)));
    let all: u64 = between().sum();
    let rank = (quantile * all as f64).ceil() as u64;
    if all.saturating_sub(rank) < BEYOND {
        return None;
    }
    let mut below = 0;
    let place = between().position(|count| {
        below += count;
        below >= rank.max(1)
    })?;
    Some(SCALE.middle(place))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_percentile_is_of_the_latencies_between_two_readings() {
        let latencies = LiveLatencies::new(3).unwrap();
        let before = latencies.counts();
        (0..1000).for_each(|client| latencies.note(1 + client % 7, 1000 * (client as u64 + 1)));
        let first = latencies.counts();
        (0..2000).for_each(|client| latencies.note(1 + client % 7, 9_000_000));
        let near = |seen: Option<u64>, value: f64| (seen.unwrap() as f64 / value - 1.0).abs() < 0.04;
        assert!(near(percentile_between(&before, &first, 0.5), 500_000.0));
        assert!(near(percentile_between(&before, &first, 0.99), 990_000.0));
        assert_eq!(percentile_between(&before, &first, 0.999), None);
        assert!(near(percentile_between(&first, &latencies.counts(), 0.5), 9_000_000.0));
        assert_eq!(percentile_between(&first, &first, 0.5), None);
    }
}
