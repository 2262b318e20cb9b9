//! CPU time of a process and all that it starts, live, from a perf event that its children inherit.

use anyhow::Result;
use perf_event::events::Software;

use super::{Counter, Reading, try_here};
use crate::about::About;
use crate::perf_event::{Modes, PerfEvent};
use crate::process_tree::Tree;

pub static ENTRY: Counter = Counter {
    about: About {
        summary: "CPU time of a whole process tree at any moment, from perf; too low, since it misses what tasks do as they end",
        source: "perf_event_open(2), PERF_COUNT_SW_TASK_CLOCK with inherit",
    },
    unit: "nanoseconds",
    available: || try_here(open),
    open: Some(open),
};

/// This clock has no modes: it runs whenever the task does.
pub fn open(tree: &Tree) -> Result<Box<dyn Reading>> {
    Ok(Box::new(PerfEvent::open(Software::TASK_CLOCK, Modes::None, tree)?))
}
