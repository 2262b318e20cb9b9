//! CPU time of a process and all that it starts, from the clocks that the scheduler itself keeps: those of the living
//! processes, and what the ended ones had used when they were waited for. It needs no permission.

use anyhow::{Context, Result};

use super::{Counter, Reading, try_here};
use crate::about::About;
use crate::process_tree::{self, Tree};
use crate::sys::process;

pub static ENTRY: Counter = Counter {
    about: About {
        summary: "CPU time of a whole process tree at any moment, without a control group; misses the last steps of ended \
                  threads",
        source: "clock_getcpuclockid(3), wait4(2)",
    },
    unit: "nanoseconds",
    available: || try_here(open),
    open: Some(open),
};

/// The clocks of a tree.
struct ProcessClocks(Tree);

/// The clocks of a process, which has started nothing yet, and of all that it will start.
pub fn open(tree: &Tree) -> Result<Box<dyn Reading>> {
    process_tree::children(tree.root).context("/proc/PID/task/PID/children cannot be read (CONFIG_PROC_CHILDREN)")?;
    Ok(Box::new(ProcessClocks(*tree)))
}

impl Reading for ProcessClocks {
    /// Exact while no process begins or ends, as in a server at rest.
    fn read(&mut self) -> Result<u64> {
        // A process that ends meanwhile counts for nothing among the living.
        let living: u64 = self.0.processes().into_iter().filter_map(|one| process::cpu_nanoseconds(one).ok()).sum();
        let ended = self.0.reaped.usage();
        Ok(living + (ended.user + ended.system).as_nanos() as u64)
    }
}
