//! Page faults of a process and all that it starts, live, from a perf event that its children inherit.

use anyhow::Result;
use perf_event::events::Software;

use super::{Counter, Reading, try_here};
use crate::about::About;
use crate::perf_event::{Modes, PerfEvent};
use crate::process_tree::Tree;

pub static ENTRY: Counter = Counter {
    about: About {
        summary: "Page faults of a process tree at any moment, with and without input, from perf",
        source: "perf_event_open(2), PERF_COUNT_SW_PAGE_FAULTS with inherit",
    },
    unit: "faults",
    available: || try_here(open),
    open: Some(open),
};

fn open(tree: &Tree) -> Result<Box<dyn Reading>> {
    Ok(Box::new(PerfEvent::open(Software::PAGE_FAULTS, Modes::UserAndKernel, tree)?))
}
