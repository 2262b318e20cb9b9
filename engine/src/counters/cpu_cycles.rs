//! Cycles of the CPUs, program and kernel, from a hardware event.

use perf_event::events::Hardware;

use crate::base::about::About;
use crate::count::counter::Counter;
use crate::count::perf_event::{Group, TreeEvent};

pub static ENTRY: Counter = Counter::of_event(
    About {
        summary: "Cycles of the CPUs while they ran a process tree, its kernel's included",
        source: "perf_event_open(2), PERF_COUNT_HW_CPU_CYCLES with inherit",
    },
    "cycles",
    TreeEvent::hardware(Hardware::CPU_CYCLES).in_group(Group::Cycles),
);
