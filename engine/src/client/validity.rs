//! Whether a load measured its server, or itself: counts in, findings out.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;

use crate::client::generator::Generator;

/// One thing that a valid measurement needs.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Check {
    /// Its name.
    pub name: &'static str,
    /// What was seen; null where it could not be told.
    pub value: Option<f64>,
    /// The most that is allowed.
    pub limit: f64,
    /// Whether it holds; null where there was too little to judge by.
    pub holds: Option<bool>,
    /// What it is about, why it was not judged, or what to change, in words.
    pub words: String,
}

/// What is judged, all of it of the window.
#[derive(Debug, Clone, Default)]
pub struct Evidence {
    /// How long the window was.
    pub window_ns: u64,
    /// How long it was to be; `None` where nobody has said, or an interrupt ended it.
    pub asked_ns: Option<u64>,
    /// Replies that came in it and were right.
    pub replies: u64,
    /// Errors of the whole load, by kind.
    pub errors: BTreeMap<&'static str, u64>,
    /// The threads that ask.
    pub generators: Vec<Generator>,
    /// CPUs that the load may use.
    pub cpus: usize,
    /// Mean number of requests in the system, as they came and went.
    pub in_system: f64,
    /// How many are under way at any time, of a closed loop of which that is known.
    pub always_under_way: Option<u64>,
    /// How many latencies there are.
    pub latencies: u64,
    /// Their mean in nanoseconds.
    pub latency_mean_ns: f64,
    /// [`cube_of_latencies`] of them.
    pub latency_cube_ns3: f64,
    /// The longest of them.
    pub latency_most_ns: u64,
    /// Threads never sleep: then all of their CPU is used whether they keep up or not.
    pub spins: bool,
    /// Of an open loop, what it was to do.
    pub schedule: Option<ScheduleEvidence>,
}

/// What is judged of an open loop.
#[derive(Debug, Clone, Default)]
pub struct ScheduleEvidence {
    /// Requests that were due.
    pub due: u64,
    /// Requests that were sent.
    pub sent: u64,
    /// Requests for which no connection was free until it was too late.
    pub never_sent: u64,
    /// Requests that had to wait for a free connection.
    pub waited: u64,
    /// 99th percentile of the send lag in nanoseconds, where it is known.
    pub lag_p99_ns: Option<u64>,
    /// 90th percentile of it and its median, which are known of fewer requests.
    pub lag_p90_p50_ns: [Option<u64>; 2],
    /// Median latency in nanoseconds, where it is known.
    pub latency_p50_ns: Option<u64>,
    /// Mean gap between the sendings of a thread that the schedule asks for, in nanoseconds.
    pub gap_asked_ns: f64,
    /// Coefficient of variation of the gaps that the schedule asks for.
    pub variation_asked: f64,
    /// Mean gap in nanoseconds and coefficient of variation, as they were.
    pub gaps: Option<(f64, f64)>,
}

/// The name of a check of the schedule.
const RATE: &str = "achieved_rate";

/// The name of the other.
const LAG: &str = "send_lag";

/// Of a generator's time: more than this leaves it nothing to wait with.
const BUSIEST: f64 = 0.95;

/// Of the requests that were due: the share by which the replies of the window may differ from them.
const RATE_OFF: f64 = 0.01;

/// Replies by which they may always differ: what was under way at the window's edges. Besides, that scatters by chance: of
/// Poisson arrivals the number in the system is a Poisson count, and the difference of two of these has twice its variance.
const AT_THE_EDGES: f64 = 10.0;

/// Of the median latency: the share that the load's own lateness may come to.
const LATE_SHARE: f64 = 0.1;

/// Lateness in nanoseconds that is always allowed: about what a timer and a wake-up cost.
const LATE_ALWAYS: f64 = 100_000.0;

/// Share by which the number in the system may differ from rate times time.
const LITTLE: f64 = 0.05;

/// Where what is under way at the edges of the window may come to such a share of all by chance, the law is not judged.
const LITTLE_BY_CHANCE: f64 = 0.5;

/// Share by which mean and variation of the gaps may differ from the schedule's.
const GAPS: f64 = 0.05;

/// Standard errors that are allowed besides: a right load fails one such check in some ten thousand.
const STANDARD_ERRORS: f64 = 4.0;

/// A window that is shorter tells nothing of how busy a thread is: it begins with connections that are made or asked.
const SHORTEST_NS: u64 = 10_000_000;

/// Fewer than these say nothing about a distribution.
const FEWEST: u64 = 100;

/// All findings. Without errors, and where every check holds or was not judged, the load measured its server.
pub fn judge(evidence: &Evidence) -> Vec<Check> {
    let mut checks = before_all(&evidence.errors, evidence.window_ns, evidence.asked_ns);
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

/// Whether it is one that tells whether a load kept its schedule.
pub fn is_of_a_schedule(check: &Check) -> bool {
    [RATE, LAG].contains(&check.name)
}

/// Whether nothing speaks against it.
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

/// What to change, by the kinds of errors that it may help against.
const ADVICE: [(&[&str], &str); 6] = [
    (&["refused"], "start the server, or check its address"),
    (&["timed_out"], "use a longer --timeout-milliseconds for slow replies, or less load"),
    (
        &["wrong_reply", "surplus"],
        "see the first error; check that both ends agree (--bytes and the like); use --check count if only lengths \
         must match",
    ),
    (
        &["reset", "broken_pipe", "truncated"],
        "check the errors that the server reports, its limit on connections, and after how many requests it closes \
         one (--requests-per-connection)",
    ),
    (&["aborted", "fault", "other"], "see the first error"),
    (
        &["resource_limit"],
        "use fewer --clients, more descriptors (ulimit -n), more ports (--source-addresses, or \
         net.ipv4.ip_local_port_range), or --closing reset, which leaves no port in TIME_WAIT",
    ),
];

/// Whether nothing failed, given the errors by kind.
pub fn errors(errors: &BTreeMap<&'static str, u64>) -> Check {
    let kinds: Vec<String> = errors.iter().map(|(kind, count)| format!("{kind} {count}")).collect();
    let advice: Vec<&str> = ADVICE
        .iter()
        .filter(|(of, _)| of.iter().any(|kind| errors.contains_key(kind)))
        .map(|advice| advice.1)
        .collect();
    let change = format!(
        "{}; failed requests have no latency, so the remaining latencies look too good. {}",
        kinds.join(", "),
        advice.join("; ")
    );
    check("errors", errors.values().sum::<u64>() as f64, 0.0, "failed requests", &change)
}

/// What is looked at of every load: what failed, and whether the window is as long as it was to be, where that is known.
pub fn before_all(failed: &BTreeMap<&'static str, u64>, window_ns: u64, asked_ns: Option<u64>) -> Vec<Check> {
    let whole = asked_ns.map(|asked_ns| whole_window(window_ns, asked_ns));
    std::iter::once(errors(failed)).chain(whole).collect()
}

/// Where nobody asks any more, the window ends.
fn whole_window(window_ns: u64, asked_ns: u64) -> Check {
    let missing = asked_ns.saturating_sub(window_ns) as f64 / asked_ns as f64;
    let seconds = |nanoseconds: u64| nanoseconds as f64 / 1e9;
    let change = format!(
        "all clients gave up, so the window ended after {:.3} of {:.3} s, and requests due later are not counted; see \
         the errors",
        seconds(window_ns),
        seconds(asked_ns)
    );
    check("cut_window", missing, 0.0, "share of the window after the last client had given up", &change)
}

fn processor(evidence: &Evidence) -> Check {
    const NAME: &str = "generator_cpu";
    let own = |generator: &Generator| generator.cpu_ns as f64 / generator.elapsed_ns as f64;
    // Threads that share a CPU have none of it to themselves, but each waits for it as long as it does not wait for events.
    let share =
        |generator: &Generator| own(generator).max(1.0 - generator.waited_ns as f64 / generator.elapsed_ns as f64);
    let told = || evidence.generators.iter().filter(|each| each.elapsed_ns > 0);
    let Some(busiest) = told().map(share).reduce(f64::max) else {
        return not_judged(NAME, None, BUSIEST, "the window did not reach its end".to_owned());
    };
    if evidence.window_ns < SHORTEST_NS {
        return not_judged(NAME, Some(busiest), BUSIEST, "the window is too short".to_owned());
    }
    // To wait with a ring is to send and to receive, so that it may never end: then all of them together tell.
    let busiest = busiest.max(told().map(own).sum::<f64>() / evidence.cpus as f64);
    if evidence.spins {
        let why = match evidence.schedule {
            Some(_) => "busy-polling threads use all of their CPU; their send lag shows whether they keep up",
            None => "busy-polling threads use all of their CPU, whichever side is slower",
        };
        return not_judged(NAME, Some(busiest), BUSIEST, why.to_owned());
    }
    let change = "the client may be the bottleneck; give it separate CPUs (--cpus), more --threads if there are CPUs \
                  for them, or a lower rate";
    check(
        NAME,
        busiest,
        BUSIEST,
        "share of time in which the busiest thread of the load did not wait for replies",
        change,
    )
}

/// Of a window without requests all other checks have nothing to say against it.
fn something_due(evidence: &Evidence, schedule: &ScheduleEvidence) -> Check {
    const NAME: &str = "empty_window";
    if schedule.due == 0 && !evidence.errors.is_empty() {
        return not_judged(NAME, None, 0.0, "the load failed before".to_owned());
    }
    let change = "there is nothing to measure; use a longer --milliseconds, or a higher --rate";
    check(NAME, f64::from(schedule.due == 0), 0.0, "1 if no request was due in the window", change)
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
        "the server does not keep up, or not over so few connections: use a lower --rate, or more --clients"
    } else {
        "the server does not keep up (use a lower --rate), or its latency is long compared with the window (use \
         longer --warm-up-milliseconds and --milliseconds)"
    };
    let change = format!(
        "{} replies arrived while {} requests were due, of which {} waited for a connection; {change}",
        evidence.replies, schedule.due, schedule.waited
    );
    check(RATE, off, limit, "relative difference between the rate of replies and the rate of the schedule", &change)
}

fn all_sent(evidence: &Evidence, schedule: &ScheduleEvidence) -> Check {
    let why = match evidence.asked_ns {
        Some(_) => "the server does not keep up with the --rate, or not over so few --clients",
        None => "the load was interrupted",
    };
    let change = format!("of {} that were due; {why}", schedule.due);
    check("never_sent", schedule.never_sent as f64, 0.0, "requests for which no connection was free in time", &change)
}

/// What to change where requests are sent too late.
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
    // Of few requests one in a hundred is not known; but it is no less late than one in ten, or in two.
    let fewer = schedule.lag_p90_p50_ns.into_iter().zip(["ten", "two"]);
    let known = fewer.filter_map(|(lag, of)| Some(late(lag?, of)));
    let found = known.filter(|_| schedule.latency_p50_ns.is_some()).find(|check| check.holds == Some(false));
    found.unwrap_or_else(|| too_few(LAG, schedule.sent, limit))
}

/// Gaps are the generator's own only as far as requests did not wait for the server.
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

/// Of so many gaps, the mean has this standard error, and the coefficient of variation one like it.
fn scatter(schedule: &ScheduleEvidence) -> f64 {
    STANDARD_ERRORS * schedule.variation_asked / (schedule.sent.max(1) as f64).sqrt()
}

fn gap_mean(schedule: &ScheduleEvidence) -> Check {
    const NAME: &str = "gap_mean";
    let limit = GAPS + scatter(schedule);
    let (mean, _) = match of_the_schedule(NAME, schedule, limit) {
        Ok(gaps) => gaps,
        Err(check) => return check,
    };
    let off = (mean / schedule.gap_asked_ns - 1.0).abs();
    let change = "the load did not send at the configured rate; see the other checks";
    check(NAME, off, limit, "relative difference between the mean gap between sends and the schedule's", change)
}

fn gap_variation(evidence: &Evidence, schedule: &ScheduleEvidence) -> Check {
    const NAME: &str = "gap_variation";
    // What a sending may always be late by shows in the gaps on both sides of it.
    let limit = GAPS + scatter(schedule) + LATE_ALWAYS / schedule.gap_asked_ns;
    let (_, variation) = match of_the_schedule(NAME, schedule, limit) {
        Ok(gaps) => gaps,
        Err(check) => return check,
    };
    let off = (variation - schedule.variation_asked).abs();
    let what = "difference of the coefficient of variation of the gaps from 1 (poisson), 0 (constant) or the \
                recording's";
    check(NAME, off, limit, what, &format!("requests were sent in bunches; {}", against_lateness(evidence)))
}

fn little(evidence: &Evidence) -> Check {
    const NAME: &str = "little";
    let (seen, requests) = (evidence.in_system, evidence.latencies);
    if !evidence.errors.is_empty() {
        return not_judged(NAME, None, LITTLE, "failed requests have no latency".to_owned());
    }
    // Those under way at the edges are counted by the one and not by the other.
    let needed = FEWEST.max((2.0 * seen / LITTLE).ceil() as u64);
    if requests < needed {
        let why = format!(
            "{requests} requests are too few: with {seen:.1} of them in the system on average, {needed} \
                           are needed"
        );
        return not_judged(NAME, None, LITTLE, why);
    }
    let by_law = requests as f64 / evidence.window_ns as f64 * evidence.latency_mean_ns;
    // Where the number of connections says how many there are, the law is held against that, too.
    let by_chance = by_chance_at_the_edges(evidence);
    if by_chance > LITTLE_BY_CHANCE {
        let why = format!(
            "with replies that take up to {:.3} s, requests in flight at the edges of the window may be {:.0} % of \
             all; use a longer window",
            evidence.latency_most_ns as f64 / 1e9,
            100.0 * by_chance.min(1.0)
        );
        return not_judged(NAME, None, LITTLE, why);
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
        NAME,
        off,
        LITTLE + by_chance,
        "relative difference between the number of requests in the system and rate times latency (Little's law)",
        &change,
    )
}

/// The share of all time in the system by which what is under way at the edges of the window may differ: of requests that were
/// counted before its begin the rest of their time is in it, and of those that were due in it some is behind its end. Of requests
/// independent of each other these rests are a Poisson number of times, whose squares have a third of the mean cube as their mean
/// (renewal theory: Cox, Renewal Theory, 1962, 5.4); of those that are long together see [`cube_of_latencies`].
fn by_chance_at_the_edges(evidence: &Evidence) -> f64 {
    let rate = evidence.latencies as f64 / evidence.window_ns as f64;
    let variance = 2.0 * rate * evidence.latency_cube_ns3 / 3.0;
    STANDARD_ERRORS * variance.sqrt() / (evidence.latencies as f64 * evidence.latency_mean_ns)
}

/// The mean cube of latencies, given as they rise, in nanoseconds, each with how often it came; 0 of none. Each cube is weighed
/// with how many requests may have been as long together with it, since where a server stalls, all that it holds end at once. A
/// stall holds requests of any latency up to its own length, and the variance of what is left of them at a moment that nobody chose
/// is 2/5 of their number times as much; half of what comes in the time of each latency comes to the same sum. They are no more
/// than there were latencies of at least half that length: one that was late alone has nobody beside it.
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

/// A number with as many decimals as show three of its digits.
fn in_three_digits(number: f64) -> String {
    let decimals = if number > 0.0 { (2.0 - number.log10().floor()).clamp(0.0, 9.0) } else { 0.0 };
    format!("{number:.*}", decimals as usize)
}

fn too_few(name: &'static str, requests: u64, limit: f64) -> Check {
    not_judged(name, None, limit, format!("{requests} requests are too few"))
}

#[cfg(test)]
mod tests;
