//! Branches that were predicted wrongly, program and kernel, from a hardware event.

use perf_event::events::Hardware;

use crate::base::about::About;
use crate::count::counter::Counter;
use crate::count::perf_event::{Group, TreeEvent};

pub static ENTRY: Counter = Counter::of_event(
    About {
        summary: "Branches of a process tree that were predicted wrongly, its kernel's included; counted at the same times as all of them",
        source: "perf_event_open(2), PERF_COUNT_HW_BRANCH_MISSES with inherit",
    },
    "branches",
    TreeEvent::hardware(Hardware::BRANCH_MISSES).in_group(Group::Branches),
);
