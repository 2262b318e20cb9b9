//! Cache misses, program and kernel, from a hardware event; mostly those of the last level.

use anyhow::Result;
use perf_event::events::Hardware;

use super::{Counter, Reading, try_here};
use crate::about::About;
use crate::perf_event::{Modes, PerfEvent};
use crate::process_tree::Tree;

pub static ENTRY: Counter = Counter {
    about: About {
        summary: "Cache misses of a process tree, its kernel's included; which level is the CPU's choice, mostly the last",
        source: "perf_event_open(2), PERF_COUNT_HW_CACHE_MISSES with inherit",
    },
    unit: "misses",
    available: || try_here(open),
    open: Some(open),
};

fn open(tree: &Tree) -> Result<Box<dyn Reading>> {
    Ok(Box::new(PerfEvent::open(Hardware::CACHE_MISSES, Modes::UserAndKernel, tree)?))
}
