//! Branches that were retired, program and kernel, from a hardware event.

use perf_event::events::Hardware;

use crate::base::about::About;
use crate::count::counter::Counter;
use crate::count::perf_event::{Group, TreeEvent};

pub static ENTRY: Counter = Counter::of_event(
    About {
        summary: "Branches that a process tree retired, its kernel's included",
        source: "perf_event_open(2), PERF_COUNT_HW_BRANCH_INSTRUCTIONS with inherit",
    },
    "branches",
    TreeEvent::hardware(Hardware::BRANCH_INSTRUCTIONS).in_group(Group::Branches),
);
