//! Cycles of the CPUs, program and kernel, from a hardware event.

use anyhow::Result;
use perf_event::events::Hardware;

use super::{Counter, Reading, try_here};
use crate::about::About;
use crate::perf_event::{Modes, PerfEvent};
use crate::process_tree::Tree;

pub static ENTRY: Counter = Counter {
    about: About {
        summary: "Cycles of the CPUs while they ran a process tree, its kernel's included",
        source: "perf_event_open(2), PERF_COUNT_HW_CPU_CYCLES with inherit",
    },
    unit: "cycles",
    available: || try_here(open),
    open: Some(open),
};

fn open(tree: &Tree) -> Result<Box<dyn Reading>> {
    Ok(Box::new(PerfEvent::open(Hardware::CPU_CYCLES, Modes::UserAndKernel, tree)?))
}
