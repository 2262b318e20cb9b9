//! Instructions that were retired, program and kernel, from a hardware event.

use perf_event::events::Hardware;

use crate::base::about::About;
use crate::count::counter::Counter;
use crate::count::perf_event::{Group, TreeEvent};

pub static ENTRY: Counter = Counter::of_event(
    About {
        summary: "Instructions that a process tree retired, its kernel's included; counted at the same times as its cycles",
        source: "perf_event_open(2), PERF_COUNT_HW_INSTRUCTIONS with inherit",
    },
    "instructions",
    TreeEvent::hardware(Hardware::INSTRUCTIONS).in_group(Group::Cycles),
);
