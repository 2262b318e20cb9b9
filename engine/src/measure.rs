//! What is measured of a load as it runs: the window, and how long replies took.
//!
//! Times are nanoseconds of CLOCK_MONOTONIC. A request costs two readings of that clock and one entry in a histogram,
//! some 100 ns together where the clock is read without a system call (vdso(7)).

use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use anyhow::{Context, Result};
use hdrhistogram::Histogram;

pub use crate::sys::process::monotonic_nanoseconds as now;
use crate::tally::Counts;

/// Digits of a latency that are kept: a recorded value is wrong by a thousandth at most.
const DIGITS: u8 = 3;

/// The part of a load's life that is counted. What happens is in it by the moment at which it is complete.
pub struct Window {
    started: AtomicU64,
    ended: AtomicU64,
}

impl Window {
    /// The whole life, of a load that ends by count.
    pub fn whole_life() -> Self {
        Window { started: AtomicU64::new(0), ended: AtomicU64::new(u64::MAX) }
    }

    /// One whose beginning is not known yet: nothing counts until it is set.
    pub fn to_come() -> Self {
        Window { started: AtomicU64::new(u64::MAX), ended: AtomicU64::new(u64::MAX) }
    }

    /// Sets beginning and end, before the first request.
    pub fn set(&self, window: Range<u64>) {
        self.started.store(window.start, Relaxed);
        self.ended.store(window.end, Relaxed);
    }

    /// Ends it at this moment.
    pub fn cut(&self, at: u64) {
        self.ended.store(at, Relaxed);
    }

    /// Its beginning and its end.
    pub fn edges(&self) -> Range<u64> {
        self.started.load(Relaxed)..self.ended.load(Relaxed)
    }

    /// Whether what is complete at this moment is in it.
    pub fn contains(&self, at: u64) -> bool {
        self.edges().contains(&at)
    }

    /// Whether it has ended.
    pub fn is_over(&self, at: u64) -> bool {
        at >= self.ended.load(Relaxed)
    }
}

/// What one thread of a load measures.
pub struct Measure<'run> {
    window: &'run Window,
    requests: u64,
    connections: u64,
    // 32 bits, and no larger than its largest value needs: there may be thousands of threads.
    latency: Histogram<u32>,
}

impl<'run> Measure<'run> {
    /// Nothing yet.
    pub fn new(window: &'run Window) -> Self {
        Measure { window, requests: 0, connections: 0, latency: histogram() }
    }

    /// A connection was made.
    pub fn connected(&mut self, at: u64) {
        self.connections += u64::from(self.window.contains(at));
    }

    /// A reply came to a request.
    pub fn answered(&mut self, asked: u64, at: u64) {
        if self.window.contains(at) {
            self.requests += 1;
            // It grows as it must.
            self.latency.record(at.saturating_sub(asked)).expect("there is a bucket for every number");
        }
    }
}

fn histogram<T: hdrhistogram::Counter>() -> Histogram<T> {
    Histogram::new(DIGITS).expect("a histogram can have so many digits")
}

/// The sums over all threads of a load.
pub struct Measured {
    /// Beginning and end of the window, of a load that ends by time and has come so far.
    pub window: Option<Range<u64>>,
    /// Requests whose reply came within the window.
    pub requests: u64,
    /// Connections made within the window.
    pub connections: u64,
    /// How long replies took; empty where the load does not measure it.
    pub latency: Histogram<u64>,
    /// What the load had counted at the edges of the window, each with the moment at which it was read.
    pub at_edges: Vec<(u64, Counts)>,
}

impl Default for Measured {
    fn default() -> Self {
        Measured { window: None, requests: 0, connections: 0, latency: histogram(), at_edges: Vec::new() }
    }
}

impl Measured {
    /// Adds what a thread has measured.
    pub fn add(&mut self, measure: &Measure<'_>) {
        self.requests += measure.requests;
        self.connections += measure.connections;
        for step in measure.latency.iter_recorded() {
            let (value, count) = (step.value_iterated_to(), step.count_since_last_iteration());
            self.latency.record_n(value, count).expect("there is a bucket for every number");
        }
    }

    /// A percentile; `None` where fewer than [`BEYOND`] requests lie beyond it.
    pub fn percentile(&self, quantile: f64) -> Option<u64> {
        // The little more makes up for the binary fractions, 1 - 0.9 being less than 0.1.
        let beyond = ((1.0 - quantile) * self.latency.len() as f64 + 1e-6) as u64;
        (beyond >= BEYOND).then(|| self.latency.value_at_quantile(quantile))
    }

    /// All latencies, as other tools read them: V2, deflated, base64.
    pub fn encoded(&self) -> Result<String> {
        use base64::Engine;
        use hdrhistogram::serialization::{Serializer, V2DeflateSerializer};
        let mut bytes = Vec::new();
        V2DeflateSerializer::new().serialize(&self.latency, &mut bytes).context("the histogram cannot be encoded")?;
        Ok(base64::engine::general_purpose::STANDARD.encode(bytes))
    }
}

/// So many requests must be slower than a percentile for it to be known: with fewer it is a matter of single requests.
pub const BEYOND: u64 = 10;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_complete_within_the_window_counts() {
        let window = Window::whole_life();
        window.set(100..200);
        let mut measure = Measure::new(&window);
        for (asked, at) in [(10, 99), (10, 100), (150, 199), (150, 200)] {
            measure.answered(asked, at);
            measure.connected(at);
        }
        let mut sums = Measured::default();
        sums.add(&measure);
        sums.add(&measure);
        assert_eq!((sums.requests, sums.connections, sums.latency.len()), (4, 4, 4));
        assert_eq!((sums.latency.min(), sums.latency.max()), (49, 90));
    }

    #[test]
    fn a_percentile_needs_ten_requests_beyond_it() {
        let window = Window::whole_life();
        let mut measure = Measure::new(&window);
        for latency in 1..1000 {
            measure.answered(0, latency);
        }
        let known = |measure: &Measure<'_>| {
            let mut sums = Measured::default();
            sums.add(measure);
            [0.5, 0.9, 0.99, 0.999].map(|quantile| sums.percentile(quantile))
        };
        measure.answered(0, 1000);
        assert_eq!(known(&measure), [Some(500), Some(900), Some(990), None]);
        assert_eq!(known(&Measure::new(&window)), [None; 4]);
        let mut few = Measure::new(&window);
        for latency in 1..=19 {
            few.answered(0, latency);
        }
        assert_eq!(known(&few), [None; 4]);
        few.answered(0, 20);
        assert_eq!(known(&few), [Some(10), None, None, None]);
    }
}
