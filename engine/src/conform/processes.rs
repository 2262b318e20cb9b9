//! What the processes of a server hold: descriptors, threads and memory.

use std::collections::BTreeMap;
use std::fs;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use crate::base::proc_file;
use crate::count::command_tree::{self, CommandTree};
use crate::sys::process::Pid;

/// Interval of looking again.
const AGAIN: Duration = Duration::from_millis(20);

/// Time for a server to come to rest before it is measured.
const REST: Duration = Duration::from_millis(500);

/// The processes of a server on this machine.
pub struct Processes(CommandTree);

/// What a server holds at one moment.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Held {
    /// Open descriptors and threads of each process that lives.
    of: BTreeMap<i32, Kept>,
    /// Number of processes, also of those that have ended and were not waited for.
    processes: usize,
    /// Memory that is not shared with files, of all processes.
    pub kib: u64,
    /// Memory that processes may write, whether they have used it or not.
    pub reserved_kib: u64,
}

/// What a process holds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Kept {
    descriptors: usize,
    threads: usize,
}

impl Processes {
    /// Finds the processes that listen at an address, with their descendants. The error is the reason why there are none.
    pub fn at(address: SocketAddr) -> Result<Self, String> {
        let found = command_tree::listening_at(address).map_err(|error| format!("{error:#}"))?;
        Ok(Processes(CommandTree::of_running(found)))
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

    /// Waits until they hold fewer than `many` things more than before; returns what they hold then.
    pub fn return_to(&self, before: &Held, many: usize, patience: Duration) -> Held {
        let deadline = Instant::now() + patience;
        loop {
            let now = self.held();
            if now.excess_over(before) < many || Instant::now() > deadline {
                return now;
            }
            std::thread::sleep(AGAIN);
        }
    }

    /// Lists the processes, living or not yet waited for.
    pub fn list(&self) -> Vec<Pid> {
        self.0.processes()
    }

    fn held(&self) -> Held {
        let processes = self.list();
        let mut held = Held { processes: processes.len(), ..Held::default() };
        for process in processes.into_iter().map(Pid::as_raw) {
            let status = proc_file::text(format!("/proc/{process}/status")).unwrap_or_default();
            let descriptors = fs::read_dir(format!("/proc/{process}/fd")).map_or(0, Iterator::count);
            // A process that is ending has none.
            if descriptors > 0 {
                let threads = number(&status, "Threads:") as usize;
                held.of.insert(process, Kept { descriptors, threads });
            }
            held.kib += number(&status, "RssAnon:");
            held.reserved_kib += number(&status, "VmData:");
        }
        held
    }
}

impl Held {
    /// Counts the descriptors and threads that processes have more than before, and the processes that there were not. A pool
    /// may have replaced a worker by another, whose own descriptors and threads are not counted.
    pub fn excess_over(&self, before: &Held) -> usize {
        let more = |(process, now): (&i32, &Kept)| {
            let before = before.of.get(process)?;
            Some(now.descriptors.saturating_sub(before.descriptors) + now.threads.saturating_sub(before.threads))
        };
        self.of.iter().filter_map(more).sum::<usize>() + self.processes.saturating_sub(before.processes)
    }

    /// Names what it has more than before, and how much, for a fault: before and now.
    pub fn in_words(&self, before: &Held) -> (String, String) {
        let sum = |held: &Held, part: fn(&Kept) -> usize| held.of.values().map(part).sum::<usize>();
        let counts = |held: &Held| [sum(held, |kept| kept.descriptors), sum(held, |kept| kept.threads), held.processes];
        let (mut then, mut now) = (Vec::new(), Vec::new());
        let names = ["descriptors", "threads", "processes"];
        for ((name, old), new) in names.into_iter().zip(counts(before)).zip(counts(self)) {
            if new > old {
                then.push(format!("{old} {name}"));
                now.push(format!("{new} {name}"));
            }
        }
        (then.join(", "), now.join(", "))
    }
}

/// Returns the number of a line of a process's status (proc_pid_status(5)).
fn number(status: &str, line: &str) -> u64 {
    let rest = status.lines().find_map(|each| each.strip_prefix(line));
    rest.and_then(|rest| rest.split_whitespace().next()?.parse().ok()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn held(of: &[(i32, usize, usize)], ended: usize) -> Held {
        let of: BTreeMap<i32, Kept> =
            of.iter().map(|&(process, descriptors, threads)| (process, Kept { descriptors, threads })).collect();
        Held { processes: of.len() + ended, of, ..Held::default() }
    }

    #[test]
    fn excess_is_of_processes_that_live_and_of_new_ones() {
        let before = held(&[(1, 10, 1), (2, 20, 5)], 0);
        for (now, excess) in [
            (held(&[(1, 10, 1), (2, 20, 5)], 0), 0),
            (held(&[(1, 13, 1), (2, 5, 5)], 0), 3),
            (held(&[(1, 10, 8), (2, 20, 1)], 0), 7),
            (held(&[(1, 10, 1), (3, 25, 90)], 0), 0),
            (held(&[(1, 10, 1), (2, 20, 5), (3, 9, 1), (4, 9, 1)], 0), 2),
            (held(&[(1, 10, 1), (2, 20, 5)], 4), 4),
        ] {
            assert_eq!(now.excess_over(&before), excess, "{now:?}");
        }
        let more = held(&[(1, 10, 8), (2, 20, 5)], 2);
        assert_eq!(more.in_words(&before), ("6 threads, 2 processes".to_owned(), "13 threads, 4 processes".to_owned()));
    }

    #[test]
    fn the_processes_of_a_listener_are_found_with_their_descriptors() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let processes = Processes::at(listener.local_addr().unwrap()).unwrap();
        let held = processes.held();
        let own = held.of.values().next().copied().unwrap_or_default();
        assert!(own.descriptors >= 4 && own.threads >= 1 && held.kib > 0, "{held:?}");
        let free = { std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap() };
        assert!(Processes::at(free).is_err());
    }
}
