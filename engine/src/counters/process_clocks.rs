//! CPU time of a process and all that it starts, from the clocks that the scheduler itself keeps: those of the living
//! processes, and what the ended ones had used when they were waited for. It needs no permission.

use std::fs;
use std::sync::atomic::Ordering::Relaxed;

use anyhow::{Context, Result};

use super::Counter;
use crate::about::About;
use crate::sys::process::{self, Pid};
use crate::tally::Tally;

pub static ENTRY: Counter = Counter {
    about: About {
        summary: "CPU time of a server's whole process tree at any moment, without a control group; misses the last steps of \
                  ended threads",
        source: "clock_getcpuclockid(3), wait4(2)",
    },
    unit: "nanoseconds",
    available: || ProcessClocks::open(Pid::this(), Tally::new(0)?).map(drop),
};

/// The clocks of one tree, whose processes add what they reap to the tally ([`process::count_reaped`]).
pub struct ProcessClocks {
    root: Pid,
    tally: &'static Tally,
}

impl ProcessClocks {
    /// The clocks of a process, which has started nothing yet, and of all that it will start.
    pub fn open(root: Pid, tally: &'static Tally) -> Result<Self> {
        children(root).context("/proc/PID/task/PID/children cannot be read (CONFIG_PROC_CHILDREN)")?;
        Ok(ProcessClocks { root, tally })
    }

    /// Nanoseconds so far. Exact while no process begins or ends, as in a server at rest.
    pub fn read(&self) -> u64 {
        tree(self.root) + self.tally.general().reaped.load(Relaxed)
    }
}

/// The CPU time of a process and its living descendants; one that ends meanwhile counts for nothing here.
fn tree(root: Pid) -> u64 {
    let below: u64 = children(root).unwrap_or_default().into_iter().map(tree).sum();
    below + process::cpu_nanoseconds(root).unwrap_or(0)
}

/// The children of a process's first thread: only single-threaded processes of ours fork.
fn children(process: Pid) -> std::io::Result<Vec<Pid>> {
    let text = fs::read_to_string(format!("/proc/{process}/task/{process}/children"))?;
    Ok(text.split_whitespace().filter_map(|number| number.parse().ok()).map(Pid::from_raw).collect())
}
