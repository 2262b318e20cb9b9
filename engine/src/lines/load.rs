//! What the line of a load says of its times, of the schedule of an open one, and of whether it measured its server.

use std::ops::Range;

use anyhow::Result;
use hdrhistogram::Histogram;
use schemars::JsonSchema;
use serde::Serialize;

use crate::client::generator::Generator;
use crate::client::histograms::{encoded, maximum, percentile};
use crate::client::measure::Measured;
use crate::client::schedule::{Process, Schedule};
use crate::client::scheduled;
use crate::client::validity::{
    Check, Evidence, ScheduleEvidence, before_all, cube_of_latencies, is_of_a_schedule, is_valid, judge,
};
use crate::count::tally::Counts;
use crate::requests::sizes::SizesSent;
use crate::requests::traffic::{self, KindSent};

/// How long something took, in nanoseconds. A percentile is null where fewer than 10 requests lie beyond it: with fewer it
/// would be a matter of single requests. The maximum is one, and null of fewer than 100 requests.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct Times {
    /// Requests that it is of.
    pub requests: u64,
    /// Arithmetic mean.
    pub mean_ns: f64,
    /// Median.
    pub p50_ns: Option<u64>,
    /// 90th percentile.
    pub p90_ns: Option<u64>,
    /// 99th percentile.
    pub p99_ns: Option<u64>,
    /// 99.9th percentile.
    pub p999_ns: Option<u64>,
    /// The largest.
    pub maximum_ns: Option<u64>,
    /// All of them: an HdrHistogram (V2, deflated, base64), which other tools read and which can be added to others.
    pub histogram: String,
}

impl Times {
    /// Of a histogram; `None` of an empty one.
    pub fn of(histogram: &Histogram<u64>) -> Result<Option<Self>> {
        if histogram.is_empty() {
            return Ok(None);
        }
        Ok(Some(Times {
            requests: histogram.len(),
            mean_ns: histogram.mean(),
            p50_ns: percentile(histogram, 0.5),
            p90_ns: percentile(histogram, 0.9),
            p99_ns: percentile(histogram, 0.99),
            p999_ns: percentile(histogram, 0.999),
            maximum_ns: maximum(histogram),
            histogram: encoded(histogram)?,
        }))
    }
}

/// How long replies took.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct Latency {
    /// From when.
    pub from: From,
    /// How long.
    #[serde(flatten)]
    pub times: Times,
}

/// The moment from which a latency runs to the end of the reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum From {
    /// The request was sent, its client having waited for the reply before: a closed loop.
    Sent,
    /// The request was due by the schedule, whether or not there was a connection for it: an open loop.
    Intended,
}

impl Latency {
    /// As it was measured; `None` where it was not, or no reply came.
    pub fn of(measured: &Measured) -> Result<Option<Self>> {
        let (from, histogram) = match &measured.scheduled {
            Some(schedule) => (From::Intended, &schedule.latency),
            None => (From::Sent, &measured.latency),
        };
        Ok(Times::of(histogram)?.map(|times| Latency { from, times }))
    }
}

/// What became of the schedule of an open loop: of the requests that were due in the window.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct Scheduled {
    /// Requests that were due.
    pub due: u64,
    /// Those that were sent, or for which a connection was begun.
    pub sent: u64,
    /// Those whose reply came and was right, be it after the window.
    pub answered: u64,
    /// Those that failed.
    pub failed: u64,
    /// Those for which no connection was free until it was too late.
    pub never_sent: u64,
    /// Those among the sent that had to wait for a free connection.
    pub waited: u64,
    /// Requests a second that were asked for; of recorded arrivals those of the whole recording.
    pub offered_per_second: f64,
    /// Replies a second that came in the window.
    pub achieved_per_second: f64,
    /// From the sending of a request, or the beginning of its own connection, to the end of its reply.
    pub service_time: Option<Times>,
    /// How late requests were sent that were due and had a free connection: the load's own lateness.
    pub send_lag: Option<Times>,
    /// How long those waited that had no free connection.
    pub connection_wait: Option<Times>,
    /// Between two sendings of the same thread.
    pub gaps: Option<Times>,
    /// Standard deviation of the gaps as a share of their mean: near 1 of a Poisson process, near 0 of even arrivals.
    pub gap_variation: Option<f64>,
    /// Mean gap between the moments at which these requests were due.
    pub gap_due_mean_ns: Option<f64>,
    /// Standard deviation of these gaps as a share of their mean.
    pub gap_due_variation: Option<f64>,
}

/// Whether a load measured its server: what was looked at, and what came of it.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct Validity {
    /// Of an open loop: nothing speaks against it. A closed one has no rate to keep up with, and the slower of the two ends is
    /// what it measured: what was found is told and this is null, but false where requests failed.
    pub valid: Option<bool>,
    /// What was looked at.
    pub checks: Vec<Check>,
    /// The threads that ask.
    pub generators: Vec<Generator>,
    /// Mean number of requests in the window that were due (of a closed loop: sent) and not answered; null without a window.
    pub in_system: Option<f64>,
}

/// What the requests of a load were that are not all alike.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct Traffic {
    /// What sizes and kinds followed from.
    pub seed: u64,
    /// Requests that were made, in the window or not; null where all are alike.
    pub requests: Option<u64>,
    /// Their sizes; null where no distribution was asked for.
    pub sizes: Option<SizesSent>,
    /// Their kinds, in the order of the mix; empty without one.
    pub kinds: Vec<KindOfRequest>,
}

/// A kind of request in a mix.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct KindOfRequest {
    /// What was sent of it.
    #[serde(flatten)]
    pub sent: KindSent,
    /// How long replies to it took, from the moment that all latencies of the load run from; null where none came, and where
    /// the load measures none.
    pub latency: Option<Times>,
}

impl Traffic {
    /// As it was drawn by the workload, and measured by the load.
    pub fn of(drawn: traffic::Traffic, measured: &Measured) -> Result<Self> {
        let times = |number: usize| measured.by_kind.get(number).map_or(Ok(None), Times::of);
        let kind = |(number, sent): (usize, KindSent)| Ok(KindOfRequest { sent, latency: times(number)? });
        Ok(Traffic {
            seed: drawn.seed,
            requests: drawn.requests,
            sizes: drawn.sizes,
            kinds: drawn.kinds.into_iter().enumerate().map(kind).collect::<Result<_>>()?,
        })
    }

    /// For a person.
    pub fn in_words(&self) -> String {
        let mut text = String::new();
        if let Some(SizesSent { distribution, mean_bytes: Some(mean), .. }) = &self.sizes {
            text += &format!(
                "sizes {distribution} (seed {}): {mean:.1} bytes in the mean of all that were asked for\n",
                self.seed
            );
        }
        for KindOfRequest { sent, latency } in &self.kinds {
            text += &match latency {
                Some(times) => times_in_words(&format!("{}: {} replies", sent.request, sent.requests), times),
                None => format!("{}: {} replies\n", sent.request, sent.requests),
            };
        }
        text
    }
}

/// The boot id, which the kernel draws when it starts (random(4)): what has another is of another clock.
pub fn boot_id() -> Option<String> {
    let text = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
    Some(text.trim().to_owned()).filter(|id| !id.is_empty())
}

/// What became of the schedule; `None` of a closed loop, and where there was no window.
pub fn scheduled(
    measured: &Measured,
    window: Option<&Range<u64>>,
    schedule: Option<&Schedule>,
) -> Result<Option<Scheduled>> {
    let (Some(all), Some(window), Some(schedule)) = (&measured.scheduled, window, schedule) else { return Ok(None) };
    Ok(Some(Scheduled {
        due: all.due,
        sent: all.sent,
        answered: all.answered,
        failed: all.failed,
        never_sent: all.never_sent,
        waited: all.waited,
        offered_per_second: schedule.rate,
        achieved_per_second: measured.requests as f64 * 1e9 / (window.end - window.start) as f64,
        service_time: Times::of(&all.service_time)?,
        send_lag: Times::of(&all.send_lag)?,
        connection_wait: Times::of(&all.connection_wait)?,
        gaps: Times::of(&all.gap)?,
        gap_variation: all.gaps.mean_and_variation().map(|(_, variation)| variation),
        gap_due_mean_ns: all.gaps_due.mean_and_variation().map(|(mean, _)| mean),
        gap_due_variation: all.gaps_due.mean_and_variation().map(|(_, variation)| variation),
    }))
}

/// Looks at a load with an event loop that ends by time; of all others at what failed and whether their window was cut, and
/// `None` where there is nothing to say. `spins` is whether its threads never sleep, `asked_ns` how long its window was to be
/// unless an interrupt came.
pub fn validity(
    measured: &Measured,
    window: Option<&Range<u64>>,
    schedule: Option<&Schedule>,
    spins: bool,
    asked_ns: Option<u64>,
    tally: &Counts,
) -> Option<Validity> {
    let window_ns = window.map_or(0, |window| window.end - window.start);
    let before = before_all(&tally.errors, window_ns, asked_ns);
    let failed = !is_valid(&before);
    if window_ns == 0 || measured.generators.is_empty() {
        return failed.then(|| Validity {
            valid: Some(false),
            checks: before,
            generators: Vec::new(),
            in_system: None,
        });
    }
    let came = measured.scheduled.as_deref();
    let latency = came.map_or(&measured.latency, |came| &came.latency);
    let in_system = measured.population.mean(window_ns);
    let checks = judge(&Evidence {
        window_ns,
        asked_ns,
        always_under_way: measured.always_under_way,
        cpus: measured.cpus,
        replies: measured.requests,
        errors: tally.errors.clone(),
        generators: measured.generators.clone(),
        in_system,
        latencies: latency.len(),
        latency_mean_ns: latency.mean(),
        latency_cube_ns3: cube_of_latencies(&rising(latency), window_ns),
        latency_most_ns: latency.max(),
        spins,
        schedule: came.zip(schedule).map(|(came, schedule)| evidence(came, schedule, measured.generators.len())),
    });
    let valid = match came {
        Some(_) => Some(is_valid(&checks)),
        None => failed.then_some(false),
    };
    Some(Validity { valid, checks, generators: measured.generators.clone(), in_system: Some(in_system) })
}

/// What a histogram holds, and how often.
fn rising(histogram: &Histogram<u64>) -> Vec<(f64, u64)> {
    histogram.iter_recorded().map(|step| (step.value_iterated_to() as f64, step.count_at_value())).collect()
}

fn evidence(came: &scheduled::Scheduled, schedule: &Schedule, threads: usize) -> ScheduleEvidence {
    let by_law = threads as f64 * 1e9 / schedule.rate;
    // A recording has no law: it is held against what of it was due.
    let (gap_asked_ns, variation_asked) = match schedule.process {
        Process::Poisson => (by_law, 1.0),
        Process::Constant => (by_law, 0.0),
        Process::Recorded(_) => came.gaps_due.mean_and_variation().unwrap_or((by_law, 0.0)),
    };
    ScheduleEvidence {
        due: came.due,
        sent: came.sent,
        never_sent: came.never_sent,
        waited: came.waited,
        lag_p99_ns: percentile(&came.send_lag, 0.99),
        lag_p90_p50_ns: [0.9, 0.5].map(|quantile| percentile(&came.send_lag, quantile)),
        latency_p50_ns: percentile(&came.latency, 0.5),
        gap_asked_ns,
        variation_asked,
        gaps: came.gaps.mean_and_variation(),
    }
}

fn loop_of(from: From) -> &'static str {
    match from {
        From::Sent => "replies (closed loop)",
        From::Intended => "replies (open loop, from when they were due)",
    }
}

/// Latencies for a person.
pub fn latency_in_words(latency: &Latency) -> String {
    times_in_words(loop_of(latency.from), &latency.times)
}

fn times_in_words(what: &str, times: &Times) -> String {
    let milliseconds = |nanoseconds: u64| format!("{:.3} ms", nanoseconds as f64 / 1e6);
    let shares = [
        ("half", times.p50_ns),
        ("90 %", times.p90_ns),
        ("99 %", times.p99_ns),
        ("99.9 %", times.p999_ns),
        ("all", times.maximum_ns),
    ];
    let within = |(share, value): (&str, Option<u64>)| match value {
        Some(value) => format!("{share} within {}", milliseconds(value)),
        None => format!("{share}: too few"),
    };
    let words: Vec<String> = shares.into_iter().map(within).collect();
    format!("{what}: {}\n", words.join(", "))
}

/// The schedule for a person.
pub fn scheduled_in_words(scheduled: &Scheduled) -> String {
    let Scheduled { due, sent, answered, failed, never_sent, waited, .. } = scheduled;
    let mut text = format!(
        "of {due} requests that were due in the window {sent} were sent, {waited} of them late since no connection was free; \
         {answered} were answered, {failed} failed, {never_sent} were never sent\n"
    );
    for (what, times) in [
        ("from the sending (service time)", &scheduled.service_time),
        ("waiting for a connection", &scheduled.connection_wait),
        ("sent too late by", &scheduled.send_lag),
    ] {
        text += &times.as_ref().map(|times| times_in_words(what, times)).unwrap_or_default();
    }
    text
}

/// What was found, for a person: of a load that is not valid, why and what to change.
pub fn validity_in_words(validity: &Validity) -> String {
    let number = |value: f64| if value.fract() == 0.0 { format!("{value:.0}") } else { format!("{value:.3}") };
    let finding = |check: &Check| {
        let value = check.value.map_or("not known".to_owned(), number);
        format!("{}: {value}, at most {}: {}\n", check.name, number(check.limit), check.words)
    };
    let failed = validity.checks.iter().filter(|check| check.holds == Some(false));
    let failed: String = failed.map(finding).collect();
    match validity.valid {
        Some(true) => {
            let unknown = validity.checks.iter().filter(|check| check.holds.is_none());
            let unknown: Vec<_> = unknown.map(|check| format!("{} ({})", check.name, check.words)).collect();
            let but = if unknown.is_empty() { "" } else { "; " };
            let kept = if validity.checks.iter().any(|check| check.holds == Some(true) && is_of_a_schedule(check)) {
                "valid: the load kept its schedule"
            } else {
                "valid, for nothing speaks against it; whether the load kept its schedule so little does not tell"
            };
            format!("{kept}{but}{}\n", unknown.join(", "))
        }
        Some(false) => format!("NOT VALID, and no measurement of the server:\n{failed}"),
        None if failed.is_empty() => String::new(),
        None => format!("to be known of a closed loop:\n{failed}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_percentile_of_too_few_requests_says_so() {
        let mut seen = Histogram::new(3).unwrap();
        seen.record_n(2_000, 99).unwrap();
        let words = |seen: &Histogram<u64>| times_in_words("replies", &Times::of(seen).unwrap().unwrap());
        assert_eq!(
            words(&seen),
            "replies: half within 0.002 ms, 90 %: too few, 99 %: too few, 99.9 %: too few, all: too few\n"
        );
        seen.record(2_000).unwrap();
        assert_eq!(
            words(&seen),
            "replies: half within 0.002 ms, 90 % within 0.002 ms, 99 %: too few, 99.9 %: too few, all within 0.002 ms\n"
        );
    }
}
