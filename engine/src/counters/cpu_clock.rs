//! CPU time of a process and all that it starts, live, from the other clock that perf has for it.

use perf_event::events::Software;

use crate::base::about::About;
use crate::count::counter::Counter;
use crate::count::perf_event::TreeEvent;

pub static ENTRY: Counter = Counter::of_event(
    About {
        summary: "CPU time of a process tree at any moment, from perf's timer of a CPU; beside task_clock it shows how well either is kept",
        source: "perf_event_open(2), PERF_COUNT_SW_CPU_CLOCK with inherit",
    },
    "nanoseconds",
    TreeEvent::clock(Software::CPU_CLOCK),
);
