//! Context switches of a process and all that it starts, live, from a perf event that its children inherit.

use anyhow::Result;
use perf_event::events::Software;

use super::{Counter, Reading, try_here};
use crate::about::About;
use crate::perf_event::{Modes, PerfEvent};
use crate::process_tree::Tree;

pub static ENTRY: Counter = Counter {
    about: About {
        summary: "Context switches of a process tree at any moment, from perf; misses the last one of every process and thread that ends",
        source: "perf_event_open(2), PERF_COUNT_SW_CONTEXT_SWITCHES with inherit",
    },
    unit: "switches",
    available: || try_here(open),
    open: Some(open),
};

fn open(tree: &Tree) -> Result<Box<dyn Reading>> {
    Ok(Box::new(PerfEvent::open(Software::CONTEXT_SWITCHES, Modes::UserAndKernel, tree)?))
}
