//! Page faults that waited for input, of a process and all that it starts, live, from a perf event.

use perf_event::events::Software;

use crate::base::about::About;
use crate::count::counter::Counter;
use crate::count::perf_event::TreeEvent;

pub static ENTRY: Counter = Counter::of_event(
    About {
        summary: "Page faults of a process tree that waited for input, at any moment, from perf",
        source: "perf_event_open(2), PERF_COUNT_SW_PAGE_FAULTS_MAJ with inherit",
    },
    "faults",
    TreeEvent::software(Software::PAGE_FAULTS_MAJ),
);
