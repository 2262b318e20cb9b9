//! Checks whether a load measured its server or itself: counts in, findings out.

use std::collections::BTreeMap;
use std::time::Duration;

use schemars::JsonSchema;
use serde::Serialize;

use crate::client::generator::Generator;

/// One check of a valid measurement.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Check {
    /// Its name.
    pub name: &'static str,
    /// Observed value; null if unknown.
    pub value: Option<f64>,
    /// Maximum allowed value.
    pub limit: f64,
    /// True if the check passes; null if there was too little data to judge.
    pub holds: Option<bool>,
    /// The check's meaning, why it was not judged, or what to change.
    pub words: String,
}

/// The evidence, all of it for the window.
#[derive(Debug, Clone, Default)]
pub struct Evidence {
    /// Length of the window.
    pub window_ns: u64,
    /// Its planned length; `None` if it is unknown, or if an interrupt ended the window.
    pub planned_ns: Option<u64>,
    /// Correct replies within the window.
    pub replies: u64,
    /// Errors of the whole load, by kind.
    pub errors: BTreeMap<&'static str, u64>,
    /// The client threads.
    pub generators: Vec<Generator>,
    /// CPUs that the load may use.
    pub cpus: usize,
    /// Mean number of requests in the system, from entries and exits.
    pub in_system: f64,
    /// Constant number of requests in flight, for a closed loop if known.
    pub always_under_way: Option<u64>,
    /// Number of latencies.
    pub latencies: u64,
    /// Their mean in nanoseconds.
    pub latency_mean_ns: f64,
    /// [`cube_of_latencies`] of them.
    pub latency_cube_ns3: f64,
    /// The longest of them.
    pub latency_most_ns: u64,
    /// Threads busy-poll: they use all of their CPU whether they keep up or not.
    pub spins: bool,
    /// The schedule of an open loop.
    pub schedule: Option<ScheduleEvidence>,
}

/// Evidence of an open loop.
#[derive(Debug, Clone, Default)]
pub struct ScheduleEvidence {
    /// Requests that were due.
    pub due: u64,
    /// Requests that were sent.
    pub sent: u64,
    /// Requests for which no connection was free in time.
    pub never_sent: u64,
    /// Requests that waited for a free connection.
    pub waited: u64,
    /// 99th percentile of the send lag in nanoseconds, if known.
    pub lag_p99_ns: Option<u64>,
    /// 90th percentile and median of the send lag, which need fewer requests.
    pub lag_p90_p50_ns: [Option<u64>; 2],
    /// Median latency in nanoseconds, if known.
    pub latency_p50_ns: Option<u64>,
    /// Scheduled mean gap between sends of a thread, in nanoseconds.
    pub gap_scheduled_ns: f64,
    /// Scheduled coefficient of variation of the gaps.
    pub variation_scheduled: f64,
    /// Observed mean gap in nanoseconds, and coefficient of variation.
    pub gaps: Option<(f64, f64)>,
}

/// Name of the check for errors.
pub const ERRORS: &str = "errors";

/// Name of the check that the window has its planned length.
pub const CUT: &str = "cut_window";

/// Name of the check that a reply came in the window.
pub const NO_REPLY: &str = "no_reply";

/// Name of the check that the client threads are not the limit.
pub const GENERATOR: &str = "generator_cpu";

/// Name of the check that the window has requests.
pub const EMPTY: &str = "empty_window";

/// Name of the check that as many replies came as requests were due.
pub const RATE: &str = "achieved_rate";

/// Name of the check that all requests were sent.
pub const NEVER_SENT: &str = "never_sent";

/// Name of the check that requests were sent when they were due.
pub const LAG: &str = "send_lag";

/// Name of the check of Little's law.
pub const LITTLE_LAW: &str = "little";

/// Name of the check that no CPU quota stopped the load.
pub const THROTTLED: &str = "throttled";

/// Maximum time for which CPU quotas may stop the load, as a share of the window.
const MOST_THROTTLED: f64 = 0.01;

/// Maximum share of busy time of a client thread: above it, no time is left for waiting.
const BUSIEST: f64 = 0.95;

/// Maximum relative difference between the replies of the window and the requests due.
const RATE_OFF: f64 = 0.01;

/// Difference in replies that is always allowed: requests in flight at the window's edges. Their number also varies by
/// chance: with Poisson arrivals the number in the system is a Poisson count, and the difference of two has twice its
/// variance.
const AT_THE_EDGES: f64 = 10.0;

/// Maximum of the load's own lateness, as a share of the median latency.
const LATE_SHARE: f64 = 0.1;

/// Lateness in nanoseconds that is always allowed: about the cost of a timer and a wake-up.
const LATE_ALWAYS: f64 = 100_000.0;

/// Maximum relative difference between the number in the system and rate times latency.
const LITTLE: f64 = 0.05;

/// Little's law is not judged if requests in flight at the edges of the window may reach this share of all by chance.
const LITTLE_BY_CHANCE: f64 = 0.5;

/// Maximum relative difference of mean and variation of the gaps from the schedule's.
const GAPS: f64 = 0.05;

/// Allowed standard errors: a correct load fails such a check once in some ten thousand times.
const STANDARD_ERRORS: f64 = 4.0;

/// Minimum window for judging how busy a thread is: at its start, connections are opened and first requests are sent.
const SHORTEST_NS: u64 = 10_000_000;

/// Minimum number of requests for judging a distribution.
const FEWEST: u64 = 100;

/// Returns all findings. If there are no errors, and every check passes or was not judged, the load measured its
/// server.
pub fn judge(evidence: &Evidence) -> Vec<Check> {
    let mut checks = before_all(&evidence.errors, evidence.window_ns, evidence.planned_ns);
    checks.push(processor(evidence));
    if let Some(schedule) = &evidence.schedule {
        checks.extend([
            something_due(evidence, schedule),
            rate(evidence, schedule),
            all_sent(evidence, schedule),
            lag(evidence, schedule),
            gap_mean(schedule),
            gap_variation(evidence, schedule),
        ]);
    }
    checks.push(little(evidence));
    checks
}

/// Returns whether the check tests if a load kept its schedule.
pub fn is_of_a_schedule(check: &Check) -> bool {
    [RATE, LAG].contains(&check.name)
}

/// Returns whether no check fails.
pub fn is_valid(checks: &[Check]) -> bool {
    checks.iter().all(|check| check.holds != Some(false))
}

fn check(name: &'static str, value: f64, limit: f64, what: &str, change: &str) -> Check {
    let holds = value <= limit;
    let words = if holds { what.to_owned() } else { format!("{what}: {change}") };
    Check { name, value: Some(value), limit, holds: Some(holds), words }
}

fn not_judged(name: &'static str, value: Option<f64>, limit: f64, why: String) -> Check {
    Check { name, value, limit, holds: None, words: format!("not judged: {why}") }
}

/// Advice, by the kinds of errors that it may help against.
const ADVICE: [(&[&str], &str); 9] = [
    (&["error_status"], "name the statuses that are correct (--expect), or see what the server reports"),
    (&["other_protocol"], "see the first error; check the port"),
    (&["refused"], "start the server, or check its address"),
    (&["timed_out"], "use a longer --timeout for slow replies, or less load"),
    (
        &["wrong_reply", "surplus"],
        "see the first error; if bytes or lengths differ, check that both ends agree (--bytes and the like), or use \
         --check count if only lengths must match",
    ),
    (&["reset", "broken_pipe", "truncated"], AGAINST_CLOSINGS),
    (&["not_repeated"], AGAINST_IDLE_CLOSINGS),
    (&["aborted", "fault", "other"], "see the first error of the load"),
    (
        &["resource_limit"],
        "use fewer --clients, more descriptors (ulimit -n), more ports (--source-addresses, or \
         net.ipv4.ip_local_port_range), or --closing reset, which leaves no port in TIME_WAIT",
    ),
];

/// Advice against connections that the server closes or resets. Which option limits the requests of a connection depends on
/// the load.
pub const AGAINST_CLOSINGS: &str = "check the errors that the server reports, its limit on connections, and after how many \
                                    requests it closes one";

/// Advice against connections that the server closes just before a request that must not be sent twice.
pub const AGAINST_IDLE_CLOSINGS: &str = "let the server keep idle connections for longer: a request that is not idempotent, \
                                         such as POST, is not sent again";

/// Returns what may help against errors, given by kind.
pub fn advice(errors: &BTreeMap<&'static str, u64>) -> Vec<&'static str> {
    let helps = |(of, _): &&(&[&str], &str)| of.iter().any(|kind| errors.contains_key(kind));
    ADVICE.iter().filter(helps).map(|advice| advice.1).collect()
}

/// Checks for errors, given by kind.
pub fn errors(errors: &BTreeMap<&'static str, u64>) -> Check {
    let kinds: Vec<String> = errors.iter().map(|(kind, count)| format!("{kind} {count}")).collect();
    let advice = advice(errors);
    let change = format!(
        "{}; failed requests have no latency, so the remaining latencies look too good. {}",
        kinds.join(", "),
        advice.join("; ")
    );
    check(ERRORS, errors.values().sum::<u64>() as f64, 0.0, "failed requests", &change)
}

/// Checks for every load: errors, and whether the window has its planned length, if known.
pub fn before_all(failed: &BTreeMap<&'static str, u64>, window_ns: u64, planned_ns: Option<u64>) -> Vec<Check> {
    let whole = planned_ns.map(|planned_ns| whole_window(window_ns, planned_ns));
    std::iter::once(errors(failed)).chain(whole).collect()
}

/// Length that is advised for a window without replies, in multiples of the longest latency.
const LATENCIES: u64 = 10;

/// Checks that a reply came in the window, which lasted for `window_ns`. `longest_outside` is the longest latency of a reply
/// before or after it, 0 if none came.
pub fn any_reply(replies: u64, window_ns: u64, longest_outside: u64) -> Check {
    let seconds = |nanoseconds: u64| format!("{}s", (nanoseconds * LATENCIES).div_ceil(1_000_000_000));
    let change = match longest_outside {
        0 => "use a longer --duration, and see what the server does".to_owned(),
        _ => format!(
            "replies took up to {:.3} s, and the window {:.3} s; use --duration {} or more",
            longest_outside as f64 / 1e9,
            window_ns as f64 / 1e9,
            seconds(longest_outside)
        ),
    };
    check(NO_REPLY, f64::from(replies == 0), 0.0, "1 if no reply came in the window", &change)
}

/// Checks for how long CPU quotas stopped the control groups of a load, added up over CPUs; `None` if they did not.
pub fn throttled(stopped: Duration, window_ns: u64) -> Option<Check> {
    let what = "time for which a CPU quota stopped the load, as a share of its window";
    let change = "raise the quota of its control group (cpu.max), or use a lower load";
    let share = stopped.as_nanos() as f64 / window_ns.max(1) as f64;
    (!stopped.is_zero()).then(|| check(THROTTLED, share, MOST_THROTTLED, what, change))
}

/// Returns the advice in the words of a failed check.
pub fn change_in(check: &Check) -> &str {
    check.words.split_once(": ").map_or(&check.words, |(_, change)| change)
}

/// Checks that the window has its planned length. If all clients stop, the window ends early.
fn whole_window(window_ns: u64, planned_ns: u64) -> Check {
    let missing = planned_ns.saturating_sub(window_ns) as f64 / planned_ns as f64;
    let seconds = |nanoseconds: u64| nanoseconds as f64 / 1e9;
    let change = format!(
        "all clients gave up, so the window ended after {:.3} of {:.3} s, and requests due later are not counted; see \
         the errors",
        seconds(window_ns),
        seconds(planned_ns)
    );
    check(CUT, missing, 0.0, "share of the window after the last client had given up", &change)
}

fn processor(evidence: &Evidence) -> Check {
    let own = |generator: &Generator| generator.cpu_ns as f64 / generator.elapsed_ns as f64;
    // Threads that share a CPU do not have it to themselves; each waits for it while it does not wait for events.
    let share =
        |generator: &Generator| own(generator).max(1.0 - generator.waited_ns as f64 / generator.elapsed_ns as f64);
    let told = || evidence.generators.iter().filter(|each| each.elapsed_ns > 0);
    let Some(busiest) = told().map(share).reduce(f64::max) else {
        return not_judged(GENERATOR, None, BUSIEST, "the window did not reach its end".to_owned());
    };
    if evidence.window_ns < SHORTEST_NS {
        return not_judged(GENERATOR, Some(busiest), BUSIEST, "the window is too short".to_owned());
    }
    // Waiting with a ring includes sending and receiving, so it may never end: the threads are judged together then.
    let busiest = busiest.max(told().map(own).sum::<f64>() / evidence.cpus as f64);
    if evidence.spins {
        let why = match evidence.schedule {
            Some(_) => "busy-polling threads use all of their CPU; their send lag shows whether they keep up",
            None => "busy-polling threads use all of their CPU, whichever side is slower",
        };
        return not_judged(GENERATOR, Some(busiest), BUSIEST, why.to_owned());
    }
    let change = "the client may be the bottleneck; give it separate CPUs (--cpus), more --threads if there are CPUs \
                  for them, or a lower rate";
    check(
        GENERATOR,
        busiest,
        BUSIEST,
        "share of time in which the busiest thread of the load did not wait for replies",
        change,
    )
}

/// Checks that a request was due in the window: without requests, no other check fails.
fn something_due(evidence: &Evidence, schedule: &ScheduleEvidence) -> Check {
    if schedule.due == 0 && !evidence.errors.is_empty() {
        return not_judged(EMPTY, None, 0.0, "the load failed before a request was due in the window".to_owned());
    }
    let change = "there is nothing to measure; use a longer --duration, or a higher --rate";
    check(EMPTY, f64::from(schedule.due == 0), 0.0, "1 if no request was due in the window", change)
}

fn rate(evidence: &Evidence, schedule: &ScheduleEvidence) -> Check {
    let due = schedule.due as f64;
    let at_the_edges = AT_THE_EDGES + STANDARD_ERRORS * (2.0 * evidence.in_system).sqrt();
    let limit = RATE_OFF.max(at_the_edges / due.max(1.0));
    if limit >= 1.0 {
        return too_few(RATE, schedule.due, limit);
    }
    let off = (evidence.replies as f64 - due).abs() / due;
    let change = if !evidence.errors.is_empty() {
        "some requests failed, see the errors"
    } else if schedule.waited > 0 {
        "the server does not keep up, or there are too few connections: use a lower --rate, or more --clients"
    } else {
        "the server does not keep up (use a lower --rate), or its latency is long compared with the window (use \
         longer --warm-up and --duration)"
    };
    let change = format!(
        "{} replies arrived while {} requests were due, of which {} waited for a connection; {change}",
        evidence.replies, schedule.due, schedule.waited
    );
    check(RATE, off, limit, "relative difference between the rate of replies and the rate of the schedule", &change)
}

fn all_sent(evidence: &Evidence, schedule: &ScheduleEvidence) -> Check {
    let why = match evidence.planned_ns {
        Some(_) => "the server does not keep up with the --rate, or there are too few connections (--clients)",
        None => "the load was interrupted",
    };
    let change = format!("{} were due; {why}", schedule.due);
    check(NEVER_SENT, schedule.never_sent as f64, 0.0, "requests for which no connection was free in time", &change)
}

/// Advice against late sends.
fn against_lateness(evidence: &Evidence) -> &'static str {
    if evidence.spins {
        "keep other work off its CPU (--cpus), including the hypervisor's, or use more --threads"
    } else {
        "use --wait spin, more --threads or a separate CPU (--cpus)"
    }
}

fn lag(evidence: &Evidence, schedule: &ScheduleEvidence) -> Check {
    let limit = schedule.latency_p50_ns.map_or(LATE_ALWAYS, |median| (LATE_SHARE * median as f64).max(LATE_ALWAYS));
    let late = |lag: u64, of: &str| {
        let what = format!("nanoseconds by which one request in {of} was sent late, at least");
        let change = format!("the load itself was late; {}; or use a lower --rate", against_lateness(evidence));
        check(LAG, lag as f64, limit, &what, &change)
    };
    if let (Some(_), Some(lag)) = (schedule.latency_p50_ns, schedule.lag_p99_ns) {
        return late(lag, "a hundred");
    }
    // With few requests the 99th percentile is unknown; but it is no smaller than the 90th, or the median.
    let fewer = schedule.lag_p90_p50_ns.into_iter().zip(["ten", "two"]);
    let known = fewer.filter_map(|(lag, of)| Some(late(lag?, of)));
    let found = known.filter(|_| schedule.latency_p50_ns.is_some()).find(|check| check.holds == Some(false));
    found.unwrap_or_else(|| too_few(LAG, schedule.sent, limit))
}

/// Gaps show the load's own behaviour only as far as requests did not wait for the server.
fn of_the_schedule(name: &'static str, schedule: &ScheduleEvidence, limit: f64) -> Result<(f64, f64), Check> {
    match schedule.gaps {
        Some(gaps) if schedule.sent >= FEWEST && schedule.waited * 100 <= schedule.sent => Ok(gaps),
        Some(_) if schedule.sent >= FEWEST => {
            let why = format!("{} of {} requests waited for a connection", schedule.waited, schedule.sent);
            Err(not_judged(name, None, limit, why + ", so the server affected when they were sent"))
        }
        _ => Err(too_few(name, schedule.sent, limit)),
    }
}

/// Standard error of the mean of this many gaps; that of the coefficient of variation is similar.
fn scatter(schedule: &ScheduleEvidence) -> f64 {
    STANDARD_ERRORS * schedule.variation_scheduled / (schedule.sent.max(1) as f64).sqrt()
}

fn gap_mean(schedule: &ScheduleEvidence) -> Check {
    const NAME: &str = "gap_mean";
    let limit = GAPS + scatter(schedule);
    let (mean, _) = match of_the_schedule(NAME, schedule, limit) {
        Ok(gaps) => gaps,
        Err(check) => return check,
    };
    let off = (mean / schedule.gap_scheduled_ns - 1.0).abs();
    let change = "the load did not send at the configured rate; see the other checks";
    check(NAME, off, limit, "relative difference between the mean gap between sends and the schedule's", change)
}

fn gap_variation(evidence: &Evidence, schedule: &ScheduleEvidence) -> Check {
    const NAME: &str = "gap_variation";
    // The lateness that is always allowed changes the gaps on both sides of a send.
    let limit = GAPS + scatter(schedule) + LATE_ALWAYS / schedule.gap_scheduled_ns;
    let (_, variation) = match of_the_schedule(NAME, schedule, limit) {
        Ok(gaps) => gaps,
        Err(check) => return check,
    };
    let off = (variation - schedule.variation_scheduled).abs();
    let what = "difference of the coefficient of variation of the gaps from 1 (poisson), 0 (constant) or the \
                recording's";
    check(NAME, off, limit, what, &format!("requests were sent in bunches; {}", against_lateness(evidence)))
}

fn little(evidence: &Evidence) -> Check {
    let (seen, requests) = (evidence.in_system, evidence.latencies);
    if !evidence.errors.is_empty() {
        return not_judged(LITTLE_LAW, None, LITTLE, "failed requests have no latency".to_owned());
    }
    // Requests in flight at the edges are counted on one side and not on the other.
    let needed = FEWEST.max((2.0 * seen / LITTLE).ceil() as u64);
    if requests < needed {
        let why = format!(
            "{requests} requests are too few: with {seen:.1} of them in the system on average, {needed} \
                           are needed"
        );
        return not_judged(LITTLE_LAW, None, LITTLE, why);
    }
    let by_law = requests as f64 / evidence.window_ns as f64 * evidence.latency_mean_ns;
    // If the number of connections fixes the number in the system, the law is checked against that too.
    let by_chance = by_chance_at_the_edges(evidence);
    if by_chance > LITTLE_BY_CHANCE {
        let why = format!(
            "with replies that take up to {:.3} s, requests in flight at the edges of the window may be {:.0} % of \
             all; use a longer window",
            evidence.latency_most_ns as f64 / 1e9,
            100.0 * by_chance.min(1.0)
        );
        return not_judged(LITTLE_LAW, None, LITTLE, why);
    }
    let known = evidence.always_under_way.map(|always| always as f64);
    let off = [Some(seen), known].into_iter().flatten().map(|number| (by_law / number - 1.0).abs()).fold(0.0, f64::max);
    let of_them = known.map_or(String::new(), |always| format!(" of {always} expected"));
    let change = format!(
        "{}{of_them} requests were in the system, but rate times latency is {}: the load was not steady, or less busy \
         than configured; use a longer window or warm-up",
        in_three_digits(seen),
        in_three_digits(by_law)
    );
    check(
        LITTLE_LAW,
        off,
        LITTLE + by_chance,
        "relative difference between the number of requests in the system and rate times latency (Little's law)",
        &change,
    )
}

/// Returns the share of all time in the system by which requests in flight at the edges of the window may distort the
/// law. For requests counted before its start, the rest of their time lies within it; for some requests due in it, a
/// part lies after its end. For independent requests, these rests are a Poisson number of times, and the mean of their
/// squares is a third of the mean cube (renewal theory: Cox, Renewal Theory, 1962, 5.4). For requests that are long
/// together, see [`cube_of_latencies`].
fn by_chance_at_the_edges(evidence: &Evidence) -> f64 {
    let rate = evidence.latencies as f64 / evidence.window_ns as f64;
    let variance = 2.0 * rate * evidence.latency_cube_ns3 / 3.0;
    STANDARD_ERRORS * variance.sqrt() / (evidence.latencies as f64 * evidence.latency_mean_ns)
}

/// Returns the mean cube of latencies, given in rising order, in nanoseconds, each with its count; 0 if there are none.
/// Each cube is weighted with the number of requests that may have been as long together, because a stall of the server
/// ends for all its requests at once. A stall holds requests of any latency up to its own length. The variance of their
/// rests at a random moment is 2/5 of their number times as much; half of the arrivals during each latency gives the
/// same sum. The weight is at most the number of latencies of at least half that length: a single late request has no
/// others with it.
pub fn cube_of_latencies(rising: &[(f64, u64)], window_ns: u64) -> f64 {
    let all: u64 = rising.iter().map(|&(_, times)| times).sum();
    let rate = all as f64 / window_ns as f64;
    let mut shorter = rising.iter().peekable();
    let (mut at_least_half, mut sum) = (all, 0.0);
    for &(latency, times) in rising {
        while let Some((_, others)) = shorter.next_if(|&&(other, _)| other < latency / 2.0) {
            at_least_half -= others;
        }
        let together = (0.5 * rate * latency).min(at_least_half as f64).max(1.0);
        sum += times as f64 * latency.powi(3) * together;
    }
    sum / all.max(1) as f64
}

/// Formats a number with three significant digits.
fn in_three_digits(number: f64) -> String {
    let decimals = if number > 0.0 { (2.0 - number.log10().floor()).clamp(0.0, 9.0) } else { 0.0 };
    format!("{number:.*}", decimals as usize)
}

fn too_few(name: &'static str, requests: u64, limit: f64) -> Check {
    not_judged(name, None, limit, format!("{requests} requests are too few"))
}

#[cfg(test)]
mod tests;
