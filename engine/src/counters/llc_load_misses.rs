//! Loads that the last level of the cache did not have, from a hardware event.

use anyhow::Result;
use perf_event::events::{Cache, CacheId, CacheOp, CacheResult};

use super::{Counter, Reading, try_here};
use crate::about::About;
use crate::perf_event::{Modes, PerfEvent};
use crate::process_tree::Tree;

pub static ENTRY: Counter = Counter {
    about: About {
        summary: "Loads of a process tree that missed the last level of the cache, its kernel's included",
        source: "perf_event_open(2), PERF_COUNT_HW_CACHE_LL, OP_READ, RESULT_MISS with inherit",
    },
    unit: "misses",
    available: || try_here(open),
    open: Some(open),
};

fn open(tree: &Tree) -> Result<Box<dyn Reading>> {
    let event = Cache { which: CacheId::LL, operation: CacheOp::READ, result: CacheResult::MISS };
    Ok(Box::new(PerfEvent::open(event, Modes::UserAndKernel, tree)?))
}
