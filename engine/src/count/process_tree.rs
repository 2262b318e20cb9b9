//! A process and all that it starts, as /proc shows them (proc(5)).

use std::collections::BTreeMap;
use std::fs;
use std::io;

use crate::sys::process::{self, Pid, Reaped, Usage};

/// What is counted: a process that has started nothing yet, and all that it will start.
#[derive(Clone, Copy)]
pub struct Tree {
    /// The process.
    pub root: Pid,
    /// From when on.
    pub from: Beginning,
    /// Where what its ended processes had used is added up.
    pub reaped: &'static Reaped,
}

/// From when on a process is counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Beginning {
    /// From now on.
    Now,
    /// From its next execve(2) on. What it used before is taken off by itself ([`Reaped::take_off`]).
    Exec,
}

impl Tree {
    /// This process, and all that it will start.
    pub fn of_this(reaped: &'static Reaped) -> Self {
        Tree { root: Pid::this(), from: Beginning::Now, reaped }
    }

    /// Its living processes, and those that have ended and were not waited for.
    pub fn processes(&self) -> Vec<Pid> {
        let mut found = vec![self.root];
        let mut next = 0;
        while let Some(&process) = found.get(next) {
            // One that ends meanwhile has no children any more.
            found.extend(children(process).unwrap_or_default());
            next += 1;
        }
        found
    }
}

/// The children of a process's first thread: only single-threaded processes of ours fork.
pub fn children(process: Pid) -> io::Result<Vec<Pid>> {
    let text = fs::read_to_string(format!("/proc/{process}/task/{process}/children"))?;
    Ok(text.split_whitespace().filter_map(|number| number.parse().ok()).map(Pid::from_raw).collect())
}

/// One kind of context switches, which the kernel counts for each thread and adds up for each ended process.
#[derive(Clone, Copy)]
pub struct Kind {
    /// Its line in /proc/PID/task/TID/status.
    pub status: &'static str,
    /// Its place in what a process has used.
    pub used: fn(&Usage) -> u64,
}

/// The switches of one tree.
///
/// What a thread had when it was last seen stays counted when it has ended, so that the sum never falls; what came after
/// that, and threads that were never seen, are counted when their process has ended and was waited for. This process
/// itself is known exactly (getrusage(2)).
pub struct Switches {
    tree: Tree,
    kind: Kind,
    seen: BTreeMap<Pid, BTreeMap<Pid, u64>>,
}

impl Switches {
    /// Begins to look at a tree; an error where the kernel does not show its processes or its switches.
    pub fn open(tree: Tree, kind: Kind) -> io::Result<Self> {
        children(tree.root)?;
        of_thread(tree.root, tree.root, kind)
            .ok_or_else(|| io::Error::other(format!("/proc/PID/task/TID/status has no {}", kind.status)))?;
        Ok(Switches { tree, kind, seen: BTreeMap::new() })
    }

    /// The switches so far.
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
            // It was waited for: what it had is among what the ended ones had used.
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
    let text = fs::read_to_string(format!("/proc/{process}/task/{thread}/status")).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix(kind.status)?.strip_prefix(':'));
    line?.trim().parse().ok()
}
