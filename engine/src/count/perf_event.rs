//! A perf event of a whole process tree (perf_event_open(2)): what the counters that rest on one have in common.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use anyhow::{Error, Result};
use perf_event::events::{CacheId, CacheOp, CacheResult, Hardware, Raw, Software};
use perf_event::{Builder, CountAndTime, Counter};

use crate::count::event_name::Named;
use crate::count::multiplexing::Multiplexing;
use crate::count::perf_names::Generic;
use crate::count::pmu::{self, Term};
use crate::count::process_tree::{Beginning, Tree};
use crate::count::tracefs;

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
    /// `companions` are what was opened for the tree before. With `inherit` the kernel copies whole groups to what is forked, and each
    /// member is read by itself: reading all at once (PERF_FORMAT_GROUP) would only save system calls. (Kernels before 4.13
    /// refused that together with `inherit`; what they still refuse until 6.13 is PERF_SAMPLE_READ, which belongs to samples.)
    pub fn open(self, tree: &Tree, companions: &mut Companions) -> Result<PerfEvent> {
        let mut builder = self.builder(tree)?;
        let time = if self.takes_turns() { Some(companions.time(tree)?) } else { None };
        if let Some(leader) = self.group.and_then(|group| companions.leaders.get(&group)) {
            let mut leader = locked(leader);
            // A member runs whenever its leader does. A group that the CPU has too few counters for is refused: then the
            // event is counted by itself, at times of its own.
            if let Ok(member) = builder.enabled(true).build_with_group(&mut *leader) {
                return PerfEvent::opened(member, time);
            }
        }
        let counter = first(&mut builder, tree).build().map_err(|error| self.refused(error))?;
        let opened = PerfEvent::opened(counter, time)?;
        if let Some(group) = self.group {
            companions.leaders.entry(group).or_insert_with(|| Arc::clone(&opened.counter));
        }
        Ok(opened)
    }

    /// How it is opened for a tree.
    pub fn builder(self, tree: &Tree) -> Result<Builder<'static>> {
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

    /// The CPU has few counters for such events, which more events than that use by turns. The kernel's own run all the time.
    fn takes_turns(self) -> bool {
        !matches!(self.kind, Kind::Generic(Generic::Software(_)) | Kind::Tracepoint { .. })
    }

    /// The error with what would help.
    pub fn refused(self, error: io::Error) -> Error {
        refused_above(self.modes.paranoid_at_most(), error, self.modes)
    }
}

/// What is not in a group, or leads one, is counted from now or from the next exec on.
pub fn first<'a, 'b>(builder: &'a mut Builder<'b>, tree: &Tree) -> &'a Builder<'b> {
    let now = tree.from == Beginning::Now;
    builder.enabled(now).enable_on_exec(!now)
}

/// What the events of one tree share.
#[derive(Default)]
pub struct Companions {
    /// The first event of each group, which the others join.
    leaders: BTreeMap<Group, Arc<Mutex<Counter>>>,
    time: Option<Arc<Mutex<Counter>>>,
}

/// An event of the kernel that counts nothing and takes no turns: it knows for how long the tree ran.
const TIME: TreeEvent = TreeEvent::clock(Software::DUMMY);

impl Companions {
    /// For how long the tree ran, over all its threads.
    ///
    /// What an event of the processor says of that (time_enabled) is too little where processes or threads have ended: of one that
    /// had no counter as a task ended, the kernel leaves out the time since it last had one (seen with Linux 6.18: as little as
    /// a fifth of it was told, of two events of one group that counted at the same times).
    fn time(&mut self, tree: &Tree) -> Result<Arc<Mutex<Counter>>> {
        if let Some(time) = &self.time {
            return Ok(Arc::clone(time));
        }
        let counter = first(&mut TIME.builder(tree)?, tree).build().map_err(|error| TIME.refused(error))?;
        Ok(Arc::clone(self.time.insert(Arc::new(Mutex::new(counter)))))
    }
}

/// One event, which all that the tree will start inherits.
pub struct PerfEvent {
    counter: Arc<Mutex<Counter>>,
    /// Of an event that shares the CPU's counters with others.
    time: Option<Time>,
}

/// For how long a tree ran since an event was opened.
struct Time {
    counter: Arc<Mutex<Counter>>,
    /// How long it had run by then.
    before_ns: u64,
}

impl Time {
    fn read(&self) -> io::Result<u64> {
        Ok(locked(&self.counter).read_count_and_time()?.time_enabled.saturating_sub(self.before_ns))
    }
}

fn locked(counter: &Mutex<Counter>) -> MutexGuard<'_, Counter> {
    counter.lock().unwrap_or_else(PoisonError::into_inner)
}

impl PerfEvent {
    fn opened(mut counter: Counter, time: Option<Arc<Mutex<Counter>>>) -> Result<Self> {
        let time = match time {
            None => None,
            Some(of_tree) => {
                // The tree's is read after the event's here, and before it ever after: so it is never too much.
                let own_ns = counter.read_count_and_time()?.time_enabled;
                let before_ns = locked(&of_tree).read_count_and_time()?.time_enabled.saturating_sub(own_ns);
                Some(Time { counter: of_tree, before_ns })
            }
        };
        Ok(PerfEvent { counter: Arc::new(Mutex::new(counter)), time })
    }

    /// The count so far, ended processes and threads included, and for how long it was counted.
    pub fn read(&mut self) -> io::Result<Multiplexing> {
        let of_tree_ns = self.time.as_ref().map_or(Ok(0), Time::read)?;
        let CountAndTime { count, time_enabled, time_running } = locked(&self.counter).read_count_and_time()?;
        Ok(Multiplexing::new(count, time_enabled.max(of_tree_ns), time_running))
    }

    /// Whether it shares the CPU's counters with other events.
    pub fn takes_turns(&self) -> bool {
        self.time.is_some()
    }
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
    use crate::count::tally::Tally;
    use crate::sys::process::Pid;

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
        let mut companions = Companions::default();
        let opened: Result<Vec<PerfEvent>> =
            [Software::PAGE_FAULTS, Software::PAGE_FAULTS_MIN, Software::CPU_MIGRATIONS]
                .into_iter()
                .map(|each| event(each).open(&tree, &mut companions))
                .collect();
        let alone = TreeEvent::software(Software::PAGE_FAULTS).open(&tree, &mut companions);
        go(child);
        let (mut opened, mut alone) = match (opened, alone) {
            (Ok(opened), Ok(alone)) => (opened, alone),
            (Err(error), _) | (_, Err(error)) => return println!("skipped: {error:#}"),
        };
        assert_eq!(companions.leaders.len(), 1, "the first leads the others");
        let read: Vec<Multiplexing> = opened.iter_mut().map(|each| each.read().unwrap()).collect();
        let alone = alone.read().unwrap();
        assert_eq!(read[0].counted, alone.counted, "in a group or not: the same faults");
        assert!(alone.counted > 5 * 30, "each of five programs has dozens of faults: {alone:?}");
        assert!(read[1].counted > 0 && read[1].counted <= read[0].counted, "{read:?}");
        assert!(read.iter().all(|each| !each.scaled && each.enabled_ns > 0), "{read:?}");
    }

    #[test]
    fn what_a_processor_does_not_have_is_said_not_called_forbidden() {
        for code in [libc::ENOENT, libc::ENODEV, libc::EOPNOTSUPP] {
            let said = format!("{:#}", TIME.refused(io::Error::from_raw_os_error(code)));
            assert!(
                said.starts_with("this machine does not count such an event") && !said.contains("policy"),
                "{said}"
            );
        }
    }
}
