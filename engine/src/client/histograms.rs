//! Histograms of times, in nanoseconds.

use anyhow::{Context, Result};
use hdrhistogram::serialization::{Serializer, V2DeflateSerializer};
use hdrhistogram::{Counter, Histogram};

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
