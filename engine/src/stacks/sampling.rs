//! Samples of running code with their stacks (perf_event_open(2), PERF_SAMPLE_CALLCHAIN), and what is needed to find out
//! later to which code an address belonged. The kernel writes them into one ring buffer for each CPU.

use std::collections::BinaryHeap;
use std::fmt;
use std::fs;
use std::io;
use std::time::Duration;

use anyhow::{Context, Error, Result, bail};
use perf_event::events::{Hardware, Software};
use perf_event::{Builder, Clock, Sampler};
use schemars::JsonSchema;
use serde::Serialize;

use crate::base::mistake::mistake_with_hint;
use crate::base::proc_file;
use crate::count::perf_event::{Modes, refused_above};
use crate::count::process_tree::{Beginning, Tree};
use crate::stacks::perf_record::{self, HEADER, Happened, Moment, Seen};
use crate::sys::{clock, retry};

/// Events at which the kernel takes a sample.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Event {
    /// The CPU's cycles, counted by its PMU, which can interrupt the kernel even while it has interrupts off.
    Cycles,
    /// A timer, whose interrupt waits while the kernel has interrupts off.
    CpuClock,
}

/// Scope of sampling.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Scope {
    /// Everything that each CPU runs; the reader keeps the samples of the tree. Short-lived processes are sampled as often as
    /// others.
    Cpus,
    /// The tree only. Each process and thread waits for its first sample from its own start, so short-lived ones are never
    /// sampled. The kernel also spends time on each of them.
    Tree,
}

impl Scope {
    /// Returns the largest kernel.perf_event_paranoid at which a user without CAP_PERFMON may sample the kernel this way.
    fn paranoid_at_most(self) -> i32 {
        match self {
            Scope::Cpus => 0,
            Scope::Tree => 1,
        }
    }
}

/// Bytes of each CPU's ring buffer, for users without a limit.
const RING: usize = 512 << 10;

/// Bytes of each CPU's ring buffer, for users without privilege. Their profiles share what a user may lock per CPU
/// (kernel.perf_event_mlock_kb, 516 KiB): a server and its loads are sampled at once.
const SHARED_RING: usize = 128 << 10;

/// Smallest ring buffer: with less, too many samples would be lost.
const LEAST_RING: usize = 32 << 10;

/// Samples of a process tree, taken until this value is dropped.
pub struct Sampling {
    rings: Vec<Sampler>,
    pending: BinaryHeap<Pending>,
    /// Start of the last reading of the ring buffers.
    read_at_ns: u64,
    /// Records that did not fit into the ring buffers.
    pub lost: u64,
    /// Number of times that the kernel paused sampling because it took too much time.
    pub throttled: u64,
}

impl Sampling {
    /// Samples the tree from its next exec, at this rate per second of CPU time. The error says why that is not possible on
    /// this machine.
    pub fn open(event: Event, frequency: u64, scope: Scope, tree: &Tree) -> Result<Self> {
        debug_assert_eq!(tree.from, Beginning::Exec, "earlier mappings are not recorded");
        check_frequency(frequency)?;
        let period = match event {
            Event::Cycles => cycles_in_a_second()? / frequency,
            Event::CpuClock => 1_000_000_000 / frequency,
        };
        let mut bytes = if may_lock_memory() { RING } else { SHARED_RING };
        let rings = loop {
            match rings(event, period, scope, tree, bytes) {
                // Other profiles of this user have locked some of the allowed memory.
                Err(error) if bytes > LEAST_RING && error.is::<NoRing>() => bytes /= 2,
                opened => break opened?,
            }
        };
        Ok(Sampling { rings, pending: BinaryHeap::new(), read_at_ns: 0, lost: 0, throttled: 0 })
    }

    /// Reads the ring buffers, and returns everything from before their last reading, ordered by time. The delay is needed
    /// because a CPU's buffer may be read after another's that has later records.
    pub fn read(&mut self) -> Result<Vec<Moment>> {
        let complete = self.read_at_ns;
        self.read_at_ns = clock::now();
        self.read_rings()?;
        Ok(self.until(complete))
    }

    /// Returns all remaining moments, once nothing of the tree runs any more.
    pub fn rest(&mut self) -> Result<Vec<Moment>> {
        self.read_rings()?;
        Ok(self.until(u64::MAX))
    }

    fn until(&mut self, at_ns: u64) -> Vec<Moment> {
        let mut moments = Vec::new();
        while self.pending.peek().is_some_and(|pending| pending.0.at_ns <= at_ns) {
            moments.extend(self.pending.pop().map(|pending| pending.0));
        }
        moments
    }

    fn read_rings(&mut self) -> Result<()> {
        for ring in &mut self.rings {
            let config = ring.config().clone();
            // Records written during this loop are read next time, so the loop ends.
            for _ in 0..RING / HEADER {
                let Some(record) = ring.next_record() else { break };
                let seen = perf_record::read(record.ty(), record.misc(), &record.to_contiguous(), config.clone())?;
                match seen {
                    Seen::Moment(moment) => self.pending.push(Pending(moment)),
                    Seen::Lost(records) => self.lost += records,
                    Seen::Throttled => self.throttled += 1,
                    Seen::Other => {}
                }
            }
        }
        Ok(())
    }
}

/// Opens a ring buffer on each CPU.
fn rings(event: Event, period: u64, scope: Scope, tree: &Tree, bytes: usize) -> Result<Vec<Sampler>> {
    let mut rings = Vec::new();
    for cpu in online_cpus()? {
        let mut builder = builder(event, period);
        // Events of a whole tree can have a ring buffer only on a single CPU.
        builder.one_cpu(cpu);
        match scope {
            Scope::Cpus => builder.any_pid().enabled(true),
            Scope::Tree => builder.observe_pid(tree.root.as_raw()).inherit(true).enable_on_exec(true),
        };
        let refused = |error| refused_above(scope.paranoid_at_most(), error, Modes::UserAndKernel);
        let counter = builder.build().map_err(refused)?;
        rings.push(counter.sampled(bytes).map_err(|error| no_ring(error, cpu, bytes))?);
    }
    Ok(rings)
}

/// Requests samples, mappings, forks and names. The period is fixed: if the kernel adapted it (attr.freq), it would take
/// more samples right after each switch, and samples would stand for different times.
fn builder(event: Event, period: u64) -> Builder<'static> {
    let mut builder = match event {
        Event::Cycles => Builder::new(Hardware::CPU_CYCLES),
        Event::CpuClock => Builder::new(Software::CPU_CLOCK),
    };
    builder.include_kernel().sample_period(period).clockid(Clock::MONOTONIC);
    perf_record::ask(&mut builder);
    builder
}

/// Number and duration of readings that find out the speed of a busy CPU.
const GLANCES: usize = 20;
const GLANCE: Duration = Duration::from_millis(1);

/// Measures the cycles of a busy CPU per second. It takes the maximum of several readings, since a virtual machine may lose
/// the CPU for a while.
fn cycles_in_a_second() -> Result<u64> {
    let mut builder = Builder::new(Hardware::CPU_CYCLES);
    let refused = |error| refused_above(Scope::Tree.paranoid_at_most(), error, Modes::UserAndKernel);
    let mut counter = builder.observe_self().include_kernel().enabled(true).build().map_err(refused)?;
    let mut most = 0;
    for _ in 0..GLANCES {
        let before = retry(|| counter.read_count_and_time()).context(UNREAD)?;
        let begun = clock::thread_cpu_time();
        while clock::thread_cpu_time() - begun < GLANCE {
            std::hint::spin_loop();
        }
        let after = retry(|| counter.read_count_and_time()).context(UNREAD)?;
        let running_ns = u128::from(after.time_running - before.time_running).max(1);
        most = most.max(u128::from(after.count - before.count) * 1_000_000_000 / running_ns);
    }
    match u64::try_from(most) {
        // No CPU is slower than this.
        Ok(cycles) if cycles > 10_000_000 => Ok(cycles),
        _ => bail!("the PMU counts no cycles: {most} of a busy CPU in a second"),
    }
}

const UNREAD: &str = "the cycles of this process cannot be read";

/// A moment to return later. The earliest is the greatest.
#[derive(PartialEq, Eq)]
struct Pending(Moment);

impl Ord for Pending {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        // A sample from the same nanosecond as the fork of its process comes after that fork.
        let key = |moment: &Moment| (moment.at_ns, matches!(moment.what, Happened::Sampled { .. }));
        key(&other.0).cmp(&key(&self.0))
    }
}

impl PartialOrd for Pending {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

/// File with the maximum frequency. The kernel lowers it by itself if sampling takes too much time.
const MOST: &str = "/proc/sys/kernel/perf_event_max_sample_rate";

fn check_frequency(frequency: u64) -> Result<()> {
    let most = fs::read_to_string(MOST).ok().and_then(|text| text.trim().parse::<u64>().ok());
    match most {
        Some(most) if frequency > most => Err(mistake_with_hint(
            "profile.frequency_too_high",
            format!("--frequency {frequency} is more than this kernel allows, {most} samples a second"),
            format!("use --frequency {most}, or type sysctl kernel.perf_event_max_sample_rate={frequency}"),
        )),
        _ => Ok(()),
    }
}

/// Error for a ring buffer without room (mmap(2), EPERM): the kernel limits the memory that a user may lock.
#[derive(Debug)]
struct NoRing(String);

impl std::error::Error for NoRing {}

impl fmt::Display for NoRing {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

/// Returns whether this process may lock unlimited memory (CAP_IPC_LOCK, capabilities(7)).
fn may_lock_memory() -> bool {
    const IPC_LOCK: u32 = 14;
    let status = proc_file::text("/proc/self/status").unwrap_or_default();
    let effective = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    let effective = effective.and_then(|hex| u64::from_str_radix(hex.trim(), 16).ok());
    effective.is_some_and(|effective| effective >> IPC_LOCK & 1 == 1)
}

/// File with the KiB that a user may lock for the ring buffers of each CPU.
const LOCKED: &str = "/proc/sys/kernel/perf_event_mlock_kb";

fn no_ring(error: io::Error, cpu: usize, bytes: usize) -> Error {
    let what = format!("the ring buffer of CPU {cpu}, {} KiB, could not be mapped", bytes >> 10);
    if error.raw_os_error() != Some(libc::EPERM) {
        return Error::new(error).context(what);
    }
    let kibibytes = fs::read_to_string(LOCKED).ok().and_then(|text| text.trim().parse::<u64>().ok());
    let known = kibibytes.map_or(String::new(), |kibibytes| {
        format!(
            " (kernel.perf_event_mlock_kb is {kibibytes}); sysctl kernel.perf_event_mlock_kb={}",
            4 * kibibytes.max(516)
        )
    });
    let or = if known.is_empty() { "; " } else { " or " };
    Error::new(NoRing(format!(
        "{what}: all profiles of a user share what may be locked for it{known}{or}ulimit -l unlimited allows it: {error}"
    )))
}

/// File in which the kernel lists the CPUs that are online (cputopology of the kernel's documentation).
const ONLINE: &str = "/sys/devices/system/cpu/online";

fn online_cpus() -> Result<Vec<usize>> {
    let text = fs::read_to_string(ONLINE).with_context(|| format!("{ONLINE} cannot be read"))?;
    cpus_of(text.trim()).with_context(|| format!("{ONLINE} has no list of CPUs: {text:?}"))
}

/// More CPUs than a kernel can have (NR_CPUS).
const MOST_CPUS: usize = 1 << 16;

/// Parses a list such as `0-3,8`.
pub fn cpus_of(list: &str) -> Option<Vec<usize>> {
    let mut cpus = Vec::new();
    for part in list.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last): (usize, usize) = (first.parse().ok()?, last.parse().ok()?);
        if last >= MOST_CPUS || cpus.len() >= MOST_CPUS {
            return None;
        }
        cpus.extend(first..=last);
    }
    Some(cpus)
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::process::{Child, Command, Stdio};

    use super::*;
    use crate::count::tally::Tally;
    use crate::sys::process;

    #[test]
    fn moments_are_ordered_by_time_and_a_sample_follows_its_fork() {
        let sample = |at_ns| Moment { at_ns, what: Happened::Sampled { process: 1, thread: 1, chain: vec![] } };
        let fork =
            |at_ns| Moment { at_ns, what: Happened::Forked { process: 1, parent: 0, thread: 1, parent_thread: 0 } };
        let written = [sample(30), sample(20), fork(20), fork(10)];
        let mut sampling = Sampling { rings: vec![], pending: BinaryHeap::new(), read_at_ns: 0, lost: 0, throttled: 0 };
        sampling.pending.extend(written.into_iter().map(Pending));
        assert_eq!(sampling.until(9), []);
        assert_eq!(sampling.until(20), [fork(10), fork(20), sample(20)]);
        assert_eq!(sampling.rest().unwrap(), [sample(30)]);
    }

    /// Checks both scopes: the exec, its mappings, and the places of the samples.
    #[test]
    fn a_tree_is_sampled_from_its_exec_on() {
        for scope in [Scope::Cpus, Scope::Tree] {
            let script = "read word; exec sh -c 'i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done'";
            let child = Command::new("sh").args(["-c", script]).stdin(Stdio::piped()).spawn().unwrap();
            let reaped = &Tally::new(0).unwrap().general().reaped;
            let id = child.id();
            let tree = Tree { root: process::Pid::from_raw(id as i32), from: Beginning::Exec, reaped };
            let opened = Sampling::open(Event::CpuClock, 997, scope, &tree);
            let ended = go(child);
            let mut sampling = match opened {
                Ok(sampling) => sampling,
                Err(error) => {
                    println!("skipped: {error:#}");
                    continue;
                }
            };
            assert!(ended, "{scope:?}");
            let moments = sampling.rest().unwrap();
            assert!(moments.is_sorted_by_key(|moment| moment.at_ns), "{scope:?}");
            let of_it: Vec<&Happened> = moments.iter().map(|moment| &moment.what).collect();
            let by_exec =
                |what: &Happened| matches!(what, Happened::Named { process, by_exec: true, .. } if *process == id);
            let exec = of_it.iter().position(|what| by_exec(what)).expect("the exec");
            let maps = |what: &Happened| matches!(what, Happened::Mapped { process, .. } if *process == id);
            assert!(of_it[exec..].iter().any(|what| maps(what)), "{scope:?}");
            let in_user = |what: &Happened| match what {
                Happened::Sampled { process, chain, .. } => *process == id && chain.contains(&((-512i64) as u64)),
                _ => false,
            };
            let sampled = of_it[exec..].iter().filter(|what| in_user(what)).count();
            assert!(sampled > 5, "{scope:?}: {sampled}");
        }
    }

    /// Starts the child's work, and waits until it ends. Returns whether it succeeded.
    fn go(mut child: Child) -> bool {
        child.stdin.take().unwrap().write_all(b"go\n").unwrap();
        child.wait().unwrap().success()
    }

    #[test]
    fn lists_of_cpus() {
        assert_eq!(cpus_of("0"), Some(vec![0]));
        assert_eq!(cpus_of("0-2,5,7-8"), Some(vec![0, 1, 2, 5, 7, 8]));
        assert_eq!(cpus_of("0-x"), None);
        assert!(!online_cpus().unwrap().is_empty());
    }

    #[test]
    fn more_than_the_kernel_allows_is_refused_with_what_it_allows() {
        let Ok(most) = fs::read_to_string(MOST) else { return println!("skipped: no {MOST}") };
        let error = check_frequency(u64::MAX).unwrap_err().to_string();
        assert!(error.contains(most.trim()) && error.contains("perf_event_max_sample_rate="), "{error}");
    }
}
