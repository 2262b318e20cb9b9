//! Sizes of a load's requests: constant, drawn from a distribution, or recorded.
//!
//! The size of a request follows from the load's seed and the request's number ([`Draw`]), whichever client sends it.

use std::ops::RangeInclusive;
use std::sync::Arc;

use anyhow::Result;
use rand_distr::weighted::WeightedAliasIndex;
use rand_distr::{Distribution as _, LogNormal, Uniform};
use schemars::JsonSchema;
use serde::Serialize;

use crate::base::mistake::{Blame, mistake_with_hint};
use crate::base::setting::{FILE_PREFIX, Form, Kind, NONE, Setting, Settings};
use crate::base::unit::Unit;
use crate::requests::numbering::Draw;
use crate::requests::recording;

/// Distribution of sizes.
pub const SIZES: Setting = Setting {
    name: "sizes",
    help: "Distribution of reply sizes: fixed:4000, uniform:64..16384 (all whole numbers equally likely), \
           lognormal:4096,1.5 (median, and sigma of the logarithm; redrawn outside of 1..16384 or of a given range: \
           lognormal:4096,1.5,64..65536), weighted:64@90,16384@10 (sizes with weights), or file:PATH (the column \
           bytes of a CSV file, one row per request; the file repeats when it ends)",
    unit: Unit::None,
    kind: Kind::Text { longest: 4096, default: NONE, form: Form::Sizes },
    for_more: None,
};

/// Allowed values, in short.
const FORMS: &str = "fixed:BYTES, uniform:LEAST..MOST, lognormal:MEDIAN,SIGMA or lognormal:MEDIAN,SIGMA,LEAST..MOST, \
                     weighted:BYTES@WEIGHT,BYTES@WEIGHT,..., or file:PATH";

/// Default maximum of a lognormal distribution: what a server of `bytes` serves by default.
pub const USUAL_MOST: u64 = 16384;

/// Maximum sigma: with it, two sizes in three lie within a factor of 20 of the median.
const LARGEST_SIGMA: f64 = 3.0;

/// Minimum share of a lognormal distribution within the range; sizes outside are redrawn.
const LEAST_WITHIN: f64 = 0.05;

/// Number of draws that estimate this share; they have their own seed.
const TRIED: u64 = 10_000;

/// Maximum number of redraws, after which the size is the median: with the minimum share, fewer than one in 10^20
/// sizes.
const DRAWN_ANEW: usize = 1000;

/// Maximum number of sizes of a list, and maximum weight.
const MOST_WEIGHTS: usize = 1000;
const HEAVIEST: u64 = 1_000_000_000;

/// Sizes of a load's requests.
#[derive(Debug, Clone)]
pub struct Sizes {
    text: String,
    distribution: Distribution,
}

#[derive(Debug, Clone)]
enum Distribution {
    Fixed(u64),
    Uniform { within: Uniform<u64>, most: u64 },
    Lognormal { distribution: LogNormal<f64>, median: u64, least: u64, most: u64 },
    Weighted { sizes: Arc<[u64]>, index: WeightedAliasIndex<u64> },
    Recorded(Arc<[u64]>),
}

/// Report of a load's sizes.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct SizesSent {
    /// The distribution as typed.
    pub distribution: String,
    /// Maximum size of a request.
    pub largest: u64,
    /// Mean over all requests made, within the window or not; null if there were none.
    pub mean_bytes: Option<f64>,
}

impl Sizes {
    /// Reads [`SIZES`] or, if that is none, the workload's own setting for a constant size, whose bounds apply to every
    /// size; 0 if no setting gives the size of a reply.
    pub fn of(settings: &Settings, bytes: &Setting) -> Result<Self> {
        let Kind::Integer { minimum, maximum, .. } = bytes.kind else { panic!("{} is not a number", bytes.name) };
        match settings.word(SIZES.name) {
            NONE => {
                let bytes = settings.values().get(bytes.name).map_or(0, |_| settings.integer(bytes.name));
                Ok(Sizes { text: format!("fixed:{bytes}"), distribution: Distribution::Fixed(bytes) })
            }
            text => Sizes::parse(text, minimum..=maximum),
        }
    }

    fn parse(text: &str, bounds: RangeInclusive<u64>) -> Result<Self> {
        let refused = |why: String| {
            mistake_with_hint(
                "sizes.invalid",
                format!("--{} is '{text}': {why}", SIZES.name),
                format!("allowed: {FORMS}"),
            )
            .blaming(&[SIZES.name])
        };
        if let Some(path) = text.strip_prefix(FILE_PREFIX) {
            let sizes = recording::sizes(SIZES.name, path, bounds)?.into();
            return Ok(Sizes { text: text.to_owned(), distribution: Distribution::Recorded(sizes) });
        }
        let Some((form, rest)) = text.split_once(':') else {
            return Err(refused("it does not begin with the name of a distribution and a colon".to_owned()));
        };
        let distribution = match form {
            "fixed" => size(rest, &bounds).map(Distribution::Fixed),
            "uniform" => uniform(rest, &bounds),
            "lognormal" => lognormal(rest, &bounds),
            "weighted" => weighted(rest, &bounds),
            _ => Err(format!("'{form}' is not a distribution")),
        };
        Ok(Sizes { text: text.to_owned(), distribution: distribution.map_err(refused)? })
    }

    /// Returns the size if it is constant, so that none has to be drawn.
    pub fn fixed(&self) -> Option<u64> {
        match self.distribution {
            Distribution::Fixed(bytes) => Some(bytes),
            _ => None,
        }
    }

    /// Maximum size of a request.
    pub fn largest(&self) -> u64 {
        match &self.distribution {
            Distribution::Fixed(bytes) => *bytes,
            Distribution::Uniform { most, .. } | Distribution::Lognormal { most, .. } => *most,
            Distribution::Weighted { sizes, .. } | Distribution::Recorded(sizes) => {
                sizes.iter().copied().max().unwrap_or_default()
            }
        }
    }

    /// Size of a request.
    pub fn draw(&self, draw: &mut Draw) -> u64 {
        let random = &mut draw.random;
        match &self.distribution {
            Distribution::Fixed(bytes) => *bytes,
            Distribution::Uniform { within, .. } => within.sample(random),
            Distribution::Lognormal { distribution, median, least, most } => {
                let mut draws = (0..DRAWN_ANEW).map(|_| distribution.sample(random).round());
                draws.find(|bytes| within(*bytes, *least, *most)).map_or(*median, |bytes| bytes as u64)
            }
            Distribution::Weighted { sizes, index } => sizes[index.sample(random)],
            Distribution::Recorded(sizes) => sizes[(draw.number % sizes.len() as u64) as usize],
        }
    }

    /// Reports the sizes, given the number of requests and the sum of their sizes.
    pub fn sent(&self, (requests, bytes): (u64, u64)) -> SizesSent {
        let mean = (requests > 0).then(|| bytes as f64 / requests as f64);
        SizesSent {
            distribution: self.text.clone(),
            largest: self.largest(),
            mean_bytes: self.fixed().map(|bytes| bytes as f64).or(mean),
        }
    }
}

fn within(bytes: f64, least: u64, most: u64) -> bool {
    (least as f64..=most as f64).contains(&bytes)
}

fn size(text: &str, bounds: &RangeInclusive<u64>) -> Result<u64, String> {
    let allowed = || format!("'{text}' is not a size from {} to {}", bounds.start(), Unit::Bytes.format(*bounds.end()));
    Unit::Bytes.parse(text).ok().filter(|bytes| bounds.contains(bytes)).ok_or_else(allowed)
}

fn range(text: &str, bounds: &RangeInclusive<u64>) -> Result<(u64, u64), String> {
    let (least, most) = text.split_once("..").ok_or(format!("'{text}' is not a range such as 64..16384"))?;
    let (least, most) = (size(least, bounds)?, size(most, bounds)?);
    if least > most { Err(format!("{least} is more than {most}")) } else { Ok((least, most)) }
}

fn uniform(text: &str, bounds: &RangeInclusive<u64>) -> Result<Distribution, String> {
    let (least, most) = range(text, bounds)?;
    let within = Uniform::new_inclusive(least, most).map_err(|error| error.to_string())?;
    Ok(Distribution::Uniform { within, most })
}

fn lognormal(text: &str, bounds: &RangeInclusive<u64>) -> Result<Distribution, String> {
    let parts: Vec<&str> = text.splitn(3, ',').collect();
    let [median, sigma, ..] = parts[..] else {
        return Err(format!("'{text}' is not a median and sigma, such as 4096,1.5"));
    };
    let (least, most) = match parts.get(2) {
        Some(given) => range(given, bounds)?,
        None => (*bounds.start(), USUAL_MOST.min(*bounds.end())),
    };
    let hint = if parts.len() == 2 { ", or give another range" } else { "" };
    let median = size(median, &(least..=most)).map_err(|why| why + hint)?;
    let allowed = format!("'{sigma}' is not a sigma, a number above 0 and up to {LARGEST_SIGMA}");
    let sigma = sigma.parse().ok().filter(|sigma| *sigma > 0.0 && *sigma <= LARGEST_SIGMA).ok_or(allowed)?;
    let distribution = LogNormal::new((median as f64).ln(), sigma).map_err(|error| error.to_string())?;
    let tried = (0..TRIED).map(|number| distribution.sample(&mut Draw::new(0, number).random).round());
    let share = tried.filter(|bytes| within(*bytes, least, most)).count() as f64 / TRIED as f64;
    if share < LEAST_WITHIN {
        let percent = LEAST_WITHIN * 100.0;
        return Err(format!(
            "less than {percent} % of the distribution lies from {least} to {most}; sizes outside are redrawn"
        ));
    }
    Ok(Distribution::Lognormal { distribution, median, least, most })
}

fn weighted(text: &str, bounds: &RangeInclusive<u64>) -> Result<Distribution, String> {
    let one = |part: &str| {
        let (bytes, weight) =
            part.split_once('@').ok_or(format!("'{part}' is not a size with a weight, such as 64@90"))?;
        Ok::<_, String>((size(bytes, bounds)?, self::weight(weight)?))
    };
    let (sizes, weights): (Vec<u64>, Vec<u64>) =
        text.split(',').map(one).collect::<Result<Vec<_>, _>>()?.into_iter().unzip();
    let index = alias(weights)?;
    Ok(Distribution::Weighted { sizes: sizes.into(), index })
}

/// Parses a weight.
pub fn weight(text: &str) -> Result<u64, String> {
    let allowed = || format!("'{text}' is not a weight, a whole number from 1 to {HEAVIEST}");
    text.parse().ok().filter(|weight| (1..=HEAVIEST).contains(weight)).ok_or_else(allowed)
}

/// Makes a sampler for a few values with these weights.
pub fn alias(weights: Vec<u64>) -> Result<WeightedAliasIndex<u64>, String> {
    if weights.len() > MOST_WEIGHTS {
        return Err(format!("{} sizes are given, but up to {MOST_WEIGHTS} are allowed", weights.len()));
    }
    WeightedAliasIndex::new(weights).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOUNDS: RangeInclusive<u64> = 1..=1 << 30;

    fn drawn(text: &str, seed: u64, count: u64) -> Vec<u64> {
        let sizes = Sizes::parse(text, BOUNDS).unwrap();
        (0..count).map(|number| sizes.draw(&mut Draw::new(seed, number))).collect()
    }

    fn moments(values: &[f64]) -> (f64, f64) {
        let mean = values.iter().sum::<f64>() / values.len() as f64;
        let square = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / (values.len() - 1) as f64;
        (mean, square)
    }

    /// Mean and variance within four standard errors of theory; the variance's standard error uses the fourth central
    /// moment of the sample.
    fn agree(values: &[f64], mean: f64, variance: f64) {
        let count = values.len() as f64;
        let (seen, square) = moments(values);
        assert!((seen - mean).abs() < 4.0 * (variance / count).sqrt(), "mean {seen}, and not {mean}");
        let fourth = values.iter().map(|value| (value - seen).powi(4)).sum::<f64>() / count;
        let error = ((fourth - square.powi(2)) / count).sqrt();
        assert!((square - variance).abs() < 4.0 * error, "variance {square}, and not {variance}");
    }

    fn as_numbers(values: &[u64]) -> Vec<f64> {
        values.iter().map(|value| *value as f64).collect()
    }

    const MANY: u64 = 200_000;

    #[test]
    fn uniform_sizes_have_the_moments_of_their_distribution_and_both_ends() {
        let (least, most) = (64.0, 16384.0);
        let sizes = drawn("uniform:64..16384", 1, MANY);
        let values = most - least + 1.0;
        agree(&as_numbers(&sizes), f64::midpoint(least, most), (values * values - 1.0) / 12.0);
        let few = drawn("uniform:3..5", 1, 3000);
        assert!([3, 4, 5].iter().all(|size| few.iter().filter(|each| *each == size).count() > 800), "all alike");
        assert!(few.iter().all(|size| (3..=5).contains(size)));
    }

    #[test]
    fn lognormal_sizes_have_the_moments_of_the_truncated_distribution() {
        for (text, median, sigma, least, most) in [
            ("lognormal:4096,1.5", 4096.0_f64, 1.5_f64, 1.0_f64, 16384.0_f64),
            ("lognormal:100000,0.5,50000..1000000", 1e5, 0.5, 5e4, 1e6),
        ] {
            // Moments by integration over the normal density of the logarithm, which is cut where sizes are rounded
            // away.
            let (from, to) = ((least - 0.5).ln(), (most + 0.5).ln());
            let steps = 100_000;
            let mut sums = [0.0; 3];
            for step in 0..steps {
                let at = from + (to - from) * (f64::from(step) + 0.5) / f64::from(steps);
                let density = (-((at - median.ln()) / sigma).powi(2) / 2.0).exp();
                sums[0] += density;
                sums[1] += density * at.exp();
                sums[2] += density * (2.0 * at).exp();
            }
            let mean = sums[1] / sums[0];
            let sizes = drawn(text, 7, MANY);
            assert!(sizes.iter().all(|size| (least..=most).contains(&(*size as f64))));
            agree(&as_numbers(&sizes), mean, sums[2] / sums[0] - mean * mean);
        }
        // No bound occurs more often than its neighbours, as it would if sizes outside were clipped to it.
        let narrow = drawn("lognormal:100,0.5,90..110", 1, MANY);
        let at = |size| narrow.iter().filter(|each| **each == size).count();
        assert!(at(110) < at(91) && at(90) < at(91) * 6 / 5, "{} {} {}", at(90), at(91), at(110));
    }

    #[test]
    fn weighted_sizes_come_as_often_as_their_weights_say() {
        let sizes = drawn("weighted:64@90,16384@9,1@1", 1, MANY);
        for (size, share) in [(64, 0.9_f64), (16384, 0.09), (1, 0.01)] {
            let seen = sizes.iter().filter(|each| **each == size).count() as f64;
            let expected = MANY as f64 * share;
            assert!((seen - expected).abs() < 4.0 * (expected * (1.0 - share)).sqrt(), "{size}: {seen}");
        }
        assert!(sizes.iter().all(|size| [64, 16384, 1].contains(size)));
        assert_eq!(drawn("fixed:7", 1, 3), [7, 7, 7]);
    }

    #[test]
    fn a_size_follows_from_the_seed_and_its_number_and_neighbours_have_nothing_in_common() {
        let text = "uniform:1..1000000";
        assert_eq!(drawn(text, 5, 100), drawn(text, 5, 100));
        assert_ne!(drawn(text, 5, 100), drawn(text, 6, 100));
        let sizes = as_numbers(&drawn(text, 5, MANY));
        let other = as_numbers(&drawn(text, 6, MANY));
        let (mean, variance) = moments(&sizes);
        let correlation = |of: Vec<(&f64, &f64)>| {
            let count = of.len() as f64;
            of.into_iter().map(|(a, b)| (a - mean) * (b - mean)).sum::<f64>() / count / variance
        };
        for seen in
            [correlation(sizes.iter().zip(&sizes[1..]).collect()), correlation(sizes.iter().zip(&other).collect())]
        {
            assert!(seen.abs() < 4.0 / (MANY as f64).sqrt(), "{seen}");
        }
    }

    #[test]
    fn an_invalid_distribution_is_refused_with_the_allowed_forms() {
        for (text, words) in [
            ("4000", "does not begin with the name"),
            ("normal:1,2", "'normal' is not a distribution"),
            ("fixed:0", "'0' is not a size from 1 to 1GiB"),
            ("fixed:1e3", "'1e3'"),
            ("uniform:9", "not a range"),
            ("uniform:9..8", "9 is more than 8"),
            ("uniform:0..8", "'0'"),
            ("uniform:1..2000000000", "'2000000000'"),
            ("lognormal:4096", "not a median and sigma"),
            ("lognormal:4096,0", "'0' is not a sigma"),
            ("lognormal:4096,-1", "'-1' is not a sigma"),
            ("lognormal:4096,NaN", "'NaN' is not a sigma"),
            ("lognormal:4096,9", "up to 3"),
            ("lognormal:65536,1", "or give another range"),
            ("lognormal:65536,1,1..100", "'65536' is not a size from 1 to 100"),
            ("lognormal:5000,3,5000..5001", "less than 5 %"),
            ("weighted:", "not a size with a weight"),
            ("weighted:64", "not a size with a weight"),
            ("weighted:64@0", "'0' is not a weight"),
            ("weighted:64@x", "'x' is not a weight"),
            ("weighted:64@1,", "not a size with a weight"),
            ("file:/nowhere.csv", "/nowhere.csv: No such file"),
        ] {
            let error = Sizes::parse(text, BOUNDS).unwrap_err().to_string();
            assert!(error.contains("--sizes") && error.contains(words) && !error.contains('\n'), "{text}: {error}");
        }
        let many = format!("weighted:{}", vec!["1@1"; MOST_WEIGHTS + 1].join(","));
        assert!(Sizes::parse(&many, BOUNDS).unwrap_err().to_string().contains("up to 1000 are allowed"));
    }

    #[test]
    fn the_largest_is_known_beforehand() {
        for (text, largest) in [
            ("fixed:9", 9),
            ("uniform:1..9", 9),
            ("lognormal:4096,1", 16384),
            ("lognormal:4096,1,1..5000", 5000),
            ("weighted:5@1,9@1,2@1", 9),
        ] {
            assert_eq!(Sizes::parse(text, BOUNDS).unwrap().largest(), largest, "{text}");
        }
        assert_eq!(Sizes::parse("lognormal:40,1", 1..=100).unwrap().largest(), 100);
    }
}
