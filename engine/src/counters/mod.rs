//! The counters: what is read before and after. A file each, and a line here.

use std::collections::BTreeMap;

use anyhow::Result;

use crate::about::{About, Entry};
use crate::perf_event::{PerfEvent, SharedCounter};
use crate::process_tree::{Switches, Tree};

/// A registered counter. Its file's name is its name.
pub struct Counter {
    /// What it counts and where that is described.
    pub about: About,
    /// The unit of its figure.
    pub unit: &'static str,
    /// Fails with the reason where this machine does not offer it.
    pub available: fn() -> Result<()>,
    /// Begins to count a tree, of a server or of a load: `--count`. None for what is told in other ways.
    pub open: Option<Open>,
}

/// Begins to count a tree whose first process has started nothing yet. The error is the reason why it cannot be counted.
pub type Open = fn(&Tree) -> Result<Box<dyn Reading>>;

/// A counter that counts one tree.
pub trait Reading {
    /// Its figure so far; at the end of the tree, when all of it was waited for, that of the whole life.
    fn read(&mut self) -> Result<u64>;
}

impl Reading for PerfEvent {
    fn read(&mut self) -> Result<u64> {
        PerfEvent::read(self)
    }
}

impl Reading for Switches {
    fn read(&mut self) -> Result<u64> {
        Ok(Switches::read(self)?)
    }
}

/// The figures of counters, by name; null where unavailable.
pub type Values = BTreeMap<&'static str, Option<u64>>;

/// Opens a counter on this process, to see whether it is to be had.
pub fn try_here(open: Open) -> Result<()> {
    let tally = crate::tally::Tally::new(0)?;
    open(&Tree::of_this(&tally.general().reaped))?.read().map(drop)
}

/// The counters that can be asked for.
pub fn countable() -> impl Iterator<Item = &'static Entry<Counter>> {
    COUNTERS.iter().filter(|entry| entry.item.open.is_some())
}

/// The counters that were asked for, of one tree.
pub struct Counting(BTreeMap<&'static str, Result<Box<dyn Reading>, String>>);

impl Counting {
    /// Begins to count; what is not to be had here keeps its reason.
    pub fn begin(asked: &[&'static Entry<Counter>], tree: &Tree) -> Self {
        let open = |entry: &&'static Entry<Counter>| {
            let reading = entry.item.open.map(|open| open(tree).map_err(|error| format!("{error:#}")));
            Some((entry.name, reading?))
        };
        Counting(asked.iter().filter_map(open).collect())
    }

    /// The figures so far. What has become worthless has none from then on, and keeps the reason.
    pub fn read(&mut self) -> Result<Values> {
        let mut values = Values::new();
        for (name, reading) in &mut self.0 {
            let value = reading.as_mut().ok().map(|one| one.read()).transpose();
            if let Err(error) = &value
                && let Some(shared) = error.downcast_ref::<SharedCounter>()
            {
                *reading = Err(shared.to_string());
                values.insert(name, None);
                continue;
            }
            values.insert(name, value?);
        }
        Ok(values)
    }

    /// Each counter, and why it cannot be read if it cannot.
    pub fn reasons(&self) -> BTreeMap<&'static str, Option<String>> {
        self.0.iter().map(|(name, reading)| (*name, reading.as_ref().err().cloned())).collect()
    }

    /// Only those that cannot be read, and why.
    pub fn unavailable(&self) -> BTreeMap<&'static str, String> {
        self.reasons().into_iter().filter_map(|(name, reason)| Some((name, reason?))).collect()
    }
}

/// What was counted between two readings.
pub fn between(earlier: &Values, later: &Values) -> Values {
    let difference = |name| Some((*later.get(name)?)?.saturating_sub((*earlier.get(name)?)?));
    later.keys().map(|name| (*name, difference(name))).collect()
}

/// The figures for a person, a line each.
pub fn in_words(values: &Values, unavailable: &BTreeMap<&'static str, String>) -> String {
    let mut text = String::new();
    for (name, value) in values {
        let figure = match (value, unavailable.get(name)) {
            (Some(value), _) => {
                let unit = COUNTERS.iter().find(|entry| entry.name == *name).map_or("", |entry| entry.item.unit);
                format!("{value} {unit}")
            }
            (None, reason) => format!("not available here: {}", reason.map_or("", String::as_str)),
        };
        text += &format!("{}: {figure}\n", name.replace('_', " "));
    }
    text
}

crate::register! {
    /// All counters.
    COUNTERS: Counter {
        cgroup_cpu,
        process_clocks,
        task_clock,
        resource_usage,
        listen_drops,
        context_switches,
        cpu_migrations,
        page_faults,
        voluntary_switches,
        involuntary_switches,
        cpu_cycles,
        cache_misses,
        llc_load_misses,
        l1_dcache_load_misses,
    }
}
