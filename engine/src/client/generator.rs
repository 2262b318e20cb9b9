//! What a thread that asks used itself: evidence of whether it measured its server, or itself.

use schemars::JsonSchema;
use serde::Serialize;

/// What one thread that asks did in the window.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Generator {
    /// Time between the two readings of its CPU time, at the edges of the window.
    pub elapsed_ns: u64,
    /// CPU time.
    pub cpu_ns: u64,
    /// Time that it waited for events, CPU time of looking for them included.
    pub waited_ns: u64,
}
