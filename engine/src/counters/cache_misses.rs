//! Cache misses, program and kernel, from a hardware event; mostly those of the last level.

use perf_event::events::Hardware;

use crate::base::about::About;
use crate::count::counter::Counter;
use crate::count::perf_event::{Group, TreeEvent};

pub static ENTRY: Counter = Counter::of_event(
    About {
        summary: "Cache misses of a process tree, its kernel's included; which level is the CPU's choice, mostly the last",
        source: "perf_event_open(2), PERF_COUNT_HW_CACHE_MISSES with inherit",
    },
    "misses",
    TreeEvent::hardware(Hardware::CACHE_MISSES).in_group(Group::Caches),
);
