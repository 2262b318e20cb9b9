//! Prints what a server did, for people: the figures that the textbook's servers print at an interrupt, as a table.

use crate::base::about::Entry;
use crate::base::quantity::{bytes, grouped, time};
use crate::base::table::{Row, left, wrapped};
use crate::count::counter::Counter;
use crate::count::tally::{Counts, ErrorKind};
use crate::lines::Summary;
use crate::lines::usage::Split;
use crate::runs::load_report::{congestion, of_them};
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
        rows.push(workers_row(workers));
    }
    rows
}

/// The most workers whose connections are listed one by one.
const MOST_LISTED: usize = 16;

/// The connections of the workers that served any. A pool that grows has places for more workers than it ever needed.
fn workers_row(workers: &[u64]) -> Row {
    let served: Vec<u64> = workers.iter().copied().filter(|count| *count > 0).collect();
    let idle = workers.len() - served.len();
    let mut sorted = served.clone();
    sorted.sort_unstable();
    let note = match (sorted.first(), sorted.last()) {
        (Some(fewest), Some(most)) => {
            let spread = format!("{} to {} connections each", grouped(*fewest), grouped(*most));
            if served.len() > MOST_LISTED {
                format!("{spread}, median {}", grouped(sorted[sorted.len() / 2]))
            } else {
                let counts: Vec<String> = served.iter().map(|count| grouped(*count)).collect();
                format!("{spread}: {}", counts.join(" "))
            }
        }
        _ => String::new(),
    };
    let others = match (idle, served.is_empty()) {
        (0, _) => String::new(),
        (_, true) => format!("none of {} served a connection", grouped(idle as u64)),
        _ => format!("{} served none", of_them(idle as u64, "other", "others")),
    };
    let parts: Vec<String> = [note, others].into_iter().filter(|part| !part.is_empty()).collect();
    Row::new("Workers", [grouped(served.len() as u64)]).note(parts.join("; "))
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
    if let Some(stopped) = summary.throttled_ns.filter(|stopped| *stopped > 0) {
        let what = format!("a CPU quota stopped this server's control group for {}, added up over CPUs", time(stopped));
        text += &wrapped("note: ", &format!("{what}; raise the quota (cpu.max), or use a lower load"));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(workers: &[u64]) -> String {
        left(&[workers_row(workers)]).split_whitespace().collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn workers_that_served_nothing_are_counted_and_not_listed() {
        assert_eq!(words(&[90, 113]), "Workers 2 90 to 113 connections each: 90 113");
        let mut pool = vec![0; 256];
        (pool[3], pool[200]) = (1200, 7);
        let seen = words(&pool);
        assert!(seen.starts_with("Workers 2 7 to 1,200 connections each: 1,200 7; 254 "), "{seen}");
        let seen = words(&[0, 0, 0]);
        assert!(seen.starts_with("Workers 0 ") && seen.contains(" 3 "), "{seen}");
        assert_eq!(words(&[]), "Workers 0");
    }

    #[test]
    fn many_workers_are_summarised() {
        let listed: Vec<u64> = (1..=16).collect();
        assert!(words(&listed).ends_with(": 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16"), "{}", words(&listed));
        let many: Vec<u64> = (1..=17).collect();
        assert_eq!(words(&many), "Workers 17 1 to 17 connections each, median 9");
    }
}
