//! Extrapolated counts of events that share the CPU's counters by turns.

use schemars::JsonSchema;
use serde::Serialize;

/// Time for which an event was counted that shares the CPU's counters with others by turns (multiplexing).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Multiplexing {
    /// Count while it had a counter.
    pub counted: u64,
    /// Run time of the tree, summed over its threads.
    pub enabled_ns: u64,
    /// Part of the run time in which it had a counter.
    pub running_ns: u64,
    /// True if it lacked a counter for some of the time, so that the figure is extrapolated: counted × enabled /
    /// running.
    pub scaled: bool,
}

impl Multiplexing {
    /// Takes the kernel's readings (perf_event_open(2), time_enabled and time_running).
    pub fn new(counted: u64, enabled_ns: u64, running_ns: u64) -> Self {
        Multiplexing { counted, enabled_ns, running_ns, scaled: running_ns < enabled_ns }
    }

    /// Returns the extrapolated count; `None` if it was never counted while the tree ran.
    pub fn value(&self) -> Option<u64> {
        let Multiplexing { counted, enabled_ns, running_ns, scaled } = *self;
        match (scaled, running_ns) {
            (false, _) => Some(counted),
            (true, 0) => None,
            (true, _) => {
                let scaled = u128::from(counted) * u128::from(enabled_ns) / u128::from(running_ns);
                Some(u64::try_from(scaled).unwrap_or(u64::MAX))
            }
        }
    }

    /// Returns the share of the run time in which it was counted.
    pub fn share(&self) -> f64 {
        if self.scaled { self.running_ns as f64 / self.enabled_ns as f64 } else { 1.0 }
    }

    /// Returns the count since an earlier reading. It is extrapolated by itself, not as a difference of extrapolations.
    pub fn since(&self, earlier: &Self) -> Self {
        Multiplexing::new(
            self.counted.saturating_sub(earlier.counted),
            self.enabled_ns.saturating_sub(earlier.enabled_ns),
            self.running_ns.saturating_sub(earlier.running_ns),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_count_of_part_of_the_time_is_extrapolated_and_marked() {
        let whole = Multiplexing::new(42, 1000, 1000);
        assert_eq!((whole.value(), whole.scaled, whole.share()), (Some(42), false, 1.0));
        let quarter = Multiplexing::new(42, 1000, 250);
        assert_eq!((quarter.value(), quarter.scaled, quarter.share()), (Some(168), true, 0.25));
        let idle = Multiplexing::new(0, 0, 0);
        assert_eq!((idle.value(), idle.scaled), (Some(0), false), "nothing has run yet");
        let never = Multiplexing::new(0, 1000, 0);
        assert_eq!((never.value(), never.scaled), (None, true), "the count is unknown, not 0");
        let long = Multiplexing::new(u64::MAX / 2, u64::MAX, u64::MAX / 2);
        assert_eq!(long.value(), Some(u64::MAX), "no overflow");
    }

    /// A window is extrapolated from its own readings; the time before it does not matter.
    #[test]
    fn a_window_is_scaled_by_its_own_share() {
        let before = Multiplexing::new(1_000_000, 1000, 1000);
        let after = Multiplexing::new(1_000_100, 2000, 1500);
        assert_eq!(after.since(&before).value(), Some(200));
        assert_ne!(after.value().unwrap() - before.value().unwrap(), 200, "a difference of extrapolations is wrong");
        assert!(!before.since(&before).scaled && before.since(&before).value() == Some(0));
    }
}
