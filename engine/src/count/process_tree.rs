//! A process and its descendants, as /proc shows them (proc(5)).

use std::collections::BTreeMap;
use std::fs;
use std::io;

use crate::base::proc_file;
use crate::sys::process::{self, Pid, Reaped, Usage};

/// A process without children yet, and all its future descendants.
#[derive(Clone, Copy)]
pub struct Tree {
    /// First process.
    pub root: Pid,
    /// Beginning of the counting.
    pub from: Beginning,
    /// Sums of what ended processes used.
    pub reaped: &'static Reaped,
}

/// Moments at which counting begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Beginning {
    /// From now on.
    Now,
    /// From its next execve(2) on. Its earlier usage is subtracted ([`Reaped::take_off`]).
    Exec,
}

impl Tree {
    /// Returns the tree of this process.
    pub fn of_this(reaped: &'static Reaped) -> Self {
        Tree { root: Pid::this(), from: Beginning::Now, reaped }
    }

    /// Lists its processes, living or not yet reaped.
    pub fn processes(&self) -> Vec<Pid> {
        let mut found = vec![self.root];
        let mut next = 0;
        while let Some(&process) = found.get(next) {
            // A process that ends meanwhile has no children any more.
            found.extend(children(process).unwrap_or_default());
            next += 1;
        }
        found
    }
}

/// Lists the children of a process's first thread: only our single-threaded processes fork.
pub fn children(process: Pid) -> io::Result<Vec<Pid>> {
    let text = fs::read_to_string(format!("/proc/{process}/task/{process}/children"))?;
    Ok(text.split_whitespace().filter_map(|number| number.parse().ok()).map(Pid::from_raw).collect())
}

/// A kind of context switches. The kernel counts them per thread, and sums them for each ended process.
#[derive(Clone, Copy)]
pub struct Kind {
    /// Its line in /proc/PID/task/TID/status.
    pub status: &'static str,
    /// Its field in the usage of a process.
    pub used: fn(&Usage) -> u64,
}

/// Context switches of one tree.
///
/// Switches of a thread stay counted after its end, so the sum never falls. Later switches, and those of threads that were
/// never seen, are added when their process is reaped. The switches of this process are exact (getrusage(2)).
pub struct Switches {
    tree: Tree,
    kind: Kind,
    seen: BTreeMap<Pid, BTreeMap<Pid, u64>>,
}

impl Switches {
    /// Begins to count a tree. Fails if the kernel does not show its processes or switches.
    pub fn open(tree: Tree, kind: Kind) -> io::Result<Self> {
        children(tree.root)?;
        of_thread(tree.root, tree.root, kind)
            .ok_or_else(|| io::Error::other(format!("/proc/PID/task/TID/status has no {}", kind.status)))?;
        Ok(Switches { tree, kind, seen: BTreeMap::new() })
    }

    /// Returns the switches so far.
    pub fn read(&mut self) -> io::Result<u64> {
        let processes = self.tree.processes();
        self.seen.retain(|process, _| processes.contains(process));
        let mut sum = (self.kind.used)(&self.tree.reaped.usage());
        for process in processes {
            sum = sum.wrapping_add(if process == Pid::this() {
                (self.kind.used)(&process::usage_of_self()?)
            } else {
                self.of_process(process)
            });
        }
        Ok(sum)
    }

    fn of_process(&mut self, process: Pid) -> u64 {
        let Ok(entries) = fs::read_dir(format!("/proc/{process}/task")) else {
            // The process was reaped: its switches are in the sums of ended processes.
            self.seen.remove(&process);
            return 0;
        };
        let threads = self.seen.entry(process).or_default();
        for entry in entries.flatten() {
            let number = entry.file_name().to_str().and_then(|name| name.parse().ok()).map(Pid::from_raw);
            if let Some(thread) = number
                && let Some(count) = of_thread(process, thread, self.kind)
            {
                threads.insert(thread, count);
            }
        }
        threads.values().sum()
    }
}

fn of_thread(process: Pid, thread: Pid, kind: Kind) -> Option<u64> {
    let text = proc_file::text(format!("/proc/{process}/task/{thread}/status")).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix(kind.status)?.strip_prefix(':'));
    line?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_whose_name_is_cut_within_a_character_has_its_switches() {
        let kind = Kind { status: "voluntary_ctxt_switches", used: |usage| usage.voluntary_switches };
        let counted = std::thread::spawn(move || {
            fs::write("/proc/thread-self/comm", b"within-a-chara\xc3").unwrap();
            std::thread::sleep(std::time::Duration::from_millis(1));
            of_thread(Pid::this(), nix::unistd::gettid(), kind)
        });
        assert!(counted.join().unwrap().is_some_and(|switches| switches > 0));
    }
}
