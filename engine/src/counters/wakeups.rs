//! Wake-ups that a process tree made: who wakes counts, not who is woken.

use crate::base::about::About;
use crate::count::counter::Counter;
use crate::count::perf_event::TreeEvent;

pub static ENTRY: Counter = Counter::of_event(
    About {
        summary: "Times that a process tree woke a thread, its own or another's: also what its sends wake at the other end of a connection over loopback",
        source: "Linux, include/trace/events/sched.h, sched_waking, which is always called by whoever wakes; sched_wakeup may be by the other CPU",
    },
    "wake-ups",
    TreeEvent::tracepoint("sched", "sched_waking"),
);
