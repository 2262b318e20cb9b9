//! The schedule of an open load, read once from its settings.

use anyhow::Result;

use crate::base::mistake::{Blame, mistake_with_hint};
use crate::base::setting::{A_NUMBER_OF_64_BITS, Form, Kind, NONE, SEVERAL_LOADS, Setting, Settings};
use crate::base::unit::Unit;
use crate::requests::recording::RecordedGaps;

/// Rate of requests.
pub const RATE: Setting = Setting {
    name: "rate",
    help: "Rate of the open load: requests due per second, summed over all threads; recorded requests come at their \
           recorded rate by default",
    unit: Unit::Of("requests a second"),
    kind: Kind::Integer { minimum: 1, maximum: 10_000_000, default: 1000 },
    for_more: Some(SEVERAL_LOADS),
};

/// Distribution of arrivals.
pub const ARRIVALS: Setting = Setting {
    name: "arrivals",
    help: "Distribution of request times: independent of each other (a Poisson process), evenly spaced, or as \
           recorded (--recording)",
    unit: Unit::None,
    kind: Kind::Choice { choices: &["poisson", "constant", RECORDED], default: "poisson" },
    for_more: None,
};

/// Value of [`ARRIVALS`] for those of a file.
const RECORDED: &str = "recorded";

/// File of recorded arrivals.
pub const RECORDING: Setting = Setting {
    name: "recording",
    help: "CSV file for recorded arrivals, with a column gap_microseconds and one row per request: the time since the \
           request before it. The file repeats when it ends",
    unit: Unit::None,
    kind: Kind::Text { longest: 4096, default: NONE, form: Form::File },
    for_more: None,
};

/// Seed of the schedule.
pub const ARRIVAL_SEED: Setting = Setting {
    name: "arrival_seed",
    help: "Seed of the schedule; the same seed, rate and threads give the same request times. Concurrent loads need \
           different seeds",
    unit: Unit::None,
    kind: Kind::Integer { minimum: 0, maximum: u64::MAX, default: 1 },
    for_more: Some(A_NUMBER_OF_64_BITS),
};

/// Arrival process.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Process {
    /// Independent of each other.
    Poisson,
    /// Evenly spaced.
    Constant,
    /// As recorded, repeated.
    Recorded(&'static RecordedGaps),
}

/// Times at which requests of a whole load are due.
#[derive(Debug, Clone, Copy)]
pub struct Schedule {
    /// Arrival process.
    pub process: Process,
    /// Requests per second after the ramp; for recorded arrivals, the mean.
    pub rate: f64,
    /// Schedules with the same seed have the same moments.
    pub seed: u64,
    /// Nanoseconds over which the rate rises linearly from 0.
    pub ramp: u64,
}

impl Schedule {
    /// Reads the settings, with the load's ramp; `None` if the load has no schedule. Reads the file, and keeps it while
    /// the program runs.
    pub fn of(settings: &Settings, ramp: u64) -> Result<Option<Self>> {
        if !settings.values().contains_key(ARRIVALS.name) {
            return Ok(None);
        }
        let process = match settings.word(ARRIVALS.name) {
            "poisson" => Process::Poisson,
            "constant" => Process::Constant,
            _ => Process::Recorded(Box::leak(Box::new(RecordedGaps::read(
                RECORDING.name,
                settings.word(RECORDING.name),
            )?))),
        };
        let given = settings.values().get(RATE.name).map(|_| settings.integer(RATE.name) as f64);
        let rate = match (given, process) {
            (Some(rate), _) => rate,
            (None, Process::Recorded(gaps)) => recorded_rate(gaps)?,
            (None, _) => panic!("{} is a setting of every load that goes by a schedule", RATE.name),
        };
        Ok(Some(Schedule { process, rate, seed: settings.integer(ARRIVAL_SEED.name), ramp }))
    }

    /// Maximum number of requests due in this many nanoseconds from the start, without a ramp. For a Poisson process,
    /// six standard deviations above the mean, which one load in a milliard exceeds.
    pub fn most_within(&self, nanoseconds: u64) -> u64 {
        let expected = nanoseconds as f64 * self.rate / 1e9;
        match self.process {
            Process::Poisson => (expected + 6.0 * expected.sqrt()).ceil() as u64 + 6,
            Process::Constant => expected.ceil() as u64,
            Process::Recorded(gaps) => gaps.within(expected * gaps.mean()),
        }
    }
}

/// Rate of recorded arrivals in requests per second; it must not exceed the maximum of the setting for the rate.
fn recorded_rate(gaps: &RecordedGaps) -> Result<f64> {
    let rate = 1e9 / gaps.mean();
    let Kind::Integer { maximum, .. } = RATE.kind else { unreachable!("{} is a number", RATE.name) };
    if rate > maximum as f64 {
        return Err(mistake_with_hint(
            "schedule.rate_too_high",
            format!(
                "--{} has a mean rate of {rate:.0} requests a second, but the maximum is {maximum}",
                RECORDING.option()
            ),
            format!("use longer gaps, or set another rate with --{}", RATE.option()),
        )
        .blaming(&[RECORDING.name, RATE.name]));
    }
    Ok(rate)
}

/// Removes settings without effect on a schedule: the default rate with a recording, which has its own. Refuses
/// recorded arrivals without a recording, and a recording without them.
pub fn settle(settings: &mut Settings, given: impl Fn(&str) -> bool) -> Result<()> {
    if !settings.values().contains_key(ARRIVALS.name) {
        return Ok(());
    }
    let (is_recorded, has_file) = (settings.word(ARRIVALS.name) == RECORDED, settings.word(RECORDING.name) != NONE);
    match (is_recorded, has_file) {
        (true, false) => Err(mistake_with_hint(
            "schedule.no_recording",
            format!("--arrivals {RECORDED} needs a file"),
            "add --recording PATH",
        )
        .blaming(&[ARRIVALS.name, RECORDING.name])),
        (false, true) => {
            let message = format!("--recording has no effect without --arrivals {RECORDED}");
            Err(mistake_with_hint("schedule.not_recorded", message, format!("add --arrivals {RECORDED}"))
                .blaming(&[RECORDING.name, ARRIVALS.name]))
        }
        (true, true) if !given(RATE.name) => {
            settings.forget(RATE.name);
            Ok(())
        }
        _ => Ok(()),
    }
}
