//! Counters of a server or a load, and how they are read before, during and after it. Each counter is a file in `counters/`.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::Result;
use schemars::JsonSchema;
use serde::Serialize;

use crate::base::about::{About, Entry};
use crate::count::multiplexing::Multiplexing;
use crate::count::perf_event::{Companions, PerfEvent, TreeEvent};
use crate::count::perf_names::Generic;
use crate::count::process_tree::{Switches, Tree};
use crate::count::tally::Tally;
use crate::net::socket_diagnosis::Ends;

/// A registered counter. The name of its file is its name.
pub struct Counter {
    /// Description of the counted quantity, and its source.
    pub about: About,
    /// Unit of its figure.
    pub unit: &'static str,
    /// Source of its figure.
    pub source: Source,
    /// Kind of its figure.
    pub kind: Kind,
    /// Further figures besides the main one, each with its name.
    pub parts: fn() -> Vec<Part>,
}

/// Sources of a counter's figures.
pub enum Source {
    /// A perf event that all child processes inherit.
    Event(TreeEvent),
    /// A separate implementation.
    Own(Open),
    /// Many perf events with a separate implementation. The first event decides whether they are available: opening and closing
    /// all of them only for that would take seconds.
    Many(TreeEvent, Open),
    /// Reported without `--count`. Fails with the reason if this machine does not offer it.
    Elsewhere(fn() -> Result<()>),
}

/// Kinds of figures.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// A figure that only grows. For a window, it is the difference of two readings.
    Count,
    /// A state at one moment. For a window, it is the state close to its end.
    State,
}

/// A further figure of a counter: `COUNTER.NAME`.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct Part {
    /// Name behind the dot.
    pub name: &'static str,
    /// Unit of the figure.
    pub unit: &'static str,
}

/// Begins to count. The error is the reason why the counter is unavailable.
pub type Open = fn(&mut Subject) -> Result<Box<dyn Reading>>;

/// The subject of counters.
pub struct Subject {
    /// Processes to count. The first has no children yet.
    pub tree: Tree,
    /// TCP connections that they serve or make; `None` if these are not known beforehand, or not TCP.
    pub ends: Option<Ends>,
    companions: Companions,
}

impl Subject {
    /// Returns a process tree with its connections as a subject.
    pub fn new(tree: Tree, ends: Option<Ends>) -> Self {
        Subject { tree, ends, companions: Companions::default() }
    }

    /// Begins to count one event of the tree.
    pub fn event(&mut self, event: TreeEvent) -> Result<PerfEvent> {
        event.open(&self.tree, &mut self.companions)
    }
}

/// A counter that counts one subject.
pub trait Reading: Send {
    /// Returns its figures so far. After every process of the tree was reaped, these are of the whole life.
    fn read(&mut self) -> Result<Vec<Figure>>;
}

/// One figure of a reading.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Figure {
    /// Name of the part; empty for the main figure.
    pub part: &'static str,
    /// Value; `None` if there was nothing to count.
    pub value: Option<u64>,
    /// Multiplexing, for an event that shares the CPU's counters.
    pub multiplexing: Option<Multiplexing>,
    /// Reason why there is no value.
    pub why: Option<&'static str>,
}

impl Figure {
    /// Returns the main figure.
    pub fn whole(value: u64) -> Self {
        Figure::part("", Some(value))
    }

    /// Returns the figure of a part.
    pub fn part(part: &'static str, value: Option<u64>) -> Self {
        Figure { part, value, multiplexing: None, why: None }
    }

    /// Returns the figure of a part, or the reason why there is none.
    pub fn or_reason(part: &'static str, value: Option<u64>, why: &'static str) -> Self {
        Figure { why: value.is_none().then_some(why), ..Figure::part(part, value) }
    }
}

impl Reading for PerfEvent {
    fn read(&mut self) -> Result<Vec<Figure>> {
        let read = PerfEvent::read(self)?;
        let multiplexing = self.takes_turns().then_some(read);
        Ok(vec![Figure { multiplexing, ..Figure::part("", read.value()) }])
    }
}

impl Reading for Switches {
    fn read(&mut self) -> Result<Vec<Figure>> {
        Ok(vec![Figure::whole(Switches::read(self)?)])
    }
}

impl Counter {
    /// Returns a counter that is a single perf event.
    pub const fn of_event(about: About, unit: &'static str, event: TreeEvent) -> Self {
        Counter { about, unit, source: Source::Event(event), kind: Kind::Count, parts: Vec::new }
    }

    /// Returns a counter with one growing figure and a separate implementation.
    pub const fn of(about: About, unit: &'static str, open: Open) -> Self {
        Counter { about, unit, source: Source::Own(open), kind: Kind::Count, parts: Vec::new }
    }

    /// Returns a counter that is reported without `--count`.
    pub const fn elsewhere(about: About, unit: &'static str, available: fn() -> Result<()>) -> Self {
        Counter { about, unit, source: Source::Elsewhere(available), kind: Kind::Count, parts: Vec::new }
    }

    /// Returns whether `--count` accepts it.
    pub fn is_countable(&self) -> bool {
        !matches!(self.source, Source::Elsewhere(_))
    }

    /// Returns whether it is exactly this perf event.
    pub fn is_event(&self, event: Generic) -> bool {
        matches!(self.source, Source::Event(own) if own.generic() == Some(event))
    }

    /// Fails with the reason if it is an event whose name this machine does not know.
    pub fn find(&self) -> Result<()> {
        if let Source::Event(event) = self.source { event.find() } else { Ok(()) }
    }

    /// Begins to count.
    pub fn open(&self, subject: &mut Subject) -> Result<Box<dyn Reading>> {
        match self.source {
            Source::Event(event) => Ok(Box::new(subject.event(event)?)),
            Source::Own(open) | Source::Many(_, open) => open(subject),
            Source::Elsewhere(_) => anyhow::bail!("every line reports it already, without --count"),
        }
    }

    /// Fails with the reason if this machine does not offer it.
    pub fn available(&self) -> Result<()> {
        if let Source::Elsewhere(available) = self.source {
            return available();
        }
        let tally = Tally::new(0)?;
        let mut subject = Subject::new(Tree::of_this(&tally.general().reaped), Some(Ends::default()));
        if let Source::Many(one, _) = self.source {
            return Ok(subject.event(one)?.read().map(drop)?);
        }
        self.open(&mut subject)?.read().map(drop)
    }

    /// Returns the unit of one of its figures.
    fn unit_of(&self, part: &str) -> &'static str {
        (self.parts)().iter().find(|each| each.name == part).map_or(self.unit, |each| each.unit)
    }
}

/// Values of counters at one moment, or over a period.
#[derive(Debug, Clone, Default, Serialize, JsonSchema)]
pub struct Readout {
    /// Requested counters by name, including all child processes. Counters with several figures also have `COUNTER.PART`. Null
    /// if unavailable.
    pub counters: BTreeMap<String, Option<u64>>,
    /// Time for which each event was counted, for events that share the CPU's counters. An event that was not counted
    /// all the time is extrapolated in `counters`, and `scaled` is true.
    pub multiplexing: BTreeMap<String, Multiplexing>,
    /// Unavailable counters with the reason: not available on this machine, or too many for the CPU. Also parts of a counter
    /// (`COUNTER.PART`) that had nothing to report, or that this kernel does not report.
    pub unavailable: BTreeMap<String, String>,
}

/// The requested counters of one subject.
pub struct Counting(Vec<One>);

struct One {
    entry: &'static Entry<Counter>,
    reading: Result<Box<dyn Reading>, String>,
    /// States that were noted earlier.
    noted: Option<Vec<Figure>>,
}

impl Counting {
    /// Begins to count. Unavailable counters keep the reason.
    pub fn begin(asked: &[&'static Entry<Counter>], mut subject: Subject) -> Self {
        let mut open = |counter: &Counter| {
            let mut reading = counter.open(&mut subject)?;
            // A counter that cannot be read is unavailable, too. This is known now, not in the middle of a run.
            reading.read()?;
            Ok(reading)
        };
        let one = |entry: &&'static Entry<Counter>| {
            let reading: Result<_> = open(entry.item);
            One { entry, reading: reading.map_err(|error| format!("{error:#}")), noted: None }
        };
        Counting(asked.iter().map(one).collect())
    }

    /// Reads the figures so far.
    pub fn read(&mut self) -> Result<Readout> {
        let mut readout = Readout::default();
        for One { entry, reading, noted } in &mut self.0 {
            let figures = match reading {
                Ok(reading) => noted.clone().map_or_else(|| reading.read(), Ok)?,
                Err(reason) => {
                    readout.counters.insert(entry.name.to_owned(), None);
                    readout.unavailable.insert(entry.name.to_owned(), reason.clone());
                    continue;
                }
            };
            for Figure { part, value, multiplexing, why } in figures {
                let name = full_name(entry.name, part);
                readout.counters.insert(name.clone(), value);
                if let Some(why) = why {
                    readout.unavailable.insert(name.clone(), why.to_owned());
                }
                if let Some(multiplexing) = multiplexing {
                    readout.multiplexing.insert(name, multiplexing);
                }
            }
        }
        readout.note_never_counted();
        Ok(readout)
    }

    /// Notes the states now. Later readings report these, because their subject may be gone by then.
    pub fn note_states(&mut self) -> Result<()> {
        for one in self.0.iter_mut().filter(|one| one.entry.item.kind == Kind::State) {
            if let Ok(reading) = &mut one.reading {
                one.noted = Some(reading.read()?);
            }
        }
        Ok(())
    }

    /// Returns the counts since an earlier reading, and the current states.
    pub fn since(&mut self, earlier: &Readout) -> Result<Readout> {
        let mut now = self.read()?;
        let states = self.0.iter().filter(|one| one.entry.item.kind == Kind::State).map(|one| one.entry.name);
        now.take_off(earlier, &states.collect());
        Ok(now)
    }

    /// Returns each counter, with the reason if it is unavailable.
    pub fn reasons(&self) -> BTreeMap<String, Option<String>> {
        self.0.iter().map(|one| (one.entry.name.to_owned(), one.reading.as_ref().err().cloned())).collect()
    }
}

impl Readout {
    fn take_off(&mut self, earlier: &Readout, states: &BTreeSet<&str>) {
        for (name, value) in &mut self.counters {
            if !states.contains(counter_of(name)) {
                *value = value.and_then(|now| Some(now.saturating_sub((*earlier.counters.get(name)?)?)));
            }
        }
        for (name, multiplexing) in &mut self.multiplexing {
            if let Some(earlier) = earlier.multiplexing.get(name) {
                *multiplexing = multiplexing.since(earlier);
                self.counters.insert(name.clone(), multiplexing.value());
            }
        }
        self.note_never_counted();
    }

    fn note_never_counted(&mut self) {
        for (name, multiplexing) in &self.multiplexing {
            if multiplexing.value().is_none() {
                let why =
                    "the CPU has too few counters for all events at once, and this event never had one; count fewer";
                self.unavailable.insert(name.clone(), why.to_owned());
            }
        }
    }

    /// Formats the figures for people, one per line. Of counters with many parts, only those that occurred.
    pub fn in_words(&self, asked: &[&'static Entry<Counter>]) -> String {
        let is_state = |name: &str| asked.iter().any(|entry| entry.name == name && entry.item.kind == Kind::State);
        let shown = |(name, value): &(&String, &Option<u64>)| {
            **value != Some(0) || part_of(name).is_empty() || is_state(counter_of(name))
        };
        let line = |(name, value): (&String, &Option<u64>)| {
            let (counter, part) = (counter_of(name), part_of(name));
            let entry = asked.iter().find(|entry| entry.name == counter);
            let figure = match (value, self.unavailable.get(name)) {
                (Some(value), _) => format!("{value} {}", entry.map_or("", |entry| entry.item.unit_of(part))),
                (None, Some(reason)) => format!("unavailable: {reason}"),
                (None, None) => "nothing to count".to_owned(),
            };
            // Events of this machine keep the machine's names.
            let is_by_name = counter.contains([':', '/']);
            let listed = if is_by_name { counter.to_owned() } else { counter.replace('_', " ") };
            let part = if part.is_empty() { String::new() } else { format!(", {part}") };
            format!("{listed}{part}: {figure}{}\n", self.mark(name))
        };
        self.counters.iter().filter(shown).map(line).collect()
    }

    /// Formats the mark of an extrapolated figure.
    fn mark(&self, name: &str) -> String {
        let scaled =
            self.multiplexing.get(name).filter(|multiplexing| multiplexing.scaled && multiplexing.running_ns > 0);
        let mark = scaled.map(|each| {
            let none = if each.counted == 0 { ", in which none came: 0 is not certain" } else { "" };
            format!(" (scaled: it was counted for {:.1} % of the time{none})", 100.0 * each.share())
        });
        mark.unwrap_or_default()
    }
}

/// Returns `COUNTER.PART`, or the counter's name for the main figure.
fn full_name(counter: &str, part: &str) -> String {
    if part.is_empty() { counter.to_owned() } else { format!("{counter}.{part}") }
}

/// Returns the counter of a figure's name.
fn counter_of(name: &str) -> &str {
    name.split_once('.').map_or(name, |(counter, _)| counter)
}

/// Returns the part of a figure's name; empty for the main figure.
fn part_of(name: &str) -> &str {
    name.split_once('.').map_or("", |(_, part)| part)
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use super::*;

    /// Replaces the kernel with made-up readings, since no machine shares its counters on demand.
    struct StandIn(VecDeque<Vec<Figure>>);

    impl Reading for StandIn {
        fn read(&mut self) -> Result<Vec<Figure>> {
            Ok(self.0.pop_front().expect("it is read no more often than it has something to say"))
        }
    }

    fn counting(entry: &'static Entry<Counter>, readings: impl IntoIterator<Item = Vec<Figure>>) -> Counting {
        Counting(vec![One { entry, reading: Ok(Box::new(StandIn(readings.into_iter().collect()))), noted: None }])
    }

    const ABOUT: About = About { summary: "made up", source: "this test" };
    static EVENT: Counter = Counter::of(ABOUT, "instructions", |_| anyhow::bail!("nothing opens it"));
    static OF_EVENT: Entry<Counter> = Entry { name: "instructions", item: &EVENT };
    static STATE: Counter = Counter {
        kind: Kind::State,
        parts: || vec![Part { name: "peak", unit: "bytes" }],
        ..Counter::of(ABOUT, "bytes", |_| anyhow::bail!("nothing opens it"))
    };
    static OF_STATE: Entry<Counter> = Entry { name: "memory", item: &STATE };

    fn multiplexed(counted: u64, enabled_ns: u64, running_ns: u64) -> Vec<Figure> {
        let multiplexing = Multiplexing::new(counted, enabled_ns, running_ns);
        vec![Figure { multiplexing: Some(multiplexing), ..Figure::part("", multiplexing.value()) }]
    }

    #[test]
    fn a_scaled_figure_is_marked_in_lines_and_words() {
        let mut counting = counting(&OF_EVENT, [multiplexed(1000, 100, 100), multiplexed(1100, 300, 150)]);
        let before = counting.read().unwrap();
        assert_eq!((before.counters["instructions"], before.multiplexing["instructions"].scaled), (Some(1000), false));
        assert_eq!(before.in_words(&[&OF_EVENT]), "instructions: 1000 instructions\n");
        let window = counting.since(&before).unwrap();
        assert_eq!(window.counters["instructions"], Some(400), "100 in a quarter of the time");
        let line = serde_json::to_value(&window).unwrap();
        assert_eq!(
            line["multiplexing"]["instructions"],
            serde_json::json!({"counted": 100, "enabled_ns": 200, "running_ns": 50, "scaled": true})
        );
        let words = window.in_words(&[&OF_EVENT]);
        assert_eq!(words, "instructions: 400 instructions (scaled: it was counted for 25.0 % of the time)\n");
    }

    #[test]
    fn zero_in_part_of_the_time_is_not_reported_as_certain() {
        let mut counting = counting(&OF_EVENT, [multiplexed(0, 1000, 66), multiplexed(0, 1000, 1000)]);
        let words = counting.read().unwrap().in_words(&[&OF_EVENT]);
        assert_eq!(
            words,
            "instructions: 0 instructions (scaled: it was counted for 6.6 % of the time, in which none came: 0 is not \
             certain)\n"
        );
        assert_eq!(counting.read().unwrap().in_words(&[&OF_EVENT]), "instructions: 0 instructions\n");
    }

    #[test]
    fn an_event_that_was_never_counted_is_null_with_the_reason() {
        let mut counting = counting(&OF_EVENT, [multiplexed(0, 100, 0)]);
        let readout = counting.read().unwrap();
        assert_eq!(readout.counters["instructions"], None);
        assert!(readout.unavailable["instructions"].contains("too few counters"), "{readout:?}");
        assert!(readout.in_words(&[&OF_EVENT]).starts_with("instructions: unavailable: the CPU has too few"));
    }

    #[test]
    fn a_state_has_no_difference_and_can_be_noted() {
        let state = |now: u64| vec![Figure::whole(now), Figure::part("peak", Some(now + 1))];
        let mut counting = counting(&OF_STATE, [state(50), state(70), state(90)]);
        let before = counting.read().unwrap();
        counting.note_states().unwrap();
        let after = counting.since(&before).unwrap();
        assert_eq!((after.counters["memory"], after.counters["memory.peak"]), (Some(70), Some(71)));
        assert_eq!(after.in_words(&[&OF_STATE]), "memory: 70 bytes\nmemory, peak: 71 bytes\n");
    }
}
