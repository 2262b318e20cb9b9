//! Prints the result of a load for people, or as the source's own client does.

use crate::count::own_memory::Memory;
use crate::count::tally::{Counts, ErrorKind};
use crate::lines::load;
use crate::lines::{self, LoadResult};
use crate::protocol::workload::{Figures, Outcome, PAYLOAD_BYTES, REQUESTS, last, payload_time};
use crate::runs::load::Plan;

/// Formats the result for people, or as the source's own client does.
pub fn in_words(plan: &Plan, result: &LoadResult) -> String {
    match plan.workload.item.original.filter(|_| plan.original) {
        None => all_in_words(plan, result),
        Some(original) => original(&Outcome {
            primitive: plan.way.out.item.original.unwrap_or(plan.way.out.name),
            settings: &plan.settings,
            requests: result.requests_by_client.as_deref(),
            figures: &result.figures,
        }),
    }
}

fn all_in_words(plan: &Plan, result: &LoadResult) -> String {
    let seconds = result.elapsed_ns as f64 / 1e9;
    let expected = result.expected_requests.map(|expected| format!(" of {expected}")).unwrap_or_default();
    let mut text = format!(
        "{}{expected} replies were correct, {} bytes, in {seconds:.3} s ({:.0} a second)\n",
        result.tally.requests,
        result.tally.bytes_received,
        result.tally.requests as f64 / seconds
    );
    if let Some(window) = &result.window {
        let seconds = counted_for(result) as f64 / 1e9;
        text += &format!(
            "in the window of {seconds:.3} s: {} replies ({:.0} a second), {} connections\n",
            window.requests,
            window.requests as f64 / seconds,
            window.connections
        );
        text += &counted_in_words(&window.counted);
    }
    if let Some(latency) = &result.latency {
        text += &load::latency_in_words(latency);
    }
    if let Some(traffic) = &result.traffic {
        text += &traffic.in_words();
    }
    if let Some(scheduled) = &result.scheduled {
        text += &load::scheduled_in_words(scheduled);
    }
    text += &figures_in_words(&result.figures, counted_for(result));
    text += &format!(
        "client CPU: user {:.6} s, system {:.6} s\n",
        result.used.user_ns as f64 / 1e9,
        result.used.system_ns as f64 / 1e9
    );
    text += &result.memory.as_ref().map(Memory::in_words).unwrap_or_default();
    text += &plan.way.copying_in_words(&result.tally);
    // The server's kernel reports copied sends only at the server's end.
    if result.tally.requests > 0 {
        text += "copied sends of the server: see its output\n";
    }
    text += &result.readout.in_words(&plan.counters);
    if let Some(connection) = &result.connection {
        text += &(connection.in_words() + "\n");
    }
    if let Some(closed) = &result.closings {
        text += &(closed.in_words() + "\n");
    }
    if !result.tally.errors.is_empty() {
        let errors: Vec<String> = result.tally.errors.iter().map(|(kind, count)| format!("{kind} {count}")).collect();
        text += &format!("errors: {}\n", errors.join(", "));
    }
    if let Some(error) = &result.first_error {
        text += &format!("first error: {error}\n");
    }
    text += &disagreement_in_words(plan, result);
    if result.interrupted {
        text += "interrupted before its end\n";
    }
    if let Some(validity) = &result.validity {
        text += &load::validity_in_words(validity);
    }
    text
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

/// Hints at settings on which both ends must agree, if no reply was right. Neither end sees the other's settings.
fn disagreement_in_words(plan: &Plan, result: &LoadResult) -> String {
    let Counts { connections, requests, errors, .. } = &result.tally;
    let largest = result.traffic.as_ref().and_then(|traffic| traffic.sizes.as_ref()).map(|sizes| sizes.largest);
    let needed = plan.workload.item.needed(&plan.settings, largest);
    let may_be_the_cause = OF_DISAGREEMENT.iter().any(|kind| errors.contains_key(kind.name()));
    if !may_be_the_cause || *connections == 0 || *requests > 0 || needed.is_empty() {
        return String::new();
    }
    format!("the settings of both ends may differ: this load needs a server with {}\n", needed.join(" and "))
}

/// Returns for how many nanoseconds requests were counted: the length of the window if there is one.
fn counted_for(result: &LoadResult) -> u64 {
    match &result.window {
        Some(window) => window.ended_monotonic_ns - window.started_monotonic_ns,
        None => result.elapsed_ns,
    }
}

/// Formats the bytes and calls of the load.
fn counted_in_words(counted: &lines::Counted) -> String {
    let seconds = counted.elapsed_ns as f64 / 1e9;
    let way = |bytes: u64, calls: u64| {
        format!("{:.3} Gbit/s in {:.0} calls a second", bytes as f64 * 8e-9 / seconds, calls as f64 / seconds)
    };
    let (sent, received) =
        (way(counted.bytes_sent, counted.send_calls), way(counted.bytes_received, counted.receive_calls));
    format!("sent in the window: {sent}; received: {received}\n")
}

/// Formats the figures of the workload: the mean request, the payload and its rate. `counted_for` is the time in nanoseconds
/// for which requests were counted.
fn figures_in_words(figures: &Figures, counted_for: u64) -> String {
    let figure = |name: &str| figures.get(name).copied();
    let mut text = String::new();
    for (name, sum) in figures {
        let (Some(requests @ 1..), Some(last)) = (figure(REQUESTS), figure(&last(name))) else { continue };
        let mean = *sum as f64 / requests as f64;
        text += &match name.strip_suffix("_ns") {
            Some(name) => {
                format!(
                    "{}: {:.0} µs a request on average, {} µs in the last\n",
                    name.replace('_', " "),
                    mean / 1e3,
                    last / 1000
                )
            }
            None => format!("{}: {mean:.1} a request on average, {last} in the last\n", name.replace('_', " ")),
        };
    }
    if let Some(bytes @ 1..) = figure(PAYLOAD_BYTES) {
        let rate = bytes as f64 * 8.0 / payload_time(figures, counted_for) as f64;
        text += &format!("payload: {bytes} bytes, {rate:.3} Gbit/s\n");
    }
    text
}
