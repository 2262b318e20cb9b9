//! Address spaces: which process had which file mapped where, at each moment. They give the addresses of stacks their
//! meaning.

use std::collections::HashMap;
use std::ffi::OsString;
use std::rc::Rc;

use crate::stacks::perf_record::{Happened, Moment};

/// A code location, the same in all processes that run it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Place {
    /// Address in the kernel.
    Kernel(u64),
    /// Number of a file, and the offset in it.
    File(u32, u64),
    /// In user mode, outside every known mapping.
    Nowhere,
}

/// Marks of the kernel within a chain (enum perf_callchain_context, linux/perf_event.h). The addresses after one belong to
/// the kernel or to user mode. Every value from the last of these on is a mark.
const KERNEL: u64 = -128i64 as u64;
const USER: u64 = -512i64 as u64;
const MARKS: u64 = -4095i64 as u64;

/// Name of the program that the start gate runs.
const PROGRAM: &str = env!("CARGO_PKG_NAME");

/// The address spaces of all processes of a tree from its root's exec on, and the names of their threads. Other processes
/// are ignored.
pub struct AddressSpaces {
    root: u32,
    files: Vec<OsString>,
    /// Mappings of each process of the tree. A forked process has those of its parent until it maps more.
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

/// A sample of the tree.
#[derive(Debug, PartialEq, Eq)]
pub struct Found {
    /// Time (CLOCK_MONOTONIC).
    pub at_ns: u64,
    /// Name of the thread.
    pub command: Rc<str>,
    /// The stack, outermost place first.
    pub stack: Vec<Place>,
}

impl AddressSpaces {
    /// Starts with a process that has not called exec yet. Its future descendants belong to the tree.
    pub fn of_tree(root: u32) -> Self {
        AddressSpaces { root, files: Vec::new(), spaces: HashMap::new(), names: HashMap::new() }
    }

    /// Processes the next moment. Returns the sample if it was one of the tree.
    pub fn see(&mut self, moment: Moment) -> Option<Found> {
        match moment.what {
            Happened::Sampled { process, thread, chain } => {
                let space = self.spaces.get(&process)?;
                // Every thread of the tree has a name, from exec or from the thread that made it.
                let command = self.names.get(&thread).cloned().unwrap_or_else(|| PROGRAM.into());
                return Some(Found { at_ns: moment.at_ns, command, stack: stack(space, &chain) });
            }
            Happened::Forked { process, parent, thread, parent_thread } => {
                match self.spaces.get(&parent).cloned() {
                    Some(space) if process != parent => drop(self.spaces.insert(process, space)),
                    Some(_) => {}
                    // A process outside the tree reuses the number of an ended one.
                    None => drop(self.spaces.remove(&process)),
                }
                if let Some(name) = self.names.get(&parent_thread).cloned() {
                    self.names.insert(thread, name);
                }
            }
            Happened::Named { process, thread, name, by_exec } => {
                if by_exec && (process == self.root || self.spaces.contains_key(&process)) {
                    self.spaces.insert(process, Rc::default());
                }
                if self.spaces.contains_key(&process) {
                    // The gate runs /proc/self/exe, and execve(2) names a process after the last part of that path.
                    let name = if by_exec && name == "exe" { PROGRAM } else { &name };
                    self.names.insert(thread, name.into());
                }
            }
            Happened::Mapped { process, start, length, offset, file } => {
                if self.spaces.contains_key(&process) {
                    let file = self.number(file);
                    let space = self.spaces.entry(process).or_default();
                    Rc::make_mut(space).push(Mapping { start, length, offset, file });
                }
            }
        }
        None
    }

    /// Returns the files by number.
    pub fn files(&self) -> &[OsString] {
        &self.files
    }

    fn number(&mut self, file: OsString) -> u32 {
        let number = self.files.iter().position(|known| *known == file).unwrap_or_else(|| {
            self.files.push(file);
            self.files.len() - 1
        });
        u32::try_from(number).expect("no process maps this many files")
    }
}

/// Converts a chain to places, outermost first. Except for the innermost ones of kernel and user mode, addresses are return
/// addresses; the call is just before.
fn stack(space: &[Mapping], chain: &[u64]) -> Vec<Place> {
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
            USER => places.push(place(space, call)),
            // A hypervisor's or a guest's address, about which nothing is known.
            _ => {}
        }
    }
    // If a function uses the frame pointer for other data, the kernel follows it to unmapped addresses, sometimes many.
    places.dedup_by(|one, other| *one == Place::Nowhere && *other == Place::Nowhere);
    places.reverse();
    places
}

fn place(space: &[Mapping], address: u64) -> Place {
    // Later mappings cover earlier ones.
    let within = |mapping: &&Mapping| address.checked_sub(mapping.start).is_some_and(|at| at < mapping.length);
    match space.iter().rev().find(within) {
        // The kernel has offsets of no file, too, which may be any.
        Some(mapping) => Place::File(mapping.file, (address - mapping.start).wrapping_add(mapping.offset)),
        None => Place::Nowhere,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn see(spaces: &mut AddressSpaces, what: Happened) {
        assert_eq!(spaces.see(Moment { at_ns: 1, what }), None);
    }

    fn found(spaces: &mut AddressSpaces, process: u32, thread: u32, chain: &[u64]) -> (String, Vec<Place>) {
        let what = Happened::Sampled { process, thread, chain: chain.to_vec() };
        let found = spaces.see(Moment { at_ns: 2, what }).expect("a sample");
        assert_eq!(found.at_ns, 2);
        (found.command.to_string(), found.stack)
    }

    fn map(process: u32, start: u64, file: &str) -> Happened {
        Happened::Mapped { process, start, length: 0x100, offset: 0x1000, file: file.into() }
    }

    fn exec(process: u32, name: &str) -> Happened {
        Happened::Named { process, thread: process, name: name.into(), by_exec: true }
    }

    fn begun() -> AddressSpaces {
        let mut spaces = AddressSpaces::of_tree(1);
        see(&mut spaces, exec(1, "exe"));
        spaces
    }

    #[test]
    fn calls_stand_before_the_addresses_to_which_they_return() {
        let mut spaces = begun();
        see(&mut spaces, map(1, 0x500, "engine"));
        let (_, stack) = found(&mut spaces, 1, 1, &[KERNEL, 0xa0, 0xb0, USER, 0x510, 0x520, 0x9000, 0x9900]);
        let in_file = |at: u64| Place::File(0, 0x1000 + at);
        assert_eq!(stack, [Place::Nowhere, in_file(0x1f), in_file(0x10), Place::Kernel(0xaf), Place::Kernel(0xa0)]);
        let hypervisor = -32i64 as u64;
        assert_eq!(found(&mut spaces, 1, 1, &[hypervisor, 1, 2, USER, 0x500]).1, [in_file(0)]);
        assert_eq!(found(&mut spaces, 1, 1, &[]).1, []);
    }

    #[test]
    fn a_fork_has_what_its_parent_had_and_an_exec_has_nothing() {
        let mut spaces = begun();
        see(&mut spaces, map(1, 0x500, "engine"));
        see(&mut spaces, Happened::Forked { process: 2, parent: 1, thread: 2, parent_thread: 1 });
        see(&mut spaces, Happened::Forked { process: 2, parent: 2, thread: 3, parent_thread: 2 });
        see(&mut spaces, map(2, 0x700, "library"));
        let both = [USER, 0x700, 0x501];
        let (name, stack) = found(&mut spaces, 2, 3, &both);
        assert_eq!(
            (name.as_str(), stack),
            ("thunderherd-engine", vec![Place::File(0, 0x1000), Place::File(1, 0x1000)])
        );
        assert_eq!(found(&mut spaces, 1, 1, &both).1, [Place::File(0, 0x1000), Place::Nowhere]);
        assert_eq!(spaces.files(), ["engine", "library"]);

        see(&mut spaces, exec(2, "sh"));
        assert_eq!(found(&mut spaces, 2, 2, &both), ("sh".to_owned(), vec![Place::Nowhere]));
        assert_eq!(found(&mut spaces, 1, 1, &[USER, 0x500]).1, [Place::File(0, 0x1000)]);
    }

    #[test]
    fn only_the_tree_is_seen_and_from_its_exec_on() {
        let mut spaces = AddressSpaces::of_tree(1);
        let sample = |process| Happened::Sampled { process, thread: process, chain: vec![USER, 0x500] };
        let fork = |process, parent| Happened::Forked { process, parent, thread: process, parent_thread: parent };
        see(&mut spaces, sample(1));
        for stranger in [fork(2, 9), exec(9, "sh"), map(9, 0x500, "sh"), sample(9), sample(2)] {
            see(&mut spaces, stranger);
        }
        see(&mut spaces, exec(1, "exe"));
        see(&mut spaces, fork(2, 1));
        assert_eq!(found(&mut spaces, 2, 2, &[]).0, "thunderherd-engine");
        see(&mut spaces, fork(2, 9));
        see(&mut spaces, sample(2));
        assert_eq!(spaces.files().len(), 0, "a stranger's files are of no interest");
    }

    #[test]
    fn later_mappings_cover_earlier_ones() {
        let mut spaces = begun();
        see(&mut spaces, map(1, 0x500, "old"));
        see(&mut spaces, map(1, 0x580, "new"));
        assert_eq!(found(&mut spaces, 1, 1, &[USER, 0x57f]).1, [Place::File(0, 0x107f)]);
        assert_eq!(found(&mut spaces, 1, 1, &[USER, 0x580]).1, [Place::File(1, 0x1000)]);
        assert_eq!(found(&mut spaces, 1, 1, &[USER, 0x680]).1, [Place::Nowhere]);
    }
}
