//! CPU time of a server's whole process tree at any moment, from the best source that this machine allows.
//!
//! The control group comes first because it alone is exact; docs/decisions/0004 has the figures.

use anyhow::{Context, Result};
use schemars::JsonSchema;
use serde::Serialize;

use crate::counters::cgroup_cpu::ControlGroup;
use crate::counters::process_clocks::ProcessClocks;
use crate::counters::task_clock::TaskClock;
use crate::sys::process::Pid;
use crate::tally::Tally;

/// Where the CPU time of a window comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum CpuSource {
    /// The tree's own control group.
    Cgroup,
    /// The scheduler's clocks of living processes, and what ended ones had used.
    ProcessClocks,
    /// A perf event that the whole tree inherits; only when asked for.
    PerfEvent,
    /// None: only the CPU time of the whole life is known, when it is over.
    WholeLife,
}

/// The words of `--cpu-source`.
pub const CHOICES: [&str; 5] = ["auto", "cgroup", "process_clocks", "perf_event", "whole_life"];

/// What is said beside every figure of a source that is not exact.
const OF_CLOCKS: &str = "process_clocks misses the last steps of ended threads: figures of designs that make a thread for \
                         every client are somewhat too low";
const OF_PERF_EVENT: &str = "perf_event misses what tasks do as they end and around context switches: figures are too low, \
                             most of all those of designs that make a process or thread for every client";

/// The CPU time of one tree.
pub struct CpuTime {
    clock: Clock,
    /// Why a better source is not used, and what this one misses.
    pub reason: Option<String>,
}

enum Clock {
    Cgroup(ControlGroup),
    ProcessClocks(ProcessClocks),
    PerfEvent(TaskClock),
    WholeLife,
}

impl CpuTime {
    /// Begins to count a process that has started nothing yet: from the source asked for, or with `auto` from the best
    /// that works. An error when the source asked for does not.
    pub fn open(process: Pid, tally: &'static Tally, choice: &str) -> Result<Self> {
        Self::choose(process, tally, choice).with_context(|| format!("--cpu-source {choice} is not to be had"))
    }

    fn choose(process: Pid, tally: &'static Tally, choice: &str) -> Result<Self> {
        let exactly = |clock| Ok(CpuTime { clock, reason: None });
        match choice {
            "cgroup" => exactly(Clock::Cgroup(cgroup(process)?)),
            "process_clocks" => Ok(Self::with(Clock::ProcessClocks(ProcessClocks::open(process, tally)?), OF_CLOCKS)),
            "perf_event" => Ok(Self::with(Clock::PerfEvent(TaskClock::open(process)?), OF_PERF_EVENT)),
            "whole_life" => Ok(Self::with(Clock::WholeLife, "asked for")),
            _ => cgroup(process).map(Clock::Cgroup).and_then(exactly).or_else(|no_group| {
                Ok(match ProcessClocks::open(process, tally) {
                    Ok(clocks) => Self::with(Clock::ProcessClocks(clocks), &format!("{no_group:#}; {OF_CLOCKS}")),
                    Err(no_clocks) => Self::with(Clock::WholeLife, &format!("{no_group:#}; {no_clocks:#}")),
                })
            }),
        }
    }

    fn with(clock: Clock, reason: &str) -> Self {
        CpuTime { clock, reason: Some(reason.to_owned()) }
    }

    /// Which source it is.
    pub fn source(&self) -> CpuSource {
        match self.clock {
            Clock::Cgroup(_) => CpuSource::Cgroup,
            Clock::ProcessClocks(_) => CpuSource::ProcessClocks,
            Clock::PerfEvent(_) => CpuSource::PerfEvent,
            Clock::WholeLife => CpuSource::WholeLife,
        }
    }

    /// Nanoseconds so far, of every process and thread, ended or not; `None` where only the whole life is known.
    pub fn read(&mut self) -> Result<Option<u64>> {
        match &mut self.clock {
            Clock::Cgroup(group) => group.read().map(Some),
            Clock::ProcessClocks(clocks) => Ok(Some(clocks.read())),
            Clock::PerfEvent(clock) => clock.read().map(Some),
            Clock::WholeLife => Ok(None),
        }
    }
}

fn cgroup(process: Pid) -> Result<ControlGroup> {
    let group = ControlGroup::new("server")?;
    group.add(process)?;
    Ok(group)
}
