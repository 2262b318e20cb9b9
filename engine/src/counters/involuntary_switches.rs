//! Times a thread of a process tree was preempted, from /proc.

use anyhow::{Context, Result};

use crate::base::about::About;
use crate::count::counter::{Counter, Reading, Subject};
use crate::count::process_tree::{Kind, Switches};

pub static ENTRY: Counter = Counter::of(
    About {
        summary: "Times a thread of a process tree was preempted, at any time; exact for pools; switches of threads \
                  that have ended are complete only when their process ends",
        source: "proc(5), /proc/PID/task/TID/status; wait4(2)",
    },
    "switches",
    open,
);

const KIND: Kind = Kind { status: "nonvoluntary_ctxt_switches", used: |usage| usage.involuntary_switches };

fn open(subject: &mut Subject) -> Result<Box<dyn Reading>> {
    Ok(Box::new(Switches::open(subject.tree, KIND).context(
        "/proc does not show the context switches of this process \
                                                            tree",
    )?))
}
