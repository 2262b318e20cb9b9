//! What the addresses of a stack are addresses of: which process had which file mapped where, at each moment.

use std::collections::HashMap;
use std::rc::Rc;

use crate::sampling::{Happened, Moment};

/// A place of code, the same in all processes that run it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Place {
    /// In the kernel, its address.
    Kernel(u64),
    /// In a file, by its number: the offset.
    File(u32, u64),
    /// In user mode, where nothing was seen to be mapped.
    Nowhere,
}

/// The kernel's marks within a chain (enum perf_callchain_context, linux/perf_event.h): what comes next is of the kernel, or of
/// user mode. Whatever is as large as the last of them is a mark.
const KERNEL: u64 = -128i64 as u64;
const USER: u64 = -512i64 as u64;
const MARKS: u64 = -4095i64 as u64;

/// The address spaces of all processes of a tree, and the names of its threads.
#[derive(Default)]
pub struct AddressSpaces {
    files: Vec<String>,
    /// A forked process has what its parent had, until it maps more.
    spaces: HashMap<u32, Rc<Vec<Mapping>>>,
    names: HashMap<u32, Rc<str>>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Mapping {
    start: u64,
    length: u64,
    offset: u64,
    file: u32,
}

/// Somebody was found running here.
#[derive(Debug, PartialEq, Eq)]
pub struct Found {
    /// CLOCK_MONOTONIC.
    pub at_ns: u64,
    /// The thread's name.
    pub command: Rc<str>,
    /// Outermost place first.
    pub stack: Vec<Place>,
}

impl AddressSpaces {
    /// Takes in what happened next; where it was a sample, what was found.
    pub fn see(&mut self, moment: Moment) -> Option<Found> {
        match moment.what {
            Happened::Sampled { process, thread, chain } => {
                let command = self.names.get(&thread).cloned().unwrap_or_else(|| "?".into());
                return Some(Found { at_ns: moment.at_ns, command, stack: self.stack(process, &chain) });
            }
            Happened::Forked { process, parent, thread, parent_thread } => {
                if process != parent {
                    let space = self.spaces.get(&parent).cloned().unwrap_or_default();
                    self.spaces.insert(process, space);
                }
                if let Some(name) = self.names.get(&parent_thread).cloned() {
                    self.names.insert(thread, name);
                }
            }
            Happened::Named { process, thread, name, by_exec } => {
                if by_exec {
                    self.spaces.remove(&process);
                }
                // The gate starts /proc/self/exe, and execve(2) names a process after the last part of what it was given.
                let name = if by_exec && name == "exe" { env!("CARGO_PKG_NAME") } else { &name };
                self.names.insert(thread, name.into());
            }
            Happened::Mapped { process, start, length, offset, file } => {
                let file = self.number(file);
                Rc::make_mut(self.spaces.entry(process).or_default()).push(Mapping { start, length, offset, file });
            }
        }
        None
    }

    /// The files, by their numbers.
    pub fn files(&self) -> &[String] {
        &self.files
    }

    fn number(&mut self, file: String) -> u32 {
        let number = self.files.iter().position(|known| *known == file).unwrap_or_else(|| {
            self.files.push(file);
            self.files.len() - 1
        });
        u32::try_from(number).expect("nobody maps so many files")
    }

    /// The places of a chain, outermost first. All addresses but the innermost of the kernel and of user mode are those to
    /// which calls return; the call stands before.
    fn stack(&self, process: u32, chain: &[u64]) -> Vec<Place> {
        let mut places = Vec::new();
        let (mut mark, mut innermost) = (USER, true);
        for &address in chain {
            if address >= MARKS {
                (mark, innermost) = (address, true);
                continue;
            }
            let call = if innermost { address } else { address.saturating_sub(1) };
            innermost = false;
            match mark {
                KERNEL => places.push(Place::Kernel(call)),
                USER => places.push(self.place(process, call)),
                // A hypervisor's or a guest's, of which nothing is known here.
                _ => {}
            }
        }
        places.reverse();
        places
    }

    fn place(&self, process: u32, address: u64) -> Place {
        let mappings = self.spaces.get(&process).map_or(&[][..], |space| &space[..]);
        // What was mapped last lies above what was there before.
        let within = |mapping: &&Mapping| address.checked_sub(mapping.start).is_some_and(|at| at < mapping.length);
        match mappings.iter().rev().find(within) {
            Some(mapping) => Place::File(mapping.file, address - mapping.start + mapping.offset),
            None => Place::Nowhere,
        }
    }
}
