//! CPU time of a server's whole process tree at any moment, from the best CPU source on this machine.
//!
//! The control group comes first because it alone is exact; docs/decisions/0004 has the figures.

use anyhow::{Context, Result};

use crate::count::command_tree::CommandTree;
use crate::count::counter::{Reading, Subject};
use crate::count::process_tree::{Beginning, Tree};
use crate::counters::{cgroup_cpu, process_clocks, task_clock};
use crate::lines::cpu_source::CpuSource;
use crate::sys::process::{Pid, Reaped};

/// Values of `--cpu-source`.
pub const CHOICES: [&str; 5] = ["auto", "cgroup", "process_clocks", "perf_event", "whole_life"];

/// Remark on every figure of a CPU source that is not exact.
const OF_CLOCKS: &str = "process_clocks misses the last steps of ended threads: figures of designs that make a thread for \
                         every client are somewhat too low";
const OF_PERF_EVENT: &str = "perf_event misses what tasks do as they end and around context switches: figures are too low, \
                             most of all those of designs that make a process or thread for every client";

/// Remark on figures of a server that is not ours, without a control group.
const OF_TICKS: &str = "the time of processes that ended in the window is known to a tick of the clock only";

/// CPU time of one process tree.
pub struct CpuTime {
    source: CpuSource,
    clock: Option<Box<dyn Reading>>,
    /// Reason why no better CPU source is used, and the time that this one misses.
    pub reason: Option<String>,
}

impl CpuTime {
    /// Begins to count a tree from the requested CPU source, or with `auto` from the best that works. Fails if the requested
    /// one does not work.
    pub fn open(tree: &Tree, choice: &str) -> Result<Self> {
        Self::choose(&mut Subject::new(*tree, None), choice)
            .with_context(|| format!("--cpu-source {choice} is unavailable"))
    }

    fn choose(subject: &mut Subject, choice: &str) -> Result<Self> {
        match choice {
            "cgroup" => {
                Ok(CpuTime { source: CpuSource::Cgroup, clock: Some(cgroup_cpu::open(subject)?), reason: None })
            }
            "process_clocks" => {
                Ok(Self::with(CpuSource::ProcessClocks, Some(process_clocks::ENTRY.open(subject)?), OF_CLOCKS))
            }
            "perf_event" => Ok(Self::with(CpuSource::PerfEvent, Some(task_clock::ENTRY.open(subject)?), OF_PERF_EVENT)),
            "whole_life" => Ok(Self::with(CpuSource::WholeLife, None, "requested")),
            _ => Self::choose(subject, "cgroup").or_else(|no_group| {
                Ok(match process_clocks::ENTRY.open(subject) {
                    Ok(clocks) => {
                        let reason = format!("{no_group:#}; {OF_CLOCKS}");
                        Self::with(CpuSource::ProcessClocks, Some(clocks), &reason)
                    }
                    Err(no_clocks) => Self::with(CpuSource::WholeLife, None, &format!("{no_group:#}; {no_clocks:#}")),
                })
            }),
        }
    }

    /// Begins to count a server that is not ours, but was started by this process and has no children yet.
    pub fn of_command(child: Pid, reaped: &'static Reaped) -> Self {
        let tree = Tree { root: child, from: Beginning::Now, reaped };
        match cgroup_cpu::open(&Subject::new(tree, None)) {
            Ok(clock) => CpuTime { source: CpuSource::Cgroup, clock: Some(clock), reason: None },
            Err(no_group) => {
                let reason = format!("{no_group:#}; {OF_TICKS}");
                let tree = CommandTree::of_child(child, reaped);
                Self::with(CpuSource::ProcessClocks, Some(Box::new(tree)), &reason)
            }
        }
    }

    /// Begins to count processes that were running before; with a reason, none are known.
    pub fn of_running(processes: Result<Vec<Pid>>) -> Self {
        match processes {
            Ok(processes) => {
                let clock: Box<dyn Reading> = Box::new(CommandTree::of_running(processes));
                CpuTime { source: CpuSource::ProcessClocks, clock: Some(clock), reason: None }
            }
            Err(reason) => Self::with(CpuSource::Unknown, None, &format!("{reason:#}")),
        }
    }

    fn with(source: CpuSource, clock: Option<Box<dyn Reading>>, reason: &str) -> Self {
        CpuTime { source, clock, reason: Some(reason.to_owned()) }
    }

    /// The CPU source.
    pub fn source(&self) -> CpuSource {
        self.source
    }

    /// Returns the nanoseconds so far of every process and thread, living or ended. `None` if only the whole life is known.
    pub fn read(&mut self) -> Result<Option<u64>> {
        let figures = self.clock.as_mut().map(|clock| clock.read()).transpose()?;
        Ok(figures.and_then(|figures| figures.first()?.value))
    }
}
