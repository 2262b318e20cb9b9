//! Resources that processes used, as printed in lines.

use schemars::JsonSchema;
use serde::Serialize;

use crate::sys::process::Usage;

/// Resources that processes and their threads used, from getrusage(2) and wait4(2). The fields are in the line itself.
#[derive(Debug, Clone, Copy, Serialize, JsonSchema)]
pub struct Used {
    /// CPU time in user mode. On kernels that sample at the tick, the sum with `system_ns` is exact for processes, but the
    /// split is not.
    pub user_ns: u64,
    /// CPU time in the kernel.
    pub system_ns: u64,
    /// Number of times that a thread gave up its CPU to wait.
    pub voluntary_switches: u64,
    /// Number of times that the kernel took the CPU from a thread.
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
    /// CPU time in user mode.
    pub user_ns: u64,
    /// CPU time in the kernel.
    pub system_ns: u64,
}

impl From<&Usage> for Split {
    fn from(usage: &Usage) -> Self {
        Split { user_ns: usage.user.as_nanos() as u64, system_ns: usage.system.as_nanos() as u64 }
    }
}
