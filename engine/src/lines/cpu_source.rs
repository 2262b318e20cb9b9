//! The CPU source, as printed in lines.

use schemars::JsonSchema;
use serde::Serialize;

/// CPU source: where the CPU time of a window comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum CpuSource {
    /// A control group of the process tree.
    Cgroup,
    /// The scheduler's clocks of living processes, plus the CPU time of ended ones.
    ProcessClocks,
    /// A perf event that the whole tree inherits. Used only on request.
    PerfEvent,
    /// None: the CPU time is known only for the whole life, after its end.
    WholeLife,
    /// None at all: the server was running before, and its processes are unknown.
    Unknown,
}
