//! Context switches of a process and all that it starts, live, from a perf event that its children inherit.

use perf_event::events::Software;

use crate::base::about::About;
use crate::count::counter::Counter;
use crate::count::perf_event::TreeEvent;

pub static ENTRY: Counter = Counter::of_event(
    About {
        summary: "Context switches of a process tree at any moment, from perf; misses the last one of every process and thread that ends",
        source: "perf_event_open(2), PERF_COUNT_SW_CONTEXT_SWITCHES with inherit",
    },
    "switches",
    TreeEvent::software(Software::CONTEXT_SWITCHES),
);
