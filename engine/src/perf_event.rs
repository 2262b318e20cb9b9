//! A perf event of a whole process tree (perf_event_open(2)): what the counters that rest on one have in common.

use std::fmt;
use std::fs;
use std::io;

use anyhow::{Error, Result};
use perf_event::events::Event;
use perf_event::{Builder, Counter};

use crate::process_tree::{Beginning, Tree};

/// What an event has to see.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Modes {
    /// The kernel as well as the program.
    UserAndKernel,
    /// The event is of no mode. It asks for user mode only, as an unprivileged user must.
    None,
}

impl Modes {
    /// The largest kernel.perf_event_paranoid with which a user without CAP_PERFMON may have such an event.
    fn paranoid_at_most(self) -> i32 {
        if self == Modes::UserAndKernel { 1 } else { 2 }
    }
}

/// One event, which all that the tree will start inherits.
///
/// Software events run all the time. Hardware events share the counters of a CPU when there are too many of them: such a
/// count is one of a part of the time, and is refused ([`SharedCounter`]) rather than extrapolated.
pub struct PerfEvent(Counter);

/// An event that had no counter of the CPU for all of the time, and so has no count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SharedCounter {
    enabled_ns: u64,
    running_ns: u64,
}

impl fmt::Display for SharedCounter {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        let SharedCounter { enabled_ns, running_ns } = self;
        let share = 100.0 * *running_ns as f64 / *enabled_ns as f64;
        write!(
            to,
            "the CPU has too few counters for all events at once: this one was counted for {share:.0} % of the time; ask for \
             fewer"
        )
    }
}

impl std::error::Error for SharedCounter {}

/// The count of an event that was counted for all of the time that it was enabled.
fn whole(count: u64, enabled_ns: u64, running_ns: u64) -> Result<u64, SharedCounter> {
    if running_ns < enabled_ns { Err(SharedCounter { enabled_ns, running_ns }) } else { Ok(count) }
}

impl PerfEvent {
    /// Begins to count. The error says why that is not to be had here.
    pub fn open(event: impl Event, modes: Modes, tree: &Tree) -> Result<Self> {
        let now = tree.from == Beginning::Now;
        let mut builder = Builder::new(event);
        builder.observe_pid(tree.root.as_raw()).inherit(true).enabled(now).enable_on_exec(!now);
        if modes == Modes::UserAndKernel {
            builder.include_kernel();
        }
        Ok(PerfEvent(builder.build().map_err(|error| refused(error, modes))?))
    }

    /// The count so far, ended processes and threads included. Fails with [`SharedCounter`] where it is not of all the time.
    pub fn read(&mut self) -> Result<u64> {
        let read = self.0.read_count_and_time()?;
        Ok(whole(read.count, read.time_enabled, read.time_running)?)
    }
}

/// The error with what would help. The setting forbids with EACCES; a filter of system calls mostly answers EPERM or ENOSYS.
fn refused(error: io::Error, modes: Modes) -> Error {
    let most = modes.paranoid_at_most();
    let paranoid = fs::read_to_string("/proc/sys/kernel/perf_event_paranoid").ok();
    let paranoid = paranoid.and_then(|text| text.trim().parse::<i32>().ok()).filter(|&value| value > most);
    let text = match (error.raw_os_error(), paranoid) {
        (Some(libc::EACCES), Some(value)) => format!(
            "perf_event_open was refused: kernel.perf_event_paranoid is {value}; sysctl kernel.perf_event_paranoid={most} \
             allows it"
        ),
        (Some(libc::EACCES | libc::EPERM | libc::ENOSYS), _) => {
            "perf_event_open was refused by a policy, such as the seccomp filter of a container".to_owned()
        }
        // perf_event_open(2): the processor has no such event, or nothing that counts it.
        (Some(libc::ENOENT | libc::ENODEV | libc::EOPNOTSUPP), _) => {
            "this machine does not count such an event: its processor has none, or a virtual machine hides it"
                .to_owned()
        }
        _ => "perf_event_open failed".to_owned(),
    };
    Error::new(error).context(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_count_of_a_part_of_the_time_is_none() {
        assert_eq!(whole(42, 1000, 1000), Ok(42));
        assert_eq!(whole(0, 0, 0), Ok(0), "nothing has run yet");
        let shared = whole(42, 1000, 250).unwrap_err();
        assert!(shared.to_string().contains("counted for 25 % of the time"), "{shared}");
    }

    #[test]
    fn what_a_processor_does_not_have_is_said_not_called_forbidden() {
        for code in [libc::ENOENT, libc::ENODEV, libc::EOPNOTSUPP] {
            let said = format!("{:#}", refused(io::Error::from_raw_os_error(code), Modes::UserAndKernel));
            assert!(
                said.starts_with("this machine does not count such an event") && !said.contains("policy"),
                "{said}"
            );
        }
    }
}
