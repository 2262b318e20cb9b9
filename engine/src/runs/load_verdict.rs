//! The end of a load's report: whether the result is valid, why not, and what to change.

use crate::base::quantity::{grouped, percent, rate, span, time};
use crate::base::table::wrapped;
use crate::client::event_loop::REQUESTS_PER_CONNECTION;
use crate::client::gave_up::GAVE_UP;
use crate::client::load::{CONNECTIONS, DURATION, KEPT};
use crate::client::validity::{
    AGAINST_CLOSINGS, AGAINST_IDLE_CLOSINGS, CUT, Check, EMPTY, ERRORS, GENERATOR, LAG, LITTLE_LAW, NEVER_SENT,
    NO_REPLY, RATE, THROTTLED, advice, change_in, is_of_a_schedule,
};
use crate::count::tally::{Counts, ErrorKind};
use crate::lines::LoadResult;
use crate::protocol::pattern::{BYTES, CHECK, COUNT};
use crate::runs::load::Plan;
use crate::transfer::waiting;

/// Checks whose failures explain those of later ones, by cause.
const CAUSES: [&str; 9] = [ERRORS, CUT, GAVE_UP, EMPTY, NO_REPLY, THROTTLED, GENERATOR, LAG, RATE];

/// Formats the verdict for people. It agrees with the exit status: "Valid" and "Caution" with success, all others with
/// failure.
pub fn in_words(plan: &Plan, result: &LoadResult) -> String {
    let checks = result.validity.as_ref().map_or(&[][..], |validity| &validity.checks);
    let failed: Vec<&Check> = checks.iter().filter(|check| check.holds == Some(false)).collect();
    let cause = CAUSES.iter().find_map(|name| failed.iter().find(|check| check.name == *name)).or(failed.first());
    let (verdict, hint) = if !result.is_complete() {
        (format!("Not valid: {}.", what_is_missing(result)), against_errors(plan, result))
    } else if result.interrupted {
        (format!("Not valid: {}.", interrupted(plan, result)), None)
    } else if let Some(cause) = cause {
        let verdict = if result.is_valid() { "Caution" } else { "Not valid" };
        (format!("{verdict}: {}.", reason(cause, result)), Some(against(cause, plan, result)))
    } else {
        (valid(result, checks), None)
    };
    let mut text = String::new();
    if let Some(error) = &result.first_error {
        text += &format!("first error: {error}\n");
    }
    text += &wrapped("", &verdict);
    // Errors have a row.
    let failed: Vec<String> = failed.iter().filter(|check| check.name != ERRORS).map(|check| finding(check)).collect();
    if !failed.is_empty() {
        text += &wrapped("failed checks: ", &failed.join("; "));
    }
    if result.validity.as_ref().is_some_and(|validity| validity.valid == Some(true)) {
        let mut not_judged: Vec<(&str, Vec<&str>)> = Vec::new();
        for check in checks.iter().filter(|check| check.holds.is_none()) {
            let why = check.words.strip_prefix("not judged: ").unwrap_or(&check.words);
            match not_judged.iter_mut().find(|(other, _)| *other == why) {
                Some((_, names)) => names.push(check.name),
                None => not_judged.push((why, vec![check.name])),
            }
        }
        let not_judged = not_judged.iter().map(|(why, names)| format!("{} ({why})", names.join(", ")));
        let not_judged: Vec<String> = not_judged.collect();
        if !not_judged.is_empty() {
            text += &wrapped("not judged: ", &not_judged.join("; "));
        }
    }
    if let Some(hint) = hint {
        text += &format!("hint: {hint}\n");
    }
    text
}

fn finding(check: &Check) -> String {
    let number = |value: f64| match value {
        _ if check.name == LAG => time(value as u64),
        _ if value.fract() == 0.0 => format!("{value:.0}"),
        _ => format!("{value:.3}"),
    };
    format!("{} {}, at most {}", check.name, check.value.map_or("unknown".to_owned(), number), number(check.limit))
}

fn valid(result: &LoadResult, checks: &[Check]) -> String {
    match result.validity.as_ref().and_then(|validity| validity.valid) {
        Some(true) if checks.iter().any(|check| check.holds == Some(true) && is_of_a_schedule(check)) => {
            "Valid.".to_owned()
        }
        Some(true) => "Valid, but too few requests came to judge whether the load kept its schedule.".to_owned(),
        // A closed loop measures the slower of the two ends.
        _ => "Valid: every reply was correct.".to_owned(),
    }
}

fn what_is_missing(result: &LoadResult) -> String {
    let Counts { requests, errors, workers_lost, .. } = &result.tally;
    let missing = match (errors.values().sum(), workers_lost, result.expected_requests) {
        (0u64, 0, Some(expected)) => format!("{} of {} replies came", grouped(*requests), grouped(expected)),
        (0, 1, _) => "a client process was lost".to_owned(),
        (0, lost, _) => format!("{} client processes were lost", grouped(*lost)),
        (1, ..) => "a request failed".to_owned(),
        (failed, ..) => format!("{} requests failed", grouped(failed)),
    };
    let since = result.window.as_ref().map_or(result.started_monotonic_ns, |window| window.started_monotonic_ns);
    match result.gave_up {
        Some(gave_up) => format!("{missing}, and clients gave up ({})", gave_up.in_words(since)),
        None => missing,
    }
}

fn interrupted(plan: &Plan, result: &LoadResult) -> String {
    let planned = plan.settings.values().get(DURATION.name).map(|_| plan.settings.integer(DURATION.name));
    match (&result.window, planned) {
        (Some(window), Some(planned)) => {
            let lasted = time(window.ended_monotonic_ns - window.started_monotonic_ns);
            format!("interrupted after {lasted} of {}", span(planned))
        }
        _ => format!("interrupted after {}", time(result.elapsed_ns)),
    }
}

/// Returns what the failed check shows, for a sentence.
fn reason(check: &Check, result: &LoadResult) -> String {
    let rates = result.scheduled.as_ref().and_then(|all| Some((all.achieved_per_second?, all.offered_per_second)));
    match (check.name, rates) {
        (GENERATOR, _) => {
            let busy = check.value.map(|share| format!(" (the busiest thread was {} busy)", percent(share)));
            format!("the clients were the limit{}", busy.unwrap_or_default())
        }
        (RATE, Some((achieved, offered))) if achieved > offered => {
            format!("the server was behind and caught up ({} of {})", rate(achieved), rate(offered))
        }
        (RATE | NEVER_SENT, Some((achieved, offered))) => {
            format!("the server did not keep up ({} of {})", rate(achieved), rate(offered))
        }
        (LAG, _) => "the clients sent requests late (see Lag)".to_owned(),
        (NO_REPLY, _) => "no reply came in the window".to_owned(),
        (EMPTY, _) => "no request was due in the window".to_owned(),
        (CUT, _) => "all clients gave up before the end".to_owned(),
        (GAVE_UP, _) => "clients gave up before the end".to_owned(),
        (THROTTLED, _) => "a CPU quota stopped the load".to_owned(),
        (LITTLE_LAW, _) => "the load was not steady".to_owned(),
        _ => "the clients did not send by the schedule".to_owned(),
    }
}

/// Returns what to change against a failed check.
fn against(check: &Check, plan: &Plan, result: &LoadResult) -> String {
    let waited = result.scheduled.as_ref().is_some_and(|all| all.outcomes.waited > 0);
    let is_open = result.scheduled.is_some();
    match check.name {
        GENERATOR if is_open => "give the load its own CPUs (--cpus), more --threads, or a lower --rate".to_owned(),
        GENERATOR => "give the load its own CPUs (--cpus) or more --threads".to_owned(),
        RATE | NEVER_SENT if waited => "use a lower --rate, or more --clients".to_owned(),
        RATE | NEVER_SENT => "use a lower --rate, or a longer window if replies take long".to_owned(),
        EMPTY => format!("use a higher --rate or a longer --{}", DURATION.option()),
        NO_REPLY | THROTTLED => change_in(check).to_owned(),
        CUT | GAVE_UP => "see the first error".to_owned(),
        LITTLE_LAW => "use a longer window or warm-up".to_owned(),
        _ if waiting::spins(&plan.settings) => {
            "keep other work off its CPUs (--cpus), more --threads or a lower --rate".to_owned()
        }
        _ => "use --wait spin, more --threads, own CPUs (--cpus) or a lower --rate".to_owned(),
    }
}

/// Errors that occur if a server interprets a request differently than the load.
const OF_DISAGREEMENT: [ErrorKind; 6] = [
    ErrorKind::TimedOut,
    ErrorKind::Reset,
    ErrorKind::BrokenPipe,
    ErrorKind::Truncated,
    ErrorKind::WrongReply,
    ErrorKind::Surplus,
];

/// Those of a reply that was compared.
const OF_COMPARISON: [ErrorKind; 2] = [ErrorKind::WrongReply, ErrorKind::Surplus];

/// Returns what may help against errors. If no reply was right, the settings on which both ends must agree come first: neither
/// end sees the other's.
fn against_errors(plan: &Plan, result: &LoadResult) -> Option<String> {
    let Counts { connections, requests, errors, .. } = &result.tally;
    let largest = result.traffic.as_ref().and_then(|traffic| traffic.sizes.as_ref()).map(|sizes| sizes.largest);
    let needed = plan.workload.item.needed(&plan.settings, largest);
    // Any server speaks HTTP: only a reply that was compared shows that it is one of ours with other settings.
    let is_public = result.is_public_protocol;
    let of_disagreement = if result.is_public_protocol { &OF_COMPARISON[..] } else { &OF_DISAGREEMENT };
    let may_be_the_cause = of_disagreement.iter().any(|kind| errors.contains_key(kind.name()))
        && !errors.contains_key(ErrorKind::OtherProtocol.name());
    if may_be_the_cause && *connections > 0 && *requests == 0 && !needed.is_empty() {
        let needed = needed.join(" and ");
        return Some(match (is_public, is_counted(plan)) {
            (false, _) => format!("both ends may differ: this load needs a server with {needed}"),
            (true, true) => {
                format!("give the length of the server's reply (--{0} N), or leave out --{0}", BYTES.option())
            }
            (true, false) => format!(
                "load any other server with --{} {COUNT} and without --{}; one of this program needs {needed}",
                CHECK.option(),
                BYTES.option()
            ),
        });
    }
    let closes = [ErrorKind::Truncated, ErrorKind::Reset, ErrorKind::BrokenPipe];
    if result.is_public_protocol
        && result.statuses.is_empty()
        && closes.iter().any(|kind| errors.contains_key(kind.name()))
    {
        return Some("check the port: servers of TLS (https) and of other protocols close without a reply".to_owned());
    }
    let options = |advice: &str| match advice {
        AGAINST_CLOSINGS => against_closings(plan),
        AGAINST_IDLE_CLOSINGS => "; or load with --connections per-request",
        _ => "",
    };
    let advice: Vec<String> = advice(errors).iter().map(|advice| format!("{advice}{}", options(advice))).collect();
    let advice = advice.join("; ");
    (!advice.is_empty()).then_some(advice)
}

/// Returns whether only the length of replies is compared.
fn is_counted(plan: &Plan) -> bool {
    plan.settings.values().get(CHECK.name).is_none_or(|check| check.to_string() == COUNT)
}

/// The option of this load that limits the requests of a connection, for the advice against closings.
fn against_closings(plan: &Plan) -> &'static str {
    let values = plan.settings.values();
    match values.get(CONNECTIONS.name).map(ToString::to_string) {
        Some(kept) if kept != KEPT => "",
        Some(_) if values.contains_key(REQUESTS_PER_CONNECTION.name) => " (--requests-per-connection)",
        Some(_) => " (--connections per-request)",
        None => "",
    }
}
