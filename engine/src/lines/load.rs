//! The parts of a load's line about latency, the schedule of an open loop, and validity.

use std::collections::BTreeMap;
use std::ops::Range;

use anyhow::Result;
use hdrhistogram::Histogram;
use schemars::JsonSchema;
use serde::Serialize;

use crate::client::due_requests::{self, Outcomes};
use crate::client::generator::Generator;
use crate::client::histograms::{encoded, maximum, percentile};
use crate::client::measure::Measured;
use crate::client::validity::{
    Check, Evidence, ScheduleEvidence, any_reply, before_all, cube_of_latencies, is_valid, judge,
};
use crate::count::tally::Counts;
use crate::protocol::workload::{MeasuredBy, Replies, StatusCounts};
use crate::requests::schedule::{Process, Schedule};
use crate::requests::sizes::SizesSent;
use crate::requests::traffic::{self, KindSent};

/// Distribution of a time in nanoseconds. A percentile is null if fewer than 10 requests lie beyond it, because single requests
/// would decide it. The maximum is a single request, and null for fewer than 100 requests.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct Times {
    /// Number of requests; of times to connect, number of connections.
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
    /// Maximum.
    pub maximum_ns: Option<u64>,
    /// All values: an HdrHistogram (V2, deflated, base64). Other tools can read it, and histograms can be added.
    pub histogram: String,
}

impl Times {
    /// Summarizes a histogram; `None` if it is empty.
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

/// Latency of replies.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct Latency {
    /// Start of the latency.
    pub from: From,
    /// Distribution of the latency.
    #[serde(flatten)]
    pub times: Times,
}

/// Moment at which a latency begins. It ends with the reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum From {
    /// The moment at which the request is sent, in a closed loop: each client waits for its previous reply first.
    Sent,
    /// The moment at which the request is due by the schedule, in an open loop, whether or not a connection is free.
    Intended,
}

impl Latency {
    /// Returns the measured latency; `None` if it was not measured, or no reply came.
    pub fn of(measured: &Measured) -> Result<Option<Self>> {
        let (from, histogram) = match &measured.scheduled {
            Some(schedule) => (From::Intended, &schedule.latency),
            None => (From::Sent, &measured.latency),
        };
        Ok(Times::of(histogram)?.map(|times| Latency { from, times }))
    }
}

/// Accuracy with which an open loop kept its schedule, for the requests that were due in the window.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct Scheduled {
    /// Outcomes of the requests.
    #[serde(flatten)]
    pub outcomes: Outcomes,
    /// Configured requests per second. For recorded arrivals, the rate of the whole recording.
    pub offered_per_second: f64,
    /// Replies per second in the window.
    pub achieved_per_second: Option<f64>,
    /// Time from the sending of a request, or the start of its own connection, to the end of its reply.
    pub service_time: Option<Times>,
    /// Delay with which the load sent requests that were due and had a free connection.
    pub send_lag: Option<Times>,
    /// Time for which requests waited for a free connection.
    pub connection_wait: Option<Times>,
    /// Time between two sends of the same thread.
    pub gaps: Option<Times>,
    /// Standard deviation of the gaps divided by their mean: near 1 for a Poisson process, near 0 for even arrivals.
    pub gap_variation: Option<f64>,
    /// Mean gap between the moments at which requests were due.
    pub gap_due_mean_ns: Option<f64>,
    /// Standard deviation of the gaps between due requests, divided by their mean.
    pub gap_due_variation: Option<f64>,
}

/// Result of the checks that a load measured its server.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct Validity {
    /// True if an open loop passed every check. False if a check or a request failed. Null for a closed loop, which has no
    /// rate to keep up with and measures the slower of the two ends.
    pub valid: Option<bool>,
    /// Checks and their results.
    pub checks: Vec<Check>,
    /// Threads that send the requests.
    pub generators: Vec<Generator>,
    /// Mean number of requests in the window that were due (in a closed loop: sent) and not yet answered. Null without a
    /// window.
    pub in_system: Option<f64>,
}

/// Sizes and kinds of the requests of a load.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct Traffic {
    /// Seed of the sizes and kinds.
    pub seed: u64,
    /// Requests made, in the window or not. Null if all are alike.
    pub requests: Option<u64>,
    /// Sizes of the requests. Null without a distribution.
    pub sizes: Option<SizesSent>,
    /// Kinds of requests, in the order of the mix. Empty without a mix.
    pub kinds: Vec<KindOfRequest>,
}

/// Replies with one status.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct StatusReplies {
    /// Replies of the whole load.
    pub replies: u64,
    /// Those that count as errors (`expect`).
    pub errors: u64,
    /// Latency of those that count for the latency of the load, and of errors from the same moment. Null if none came in the
    /// window, or if the load measures no latency.
    pub latency: Option<Times>,
}

/// Joins the replies by status that the workload counted with the latencies that the load measured.
pub fn statuses(counted: StatusCounts, measured: &Measured) -> Result<BTreeMap<String, StatusReplies>> {
    let of = |(code, Replies { replies, errors }): (u16, Replies)| {
        let latency = measured.by_status.get(&code).map_or(Ok(None), Times::of)?;
        Ok((code.to_string(), StatusReplies { replies, errors, latency }))
    };
    counted.into_iter().map(of).collect()
}

/// One kind of request in a mix.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct KindOfRequest {
    /// Requests of this kind that were sent.
    #[serde(flatten)]
    pub sent: KindSent,
    /// Latency of replies of this kind, from the same moment as all latencies of the load. Null if no reply came, or if the
    /// load measures none.
    pub latency: Option<Times>,
}

impl Traffic {
    /// Joins the requests that the workload drew with the latencies that the load measured.
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
}

/// Reads the boot id, which the kernel draws when it starts (random(4)). Times with different boot ids are from different
/// clocks.
pub fn boot_id() -> Option<String> {
    let text = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
    Some(text.trim().to_owned()).filter(|id| !id.is_empty())
}

/// Summarizes the schedule; `None` for a closed loop, or without a window.
pub fn scheduled(
    measured: &Measured,
    window: Option<&Range<u64>>,
    schedule: Option<&Schedule>,
    all_persevered: bool,
) -> Result<Option<Scheduled>> {
    let (Some(all), Some(window), Some(schedule)) = (&measured.scheduled, window, schedule) else { return Ok(None) };
    Ok(Some(Scheduled {
        outcomes: all.outcomes.clone(),
        offered_per_second: schedule.rate,
        achieved_per_second: all_persevered
            .then_some(measured.requests as f64 * 1e9 / (window.end - window.start) as f64),
        service_time: Times::of(&all.service_time)?,
        send_lag: Times::of(&all.send_lag)?,
        connection_wait: Times::of(&all.connection_wait)?,
        gaps: Times::of(&all.gap)?,
        gap_variation: all.gaps.mean_and_variation().map(|(_, variation)| variation),
        gap_due_mean_ns: all.gaps_due.mean_and_variation().map(|(mean, _)| mean),
        gap_due_variation: all.gaps_due.mean_and_variation().map(|(_, variation)| variation),
    }))
}

/// Checks a load with an event loop that ends by time. For other loads, checks only for failures and a shortened window, and
/// returns `None` if there is nothing to report. `spins`: its threads busy-poll. `planned_ns`: the configured length of the
/// window. `others`: checks that were made elsewhere.
pub fn validity(
    measured: &Measured,
    schedule: Option<&Schedule>,
    spins: bool,
    planned_ns: Option<u64>,
    measured_by: MeasuredBy,
    tally: &Counts,
    others: Vec<Check>,
) -> Option<Validity> {
    let window_ns = measured.window.as_ref().map_or(0, |window| window.end - window.start);
    let mut before = before_all(&tally.errors, window_ns, planned_ns);
    before.extend(others.clone());
    // Otherwise another check says why. A window without requests needs none.
    let needs_reply = planned_ns.is_some() && is_valid(&before) && measured_by == MeasuredBy::Requests;
    let any_due = measured.scheduled.as_ref().is_none_or(|scheduled| scheduled.outcomes.due > 0);
    let any_reply = (needs_reply && any_due && window_ns > 0 && measured.requests == 0)
        .then(|| any_reply(measured.requests, window_ns, measured.longest_outside));
    before.extend(any_reply.clone());
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
    let mut checks = judge(&Evidence {
        window_ns,
        planned_ns,
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
    checks.extend(others.into_iter().chain(any_reply));
    let valid = match came {
        Some(_) => Some(is_valid(&checks)),
        None => failed.then_some(false),
    };
    Some(Validity { valid, checks, generators: measured.generators.clone(), in_system: Some(in_system) })
}

/// Returns the values of a histogram with their counts.
fn rising(histogram: &Histogram<u64>) -> Vec<(f64, u64)> {
    histogram.iter_recorded().map(|step| (step.value_iterated_to() as f64, step.count_at_value())).collect()
}

fn evidence(came: &due_requests::Scheduled, schedule: &Schedule, threads: usize) -> ScheduleEvidence {
    let by_law = threads as f64 * 1e9 / schedule.rate;
    // A recording has no law: its gaps are compared with those of the requests that were due.
    let (gap_scheduled_ns, variation_scheduled) = match schedule.process {
        Process::Poisson => (by_law, 1.0),
        Process::Constant => (by_law, 0.0),
        Process::Recorded(_) => came.gaps_due.mean_and_variation().unwrap_or((by_law, 0.0)),
    };
    ScheduleEvidence {
        due: came.outcomes.due,
        sent: came.outcomes.sent,
        never_sent: came.outcomes.never_sent,
        waited: came.outcomes.waited,
        lag_p99_ns: percentile(&came.send_lag, 0.99),
        lag_p90_p50_ns: [0.9, 0.5].map(|quantile| percentile(&came.send_lag, quantile)),
        latency_p50_ns: percentile(&came.latency, 0.5),
        gap_scheduled_ns,
        variation_scheduled,
        gaps: came.gaps.mean_and_variation(),
    }
}
