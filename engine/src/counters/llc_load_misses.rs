//! Loads that the last level of the cache did not have, from a hardware event.

use perf_event::events::{CacheId, CacheResult};

use crate::base::about::About;
use crate::count::counter::Counter;
use crate::count::perf_event::{Group, TreeEvent};

pub static ENTRY: Counter = Counter::of_event(
    About {
        summary: "Loads of a process tree that missed the last level of the cache, its kernel's included; counted at the same times as all of them",
        source: "perf_event_open(2), PERF_COUNT_HW_CACHE_LL, OP_READ, RESULT_MISS with inherit",
    },
    "misses",
    TreeEvent::cache_load(CacheId::LL, CacheResult::MISS).in_group(Group::LastLevel),
);
