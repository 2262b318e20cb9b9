//! What the processes of a server hold: descriptors and memory.

use std::collections::BTreeMap;
use std::fs;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use crate::count::foreign_tree::{self, ForeignTree};
use crate::sys::process::Pid;

/// Interval of looking again.
const AGAIN: Duration = Duration::from_millis(20);

/// Time for a server to come to rest before it is measured.
const REST: Duration = Duration::from_millis(500);

/// The processes of a server on this machine.
pub struct Processes(ForeignTree);

/// What a server holds at one moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Held {
    /// Open descriptors of each process.
    descriptors: BTreeMap<i32, usize>,
    /// Memory that is not shared with files, of all processes.
    pub kib: u64,
}

impl Processes {
    /// Finds the processes that listen at an address, with their descendants. The error is the reason why there are none.
    pub fn at(address: SocketAddr) -> Result<Self, String> {
        let found = foreign_tree::listening_at(address).map_err(|error| format!("{error:#}"))?;
        Ok(Processes(ForeignTree::of_running(found)))
    }

    /// Measures what they hold, once that has stopped changing.
    pub fn at_rest(&self) -> Held {
        let deadline = Instant::now() + REST;
        let mut last = self.held();
        loop {
            std::thread::sleep(AGAIN);
            let now = self.held();
            if now == last || Instant::now() > deadline {
                return now;
            }
            last = now;
        }
    }

    /// Waits until they hold at most `more` descriptors and processes more than before; returns the last excess.
    pub fn return_to(&self, before: &Held, more: usize, patience: Duration) -> (Held, usize) {
        let deadline = Instant::now() + patience;
        loop {
            let now = self.held();
            let excess = now.excess_over(before);
            if excess <= more || Instant::now() > deadline {
                return (now, excess);
            }
            std::thread::sleep(AGAIN);
        }
    }

    fn held(&self) -> Held {
        let processes: Vec<i32> = self.0.processes().into_iter().map(Pid::as_raw).collect();
        let count = |&process: &i32| {
            let descriptors = fs::read_dir(format!("/proc/{process}/fd")).ok()?.count();
            // Descriptors of a process that is ending are none.
            (descriptors > 0).then_some((process, descriptors))
        };
        let descriptors = processes.iter().filter_map(count).collect();
        Held { descriptors, kib: processes.iter().map(|&process| own_kib(process)).sum() }
    }
}

impl Held {
    /// Number of open descriptors.
    pub fn descriptors(&self) -> usize {
        self.descriptors.values().sum()
    }

    /// Counts the descriptors that processes have more than before, and the processes that there were not. A pool may have
    /// replaced a worker by another, whose own descriptors are not counted.
    fn excess_over(&self, before: &Held) -> usize {
        let more = |(process, &now): (&i32, &usize)| Some(now.saturating_sub(*before.descriptors.get(process)?));
        let processes = self.descriptors.len().saturating_sub(before.descriptors.len());
        self.descriptors.iter().filter_map(more).sum::<usize>() + processes
    }
}

/// Resident memory of a process without what it shares with files (proc_pid_statm(5)).
fn own_kib(process: i32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:"));
    line.and_then(|rest| rest.split_whitespace().next()?.parse().ok()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn held(descriptors: &[(i32, usize)]) -> Held {
        Held { descriptors: descriptors.iter().copied().collect(), kib: 0 }
    }

    #[test]
    fn excess_is_of_processes_that_live_and_of_new_ones() {
        let before = held(&[(1, 10), (2, 20)]);
        for (now, excess) in [
            (held(&[(1, 10), (2, 20)]), 0),
            (held(&[(1, 13), (2, 5)]), 3),
            (held(&[(1, 10), (3, 25)]), 0),
            (held(&[(1, 10), (2, 20), (3, 9), (4, 9)]), 2),
        ] {
            assert_eq!(now.excess_over(&before), excess, "{now:?}");
        }
    }

    #[test]
    fn the_processes_of_a_listener_are_found_with_their_descriptors() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let processes = Processes::at(listener.local_addr().unwrap()).unwrap();
        let held = processes.held();
        assert!(held.descriptors() >= 4 && held.kib > 0, "{held:?}");
        let free = { std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap() };
        assert!(Processes::at(free).is_err());
    }
}
