//! The counters: what is read before and after. A file each, and a line here.

use anyhow::Result;

use crate::about::About;

/// A registered counter. Its file's name is its name.
pub struct Counter {
    /// What it counts and where that is described.
    pub about: About,
    /// The unit of its figure.
    pub unit: &'static str,
    /// Fails with the reason where this machine does not offer it.
    pub available: fn() -> Result<()>,
}

crate::register! {
    /// All counters.
    COUNTERS: Counter {
        cgroup_cpu,
        process_clocks,
        task_clock,
        resource_usage,
        listen_drops,
    }
}
