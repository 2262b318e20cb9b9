//! Page faults of a process and all that it starts, live, from a perf event that its children inherit.

use perf_event::events::Software;

use crate::base::about::About;
use crate::count::counter::Counter;
use crate::count::perf_event::TreeEvent;

pub static ENTRY: Counter = Counter::of_event(
    About {
        summary: "Page faults of a process tree at any moment, with and without input, from perf",
        source: "perf_event_open(2), PERF_COUNT_SW_PAGE_FAULTS with inherit",
    },
    "faults",
    TreeEvent::software(Software::PAGE_FAULTS),
);
