//! Usage of a client thread itself: evidence of whether it measured its server, or itself.

use schemars::JsonSchema;
use serde::Serialize;

/// Usage of one client thread in the window.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Generator {
    /// Time between the two readings of its CPU time, at the edges of the window.
    pub elapsed_ns: u64,
    /// CPU time.
    pub cpu_ns: u64,
    /// Time spent waiting for events, including the CPU time of looking for them.
    pub waited_ns: u64,
}
