//! A perf event of a whole process tree (perf_event_open(2)): what the counters that rest on one have in common.

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
/// Software events run all the time. Hardware events share the counters of a CPU when there are too many of them: what is to
/// be done about that belongs into [`PerfEvent::read`], in one place for all.
pub struct PerfEvent(Counter);

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

    /// The count so far, ended processes and threads included.
    pub fn read(&mut self) -> Result<u64> {
        Ok(self.0.read()?)
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
        _ => "perf_event_open failed".to_owned(),
    };
    Error::new(error).context(text)
}
