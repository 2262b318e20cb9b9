//! CPU time of a process and all that it starts, live, from a perf event that its children inherit.

use anyhow::{Context, Result};
use perf_event::events::Software;
use perf_event::{Builder, Counter as Event};

use super::Counter;
use crate::about::About;
use crate::sys::process::Pid;

pub static ENTRY: Counter = Counter {
    about: About {
        summary: "CPU time of a server's whole process tree at any moment, from perf; too low, since it misses what tasks do as they end",
        source: "perf_event_open(2), PERF_COUNT_SW_TASK_CLOCK with inherit",
    },
    unit: "nanoseconds",
    available: || TaskClock::open(Pid::this()).map(drop),
};

/// The clock of one tree.
pub struct TaskClock(Event);

impl TaskClock {
    /// Begins to count a process that has started nothing yet, and all that it will start.
    ///
    /// The event asks for user mode only, as an unprivileged user must, but this clock has no modes: it runs whenever
    /// the task does.
    pub fn open(process: Pid) -> Result<Self> {
        let mut event = Builder::new(Software::TASK_CLOCK)
            .observe_pid(process.as_raw())
            .inherit(true)
            .build()
            .context("perf_event_open was refused (sysctl kernel.perf_event_paranoid=2 allows it)")?;
        event.enable()?;
        Ok(TaskClock(event))
    }

    /// Nanoseconds so far.
    pub fn read(&mut self) -> Result<u64> {
        Ok(self.0.read()?)
    }
}
