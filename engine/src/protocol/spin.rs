//! Artificial service time: a slowdown of known size for every request.

use std::time::Duration;

use crate::base::setting::{Kind, Setting, Settings};
use crate::base::unit::{MICROSECOND, SECOND, Unit};
use crate::sys::clock::thread_cpu_time;

/// Added CPU time, for the server side of a workload.
pub const COMPUTE: Setting = Setting {
    name: "compute",
    help: "CPU time to burn before every reply: a slowdown of known size, for testing the measurement itself",
    unit: Unit::Time { resolution: MICROSECOND },
    kind: Kind::Integer { minimum: 0, maximum: SECOND, default: 0 },
    for_more: None,
};

/// CPU time to burn.
#[derive(Debug, Clone, Copy)]
pub struct Spin(Duration);

impl Spin {
    /// As [`COMPUTE`] says.
    pub fn new(settings: &Settings) -> Self {
        Spin(settings.time(COMPUTE.name))
    }

    /// Returns whether nothing is added, so that a request without other computing can be answered at once.
    pub fn is_zero(self) -> bool {
        self.0.is_zero()
    }

    /// Burns this much CPU time, by this thread's own clock: interruptions do not count.
    pub fn burn(self) {
        if self.is_zero() {
            return;
        }
        let end = thread_cpu_time() + self.0;
        while thread_cpu_time() < end {
            std::hint::spin_loop();
        }
    }
}
