//! What processes have used, as lines tell it.

use schemars::JsonSchema;
use serde::Serialize;

use crate::sys::process::Usage;

/// What processes and their threads have used, as getrusage(2) and wait4(2) say it. Its fields stand in the line itself.
#[derive(Debug, Clone, Copy, Serialize, JsonSchema)]
pub struct Used {
    /// CPU time in user mode. On kernels that sample at the tick, the sum with `system_ns` is exact for processes and the
    /// split is not.
    pub user_ns: u64,
    /// CPU time in the kernel.
    pub system_ns: u64,
    /// Times that a thread gave up its CPU to wait.
    pub voluntary_switches: u64,
    /// Times that a thread was made to give up its CPU.
    pub involuntary_switches: u64,
    /// Page faults without input.
    pub minor_faults: u64,
    /// Page faults with input.
    pub major_faults: u64,
}

impl From<&Usage> for Used {
    fn from(usage: &Usage) -> Self {
        Used {
            user_ns: usage.user.as_nanos() as u64,
            system_ns: usage.system.as_nanos() as u64,
            voluntary_switches: usage.voluntary_switches,
            involuntary_switches: usage.involuntary_switches,
            minor_faults: usage.minor_faults,
            major_faults: usage.major_faults,
        }
    }
}

/// CPU time by mode.
#[derive(Debug, Clone, Copy, Serialize, JsonSchema)]
pub struct Split {
    /// In user mode.
    pub user_ns: u64,
    /// In the kernel.
    pub system_ns: u64,
}

impl From<&Usage> for Split {
    fn from(usage: &Usage) -> Self {
        Split { user_ns: usage.user.as_nanos() as u64, system_ns: usage.system.as_nanos() as u64 }
    }
}
