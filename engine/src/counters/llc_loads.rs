//! Loads from the last level of the cache, from a hardware event: what its misses are a share of.

use perf_event::events::{CacheId, CacheResult};

use crate::base::about::About;
use crate::count::counter::Counter;
use crate::count::perf_event::{Group, TreeEvent};

pub static ENTRY: Counter = Counter::of_event(
    About {
        summary: "Loads of a process tree that asked the last level of the cache, its kernel's included",
        source: "perf_event_open(2), PERF_COUNT_HW_CACHE_LL, OP_READ, RESULT_ACCESS with inherit",
    },
    "loads",
    TreeEvent::cache_load(CacheId::LL, CacheResult::ACCESS).in_group(Group::LastLevel),
);
