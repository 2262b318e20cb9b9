//! CPU time of a process and all that it starts, live, from a perf event that its children inherit.

use perf_event::events::Software;

use crate::base::about::About;
use crate::count::counter::Counter;
use crate::count::perf_event::TreeEvent;

pub static ENTRY: Counter = Counter::of_event(
    About {
        summary: "CPU time of a whole process tree at any moment, from perf; too low, since it misses what tasks do as they end",
        source: "perf_event_open(2), PERF_COUNT_SW_TASK_CLOCK with inherit",
    },
    "nanoseconds",
    TreeEvent::clock(Software::TASK_CLOCK),
);
