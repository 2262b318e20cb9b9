//! Cycles of the bus, program and kernel, from a hardware event.

use perf_event::events::Hardware;

use crate::base::about::About;
use crate::count::counter::Counter;
use crate::count::perf_event::TreeEvent;

pub static ENTRY: Counter = Counter::of_event(
    About {
        summary: "Cycles of the CPUs' bus, or of another clock that does not change its rate, while they ran a process tree",
        source: "perf_event_open(2), PERF_COUNT_HW_BUS_CYCLES with inherit",
    },
    "cycles",
    TreeEvent::hardware(Hardware::BUS_CYCLES),
);
