//! Resource usage of ended processes: exact, but known only after they have been waited for.

use crate::base::about::About;
use crate::count::counter::Counter;

pub static ENTRY: Counter = Counter::elsewhere(
    About {
        summary: "CPU time, context switches and page faults of the server's whole life, including ended children",
        source: "getrusage(2), RUSAGE_CHILDREN in a child subreaper; UNP volume 1, Fig. 30.6",
    },
    "nanoseconds and counts",
    || Ok(crate::sys::process::usage_of_children().map(drop)?),
);
