//! Moves to another CPU of a process and all that it starts, live, from a perf event that its children inherit.

use perf_event::events::Software;

use crate::base::about::About;
use crate::count::counter::Counter;
use crate::count::perf_event::TreeEvent;

pub static ENTRY: Counter = Counter::of_event(
    About {
        summary: "Times that a thread of a process tree went on upon another CPU, at any moment, from perf",
        source: "perf_event_open(2), PERF_COUNT_SW_CPU_MIGRATIONS with inherit",
    },
    "migrations",
    TreeEvent::software(Software::CPU_MIGRATIONS),
);
