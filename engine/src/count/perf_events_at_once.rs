//! Software events of one tree that one system call reads, so that their figures are of the same moment.

use std::io;
use std::time::Duration;

use anyhow::{Context, Result};
use perf_event::{Counter, Group as ReadAtOnce, ReadFormat};

use crate::count::missing_event::MissingEvent;
use crate::count::perf_event::{TreeEvent, first};
use crate::count::process_tree::Tree;
use crate::sys::{named, retry};

/// Maximum attempts of a reading, and the pause between them. A fork or exit that copies a hundred events takes half a
/// millisecond.
const TRIES: usize = 200;
const PAUSE: Duration = Duration::from_millis(1);

/// Software events of one tree that one system call reads. Their figures are of the same moment, and a process that counts
/// its own system calls adds only one.
pub struct EventsAtOnce {
    group: ReadAtOnce,
    members: Vec<Counter>,
}

impl EventsAtOnce {
    /// Begins to count one event, and those of the others that this machine has. Also returns for each of the others whether
    /// it is counted. Needs Linux 4.13 (PERF_FORMAT_GROUP of inherited events).
    pub fn open(event: TreeEvent, others: &[TreeEvent], tree: &Tree) -> Result<(Self, Vec<bool>)> {
        let format =
            ReadFormat::GROUP | ReadFormat::ID | ReadFormat::TOTAL_TIME_ENABLED | ReadFormat::TOTAL_TIME_RUNNING;
        let mut builder = event.builder(tree)?;
        builder.read_format(format);
        let mut group = first(&mut builder, tree).build_group().map_err(|error| event.refused(error))?;
        let mut members = Vec::new();
        let mut counted = Vec::new();
        for other in others {
            let builder = match other.builder(tree) {
                Ok(builder) => Some(builder),
                Err(error) if error.is::<MissingEvent>() => None,
                Err(error) => return Err(error),
            };
            counted.push(builder.is_some());
            if let Some(mut builder) = builder {
                let member = group.add(builder.read_format(format).enabled(true));
                members.push(member.map_err(|error| other.refused(error))?);
            }
        }
        Ok((EventsAtOnce { group, members }, counted))
    }

    /// Returns the count of the first event, and those of the other counted events in order.
    pub fn read(&mut self) -> Result<(u64, Vec<u64>)> {
        let read = named("read of perf events", intact(|| retry(|| self.group.read())))?;
        let value =
            |counter: &Counter| read.get(counter).map(|entry| entry.value()).context("the kernel left an event out");
        Ok((value(self.group.as_counter())?, self.members.iter().map(value).collect::<Result<_>>()?))
    }
}

/// Repeats a reading while a thread of the tree starts or ends. Meanwhile the thread has only some of the events, and the
/// kernel returns ECHILD (kernel/events/core.c, __perf_read_group_add).
fn intact<T>(mut read: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    for _ in 1..TRIES {
        match read() {
            Err(error) if error.raw_os_error() == Some(libc::ECHILD) => std::thread::sleep(PAUSE),
            read => return read,
        }
    }
    read()
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::process::{Child, Command, Stdio};

    use perf_event::events::Software;

    use super::*;
    use crate::count::process_tree::Beginning;
    use crate::count::tally::Tally;
    use crate::sys::process::Pid;

    /// Starts a program that waits for input.
    fn waiting(script: &str) -> (Child, Tree) {
        let script = format!("echo waits; read word; {script}");
        let child = Command::new("sh").args(["-c", &script]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
        let mut child = child.unwrap();
        let mut said = [0; 6];
        child.stdout.as_mut().unwrap().read_exact(&mut said).unwrap();
        let reaped = &Tally::new(0).unwrap().general().reaped;
        let tree = Tree { root: Pid::from_raw(child.id() as i32), from: Beginning::Now, reaped };
        (child, tree)
    }

    #[test]
    fn events_read_at_once_are_inherited_and_missing_ones_omitted() {
        let (mut child, tree) = waiting("for each in 1 2 3 4 5; do /bin/true; done");
        let others = [
            TreeEvent::software(Software::PAGE_FAULTS),
            TreeEvent::tracepoint("syscalls", "sys_enter_no_such_call"),
            TreeEvent::software(Software::CONTEXT_SWITCHES),
        ];
        let opened = EventsAtOnce::open(TreeEvent::software(Software::PAGE_FAULTS), &others, &tree);
        child.stdin.take().unwrap().write_all(b"go\n").unwrap();
        assert!(child.wait().unwrap().success());
        let (mut events, counted) = match opened {
            Ok(opened) => opened,
            Err(error) => return println!("skipped: {error:#}"),
        };
        assert_eq!(counted, [true, false, true]);
        let (first, others) = events.read().unwrap();
        assert_eq!((first, others.len()), (others[0], 2));
        assert!(first > 5 * 30 && others[1] > 0, "{first} {others:?}");
    }

    /// ECHILD cannot be provoked, so the test makes up the kernel's results, but not their handling.
    #[test]
    fn a_reading_is_tried_again_while_a_thread_has_the_events_in_part_and_no_longer_than_that() {
        let failing = |code: i32, times: usize| {
            let mut asked = 0;
            let read = intact(|| {
                asked += 1;
                if asked <= times { Err(io::Error::from_raw_os_error(code)) } else { Ok(asked) }
            });
            (read.map_err(|error| error.raw_os_error()), asked)
        };
        assert_eq!(failing(libc::ECHILD, 0), (Ok(1), 1));
        assert_eq!(failing(libc::ECHILD, 3), (Ok(4), 4));
        assert_eq!(failing(libc::ECHILD, usize::MAX), (Err(Some(libc::ECHILD)), TRIES), "it is bounded");
        assert_eq!(failing(libc::EINVAL, 1), (Err(Some(libc::EINVAL)), 1), "another error is no matter of time");
    }

    /// Tries it with the kernel: reads events without a pause while threads of the tree start and end.
    #[test]
    fn events_of_threads_that_come_and_go_can_be_read_at_any_moment() {
        let (mut child, tree) = waiting("for each in $(seq 150); do /bin/true & done; wait");
        let faults = TreeEvent::software(Software::PAGE_FAULTS);
        // Many events make a half-made child more likely.
        let opened = EventsAtOnce::open(faults, &[faults; 60], &tree);
        child.stdin.take().unwrap().write_all(b"go\n").unwrap();
        let (mut events, _) = match opened {
            Ok(opened) => opened,
            Err(error) => {
                child.wait().unwrap();
                return println!("skipped: {error:#}");
            }
        };
        let (mut last, mut readings) = (0, 0);
        while child.try_wait().unwrap().is_none() {
            let (first, others) = events.read().unwrap();
            assert!(first >= last && others.len() == 60, "counts only grow: {first} after {last}");
            (last, readings) = (first, readings + 1);
        }
        let (first, _) = events.read().unwrap();
        assert!(readings > 0 && first > 150 * 20, "{readings} readings, {first} faults of 150 programs");
    }
}
