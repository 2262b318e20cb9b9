//! Uses of the cache, program and kernel, from a hardware event: what cache misses are a share of.

use perf_event::events::Hardware;

use crate::base::about::About;
use crate::count::counter::Counter;
use crate::count::perf_event::{Group, TreeEvent};

pub static ENTRY: Counter = Counter::of_event(
    About {
        summary: "Uses of the cache by a process tree, its kernel's included; which level is the CPU's choice, mostly the last",
        source: "perf_event_open(2), PERF_COUNT_HW_CACHE_REFERENCES with inherit",
    },
    "references",
    TreeEvent::hardware(Hardware::CACHE_REFERENCES).in_group(Group::Caches),
);
