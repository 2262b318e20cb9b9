//! A perf event of a whole process tree (perf_event_open(2)): what the counters that rest on one have in common.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context, Error, Result};
use perf_event::events::{CacheId, CacheOp, CacheResult, Hardware, Raw, Software};
use perf_event::{Builder, CountAndTime, Counter, Group as ReadAtOnce, ReadFormat};
use schemars::JsonSchema;
use serde::Serialize;

use crate::absent::Absent;
use crate::named_event::Named;
use crate::perf_names::Generic;
use crate::pmu::{self, Term};
use crate::process_tree::{Beginning, Tree};
use crate::tracefs;

/// What is counted, and what of it.
#[derive(Debug, Clone, Copy)]
pub struct TreeEvent {
    kind: Kind,
    modes: Modes,
    group: Option<Group>,
}

#[derive(Debug, Clone, Copy)]
enum Kind {
    Generic(Generic),
    Raw(u64),
    Tracepoint { subsystem: &'static str, event: &'static str },
    PmuEvent { pmu: &'static str, terms: &'static [Term<'static>] },
}

/// What an event has to see.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Modes {
    /// The kernel as well as the program.
    UserAndKernel,
    /// The event is of no mode. It asks for user mode only, as an unprivileged user must.
    None,
    /// Whatever its PMU counts: many of them refuse to leave anything out (PERF_PMU_CAP_NO_EXCLUDE).
    All,
}

impl Modes {
    /// The largest kernel.perf_event_paranoid with which a user without CAP_PERFMON may have such an event.
    fn paranoid_at_most(self) -> i32 {
        if self == Modes::None { 2 } else { 1 }
    }
}

/// Events that are divided by each other. The kernel gives the members of a group counters of the CPU at the same times or not
/// at all, so that their ratio is one of the same work even where all of them are scaled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Group {
    /// Cycles and instructions.
    Cycles,
    /// Branches, and those of them that were predicted wrongly.
    Branches,
    /// Uses of the last level of the cache, and those of them that missed.
    Caches,
    /// Loads from the first level of the data cache, and those of them that missed.
    FirstLevel,
    /// Loads from the last level of the cache, and those of them that missed.
    LastLevel,
}

impl TreeEvent {
    const fn new(kind: Kind, modes: Modes) -> Self {
        TreeEvent { kind, modes, group: None }
    }

    /// One that every processor names alike, if it has it.
    pub const fn hardware(event: Hardware) -> Self {
        Self::new(Kind::Generic(Generic::Hardware(event)), Modes::UserAndKernel)
    }

    /// Loads from a cache, or those of them that missed.
    pub const fn cache_load(level: CacheId, result: CacheResult) -> Self {
        Self::new(Kind::Generic(Generic::Cache(level, CacheOp::READ, result)), Modes::UserAndKernel)
    }

    /// One that the kernel counts itself.
    pub const fn software(event: Software) -> Self {
        Self::new(Kind::Generic(Generic::Software(event)), Modes::UserAndKernel)
    }

    /// A clock of the kernel: it runs whenever the task does, in whatever mode.
    pub const fn clock(event: Software) -> Self {
        Self::new(Kind::Generic(Generic::Software(event)), Modes::None)
    }

    /// A point of the kernel's code, by the part of the kernel and its name there.
    pub const fn tracepoint(subsystem: &'static str, event: &'static str) -> Self {
        Self::new(Kind::Tracepoint { subsystem, event }, Modes::UserAndKernel)
    }

    /// One that is asked for by a name.
    pub fn named(name: Named<'static>) -> Self {
        match name {
            Named::Generic(event) => Self::new(Kind::Generic(event), Modes::UserAndKernel),
            Named::Raw(number) => Self::new(Kind::Raw(number), Modes::UserAndKernel),
            Named::Tracepoint { subsystem, event } => Self::tracepoint(subsystem, event),
            Named::PmuEvent { pmu, terms } => Self::new(Kind::PmuEvent { pmu, terms: terms.leak() }, Modes::All),
        }
    }

    /// What it is among those that every kernel knows, if it is one of them.
    pub fn generic(self) -> Option<Generic> {
        if let Kind::Generic(event) = self.kind { Some(event) } else { None }
    }

    /// Fails with the reason where this machine has nothing of its name.
    pub fn find(self) -> Result<()> {
        self.builder_alone().map(drop)
    }

    /// Counted at the same times as the others of the group.
    pub const fn in_group(self, group: Group) -> Self {
        TreeEvent { group: Some(group), ..self }
    }

    /// Begins to count. The error says why that is not to be had here.
    ///
    /// `leaders` holds the first event of each group. With `inherit` the kernel copies whole groups to what is forked, and each
    /// member is read by itself: reading all at once (PERF_FORMAT_GROUP) would only save system calls. (Kernels before 4.13
    /// refused that together with `inherit`; what they still refuse until 6.13 is PERF_SAMPLE_READ, which belongs to samples.)
    pub fn open(self, tree: &Tree, leaders: &mut Leaders) -> Result<PerfEvent> {
        let mut builder = self.builder(tree)?;
        if let Some(leader) = self.group.and_then(|group| leaders.0.get(&group)) {
            let mut leader = leader.lock().unwrap_or_else(PoisonError::into_inner);
            // A member runs whenever its leader does. A group that the CPU has too few counters for is refused: then the
            // event is counted by itself, at times of its own.
            if let Ok(member) = builder.enabled(true).build_with_group(&mut *leader) {
                return Ok(self.opened(member));
            }
        }
        let counter = first(&mut builder, tree).build().map_err(|error| refused(error, self.modes))?;
        let opened = self.opened(counter);
        if let Some(group) = self.group {
            leaders.0.entry(group).or_insert_with(|| Arc::clone(&opened.counter));
        }
        Ok(opened)
    }

    fn builder(self, tree: &Tree) -> Result<Builder<'static>> {
        let mut builder = self.builder_alone()?;
        builder.observe_pid(tree.root.as_raw()).inherit(true);
        match self.modes {
            Modes::UserAndKernel => drop(builder.include_kernel()),
            Modes::All => drop(builder.include_kernel().include_hv()),
            Modes::None => {}
        }
        Ok(builder)
    }

    fn builder_alone(self) -> Result<Builder<'static>> {
        Ok(match self.kind {
            Kind::Generic(event) => event.builder(),
            Kind::Raw(number) => Builder::new(Raw::new(number)),
            Kind::Tracepoint { subsystem, event } => Builder::new(tracefs::tracepoint(subsystem, event)?),
            Kind::PmuEvent { pmu, terms } => pmu::event(pmu, terms)?.builder(),
        })
    }

    fn opened(self, counter: Counter) -> PerfEvent {
        let takes_turns = !matches!(self.kind, Kind::Generic(Generic::Software(_)) | Kind::Tracepoint { .. });
        PerfEvent { counter: Arc::new(Mutex::new(counter)), takes_turns }
    }
}

/// What is not in a group, or leads one, is counted from now or from the next exec on.
fn first<'a, 'b>(builder: &'a mut Builder<'b>, tree: &Tree) -> &'a Builder<'b> {
    let now = tree.from == Beginning::Now;
    builder.enabled(now).enable_on_exec(!now)
}

/// The first event of each group, which the others join.
#[derive(Default)]
pub struct Leaders(BTreeMap<Group, Arc<Mutex<Counter>>>);

/// One event, which all that the tree will start inherits.
pub struct PerfEvent {
    counter: Arc<Mutex<Counter>>,
    /// The CPU has few counters for such events, which more events than that use by turns. The kernel's own run all the time.
    takes_turns: bool,
}

/// For how long an event was counted that shares the CPU's counters with others by turns (multiplexing).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Multiplexing {
    /// What was counted while it had a counter.
    pub counted: u64,
    /// For how long the tree ran, over all its threads.
    pub enabled_ns: u64,
    /// For how long of that it had a counter.
    pub running_ns: u64,
    /// It had none for some of the time, and the figure is extrapolated: counted × enabled / running.
    pub scaled: bool,
}

impl Multiplexing {
    /// Of these readings of the kernel (perf_event_open(2), time_enabled and time_running).
    pub fn new(counted: u64, enabled_ns: u64, running_ns: u64) -> Self {
        Multiplexing { counted, enabled_ns, running_ns, scaled: running_ns < enabled_ns }
    }

    /// What all of the time would have come to; none where it was never counted while the tree ran.
    pub fn value(&self) -> Option<u64> {
        let Multiplexing { counted, enabled_ns, running_ns, scaled } = *self;
        match (scaled, running_ns) {
            (false, _) => Some(counted),
            (true, 0) => None,
            (true, _) => {
                let scaled = u128::from(counted) * u128::from(enabled_ns) / u128::from(running_ns);
                Some(u64::try_from(scaled).unwrap_or(u64::MAX))
            }
        }
    }

    /// The share of the time in which it was counted.
    pub fn share(&self) -> f64 {
        if self.scaled { self.running_ns as f64 / self.enabled_ns as f64 } else { 1.0 }
    }

    /// What came after an earlier reading: extrapolated by itself, not as a difference of extrapolations.
    pub fn since(&self, earlier: &Self) -> Self {
        Multiplexing::new(
            self.counted.saturating_sub(earlier.counted),
            self.enabled_ns.saturating_sub(earlier.enabled_ns),
            self.running_ns.saturating_sub(earlier.running_ns),
        )
    }
}

impl PerfEvent {
    /// The count so far, ended processes and threads included, and for how long it was counted.
    pub fn read(&mut self) -> io::Result<Multiplexing> {
        let mut counter = self.counter.lock().unwrap_or_else(PoisonError::into_inner);
        let CountAndTime { count, time_enabled, time_running } = counter.read_count_and_time()?;
        Ok(Multiplexing::new(count, time_enabled, time_running))
    }

    /// Whether it shares the CPU's counters with other events.
    pub fn takes_turns(&self) -> bool {
        self.takes_turns
    }
}

/// How often a reading is tried, and the pause in between: a fork or exit that copies a hundred events takes half of it.
const TRIES: usize = 200;
const PAUSE: Duration = Duration::from_millis(1);

/// Software events of one tree that are read all at once, by one system call: their figures are of the same moment, and whoever
/// counts its own system calls adds one alone.
pub struct EventsAtOnce {
    group: ReadAtOnce,
    members: Vec<Counter>,
}

impl EventsAtOnce {
    /// Begins to count one event, and those of the others that this machine has. Beside it, for each of the others whether it
    /// is counted. Needs Linux 4.13 (PERF_FORMAT_GROUP of events that are inherited).
    pub fn open(event: TreeEvent, others: &[TreeEvent], tree: &Tree) -> Result<(Self, Vec<bool>)> {
        let format =
            ReadFormat::GROUP | ReadFormat::ID | ReadFormat::TOTAL_TIME_ENABLED | ReadFormat::TOTAL_TIME_RUNNING;
        let mut builder = event.builder(tree)?;
        builder.read_format(format);
        let mut group = first(&mut builder, tree).build_group().map_err(|error| refused(error, event.modes))?;
        let mut members = Vec::new();
        let mut counted = Vec::new();
        for other in others {
            let builder = match other.builder(tree) {
                Ok(builder) => Some(builder),
                Err(error) if error.is::<Absent>() => None,
                Err(error) => return Err(error),
            };
            counted.push(builder.is_some());
            if let Some(mut builder) = builder {
                let member = group.add(builder.read_format(format).enabled(true));
                members.push(member.map_err(|error| refused(error, other.modes))?);
            }
        }
        Ok((EventsAtOnce { group, members }, counted))
    }

    /// The first, and those of the others that are counted, in their order.
    pub fn read(&mut self) -> Result<(u64, Vec<u64>)> {
        let read = intact(|| self.group.read())?;
        let value =
            |counter: &Counter| read.get(counter).map(|entry| entry.value()).context("the kernel left an event out");
        Ok((value(self.group.as_counter())?, self.members.iter().map(value).collect::<Result<_>>()?))
    }
}

/// While a thread of the tree is being made or ends, it has the events in part, and the kernel answers ECHILD
/// (kernel/events/core.c, __perf_read_group_add): then it is asked again.
fn intact<T>(mut read: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    for _ in 1..TRIES {
        match read() {
            Err(error) if error.raw_os_error() == Some(libc::ECHILD) => std::thread::sleep(PAUSE),
            read => return read,
        }
    }
    read()
}

fn refused(error: io::Error, modes: Modes) -> Error {
    refused_above(modes.paranoid_at_most(), error, modes)
}

/// The error with what would help. The setting forbids with EACCES where it is above `most`; a filter of system calls mostly
/// answers EPERM or ENOSYS.
pub fn refused_above(most: i32, error: io::Error, modes: Modes) -> Error {
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
        (Some(libc::EINVAL), _) if modes == Modes::All => {
            "this PMU does not count so for a process (its events are of a CPU, such as those of memory controllers, or the \
             values of its keys mean nothing to it)"
                .to_owned()
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
    use std::io::{Read, Write};
    use std::process::{Child, Command, Stdio};

    use super::*;
    use crate::sys::process::Pid;
    use crate::tally::Tally;

    /// A program that begins when it is told to, and starts others.
    fn waiting() -> (Child, Tree) {
        let script = "echo waits; read word; for each in 1 2 3 4 5; do /bin/true; done";
        let child = Command::new("sh").args(["-c", script]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
        let mut child = child.unwrap();
        let mut said = [0; 6];
        child.stdout.as_mut().unwrap().read_exact(&mut said).unwrap();
        // Until it sleeps, it may fault between the opening of one event and of the next.
        std::thread::sleep(std::time::Duration::from_millis(100));
        let reaped = &Tally::new(0).unwrap().general().reaped;
        let tree = Tree { root: Pid::from_raw(child.id() as i32), from: Beginning::Now, reaped };
        (child, tree)
    }

    fn go(mut child: Child) {
        child.stdin.take().unwrap().write_all(b"go\n").unwrap();
        assert!(child.wait().unwrap().success());
    }

    /// With events of the kernel, which any machine has: what is forked is counted in the group as well.
    #[test]
    fn members_of_a_group_are_counted_with_their_leader_and_inherited() {
        let (child, tree) = waiting();
        let event = |event| TreeEvent::software(event).in_group(Group::Branches);
        let mut leaders = Leaders::default();
        let opened: Result<Vec<PerfEvent>> =
            [Software::PAGE_FAULTS, Software::PAGE_FAULTS_MIN, Software::CPU_MIGRATIONS]
                .into_iter()
                .map(|each| event(each).open(&tree, &mut leaders))
                .collect();
        let alone = TreeEvent::software(Software::PAGE_FAULTS).open(&tree, &mut leaders);
        go(child);
        let (mut opened, mut alone) = match (opened, alone) {
            (Ok(opened), Ok(alone)) => (opened, alone),
            (Err(error), _) | (_, Err(error)) => return println!("skipped: {error:#}"),
        };
        assert_eq!(leaders.0.len(), 1, "the first leads the others");
        let read: Vec<Multiplexing> = opened.iter_mut().map(|each| each.read().unwrap()).collect();
        let alone = alone.read().unwrap();
        assert_eq!(read[0].counted, alone.counted, "in a group or not: the same faults");
        assert!(alone.counted > 5 * 30, "each of five programs has dozens of faults: {alone:?}");
        assert!(read[1].counted > 0 && read[1].counted <= read[0].counted, "{read:?}");
        assert!(read.iter().all(|each| !each.scaled && each.enabled_ns > 0), "{read:?}");
    }

    #[test]
    fn events_that_are_read_at_once_are_inherited_and_those_that_are_not_there_left_out() {
        let (child, tree) = waiting();
        let others = [
            TreeEvent::software(Software::PAGE_FAULTS),
            TreeEvent::tracepoint("syscalls", "sys_enter_no_such_call"),
            TreeEvent::software(Software::CONTEXT_SWITCHES),
        ];
        let opened = EventsAtOnce::open(TreeEvent::software(Software::PAGE_FAULTS), &others, &tree);
        go(child);
        let (mut events, counted) = match opened {
            Ok(opened) => opened,
            Err(error) => return println!("skipped: {error:#}"),
        };
        assert_eq!(counted, [true, false, true]);
        let (first, others) = events.read().unwrap();
        assert_eq!((first, others.len()), (others[0], 2));
        assert!(first > 5 * 30 && others[1] > 0, "{first} {others:?}");
    }

    /// Nothing makes the kernel answer ECHILD when it is wanted: the answers are made up, what is done with them is not.
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

    /// The real thing, as far as it comes: events of a tree whose threads come and go are read without a pause.
    #[test]
    fn events_of_threads_that_come_and_go_can_be_read_at_any_moment() {
        let script = "echo waits; read word; for each in $(seq 150); do /bin/true & done; wait";
        let child = Command::new("sh").args(["-c", script]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
        let mut child = child.unwrap();
        let mut said = [0; 6];
        child.stdout.as_mut().unwrap().read_exact(&mut said).unwrap();
        let reaped = &Tally::new(0).unwrap().general().reaped;
        let tree = Tree { root: Pid::from_raw(child.id() as i32), from: Beginning::Now, reaped };
        let faults = TreeEvent::software(Software::PAGE_FAULTS);
        // Many events: so much longer is a child half made.
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

    #[test]
    fn what_was_counted_for_a_part_of_the_time_is_extrapolated_and_says_so() {
        let whole = Multiplexing::new(42, 1000, 1000);
        assert_eq!((whole.value(), whole.scaled, whole.share()), (Some(42), false, 1.0));
        let quarter = Multiplexing::new(42, 1000, 250);
        assert_eq!((quarter.value(), quarter.scaled, quarter.share()), (Some(168), true, 0.25));
        let idle = Multiplexing::new(0, 0, 0);
        assert_eq!((idle.value(), idle.scaled), (Some(0), false), "nothing has run yet");
        let never = Multiplexing::new(0, 1000, 0);
        assert_eq!((never.value(), never.scaled), (None, true), "0 was not counted, it is not known");
        let long = Multiplexing::new(u64::MAX / 2, u64::MAX, u64::MAX / 2);
        assert_eq!(long.value(), Some(u64::MAX), "no overflow");
    }

    /// A window is extrapolated from what lies in it: the past, counted in full or not, does not weigh in.
    #[test]
    fn a_window_is_scaled_by_its_own_share() {
        let before = Multiplexing::new(1_000_000, 1000, 1000);
        let after = Multiplexing::new(1_000_100, 2000, 1500);
        assert_eq!(after.since(&before).value(), Some(200));
        assert_ne!(after.value().unwrap() - before.value().unwrap(), 200, "a difference of extrapolations is wrong");
        assert!(!before.since(&before).scaled && before.since(&before).value() == Some(0));
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
