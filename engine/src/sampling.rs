//! Samples of a whole process tree, with their stacks (perf_event_open(2), PERF_SAMPLE_CALLCHAIN), and what is needed to know
//! later whose code an address was. The kernel writes them into one ring buffer for each CPU.

use std::collections::BinaryHeap;
use std::fs;
use std::io;

use anyhow::{Context, Error, Result, anyhow};
use perf_event::data::endian::Endian;
use perf_event::data::parse::{ParseConfig, Parser};
use perf_event::data::{Comm, Fork, Lost, LostSamples, Mmap2, RecordMetadata, Sample, Throttle, Visitor};
use perf_event::events::{Hardware, Software};
use perf_event::{Builder, Clock, SampleFlag, Sampler};
use schemars::JsonSchema;
use serde::Serialize;

use crate::mistake::mistake;
use crate::perf_event::{Modes, refused};
use crate::process_tree::{Beginning, Tree};
use crate::sys::process;

/// What makes the kernel take a sample.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Event {
    /// The CPU's own cycles, counted by its PMU, which can interrupt the kernel where it has interrupts off.
    Cycles,
    /// A timer, whose interrupt has to wait while the kernel has interrupts off.
    CpuClock,
}

/// One moment of the tree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Moment {
    /// CLOCK_MONOTONIC.
    pub at_ns: u64,
    /// What happened.
    pub what: Happened,
}

/// What happened to a process or thread of the tree, each by its number.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Happened {
    /// It was found running.
    Sampled {
        /// The process.
        process: u32,
        /// The thread.
        thread: u32,
        /// Where it was, innermost address first, with the kernel's marks of what the next ones are addresses of.
        chain: Vec<u64>,
    },
    /// It was made.
    Forked {
        /// Its process.
        process: u32,
        /// The process that made it; its own process, where it is a thread.
        parent: u32,
        /// It.
        thread: u32,
        /// The thread that made it.
        parent_thread: u32,
    },
    /// It has a name.
    Named {
        /// The process.
        process: u32,
        /// The thread.
        thread: u32,
        /// The name, 15 bytes at most.
        name: String,
        /// By execve(2): all that was mapped is gone.
        by_exec: bool,
    },
    /// It has mapped code.
    Mapped {
        /// The process.
        process: u32,
        /// The first address.
        start: u64,
        /// How many bytes.
        length: u64,
        /// Where in the file.
        offset: u64,
        /// The file, as the process's kernel calls it; or a word in brackets, where it is none.
        file: String,
    },
}

/// Bytes of the ring buffer of each CPU: what a user without privilege may lock for it (kernel.perf_event_mlock_kb, 516 KiB).
const RING: usize = 512 << 10;

/// Samples of a tree, for as long as this lives.
pub struct Sampling {
    rings: Vec<Sampler>,
    pending: BinaryHeap<Pending>,
    /// When the ring buffers were last begun to be read.
    read_at_ns: u64,
    /// Records that the ring buffers had no room for.
    pub lost: u64,
    /// Times that the kernel paused sampling, since it took too much time.
    pub throttled: u64,
}

impl Sampling {
    /// Has the tree sampled from its next exec on, so often in each second of a CPU's time. The error says why that is not to
    /// be had here.
    pub fn open(event: Event, frequency: u64, tree: &Tree) -> Result<Self> {
        debug_assert_eq!(tree.from, Beginning::Exec, "what is mapped before nobody tells");
        check_frequency(frequency)?;
        let mut rings = Vec::new();
        for cpu in online_cpus()? {
            let mut builder = match event {
                Event::Cycles => Builder::new(Hardware::CPU_CYCLES),
                Event::CpuClock => Builder::new(Software::CPU_CLOCK),
            };
            // An event of a whole tree has a ring buffer only where it is of one CPU.
            builder.observe_pid(tree.root.as_raw()).one_cpu(cpu).inherit(true).enable_on_exec(true);
            builder.include_kernel().sample_frequency(frequency).clockid(Clock::MONOTONIC);
            builder.sample(SampleFlag::TID | SampleFlag::TIME | SampleFlag::CALLCHAIN).sample_id_all(true);
            builder.mmap(true).mmap2(true).comm(true).comm_exec(true).task(true);
            let counter = builder.build().map_err(|error| refused(error, Modes::UserAndKernel))?;
            rings.push(counter.sampled(RING).map_err(|error| no_ring(error, cpu))?);
        }
        Ok(Sampling { rings, pending: BinaryHeap::new(), read_at_ns: 0, lost: 0, throttled: 0 })
    }

    /// Reads the ring buffers, and returns what happened before they were read the last time, in the order of time: what
    /// happened on one CPU may be read from another's buffer later than what came of it.
    pub fn read(&mut self) -> Result<Vec<Moment>> {
        let complete = self.read_at_ns;
        self.read_at_ns = process::monotonic_nanoseconds();
        self.read_rings()?;
        Ok(self.until(complete))
    }

    /// All that is left, once nothing of the tree runs any more.
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
            // What is written meanwhile is read next time, so that this ends.
            for _ in 0..RING / HEADER {
                let Some(record) = ring.next_record() else { break };
                let seen = read(record.ty(), record.misc(), &record.to_contiguous(), config.clone())?;
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

/// The earliest comes first.
#[derive(PartialEq, Eq)]
struct Pending(Moment);

impl Ord for Pending {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        // What is sampled in the same nanosecond as its process was made is seen after that.
        let key = |moment: &Moment| (moment.at_ns, matches!(moment.what, Happened::Sampled { .. }));
        key(&other.0).cmp(&key(&self.0))
    }
}

impl PartialOrd for Pending {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

/// Bytes of a record's header: its type, what else is known of it, its size.
const HEADER: usize = 8;

/// What a record says.
#[derive(Debug, PartialEq, Eq)]
enum Seen {
    Moment(Moment),
    Lost(u64),
    Throttled,
    Other,
}

/// Reads a record: what stands in its header, and the bytes behind it.
fn read<E: Endian>(kind: u32, misc: u16, bytes: &[u8], config: ParseConfig<E>) -> Result<Seen> {
    let size = u16::try_from(HEADER + bytes.len()).context("a record of perf is longer than its header can say")?;
    let whole =
        [&kind.to_ne_bytes()[..], &misc.to_ne_bytes()[..], &size.to_ne_bytes()[..], bytes].concat();
    let seen = Parser::new(&whole[..], config).parse_record(Reading);
    seen.map_err(|error| anyhow!("a record of perf (type {kind}, {size} bytes) cannot be read: {error}"))
}

/// The process changed its name by execve(2) (PERF_RECORD_MISC_COMM_EXEC, perf_event_open(2)).
const COMM_EXEC: u16 = 1 << 13;

struct Reading;

impl Reading {
    fn moment(metadata: &RecordMetadata, what: Happened) -> Seen {
        // Asked for with all records (sample_id_all).
        metadata.sample_id().time().map_or(Seen::Other, |at_ns| Seen::Moment(Moment { at_ns, what }))
    }
}

impl<'a> Visitor<'a> for Reading {
    type Output = Seen;

    fn visit_unimplemented(self, _: RecordMetadata) -> Seen {
        Seen::Other
    }

    fn visit_sample(self, record: Sample<'a>, _: RecordMetadata) -> Seen {
        let (Some(process), Some(thread), Some(at_ns)) = (record.pid(), record.tid(), record.time()) else {
            return Seen::Other;
        };
        let chain = record.callchain().unwrap_or_default().to_vec();
        Seen::Moment(Moment { at_ns, what: Happened::Sampled { process, thread, chain } })
    }

    fn visit_fork(self, record: Fork, _: RecordMetadata) -> Seen {
        let Fork { pid: process, ppid: parent, tid: thread, ptid: parent_thread, time } = record;
        Seen::Moment(Moment { at_ns: time, what: Happened::Forked { process, parent, thread, parent_thread } })
    }

    fn visit_comm(self, record: Comm<'a>, metadata: RecordMetadata) -> Seen {
        let name = text(&record.comm);
        let by_exec = metadata.misc() & COMM_EXEC != 0;
        Self::moment(&metadata, Happened::Named { process: record.pid, thread: record.tid, name, by_exec })
    }

    fn visit_mmap2(self, record: Mmap2<'a>, metadata: RecordMetadata) -> Seen {
        let file = text(&record.filename);
        let Mmap2 { pid: process, addr: start, len: length, pgoff: offset, .. } = record;
        Self::moment(&metadata, Happened::Mapped { process, start, length, offset, file })
    }

    fn visit_lost(self, record: Lost, _: RecordMetadata) -> Seen {
        Seen::Lost(record.lost)
    }

    fn visit_lost_samples(self, record: LostSamples, _: RecordMetadata) -> Seen {
        Seen::Lost(record.lost)
    }

    fn visit_throttle(self, _: Throttle, _: RecordMetadata) -> Seen {
        Seen::Throttled
    }
}

/// A text that the kernel fills up with zeros.
fn text(bytes: &[u8]) -> String {
    let end = bytes.iter().position(|&byte| byte == 0).unwrap_or(bytes.len());
    String::from_utf8_lossy(&bytes[..end]).into_owned()
}

/// The setting that bounds the frequency; the kernel lowers it itself where sampling takes too much time.
const MOST: &str = "/proc/sys/kernel/perf_event_max_sample_rate";

fn check_frequency(frequency: u64) -> Result<()> {
    let most = fs::read_to_string(MOST).ok().and_then(|text| text.trim().parse::<u64>().ok());
    match most {
        Some(most) if frequency > most => Err(mistake(format!(
            "--frequency {frequency} is more than this kernel allows, {most} samples a second; take fewer, or type \
             sysctl kernel.perf_event_max_sample_rate={frequency}"
        ))),
        _ => Ok(()),
    }
}

fn no_ring(error: io::Error, cpu: usize) -> Error {
    let what = format!("the ring buffer of CPU {cpu}, {} KiB, could not be mapped", RING >> 10);
    let way_out = match error.raw_os_error() {
        Some(libc::EPERM) => "; sysctl kernel.perf_event_mlock_kb=516 or ulimit -l unlimited allows it",
        _ => "",
    };
    Error::new(error).context(format!("{what}{way_out}"))
}

/// Where the kernel lists the CPUs that are online (cputopology of the kernel's documentation).
const ONLINE: &str = "/sys/devices/system/cpu/online";

fn online_cpus() -> Result<Vec<usize>> {
    let text = fs::read_to_string(ONLINE).with_context(|| format!("{ONLINE} cannot be read"))?;
    cpus_of(text.trim()).with_context(|| format!("{ONLINE} has no list of CPUs: {text:?}"))
}

/// The numbers of a list such as `0-3,8`.
fn cpus_of(list: &str) -> Option<Vec<usize>> {
    let mut cpus = Vec::new();
    for part in list.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last): (usize, usize) = (first.parse().ok()?, last.parse().ok()?);
        cpus.extend(first..=last);
    }
    Some(cpus)
}
