//! Measures machine limits in many short rounds. Each round has every limit once, in random order.
//!
//! A temporary disturbance then hits some rounds of all limits, not all rounds of one. Readers take the median of the rounds;
//! nothing is computed here.

use std::time::{Duration, Instant};

use anyhow::{Result, bail};

use crate::base::about::Entry;
use crate::base::limit::{Limit, Place, Point, Probe};
use crate::base::mistake::mistake_with_hint;
use crate::base::setting::{Kind, Setting, Settings};
use crate::base::unit::{MILLISECOND, MINUTE, SECOND, Unit};
use crate::lines::{self, LimitPoint, LimitRound, LimitUnavailable, Line};
use crate::sys::process;

const DURATION: Setting = Setting {
    name: "duration",
    help: "Approximate total time, which sets the length of the rounds",
    unit: Unit::Time { resolution: MILLISECOND },
    kind: Kind::Integer { minimum: MILLISECOND, maximum: 10 * MINUTE, default: 10 * SECOND },
    for_more: None,
};

const ROUNDS: Setting = Setting {
    name: "rounds",
    help: "Number of rounds; fewer rounds are longer",
    unit: Unit::None,
    kind: Kind::Integer { minimum: 1, maximum: 10_000, default: 31 },
    for_more: None,
};

const SEED: Setting = Setting {
    name: "seed",
    help: "Seed of the order within the rounds",
    unit: Unit::None,
    kind: Kind::Integer { minimum: 0, maximum: u32::MAX as u64, default: 1 },
    for_more: None,
};

/// Settings of the measurement.
pub const SETTINGS: &[Setting] = &[DURATION, ROUNDS, SEED];

/// No round begins after this multiple of the configured time, plus this time: the configured time may be shorter than a round
/// can be.
const OVERDUE: (u32, Duration) = (3, Duration::from_secs(5));

/// Limits to measure, with their settings.
pub struct Plan {
    /// The limits.
    pub limits: Vec<&'static Entry<Limit>>,
    /// CPU of this process, then the CPU of peers if there are two.
    pub cpus: Vec<usize>,
    /// Values of [`SETTINGS`].
    pub settings: Settings,
}

/// Returns one or two CPUs: the typed ones, or the first that this process may run on.
pub fn cpus(typed: Option<Vec<usize>>) -> Result<Vec<usize>> {
    let Some(typed) = typed else { return Ok(process::allowed_cpus()?.into_iter().take(2).collect()) };
    match typed[..] {
        [_] => Ok(typed),
        [near, far] if near != far => Ok(typed),
        _ => {
            let listed: Vec<String> = typed.iter().map(usize::to_string).collect();
            Err(mistake_with_hint(
                "limits.cpus",
                format!("--cpus {} is not one CPU, nor two different ones", listed.join(",")),
                "for instance --cpus 0,1",
            ))
        }
    }
}

/// Measures the limits, and prints each line as soon as it is known.
pub fn probe(plan: &Plan, say: impl Fn(&Line) -> Result<()>) -> Result<()> {
    let (near, far) = (plan.cpus[0], plan.cpus.get(1).copied());
    say(&Line::Limits(lines::Limits {
        schema: lines::SCHEMA,
        cpus: plan.cpus.clone(),
        settings: plan.settings.values().clone(),
    }))?;
    process::pin(&[near])?;
    let points = plan.limits.iter().flat_map(|entry| points_of(entry));
    let mut probes = Vec::new();
    for point in points {
        match ready(&point, plan, near, far) {
            Ok(probe) => probes.push((point, probe)),
            Err(error) => say(&unavailable(point, &error))?,
        }
    }
    let rounds = plan.settings.integer(ROUNDS.name);
    let whole = plan.settings.time(DURATION.name);
    // One more round, which finds the repetitions of each limit that fit into a round.
    let slice = whole / u32::try_from((rounds + 1) * probes.len().max(1) as u64).unwrap_or(u32::MAX);
    let mut random = Random(plan.settings.integer(SEED.name));
    let mut running = Vec::new();
    for (point, mut probe) in probes {
        match times_within(slice, &mut *probe) {
            Ok(times) => running.push(Running { point, probe, times }),
            Err(error) => say(&unavailable(point, &error))?,
        }
    }
    let began = Instant::now();
    for round in 1..=rounds {
        if began.elapsed() > whole * OVERDUE.0 + OVERDUE.1 {
            break;
        }
        random.shuffle(&mut running);
        let mut left = Vec::with_capacity(running.len());
        for mut each in running {
            let earlier = page_faults()?;
            match each.probe.round(each.times) {
                Ok(elapsed) => {
                    let (point, times) = (each.point.clone(), each.times);
                    let (elapsed_ns, page_faults) = (elapsed.as_nanos() as u64, page_faults()? - earlier);
                    say(&Line::LimitRound(LimitRound { point, round, times, elapsed_ns, page_faults }))?;
                    left.push(each);
                }
                Err(error) => say(&unavailable(each.point, &error))?,
            }
        }
        running = left;
    }
    if running.is_empty() {
        bail!("none of the limits could be measured on this machine");
    }
    Ok(())
}

/// Returns the page faults of this process and of its ended children.
fn page_faults() -> Result<u64> {
    let used = process::usage_of_self()? + process::usage_of_children()?;
    Ok(used.minor_faults + used.major_faults)
}

/// A limit that is being measured, with its repetitions per round.
struct Running {
    point: LimitPoint,
    probe: Box<dyn Probe>,
    times: u64,
}

/// Returns a limit at each of its placements and sizes.
fn points_of(entry: &Entry<Limit>) -> Vec<LimitPoint> {
    let sizes: Vec<Option<usize>> = match entry.item.sizes {
        [] => vec![None],
        sizes => sizes.iter().copied().map(Some).collect(),
    };
    let at = |&place: &Place| sizes.iter().map(move |&bytes| LimitPoint { limit: entry.name, place, bytes });
    entry.item.places.iter().flat_map(at).collect()
}

/// Prepares a probe on these CPUs, or fails with the reason.
fn ready(point: &LimitPoint, plan: &Plan, near: usize, far: Option<usize>) -> Result<Box<dyn Probe>> {
    let far = match (point.place, far) {
        (Place::OneCpu, _) => near,
        (Place::TwoCpus, Some(far)) => far,
        (Place::TwoCpus, None) => bail!("needs two CPUs, but this process has only CPU {near}"),
    };
    let entry = plan.limits.iter().find(|entry| entry.name == point.limit).expect("the points are those of the plan");
    (entry.item.prepare)(&Point { place: point.place, bytes: point.bytes, near, far })
}

fn unavailable(point: LimitPoint, error: &anyhow::Error) -> Line {
    Line::LimitUnavailable(LimitUnavailable { point, reason: format!("{error:#}") })
}

/// Returns how many repetitions fit into a time, at least 1. Tries ever more repetitions, which also warms up.
fn times_within(slice: Duration, probe: &mut dyn Probe) -> Result<u64> {
    let mut times = 1;
    loop {
        let elapsed = probe.round(times)?.max(Duration::from_nanos(1));
        if elapsed * 4 >= slice || times >= probe.most() {
            let fit = slice.as_nanos() * u128::from(times) / elapsed.as_nanos();
            return Ok(u64::try_from(fit).unwrap_or(u64::MAX).clamp(1, probe.most()));
        }
        times = times.saturating_mul(2).min(probe.most());
    }
}

/// Random numbers from a seed: splitmix64 (Steele, Lea and Flood, OOPSLA 2014).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Shuffles by Fisher and Yates. With so few elements, the remainder's bias does not matter.
    fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            items.swap(last, (self.next() % (last as u64 + 1)) as usize);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::mistake::Mistake;
    use crate::limits::LIMITS;

    #[test]
    fn repetitions_fit_into_the_time_and_are_at_least_one() {
        struct Taking(Duration, u64);
        impl Probe for Taking {
            fn round(&mut self, times: u64) -> Result<Duration> {
                Ok(self.0 * u32::try_from(times)?)
            }
            fn most(&self) -> u64 {
                self.1
            }
        }
        let within = |each, most| times_within(Duration::from_millis(1), &mut Taking(each, most)).unwrap();
        assert_eq!(within(Duration::from_micros(10), u64::MAX), 100);
        assert_eq!(within(Duration::from_micros(10), 64), 64);
        assert_eq!(within(Duration::from_secs(1), u64::MAX), 1);
        // With a stopped clock, the doublings end at the maximum.
        assert!(within(Duration::ZERO, 1 << 20) >= 1);
    }

    #[test]
    fn an_order_follows_from_the_seed_and_has_every_element() {
        let order = |seed| {
            let mut items: Vec<u32> = (0..20).collect();
            Random(seed).shuffle(&mut items);
            items
        };
        assert_eq!(order(1), order(1));
        assert_ne!(order(1), order(2));
        let mut sorted = order(3);
        sorted.sort_unstable();
        assert_eq!(sorted, (0..20).collect::<Vec<u32>>());
    }

    #[test]
    fn every_limit_has_a_place_and_increasing_sizes() {
        for entry in LIMITS {
            assert!(!entry.item.places.is_empty(), "{}", entry.name);
            assert!(entry.item.sizes.is_sorted() && !entry.item.sizes.contains(&0), "{}", entry.name);
            assert_eq!(points_of(entry).len(), entry.item.places.len() * entry.item.sizes.len().max(1));
        }
    }

    #[test]
    fn two_ends_have_two_cpus() {
        assert_eq!(cpus(Some(vec![1, 0])).unwrap(), [1, 0]);
        assert_eq!(cpus(Some(vec![1])).unwrap(), [1]);
        for wrong in [vec![0, 0], vec![0, 1, 2]] {
            let error = cpus(Some(wrong)).unwrap_err();
            assert_eq!(error.downcast_ref::<Mistake>().unwrap().code, "limits.cpus");
        }
    }
}
