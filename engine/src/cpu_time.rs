//! CPU time of a server's whole process tree at any moment, from the best source that this machine allows.
//!
//! The control group comes first because it alone is exact (docs/decisions/0004).

use anyhow::Result;
use schemars::JsonSchema;
use serde::Serialize;

use crate::counters::cgroup_cpu::ControlGroup;
use crate::counters::task_clock::TaskClock;
use crate::sys::process::Pid;

/// Where the CPU time of a window comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum CpuSource {
    /// The tree's own control group.
    Cgroup,
    /// A perf event that the whole tree inherits; it misses what a task does as it ends.
    PerfEvent,
    /// None: only the CPU time of the whole life is known, when it is over.
    WholeLife,
}

/// The words of `--cpu-source`.
pub const CHOICES: [&str; 4] = ["auto", "cgroup", "perf_event", "whole_life"];

/// What is said beside every figure of a perf event.
const BIAS: &str = "perf_event misses what tasks do as they end and around context switches: figures are too low, \
                    most of all those of designs that make a process or thread for every client";

/// The CPU time of one tree.
pub struct CpuTime {
    clock: Clock,
    /// Why a better source is not used.
    pub reason: Option<String>,
}

enum Clock {
    Cgroup(ControlGroup),
    PerfEvent(TaskClock),
    WholeLife,
}

impl CpuTime {
    /// Begins to count a process that has started nothing yet, from the source asked for, or with `auto` from the first
    /// that works. An error when the source asked for does not.
    pub fn open(process: Pid, choice: &str) -> Result<Self> {
        let mut reasons = Vec::new();
        for (word, open) in [("cgroup", cgroup as fn(Pid) -> Result<Clock>), ("perf_event", perf_event)] {
            if choice != word && choice != "auto" {
                continue;
            }
            match open(process) {
                Ok(clock) => {
                    if matches!(clock, Clock::PerfEvent(_)) {
                        reasons.push(BIAS.to_owned());
                    }
                    return Ok(CpuTime { clock, reason: because(reasons) });
                }
                Err(error) if choice == "auto" => reasons.push(format!("{word}: {error:#}")),
                Err(error) => return Err(error.context(format!("--cpu-source {word} is not to be had"))),
            }
        }
        if choice == "whole_life" {
            reasons.push("asked for".to_owned());
        }
        Ok(CpuTime { clock: Clock::WholeLife, reason: because(reasons) })
    }

    /// Which source it is.
    pub fn source(&self) -> CpuSource {
        match self.clock {
            Clock::Cgroup(_) => CpuSource::Cgroup,
            Clock::PerfEvent(_) => CpuSource::PerfEvent,
            Clock::WholeLife => CpuSource::WholeLife,
        }
    }

    /// Nanoseconds so far, of every process and thread, ended or not; `None` where only the whole life is known.
    pub fn read(&mut self) -> Result<Option<u64>> {
        match &mut self.clock {
            Clock::Cgroup(group) => group.read().map(Some),
            Clock::PerfEvent(clock) => clock.read().map(Some),
            Clock::WholeLife => Ok(None),
        }
    }
}

fn cgroup(process: Pid) -> Result<Clock> {
    let group = ControlGroup::new("server")?;
    group.add(process)?;
    Ok(Clock::Cgroup(group))
}

fn perf_event(process: Pid) -> Result<Clock> {
    TaskClock::open(process).map(Clock::PerfEvent)
}

fn because(reasons: Vec<String>) -> Option<String> {
    (!reasons.is_empty()).then(|| reasons.join("; "))
}
