//! Prints what a server did, for people: the figures that the textbook's servers print at an interrupt, as a table.

use crate::base::about::Entry;
use crate::base::quantity::{bytes, grouped, time};
use crate::base::table::{Row, left, wrapped};
use crate::count::counter::Counter;
use crate::count::tally::{Counts, ErrorKind};
use crate::lines::Summary;
use crate::lines::usage::Split;
use crate::runs::load_report::congestion;
use crate::transfer::channel::Way;

/// Formats the summary. `descriptor_limit` is that of each process of the server. The first line is empty, since a terminal
/// shows ^C in front of it.
pub fn in_words(summary: &Summary, way: Way, counters: &[&'static Entry<Counter>], descriptor_limit: u64) -> String {
    let mut text = format!("\n{}", left(&rows(summary)));
    let notes =
        way.copying_in_words(tally(summary)) + &summary.readout.in_words(counters) + &notes(summary, descriptor_limit);
    if !notes.is_empty() {
        text += &format!("\n{notes}");
    }
    text
}

fn tally(summary: &Summary) -> &Counts {
    summary.tally.as_ref().expect("every design has one")
}

fn rows(summary: &Summary) -> Vec<Row> {
    let tally = tally(summary);
    let mut rows = vec![
        Row::new("Connections", [grouped(tally.connections)]),
        Row::new("Requests", [grouped(tally.requests)]),
        Row::new("Transfer", [bytes(tally.bytes_received as f64)]).note("received"),
        Row::new("", [bytes(tally.bytes_sent as f64)]).note("sent"),
    ];
    let lost = [
        (tally.workers_lost, "workers lost"),
        (summary.listen_drops.unwrap_or_default().into(), "connections dropped by the full queue"),
    ];
    let errors: u64 = tally.errors.values().sum::<u64>() + lost.iter().map(|(count, _)| count).sum::<u64>();
    let kinds = tally.errors.iter().map(|(kind, count)| (*count, kind.replace('_', " ")));
    let others = lost.into_iter().chain([(tally.workers_replaced, "workers replaced")]);
    let kinds: Vec<String> = kinds
        .chain(others.filter(|(count, _)| *count > 0).map(|(count, name)| (count, name.to_owned())))
        .map(|(count, kind)| format!("{} {kind}", grouped(count)))
        .collect();
    rows.push(Row::new("Errors", [grouped(errors)]).note(kinds.join(", ")));
    for (name, sum) in &summary.account {
        let mut label = name.replace('_', " ");
        label[..1].make_ascii_uppercase();
        rows.push(Row::new(&label, [grouped(*sum)]));
    }
    let used = &summary.used;
    rows.push(Row::of_words("CPU", format!("{} user, {} system", time(used.user_ns), time(used.system_ns))));
    rows.push(Row::of_words("", cpu(summary)));
    if let Some(workers) = &summary.workers {
        let (fewest, most) = (workers.iter().min().copied(), workers.iter().max().copied());
        let counts: Vec<String> = workers.iter().map(|count| grouped(*count)).collect();
        let spread = format!(
            "{} to {} connections each: {}",
            grouped(fewest.unwrap_or_default()),
            grouped(most.unwrap_or_default()),
            counts.join(" ")
        );
        rows.push(Row::new("Workers", [grouped(workers.len() as u64)]).note(spread));
    }
    rows
}

/// The parts of the CPU time, each user + system.
fn cpu(summary: &Summary) -> String {
    let split = |split: &Split| format!("{} + {}", time(split.user_ns), time(split.system_ns));
    match (&summary.server_process, &summary.dead_children) {
        (Some(own), Some(children)) => format!("server process {}, dead children {}", split(own), split(children)),
        _ => "of all processes; the first one was killed before it reported its share".to_owned(),
    }
}

fn notes(summary: &Summary, descriptor_limit: u64) -> String {
    let mut text = congestion(summary.connection.as_ref(), tally(summary));
    if tally(summary).errors.contains_key(ErrorKind::ResourceLimit.name()) {
        let limit = grouped(descriptor_limit);
        text += &wrapped("note: ", &format!("each process of this server may open {limit} descriptors (ulimit -Hn)"));
    }
    if let Some(fault) = &summary.account_fault {
        text += &wrapped("note: ", &format!("inconsistent sums: {fault}"));
    }
    text
}
