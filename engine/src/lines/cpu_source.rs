//! Where a CPU time comes from, as lines tell it.

use schemars::JsonSchema;
use serde::Serialize;

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
