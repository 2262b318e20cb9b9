//! A perf event of a whole process tree (perf_event_open(2)): the common part of all counters that use one.

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
use crate::sys::{named, retry};

/// An event to count, and in which modes.
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

/// Modes in which an event is counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Modes {
    /// Kernel and user mode.
    UserAndKernel,
    /// An event without modes. It requests only user mode, as an unprivileged user must.
    None,
    /// Everything that its PMU counts: many PMUs refuse to exclude anything (PERF_PMU_CAP_NO_EXCLUDE).
    All,
}

impl Modes {
    /// Returns the largest kernel.perf_event_paranoid at which a user without CAP_PERFMON may open such an event.
    fn paranoid_at_most(self) -> i32 {
        if self == Modes::None { 2 } else { 1 }
    }
}

/// Events whose ratio is reported. The kernel counts the members of a group at the same times or not at all, so their ratio
/// is of the same work even if all are extrapolated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Group {
    /// Cycles and instructions.
    Cycles,
    /// Branches, and mispredicted branches.
    Branches,
    /// Accesses to the last-level cache, and misses.
    Caches,
    /// Loads from the first-level data cache, and misses.
    FirstLevel,
    /// Loads from the last-level cache, and misses.
    LastLevel,
}

impl TreeEvent {
    const fn new(kind: Kind, modes: Modes) -> Self {
        TreeEvent { kind, modes, group: None }
    }

    /// Returns an event that all processors with it call by the same name.
    pub const fn hardware(event: Hardware) -> Self {
        Self::new(Kind::Generic(Generic::Hardware(event)), Modes::UserAndKernel)
    }

    /// Returns the loads from a cache, or its load misses.
    pub const fn cache_load(level: CacheId, result: CacheResult) -> Self {
        Self::new(Kind::Generic(Generic::Cache(level, CacheOp::READ, result)), Modes::UserAndKernel)
    }

    /// Returns an event that the kernel itself counts.
    pub const fn software(event: Software) -> Self {
        Self::new(Kind::Generic(Generic::Software(event)), Modes::UserAndKernel)
    }

    /// Returns a clock of the kernel. It runs whenever the task does, in any mode.
    pub const fn clock(event: Software) -> Self {
        Self::new(Kind::Generic(Generic::Software(event)), Modes::None)
    }

    /// Returns a tracepoint by its part of the kernel and its name.
    pub const fn tracepoint(subsystem: &'static str, event: &'static str) -> Self {
        Self::new(Kind::Tracepoint { subsystem, event }, Modes::UserAndKernel)
    }

    /// Returns the event of a name.
    pub fn named(name: Named<'static>) -> Self {
        match name {
            Named::Generic(event) => Self::new(Kind::Generic(event), Modes::UserAndKernel),
            Named::Raw(number) => Self::new(Kind::Raw(number), Modes::UserAndKernel),
            Named::Tracepoint { subsystem, event } => Self::tracepoint(subsystem, event),
            Named::PmuEvent { pmu, terms } => Self::new(Kind::PmuEvent { pmu, terms: terms.leak() }, Modes::All),
        }
    }

    /// Returns the event as one that every kernel knows, if it is.
    pub fn generic(self) -> Option<Generic> {
        if let Kind::Generic(event) = self.kind { Some(event) } else { None }
    }

    /// Fails with the reason if this machine has no event of its name.
    pub fn find(self) -> Result<()> {
        self.builder_alone().map(drop)
    }

    /// Counts it at the same times as the others of the group.
    pub const fn in_group(self, group: Group) -> Self {
        TreeEvent { group: Some(group), ..self }
    }

    /// Begins to count. The error is the reason why the event is unavailable.
    ///
    /// `companions` has the events opened earlier for the tree. With `inherit` the kernel copies whole groups to forked
    /// processes, and each member is read separately: reading all at once (PERF_FORMAT_GROUP) would only save system calls.
    /// (Kernels before 4.13 refused it together with `inherit`. Until 6.13 they still refuse PERF_SAMPLE_READ, which is for
    /// samples.)
    pub fn open(self, tree: &Tree, companions: &mut Companions) -> Result<PerfEvent> {
        let mut builder = self.builder(tree)?;
        let time = if self.takes_turns() { Some(companions.time(tree)?) } else { None };
        if let Some(leader) = self.group.and_then(|group| companions.leaders.get(&group)) {
            let mut leader = locked(leader);
            // A member runs whenever its leader does. The kernel refuses a group that needs more counters than the CPU has.
            // Then the event is counted separately, at different times.
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

    /// Returns the builder of the event for a tree.
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

    /// Returns whether the event needs one of the CPU's few counters, which events share by turns. The kernel's own
    /// events run all the time.
    fn takes_turns(self) -> bool {
        !matches!(self.kind, Kind::Generic(Generic::Software(_)) | Kind::Tracepoint { .. })
    }

    /// Adds a remedy to the error of perf_event_open.
    pub fn refused(self, error: io::Error) -> Error {
        refused_above(self.modes.paranoid_at_most(), error, self.modes)
    }
}

/// Sets when an event without a group, or a group's leader, begins to count: now or at the next exec.
pub fn first<'a, 'b>(builder: &'a mut Builder<'b>, tree: &Tree) -> &'a Builder<'b> {
    let now = tree.from == Beginning::Now;
    builder.enabled(now).enable_on_exec(!now)
}

/// Shared state of all events of one tree.
#[derive(Default)]
pub struct Companions {
    /// The first event of each group. The others join it.
    leaders: BTreeMap<Group, Arc<Mutex<Counter>>>,
    time: Option<Arc<Mutex<Counter>>>,
}

/// An event of the kernel that counts nothing and takes no turns. It measures how long the tree ran.
const TIME: TreeEvent = TreeEvent::clock(Software::DUMMY);

impl Companions {
    /// Returns the event that measures how long the tree ran, summed over its threads.
    ///
    /// The processor's events report too short a time (time_enabled) if processes or threads have ended. If an event had no
    /// counter when its task ended, the kernel omits the time since it last had one. (Seen with Linux 6.18: of two events of
    /// one group, which counted at the same times, one reported as little as a fifth.)
    fn time(&mut self, tree: &Tree) -> Result<Arc<Mutex<Counter>>> {
        if let Some(time) = &self.time {
            return Ok(Arc::clone(time));
        }
        let counter = first(&mut TIME.builder(tree)?, tree).build().map_err(|error| TIME.refused(error))?;
        Ok(Arc::clone(self.time.insert(Arc::new(Mutex::new(counter)))))
    }
}

/// One event, inherited by all future descendants of the tree.
pub struct PerfEvent {
    counter: Arc<Mutex<Counter>>,
    /// Run time of the tree, if the event shares the CPU's counters with others.
    time: Option<Time>,
}

/// Run time of a tree since an event was opened.
struct Time {
    counter: Arc<Mutex<Counter>>,
    /// Run time of the tree before that.
    before_ns: u64,
}

impl Time {
    fn read(&self) -> io::Result<u64> {
        Ok(reading(&mut locked(&self.counter))?.time_enabled.saturating_sub(self.before_ns))
    }
}

fn reading(counter: &mut Counter) -> io::Result<CountAndTime> {
    named("read of a perf event", retry(|| counter.read_count_and_time()))
}

fn locked(counter: &Mutex<Counter>) -> MutexGuard<'_, Counter> {
    counter.lock().unwrap_or_else(PoisonError::into_inner)
}

impl PerfEvent {
    fn opened(mut counter: Counter, time: Option<Arc<Mutex<Counter>>>) -> Result<Self> {
        let time = match time {
            None => None,
            Some(of_tree) => {
                // Here the tree's time is read after the event's, and later always before it. So the result is never too
                // large.
                let own_ns = reading(&mut counter)?.time_enabled;
                let before_ns = reading(&mut locked(&of_tree))?.time_enabled.saturating_sub(own_ns);
                Some(Time { counter: of_tree, before_ns })
            }
        };
        Ok(PerfEvent { counter: Arc::new(Mutex::new(counter)), time })
    }

    /// Returns the count so far, including ended processes and threads, and how long it was counted.
    pub fn read(&mut self) -> io::Result<Multiplexing> {
        let of_tree_ns = self.time.as_ref().map_or(Ok(0), Time::read)?;
        let CountAndTime { count, time_enabled, time_running } = reading(&mut locked(&self.counter))?;
        Ok(Multiplexing::new(count, time_enabled.max(of_tree_ns), time_running))
    }

    /// Returns whether the event shares the CPU's counters with others.
    pub fn takes_turns(&self) -> bool {
        self.time.is_some()
    }
}

/// Adds a remedy to the error. EACCES means that perf_event_paranoid is above `most`. Seccomp filters mostly return EPERM or
/// ENOSYS.
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
            "this PMU cannot count this for a process (its events belong to a CPU, such as those of memory controllers, or the \
             values of its keys are invalid)"
                .to_owned()
        }
        // perf_event_open(2): the processor has no such event, or no counter for it.
        (Some(libc::ENOENT | libc::ENODEV | libc::EOPNOTSUPP), _) => {
            "this machine does not count such an event: its processor lacks it, or a virtual machine hides it"
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

    /// Starts a program that waits for input, and then starts others.
    fn waiting() -> (Child, Tree) {
        let script = "echo waits; read word; for each in 1 2 3 4 5; do /bin/true; done";
        let child = Command::new("sh").args(["-c", script]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
        let mut child = child.unwrap();
        let mut said = [0; 6];
        child.stdout.as_mut().unwrap().read_exact(&mut said).unwrap();
        // Until it sleeps, it may cause faults between the opening of one event and the next.
        // On a busy machine that is late.
        let path = format!("/proc/{}/stat", child.id());
        let sleeps = || std::fs::read_to_string(&path).unwrap().rsplit(')').next().unwrap().starts_with(" S");
        for _ in 0..3000 {
            if sleeps() {
                break;
            }
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
        let reaped = &Tally::new(0).unwrap().general().reaped;
        let tree = Tree { root: Pid::from_raw(child.id() as i32), from: Beginning::Now, reaped };
        (child, tree)
    }

    fn go(mut child: Child) {
        child.stdin.take().unwrap().write_all(b"go\n").unwrap();
        assert!(child.wait().unwrap().success());
    }

    /// Uses events of the kernel, which any machine has, to check that forked processes are counted in the group as well.
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
    fn an_event_that_the_processor_lacks_is_not_reported_as_forbidden() {
        for code in [libc::ENOENT, libc::ENODEV, libc::EOPNOTSUPP] {
            let said = format!("{:#}", TIME.refused(io::Error::from_raw_os_error(code)));
            assert!(
                said.starts_with("this machine does not count such an event") && !said.contains("policy"),
                "{said}"
            );
        }
    }
}
