//! Prints the result of a load for people, or as the source's own client does.

use crate::base::quantity::{bits_per_second, bytes, grouped, percent, rate, span, time};
use crate::base::setting::NONE;
use crate::base::table::{Row, left, right, wrapped};
use crate::client::due_requests::Outcomes;
use crate::client::event_loop::{PIPELINE, THREADS};
use crate::client::load::{CONNECTIONS, DURATION, KEPT, LOOPS, RAMP_UP, WARM_UP};
use crate::client::validity::GENERATOR;
use crate::count::own_memory::Memory;
use crate::count::tally::{Counts, ErrorKind};
use crate::lines::LoadResult;
use crate::lines::load::{From, KindOfRequest, Times};
use crate::net::address::{Address, Family, family};
use crate::net::tcp::ConnectionOptions;
use crate::protocol::workload::{Figures, MeasuredBy, Outcome, PAYLOAD_BYTES, REQUESTS, last, payload_time};
use crate::requests::sizes::SizesSent;
use crate::runs::load::Plan;
use crate::runs::load_verdict;

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
    let counted = Counted::of(result);
    let mut text = heading(plan, result) + "\n";
    text += &left(&counts(result, &counted, plan.load.item.clients(&plan.settings) as u64));
    text += &latencies(result);
    text += &left(&usage(result));
    let notes = notes(plan, result);
    if !notes.is_empty() {
        text += &format!("\n{notes}");
    }
    text + "\n" + &load_verdict::in_words(plan, result)
}

/// Counts of the window if there is one, and otherwise of the whole load.
struct Counted {
    requests: u64,
    /// Time over which requests were counted.
    nanoseconds: u64,
    connections: u64,
    /// Bytes and calls, received and sent.
    ways: [(u64, u64); 2],
    /// Time between the readings of bytes and calls.
    between_ns: u64,
    /// Clients gave up before the end: the rates would be those of another load.
    is_of_fewer: bool,
}

impl Counted {
    fn of(result: &LoadResult) -> Self {
        match &result.window {
            Some(window) => Counted {
                requests: window.requests,
                nanoseconds: window.ended_monotonic_ns - window.started_monotonic_ns,
                connections: window.connections,
                ways: [
                    (window.counted.bytes_received, window.counted.receive_calls),
                    (window.counted.bytes_sent, window.counted.send_calls),
                ],
                between_ns: window.counted.elapsed_ns,
                is_of_fewer: result.gave_up.is_some(),
            },
            None => Counted {
                requests: result.tally.requests,
                nanoseconds: result.elapsed_ns,
                connections: result.tally.connections,
                ways: [
                    (result.tally.bytes_received, result.tally.receive_calls),
                    (result.tally.bytes_sent, result.tally.send_calls),
                ],
                between_ns: result.elapsed_ns,
                is_of_fewer: result.gave_up.is_some(),
            },
        }
    }

    /// Formats the rate of what was counted; `-` if clients gave up.
    fn rate(&self, count: u64) -> String {
        self.of_all(|| rate(per_second(count, self.nanoseconds)))
    }

    fn of_all(&self, text: impl FnOnce() -> String) -> String {
        if self.is_of_fewer { "-".to_owned() } else { text() }
    }
}

fn per_second(count: u64, nanoseconds: u64) -> f64 {
    count as f64 * 1e9 / nanoseconds.max(1) as f64
}

/// The server, the clients, and when the load ends.
fn heading(plan: &Plan, result: &LoadResult) -> String {
    let values = plan.settings.values();
    let integer = |name: &str| values.get(name).map(|_| plan.settings.integer(name));
    let word = |name: &str| values.get(name).map(|value| value.to_string());
    let resolved: Vec<String> = match &result.address {
        Some(address) => vec![address.clone()],
        None => plan.target.iter().map(Address::to_string).collect(),
    };
    // As a URL that can be typed: a fragment is not sent, and a colon ends the path of a Unix socket.
    let mut server = match (word("path"), word("mix")) {
        (Some(path), mix) => {
            let path = path.split('#').next().filter(|_| mix.is_none_or(|mix| mix == NONE)).unwrap_or_default();
            let colon = if family(&plan.connect) == Family::Unix && !path.is_empty() { ":" } else { "" };
            format!("{}{}://{}{colon}{path}", method(plan), plan.workload.name, plan.connect)
        }
        _ => format!("{} {}", plan.workload.name, plan.connect),
    };
    if resolved != [plan.connect.as_str()] {
        server += &format!(" ({})", resolved.join(", "));
    }
    let clients = plan.load.item.clients(&plan.settings) as u64;
    let mut parts = vec![match (plan.load.item.is_one_process(), integer(THREADS.name)) {
        (false, _) => of_them(clients, "client process", "client processes"),
        (true, None) => of_them(clients, "client thread", "client threads"),
        (true, Some(_)) if word(CONNECTIONS.name).is_some_and(|word| word == KEPT) => {
            of_them(clients, "connection", "connections")
        }
        (true, Some(_)) => of_them(clients, "client", "clients"),
    }];
    parts.extend(integer(THREADS.name).map(|threads| of_them(threads, "thread", "threads")));
    parts.extend(integer(PIPELINE.name).filter(|depth| *depth > 1).map(|depth| format!("pipeline {depth}")));
    parts.push(match integer(DURATION.name).filter(|length| *length > 0) {
        Some(duration) => {
            let before: Vec<String> = [(RAMP_UP.name, "ramp-up"), (WARM_UP.name, "warm-up")]
                .into_iter()
                .filter_map(|(name, what)| Some((integer(name).filter(|length| *length > 0)?, what)))
                .map(|(length, what)| format!("{} of {what}", span(length)))
                .collect();
            let after = if before.is_empty() { String::new() } else { format!(" after {}", before.join(" and ")) };
            span(duration) + &after
        }
        None => of_them(integer(LOOPS.name).unwrap_or_default(), "request each", "requests each"),
    });
    let load = parts.join(", ");
    let heading = if server.chars().count() + 2 + load.chars().count() <= 80 {
        format!("{server}  {load}\n")
    } else {
        wrapped("", &server) + &wrapped("", &load)
    };
    let failed = result.unanswered.iter().map(|(address, error)| {
        let error = error.split(" (os error").next().unwrap_or_default().to_lowercase();
        format!("{address}: {error}")
    });
    let failed: Vec<String> = failed.collect();
    heading + &if failed.is_empty() { String::new() } else { wrapped("not used: ", &failed.join("; ")) }
}

/// Method of the requests and a space, if it is not GET.
fn method(plan: &Plan) -> String {
    let method = plan.settings.values().get("method").map(|method| method.to_string());
    method.filter(|method| method != "GET").map_or(String::new(), |method| format!("{method} "))
}

/// Formats a number of things, as "2 clients".
pub fn of_them(number: u64, one: &str, several: &str) -> String {
    format!("{} {}", grouped(number), if number == 1 { one } else { several })
}

/// The rows of requests, bytes, connections and errors.
fn counts(result: &LoadResult, counted: &Counted, clients: u64) -> Vec<Row> {
    let mut rows = Vec::new();
    let is_stream = result.measured_by != MeasuredBy::Requests;
    if !is_stream || result.expected_requests.is_some() {
        let done = grouped(counted.requests);
        let done = result.expected_requests.map_or(done.clone(), |all| format!("{done} of {}", grouped(all)));
        let note = match (&result.scheduled, &result.window) {
            (Some(scheduled), _) => format!("of {} requested", rate(scheduled.offered_per_second)),
            (None, None) => format!("in {}", time(result.elapsed_ns)),
            _ => String::new(),
        };
        let row = Row::new("Requests", [done, counted.rate(counted.requests)]);
        rows.push(row.note(note));
    }
    if let Some(scheduled) = &result.scheduled {
        rows.push(Row::new("Due", [grouped(scheduled.outcomes.due)]).note(outcomes(&scheduled.outcomes)));
    }
    let [received, sent] = counted.ways;
    let mut ways = [(received, "received"), (sent, "sent")];
    // The direction of the stream comes first.
    if result.measured_by == MeasuredBy::BytesToServer {
        ways.reverse();
    }
    for (((number, calls), what), label) in ways.into_iter().zip(["Transfer", ""]) {
        let speed = per_second(number, counted.between_ns);
        let speed = || if is_stream { bits_per_second(speed) } else { format!("{}/s", bytes(speed)) };
        let speed = counted.of_all(speed);
        let calls = rate(per_second(calls, counted.between_ns));
        let note = match counted.is_of_fewer {
            true => what.to_owned(),
            false => format!("{what}, {} calls/s", calls.trim_end_matches("/s")),
        };
        rows.push(Row::new(label, [bytes(number as f64), speed]).note(note));
    }
    if let Some(payload @ 1..) = result.figures.get(PAYLOAD_BYTES).copied() {
        let speed = || bits_per_second(per_second(payload, payload_time(&result.figures, counted.nanoseconds)));
        rows.push(Row::new("Payload", [bytes(payload as f64), counted.of_all(speed)]));
    }
    // Persistent connections are in the heading.
    if counted.connections > clients {
        let speed = counted.rate(counted.connections);
        let closings = result.closings.as_ref().map(|closings| closings.in_words());
        let row = Row::new("Connections", [grouped(counted.connections), speed]);
        rows.push(row.note(closings.unwrap_or_default()));
    }
    if result.tally.closed_idle > 0 {
        rows.push(Row::new("Closed idle", [grouped(result.tally.closed_idle)]).note("connections, by the server"));
    }
    if result.tally.sent_again > 0 {
        rows.push(
            Row::new("Sent again", [grouped(result.tally.sent_again)]).note("requests, as the server had just closed"),
        );
    }
    if result.tally.sent_unbidden > 0 {
        let note = "requests, with a body that the server did not ask for";
        rows.push(Row::new("No 100 Continue", [grouped(result.tally.sent_unbidden)]).note(note));
    }
    let failed: u64 = result.tally.errors.values().sum();
    let mut kinds = error_kinds(result);
    if result.tally.workers_lost > 0 {
        kinds.push(of_them(result.tally.workers_lost, "lost client process", "lost client processes"));
    }
    rows.push(Row::new("Errors", [grouped(failed + result.tally.workers_lost)]).note(kinds.join(", ")));
    rows.extend(figures(&result.figures));
    if let Some(SizesSent { distribution, mean_bytes: Some(mean), .. }) =
        result.traffic.as_ref().and_then(|traffic| traffic.sizes.as_ref())
    {
        let seed = result.traffic.as_ref().map_or(0, |traffic| traffic.seed);
        rows.push(Row::of_words("Sizes", format!("{distribution} (seed {seed}): {} on average", bytes(*mean))));
    }
    rows
}

/// The errors by kind, and those that a reply reported by its status.
fn error_kinds(result: &LoadResult) -> Vec<String> {
    let by_status = result.statuses.iter().filter(|(_, of)| of.errors > 0);
    let by_status = by_status.map(|(status, of)| format!("{} status {status}", grouped(of.errors)));
    let kinds = result.tally.errors.iter().filter(|(kind, _)| **kind != ErrorKind::ErrorStatus.name());
    let kinds = kinds.map(|(kind, count)| format!("{} {}", grouped(*count), kind.replace('_', " ")));
    by_status.chain(kinds).collect()
}

/// The outcomes of the requests that were due, without those that did not occur.
fn outcomes(outcomes: &Outcomes) -> String {
    let Outcomes { due, sent, answered, failed, never_sent, waited } = *outcomes;
    let sent = match sent == due {
        true if failed > 0 => "all tried".to_owned(),
        true => "all sent".to_owned(),
        false => format!("{} sent", grouped(sent)),
    };
    let waited = (waited > 0).then(|| format!("{} of them late for lack of a connection", grouped(waited)));
    let answered = if answered == due { "all answered".to_owned() } else { format!("{} answered", grouped(answered)) };
    let failed = (failed > 0).then(|| format!("{} failed", grouped(failed)));
    let never_sent = (never_sent > 0).then(|| format!("{} never sent", grouped(never_sent)));
    [Some(sent), waited, Some(answered), failed, never_sent].into_iter().flatten().collect::<Vec<_>>().join(", ")
}

/// Figures of the workload that have a mean and the value of the last request.
fn figures(figures: &Figures) -> Vec<Row> {
    let figure = |name: &str| figures.get(name).copied();
    let row = |(name, sum): (&String, &u64)| {
        let (requests @ 1.., last) = (figure(REQUESTS)?, figure(&last(name))?) else { return None };
        let mean = *sum as f64 / requests as f64;
        let (name, mean, last) = match name.strip_suffix("_ns") {
            Some(name) => (name, time(mean as u64), time(last)),
            None => (name.as_str(), format!("{mean:.1}"), grouped(last)),
        };
        let mut label = name.replace('_', " ");
        label[..1].make_ascii_uppercase();
        Some(Row::new(&label, [mean]).note(format!("mean per request; {last} in the last")))
    };
    figures.iter().filter_map(row).collect()
}

const PERCENTILES: [&str; 5] = ["p50", "p90", "p99", "p99.9", "max"];

/// A row of percentiles; `-` for those that too few requests lie beyond.
fn times_row(label: &str, times: &Times) -> Row {
    let Times { p50_ns, p90_ns, p99_ns, p999_ns, maximum_ns, .. } = *times;
    Row::new(label, [p50_ns, p90_ns, p99_ns, p999_ns, maximum_ns].map(|each| each.map_or("-".to_owned(), time)))
}

/// The same, or only dashes if nothing was measured.
fn latency_row(label: &str, times: Option<&Times>) -> Row {
    times.map_or_else(|| Row::new(label, vec!["-".to_owned(); PERCENTILES.len()]), |times| times_row(label, times))
}

/// The rows of latencies. A load that met several statuses has those of each; an open load also has the parts of a latency, and a mix the latency of each kind of request.
fn latencies(result: &LoadResult) -> String {
    let mut rows = Vec::new();
    if let Some(latency) = &result.latency {
        let since = match latency.from {
            From::Sent => "since sent",
            From::Intended => "since due",
        };
        rows.push(times_row("Latency", &latency.times).note(since));
    }
    if let Some(connecting) = &result.connecting {
        rows.push(times_row("Connect", connecting).note("to connect"));
    }
    if let Some(scheduled) = &result.scheduled {
        for (label, times, note) in [
            ("Service", &scheduled.service_time, "since sent"),
            ("Wait", &scheduled.connection_wait, "for a connection"),
            ("Lag", &scheduled.send_lag, "sent late"),
        ] {
            rows.extend(times.as_ref().map(|times| times_row(label, times).note(note)));
        }
    }
    // A single status has the latencies of the load.
    if result.statuses.len() > 1 || result.statuses.values().any(|of| of.errors > 0) {
        rows.extend(result.statuses.iter().map(|(status, of)| {
            latency_row(&format!("Status {status}"), of.latency.as_ref())
                .note(format!("{} in all", grouped(of.replies)))
        }));
    }
    let kinds = result.traffic.as_ref().map_or(&[][..], |traffic| &traffic.kinds);
    rows.extend(kinds.iter().map(|KindOfRequest { sent, latency }| {
        latency_row(&sent.request, latency.as_ref()).note(format!("{} replies", grouped(sent.requests)))
    }));
    if rows.is_empty() { String::new() } else { right(&PERCENTILES, &rows) }
}

/// The rows of CPU time and memory of the load itself.
fn usage(result: &LoadResult) -> Vec<Row> {
    let used = format!("{} user, {} system", time(result.used.user_ns), time(result.used.system_ns));
    let checks = result.validity.as_ref().map_or(&[][..], |validity| &validity.checks);
    let busiest = checks.iter().find(|check| check.name == GENERATOR).and_then(|check| check.value);
    let used = match busiest {
        Some(share) => format!("{} of the busiest client thread; {used}", percent(share)),
        None => used,
    };
    let memory = result.memory.as_ref().map(|memory| Row::of_words("Memory", Memory::in_words(memory)));
    [Some(Row::of_words("CPU", used)), memory].into_iter().flatten().collect()
}

/// Mean bytes sent per request from which an end sends bulk streams, which a congestion control may slow down.
const BULK: u64 = 64 << 10;

/// Lines on copies, requested counters, and a congestion control that changed the figures.
fn notes(plan: &Plan, result: &LoadResult) -> String {
    let ours = result.expects_our_servers.then(|| plan.way.copying_in_words(&result.tally));
    let mut text = ours.unwrap_or_default();
    text += &result.readout.in_words(&plan.counters);
    text + &congestion(result.connection.as_ref(), &result.tally)
}

/// A note on the congestion control of an end if it slowed down what the end sent; empty if it did not.
pub fn congestion(connection: Option<&ConnectionOptions>, tally: &Counts) -> String {
    let connection = connection.filter(|connection| connection.remark.is_some());
    // A request without its right reply was sent, too.
    let requests = tally.requests + tally.errors.values().sum::<u64>();
    match connection.filter(|_| tally.bytes_sent / requests.max(1) >= BULK) {
        Some(connection) => wrapped("note: ", &connection.in_words()),
        None => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::histograms::histogram;

    #[test]
    fn a_percentile_of_too_few_requests_is_a_dash() {
        let mut seen = histogram();
        seen.record_n(2_000, 99).unwrap();
        let row = |seen: &_| right(&PERCENTILES, &[times_row("Latency", &Times::of(seen).unwrap().unwrap())]);
        let cells = |text: String| {
            let row = text.lines().nth(1).unwrap().replace(" µs", "");
            row.split_whitespace().skip(1).map(str::to_owned).collect::<Vec<_>>()
        };
        assert_eq!(cells(row(&seen)), ["2.00", "-", "-", "-", "-"]);
        seen.record(2_000).unwrap();
        assert_eq!(cells(row(&seen)), ["2.00", "2.00", "-", "-", "2.00"]);
    }
}
