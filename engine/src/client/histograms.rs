//! Histograms of times, in nanoseconds.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use anyhow::{Context, Result};
use hdrhistogram::serialization::{Serializer, V2DeflateSerializer};
use hdrhistogram::{Counter, Histogram};

use crate::sys::memory::shared::SharedArray;

/// Precision in digits: a recorded value is off by a thousandth at most.
const DIGITS: u8 = 3;

/// Minimum number of values above a percentile: with fewer, it depends on single values.
pub const BEYOND: u64 = 10;

/// Minimum number of values for a maximum: as many as the 90th percentile needs. With fewer, the maximum mainly shows
/// how few they were.
pub const OF_MAXIMUM: u64 = 100;

/// Makes an empty histogram, which grows as needed.
pub fn histogram<T: Counter>() -> Histogram<T> {
    Histogram::new(DIGITS).expect("a histogram can have so many digits")
}

/// Records a value.
pub fn record<T: Counter>(histogram: &mut Histogram<T>, value: u64) {
    histogram.record(value).expect("there is a bucket for every number");
}

/// Buckets of equal width within each power of two.
pub struct Scale {
    /// Logarithm of the number of buckets per power of two.
    pub step_bits: u32,
    /// Logarithm of the first number beyond the buckets. The last bucket has that and all above.
    pub powers: u32,
}

impl Scale {
    /// Number of buckets.
    pub const fn buckets(&self) -> usize {
        (self.powers - self.step_bits + 1) as usize * (1 << self.step_bits)
    }

    /// Returns the bucket of a number.
    pub fn bucket(&self, value: u64) -> usize {
        let power = value.checked_ilog2().unwrap_or(0);
        let place = match power.checked_sub(self.step_bits) {
            None => value as usize,
            Some(shift) => (u64::from(shift) << self.step_bits) as usize + (value >> shift) as usize,
        };
        place.min(self.buckets() - 1)
    }

    /// Returns the number in the middle of a bucket.
    pub fn middle(&self, bucket: usize) -> u64 {
        let (power, step) = (bucket as u64 >> self.step_bits, bucket as u64 % (1 << self.step_bits));
        match power.checked_sub(1) {
            None => step,
            Some(shift) => (((1 << self.step_bits) + step) << shift) + ((1 << shift) >> 1),
        }
    }
}

/// A histogram that processes share. What a child has recorded stays if the child is ended.
pub struct SharedHistogram(SharedArray<AtomicU64>);

impl SharedHistogram {
    /// As fine as [`histogram`], so that no value changes its bucket, and for up to 4.8 hours. A client may try several addresses,
    /// each for an hour.
    const SCALE: Scale = Scale { step_bits: 10, powers: 44 };

    /// Makes an empty histogram.
    pub fn new() -> io::Result<Self> {
        Ok(SharedHistogram(SharedArray::new(Self::SCALE.buckets())?))
    }

    /// Records a value.
    pub fn record(&self, value: u64) {
        self.0[Self::SCALE.bucket(value)].fetch_add(1, Relaxed);
    }

    /// Returns the values so far.
    pub fn values(&self) -> Histogram<u64> {
        let mut values = histogram();
        let counts = self.0.iter().map(|count| count.load(Relaxed)).enumerate();
        // One that is recorded 0 times would still be the maximum.
        for (place, count) in counts.filter(|(_, count)| *count > 0) {
            values.record_n(Self::SCALE.middle(place), count).expect("there is a bucket for every number");
        }
        values
    }
}

/// A percentile; `None` if fewer than [`BEYOND`] values lie beyond it.
pub fn percentile(histogram: &Histogram<u64>, quantile: f64) -> Option<u64> {
    // The small addend makes up for binary fractions: 1 - 0.9 is less than 0.1.
    let beyond = ((1.0 - quantile) * histogram.len() as f64 + 1e-6) as u64;
    (beyond >= BEYOND).then(|| histogram.value_at_quantile(quantile))
}

/// The largest value; `None` with fewer than [`OF_MAXIMUM`] values.
pub fn maximum(histogram: &Histogram<u64>) -> Option<u64> {
    (histogram.len() >= OF_MAXIMUM).then(|| histogram.max())
}

/// All values in the format of other tools: V2, deflated, base64.
pub fn encoded(histogram: &Histogram<u64>) -> Result<String> {
    use base64::Engine;
    let mut bytes = Vec::new();
    V2DeflateSerializer::new().serialize(histogram, &mut bytes).context("cannot encode the histogram")?;
    Ok(base64::engine::general_purpose::STANDARD.encode(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_has_a_bucket_near_it() {
        for (scale, off) in [(Scale { step_bits: 4, powers: u64::BITS }, 32.0), (SharedHistogram::SCALE, 2048.0)] {
            let mut last = 0;
            let powers = (0..scale.powers).map(|power| 1_u64 << power);
            for value in powers.flat_map(|power| [power, power + power / 3]) {
                let place = scale.bucket(value);
                assert!(place < scale.buckets() && place >= last, "{value}");
                last = place;
                assert!((scale.middle(place) as f64 / value as f64 - 1.0).abs() <= 1.0 / off, "{value}");
            }
            assert_eq!([0, u64::MAX].map(|value| scale.bucket(value)), [0, scale.buckets() - 1]);
        }
    }

    #[test]
    fn a_shared_histogram_is_as_fine_as_one_of_its_own() {
        let (shared, mut own) = (SharedHistogram::new().unwrap(), histogram());
        for value in (0..44).flat_map(|power| [1_u64 << power, (1 << power) + (1 << power) / 3, (2 << power) - 1]) {
            shared.record(value);
            record(&mut own, value);
        }
        let of = |histogram: &Histogram<u64>| {
            let recorded = histogram.iter_recorded();
            recorded.map(|step| (step.value_iterated_to(), step.count_at_value())).collect::<Vec<_>>()
        };
        assert_eq!(of(&shared.values()), of(&own));
        assert_eq!((shared.values().len(), shared.values().max()), (own.len(), own.max()));
    }

    #[test]
    fn a_percentile_needs_ten_values_beyond_it() {
        let known = |values: u64| {
            let mut all = histogram();
            (1..=values).for_each(|value| record(&mut all, value));
            [0.5, 0.9, 0.99, 0.999].map(|quantile| percentile(&all, quantile))
        };
        assert_eq!(known(1000), [Some(500), Some(900), Some(990), None]);
        assert_eq!(known(0), [None; 4]);
        assert_eq!(known(19), [None; 4]);
        assert_eq!(known(20), [Some(10), None, None, None]);
    }

    #[test]
    fn a_maximum_is_of_a_hundred_values() {
        let mut all = histogram();
        (1..100).for_each(|value| record(&mut all, value));
        assert_eq!(maximum(&all), None);
        record(&mut all, 7);
        assert_eq!(maximum(&all), Some(99));
    }
}
