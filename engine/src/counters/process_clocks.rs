//! CPU time of a process and everything it starts, from the scheduler's own clocks: those of the living processes, plus
//! the usage of ended processes as reported when they were waited for. Needs no permission.

use anyhow::{Context, Result};

use crate::base::about::About;
use crate::count::counter::{Counter, Figure, Reading, Subject};
use crate::count::process_tree::{self, Tree};
use crate::sys::process;

pub static ENTRY: Counter = Counter::of(
    About {
        summary: "CPU time of a whole process tree at any time, without a control group; misses the last steps of \
                  threads that have ended",
        source: "clock_getcpuclockid(3), wait4(2)",
    },
    "nanoseconds",
    open,
);

/// The clocks of a tree.
struct ProcessClocks(Tree);

fn open(subject: &mut Subject) -> Result<Box<dyn Reading>> {
    process_tree::children(subject.tree.root)
        .context("/proc/PID/task/PID/children cannot be read (CONFIG_PROC_CHILDREN)")?;
    Ok(Box::new(ProcessClocks(subject.tree)))
}

impl Reading for ProcessClocks {
    /// Reads the CPU time. Exact while no process starts or ends, as in an idle server.
    fn read(&mut self) -> Result<Vec<Figure>> {
        // A process that ends during the loop is not counted among the living.
        let living: u64 = self.0.processes().into_iter().filter_map(|one| process::cpu_nanoseconds(one).ok()).sum();
        let ended = self.0.reaped.usage();
        Ok(vec![Figure::whole(living + (ended.user + ended.system).as_nanos() as u64)])
    }
}
