//! Which primitives fit which ends of workloads and which ways of waiting, and why others do not.

use anyhow::Result;
use serde_json::{Value, json};

use crate::base::about::Entry;
use crate::base::mistake::{Blame, mistake_with_hint};
use crate::base::setting::Settings;
use crate::client::event_loop::PIPELINE;
use crate::client::load::Load;
use crate::designs::DESIGNS;
use crate::loads::LOADS;
use crate::net::address::Family;
use crate::primitives::PRIMITIVES;
use crate::protocol::workload::{End, Workload};
use crate::server::design::Design;
use crate::transfer::channel::Way;
use crate::transfer::primitive::{Direction, Primitive, Waits};
use crate::workloads::WORKLOADS;

/// Returns why this primitive does not work with this way of waiting; `None` if it does.
pub fn of_waiting(waits: Waits, primitive: &Primitive) -> Option<String> {
    if primitive.waits.contains(&waits) {
        return None;
    }
    let how = words(waits);
    Some(match waits {
        Waits::ForCompletion => {
            format!("a design that waits {how} has no operation equal to the primitive's calls")
        }
        Waits::ForReadiness => {
            format!(
                "the primitive waits in its call, which would delay all other connections of a design that waits {how}"
            )
        }
        Waits::InTheCall => {
            format!("a design that waits {how} needs a primitive that waits, and this one never does")
        }
    })
}

/// Returns why this primitive does not work for this end of a workload; `None` if it does.
pub fn of_end(workload: &Workload, end: End, primitive: &Primitive) -> Option<String> {
    let reason = if !primitive.stores && !workload.takes_unstored.contains(&end) {
        "this end must read the received bytes, and the primitive does not store them"
    } else if primitive.laid_out && !workload.laid_out.contains(&end) {
        "the protocol's messages have several buffers, and the primitive sends from one"
    } else if primitive.lends && !workload.lasting.contains(&end) {
        "the peer may read the sender's buffer later, but these messages do not stay in it"
    } else {
        return None;
    };
    Some(reason.to_owned())
}

/// Returns why a design or a primitive with this reason does not work with these sockets; `None` if it does.
pub fn of_family(tcp_only: Option<&str>, family: Family) -> Option<String> {
    tcp_only.filter(|_| family == Family::Unix).map(|reason| format!("needs TCP: {reason}"))
}

/// Hint for entries that do not fit, or cannot run on this machine.
pub const MATRIX: &str = "`list --matrix` shows what fits";

/// Refuses a server whose primitives do not run on this machine, or do not fit its design, workload or sockets.
pub fn check_server(design: &Entry<Design>, way: Way, workload: &Entry<Workload>, family: Family) -> Result<()> {
    if let Some(reason) = of_family(design.item.tcp_only, family) {
        let message = format!("{}: {reason}", design.name);
        return Err(mistake_with_hint("fit.design_and_socket", message, MATRIX).blaming(&["design"]));
    }
    check(way, ("design", design.name), design.item.waits, workload, End::Service, family)
}

/// As [`check_server`], for a load.
pub fn check_load(load: &Entry<Load>, way: Way, workload: &Entry<Workload>, family: Family) -> Result<()> {
    check(way, ("load", load.name), load.item.waits, workload, End::Client, family)
}

/// Refuses pipelined requests if the workload's client cannot separate their replies.
pub fn check_pipeline(workload: &Entry<Workload>, way: Way, settings: &Settings) -> Result<()> {
    let pipeline = settings.values().get(PIPELINE.name).map_or(1, |_| settings.integer(PIPELINE.name));
    if pipeline > 1 && !workload.item.pipelines {
        let can: Vec<&str> = WORKLOADS.iter().filter(|entry| entry.item.pipelines).map(|entry| entry.name).collect();
        return Err(mistake_with_hint(
            "fit.workload_and_pipeline",
            format!(
                "--pipeline {pipeline}: the client of {} cannot separate replies that arrive together",
                workload.name
            ),
            format!("use --pipeline 1, or one of these workloads: {}", can.join(", ")),
        )
        .blaming(&[PIPELINE.name, "workload"]));
    }
    if pipeline > 1 && !way.into.item.stores {
        return Err(mistake_with_hint(
            "fit.receive_and_pipeline",
            format!(
                "--pipeline {pipeline} with --receive {}: replies that are not stored cannot be separated",
                way.into.name
            ),
            "use --pipeline 1, or a receive primitive that stores the bytes",
        )
        .blaming(&[PIPELINE.name, "receive"]));
    }
    Ok(())
}

/// Refuses messages that are made anew for each request with a primitive that lends its buffers to the kernel.
pub fn check_made_anew(workload: &Entry<Workload>, way: Way, end: End, settings: &Settings) -> Result<()> {
    for (of, setting) in workload.item.made_anew.iter().filter(|(of, _)| *of == end && way.out.item.lends) {
        let is_given = settings.values().get(setting.name).is_some_and(|value| *value != setting.default());
        if *of == end && is_given {
            let (option, primitive) = (setting.option(), way.out.name);
            return Err(mistake_with_hint(
                "fit.primitive_and_new_messages",
                format!("--{option} makes each message in a buffer that --primitive {primitive} may still be sending"),
                format!("leave out --{option} or --primitive {primitive}"),
            )
            .blaming(&[setting.name, "primitive"]));
        }
    }
    Ok(())
}

/// `owner` is the design or the load: the option that names it, and its name.
fn check(
    way: Way,
    (owner, name): (&str, &str),
    waits: Waits,
    workload: &Entry<Workload>,
    end: End,
    family: Family,
) -> Result<()> {
    for (option, primitive) in [("primitive", way.out), ("receive", way.into)] {
        let by = primitive.name;
        if let Some(reason) = of_family(primitive.item.tcp_only, family) {
            let message = format!("{by}: {reason}");
            return Err(mistake_with_hint("fit.primitive_and_socket", message, MATRIX).blaming(&[option]));
        }
        if let Some(reason) = primitive.item.unavailable() {
            let message = format!("{by} cannot run on this machine: {reason}");
            return Err(mistake_with_hint("primitive.unavailable", message, MATRIX).blaming(&[option]).only_here());
        }
        if let Some(reason) = of_waiting(waits, primitive.item) {
            let message = format!("{name} with {by}: {reason}");
            return Err(mistake_with_hint("fit.primitive_and_waiting", message, MATRIX).blaming(&[option, owner]));
        }
        if let Some(reason) = of_end(workload.item, end, primitive.item) {
            let message = format!("{} with {by}: {reason}", workload.name);
            return Err(mistake_with_hint("fit.primitive_and_workload", message, MATRIX).blaming(&[option, "workload"]));
        }
    }
    Ok(())
}

/// Returns every combination that does not fit, for `list --json`: a primitive with a design, a load, or an end of a workload.
pub fn all() -> Vec<Value> {
    let mut holes = Vec::new();
    for Entry { name: primitive, item } in PRIMITIVES {
        for design in DESIGNS {
            if let Some(reason) = of_waiting(design.item.waits, item) {
                holes.push(json!({"primitive": primitive, "design": design.name, "reason": reason}));
            }
        }
        for load in LOADS {
            if let Some(reason) = of_waiting(load.item.waits, item) {
                holes.push(json!({"primitive": primitive, "load": load.name, "reason": reason}));
            }
        }
        for workload in WORKLOADS {
            for end in [End::Service, End::Client] {
                if let Some(reason) = of_end(workload.item, end, item) {
                    let workload = workload.name;
                    holes.push(json!({"primitive": primitive, "workload": workload, "end": end, "reason": reason}));
                }
            }
        }
    }
    holes
}

/// Maximum width of a table in columns.
const COLUMNS: usize = 100;

/// Formats `list --matrix`. Primitives are listed by direction, first with the ways of waiting, then with the ends of
/// workloads. Combinations that do not fit have a number, and the reasons follow below.
pub fn matrix() -> String {
    let mut reasons = Reasons::default();
    let mut text = waiting_in_words();
    let ways = [Waits::InTheCall, Waits::ForReadiness, Waits::ForCompletion];
    text += &table(&ways.map(words), |primitive| {
        ways.map(|waits| reasons.mark("no", of_waiting(waits, primitive))).to_vec()
    });
    text += "\nEnds of workloads: yes (both ends), client (load only), server (serve only), or no:\n\n";
    let names: Vec<String> = WORKLOADS.iter().map(|entry| entry.name.to_owned()).collect();
    text += &table(&names, |primitive| {
        let at = |workload: &Workload| match [End::Service, End::Client].map(|end| of_end(workload, end, primitive)) {
            [Some(reason), None] => reasons.mark("client", Some(reason)),
            [None, Some(reason)] => reasons.mark("server", Some(reason)),
            [reason, _] => reasons.mark("no", reason),
        };
        WORKLOADS.iter().map(|entry| entry.item).map(at).collect()
    });
    text + "\n" + &reasons.in_words() + "\n" + &tcp_only_in_words() + &unavailable_in_words()
}

/// Lists entries that do not work with Unix sockets.
fn tcp_only_in_words() -> String {
    let primitives = PRIMITIVES.iter().map(|entry| (entry.name, entry.item.tcp_only));
    let designs = DESIGNS.iter().map(|entry| (entry.name, entry.item.tcp_only));
    let bound = primitives.chain(designs).filter_map(|(name, reason)| Some((name, reason?)));
    let lines = bound.map(|(name, reason)| paragraph(&format!("  {name}: "), &split(reason), " "));
    format!("TCP only, not Unix sockets:\n{}\n", lines.collect::<String>())
}

/// Lists entries that cannot run on this machine.
fn unavailable_in_words() -> String {
    let primitives = PRIMITIVES.iter().map(|entry| (entry.name, entry.item.unavailable()));
    let designs = DESIGNS.iter().map(|entry| (entry.name, entry.item.unavailable()));
    let missing = primitives.chain(designs).filter_map(|(name, reason)| Some((name, reason?)));
    missing.map(|(name, reason)| format!("{name} cannot run on this machine: {reason}\n")).collect()
}

/// Lists designs and loads by their way of waiting.
fn waiting_in_words() -> String {
    let mut text = String::from("Designs and loads by the way in which they wait for sockets:\n\n");
    for waits in [Waits::InTheCall, Waits::ForReadiness, Waits::ForCompletion] {
        let designs = DESIGNS.iter().filter(|entry| entry.item.waits == waits).map(|entry| entry.name.to_owned());
        let loads = LOADS.iter().filter(|entry| entry.item.waits == waits).map(|entry| format!("load {}", entry.name));
        text += &wrapped(&format!("{:16}", words(waits)), &designs.chain(loads).collect::<Vec<_>>());
    }
    text + "\n"
}

/// Formats one row per primitive, send primitives first. Tables that are too wide are split.
fn table(heads: &[String], mut row: impl FnMut(&Primitive) -> Vec<String>) -> String {
    let mut rows = Vec::new();
    for (direction, title) in [(Direction::Out, "sending"), (Direction::In, "receiving")] {
        rows.push([&[title.to_owned()], heads].concat());
        for entry in PRIMITIVES.iter().filter(|entry| entry.item.moves.direction() == direction) {
            rows.push([vec![format!("  {}", entry.name)], row(entry.item)].concat());
        }
    }
    let width = |column: usize| rows.iter().map(|row| row[column].len()).max().unwrap_or(0) + BETWEEN;
    let mut tables = Vec::new();
    let mut columns = vec![0];
    for column in 1..=heads.len() {
        if columns.iter().copied().chain([column]).map(width).sum::<usize>() > COLUMNS + BETWEEN {
            tables.push(std::mem::replace(&mut columns, vec![0]));
        }
        columns.push(column);
    }
    tables.push(columns);
    let line = |row: &Vec<String>, columns: &[usize]| {
        let cells = columns.iter().map(|&column| format!("{:1$}", row[column], width(column)));
        cells.collect::<String>().trim_end().to_owned() + "\n"
    };
    let lines = |columns: &Vec<usize>| rows.iter().map(|row| line(row, columns)).collect::<String>();
    tables.iter().map(lines).collect::<Vec<_>>().join("\n")
}

/// Spaces between two columns.
const BETWEEN: usize = 2;

/// Numbered reasons of combinations that do not fit.
#[derive(Default)]
struct Reasons(Vec<String>);

impl Reasons {
    /// A cell: what fits in spite of the reason, and the number of the reason.
    fn mark(&mut self, fits: &str, reason: Option<String>) -> String {
        let Some(reason) = reason else { return "yes".to_owned() };
        let known = self.0.iter().position(|known| *known == reason).unwrap_or_else(|| {
            self.0.push(reason);
            self.0.len() - 1
        });
        format!("{fits} ({})", known + 1)
    }

    fn in_words(&self) -> String {
        let numbered = self.0.iter().enumerate();
        numbered.map(|(index, reason)| paragraph(&format!("({}) ", index + 1), &split(reason), " ")).collect()
    }
}

fn split(text: &str) -> Vec<String> {
    text.split(' ').map(str::to_owned).collect()
}

fn wrapped(head: &str, names: &[String]) -> String {
    paragraph(head, names, ", ")
}

/// Wraps words behind a head, in lines of the maximum width.
fn paragraph(head: &str, words: &[String], between: &str) -> String {
    let mut lines = vec![head.to_owned()];
    for (index, word) in words.iter().enumerate() {
        let word = if index + 1 < words.len() { word.clone() + between } else { word.clone() };
        let line = lines.last_mut().expect("there is a first line");
        if line.len() > head.len() && line.len() + word.trim_end().len() > COLUMNS {
            lines.push(" ".repeat(head.len()) + &word);
        } else {
            *line += &word;
        }
    }
    lines.iter().map(|line| line.trim_end().to_owned() + "\n").collect()
}

fn words(waits: Waits) -> String {
    json!(waits).as_str().unwrap_or_default().replace('_', " ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::registry::catalogue::find;

    #[test]
    fn designs_that_move_bytes_themselves_have_holes_with_reasons() {
        let send = find(PRIMITIVES, "send_each").item;
        assert_eq!(of_waiting(Waits::InTheCall, send), None);
        assert_eq!(of_waiting(Waits::ForCompletion, send), None, "send has an operation that does the same");
        let other =
            Primitive { waits: &[Waits::InTheCall], ..Primitive::moving(send.about, send.rests_on, send.moves) };
        let (completion, readiness) =
            (of_waiting(Waits::ForCompletion, &other).unwrap(), of_waiting(Waits::ForReadiness, &other).unwrap());
        assert!(completion.contains(&words(Waits::ForCompletion)), "{completion}");
        assert!(readiness.contains(&words(Waits::ForReadiness)), "{readiness}");
        assert_ne!(completion, readiness);
    }

    #[test]
    fn a_hole_is_of_one_end_where_the_other_fits() {
        let of =
            |workload, end, primitive| of_end(find(WORKLOADS, workload).item, end, find(PRIMITIVES, primitive).item);
        assert_eq!(of("bytes", End::Client, "recv_truncate"), None);
        assert!(of("bytes", End::Service, "recv_truncate").is_some());
        assert_eq!(of("echo", End::Client, "vmsplice"), None);
        assert!(of("echo", End::Service, "vmsplice").is_some());
        assert_eq!(of("bytes", End::Service, "write_once"), None);
        for (workload, end) in [("http", End::Service), ("fields", End::Service)] {
            assert!(of(workload, end, "write_once").is_some());
            assert_eq!(of(workload, End::Client, "write_once"), None);
        }
    }

    #[test]
    fn what_takes_tcp_is_a_hole_of_unix_sockets() {
        assert_eq!(of_family(Some("so"), Family::Tcp), None);
        assert_eq!(of_family(None, Family::Unix), None);
        assert!(of_family(Some("so"), Family::Unix).unwrap().ends_with(": so"));
    }

    #[test]
    fn the_matrix_is_read_in_a_terminal_and_says_all() {
        let matrix = matrix();
        let widest = matrix.lines().map(str::len).max().unwrap();
        assert!(widest <= COLUMNS, "{widest} columns:\n{matrix}");
        for name in DESIGNS.iter().map(|entry| entry.name).chain(PRIMITIVES.iter().map(|entry| entry.name)) {
            assert!(matrix.contains(name), "{name}:\n{matrix}");
        }
        let reasons: std::collections::BTreeSet<String> =
            all().iter().map(|hole| hole["reason"].as_str().unwrap().to_owned()).collect();
        let unwrapped = matrix.split_whitespace().collect::<Vec<_>>().join(" ");
        reasons.iter().for_each(|reason| assert!(unwrapped.contains(reason), "{reason}:\n{matrix}"));
    }
}
