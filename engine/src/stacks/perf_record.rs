//! Records in the ring buffer of a perf event (perf_event_open(2)): samples with their stacks, and what is needed to find
//! out later to which code an address belonged.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;

use anyhow::{Context, Result, anyhow};
use perf_event::data::endian::{Endian, Native};
use perf_event::data::parse::{ParseConfig, Parser};
use perf_event::data::{Comm, Fork, Lost, LostSamples, Mmap2, RecordMetadata, Sample, Throttle, Visitor};
use perf_event::events::Software;
use perf_event::{Builder, SampleFlag};

/// A record of the tree, or of another process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Moment {
    /// Time (CLOCK_MONOTONIC).
    pub at_ns: u64,
    /// The event.
    pub what: Happened,
}

/// Events of a process or thread, each by its number.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Happened {
    /// The thread was running.
    Sampled {
        /// The process.
        process: u32,
        /// The thread.
        thread: u32,
        /// Its call chain, innermost address first, with the kernel's marks between addresses of different kinds.
        chain: Vec<u64>,
    },
    /// The thread was made.
    Forked {
        /// Its process.
        process: u32,
        /// The process that made it, or its own process if only the thread is new.
        parent: u32,
        /// The new thread.
        thread: u32,
        /// The thread that made it.
        parent_thread: u32,
    },
    /// The thread got a name.
    Named {
        /// The process.
        process: u32,
        /// The thread.
        thread: u32,
        /// The name, at most 15 bytes.
        name: String,
        /// True if execve(2) named it, which also removed all mappings.
        by_exec: bool,
    },
    /// The process mapped code.
    Mapped {
        /// The process.
        process: u32,
        /// The first address.
        start: u64,
        /// Size in bytes.
        length: u64,
        /// Offset in the file.
        offset: u64,
        /// The file, as the kernel names it for this process, or a word in brackets if it is no file.
        file: OsString,
    },
}

/// Requests all records that this module reads: samples with stacks, mappings, forks and names.
pub fn ask(builder: &mut Builder<'_>) {
    builder.sample(SampleFlag::TID | SampleFlag::TIME | SampleFlag::CALLCHAIN).sample_id_all(true);
    builder.mmap(true).mmap2(true).comm(true).comm_exec(true).task(true);
}

/// Returns how the records are laid out that [`ask`] requests: the same for every event.
pub fn layout() -> ParseConfig<Native> {
    let mut builder = Builder::new(Software::CPU_CLOCK);
    ask(&mut builder);
    ParseConfig::from(*builder.attrs())
}

/// Bytes of a record's header: its type, further flags, and its size.
pub const HEADER: usize = 8;

/// Kinds of records.
#[derive(Debug, PartialEq, Eq)]
pub enum Seen {
    /// A moment of a process or thread.
    Moment(Moment),
    /// Number of records that could not be written.
    Lost(u64),
    /// Sampling was paused.
    Throttled,
    /// A record that was not requested.
    Other,
}

/// Parses a record from its header and the bytes behind it.
pub fn read<E: Endian>(kind: u32, misc: u16, bytes: &[u8], config: ParseConfig<E>) -> Result<Seen> {
    let size = u16::try_from(HEADER + bytes.len()).context("a record of perf is longer than its header can say")?;
    let whole = [&kind.to_ne_bytes()[..], &misc.to_ne_bytes()[..], &size.to_ne_bytes()[..], bytes].concat();
    let seen = Parser::new(&whole[..], config).parse_record(Reading);
    seen.map_err(|error| anyhow!("a record of perf (type {kind}, {size} bytes) cannot be read: {error}"))
}

/// Flag of a name that execve(2) set (PERF_RECORD_MISC_COMM_EXEC, perf_event_open(2)).
const COMM_EXEC: u16 = 1 << 13;

struct Reading;

impl Reading {
    fn moment(metadata: &RecordMetadata, what: Happened) -> Seen {
        // Requested with all records (sample_id_all).
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
        let name = until_zeros(&record.comm).to_string_lossy().into_owned();
        let by_exec = metadata.misc() & COMM_EXEC != 0;
        Self::moment(&metadata, Happened::Named { process: record.pid, thread: record.tid, name, by_exec })
    }

    fn visit_mmap2(self, record: Mmap2<'a>, metadata: RecordMetadata) -> Seen {
        let file = until_zeros(&record.filename).to_owned();
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

/// Returns a name, which may have any bytes, without the zeros with which the kernel pads it.
fn until_zeros(bytes: &[u8]) -> &OsStr {
    let end = bytes.iter().position(|&byte| byte == 0).unwrap_or(bytes.len());
    OsStr::from_bytes(&bytes[..end])
}

#[cfg(test)]
mod tests {
    use super::*;

    // linux/perf_event.h
    const MMAP2: u32 = 10;
    const LOST: u32 = 2;
    const COMM: u32 = 3;
    const THROTTLE: u32 = 5;
    const FORK: u32 = 7;
    const SAMPLE: u32 = 9;
    const LOST_SAMPLES: u32 = 13;

    /// Builds a record from words of 32 bits. A number of 64 bits takes two words.
    fn record(kind: u32, misc: u16, words: &[u32], text: &str) -> Result<Seen> {
        let mut bytes: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
        bytes.extend(text.as_bytes());
        if kind != SAMPLE {
            // Sample id of each record: process 7, thread 8, time 900 ns.
            bytes.extend([7, 8, 900, 0].iter().flat_map(|word: &u32| word.to_ne_bytes()));
        }
        read(kind, misc, &bytes, layout())
    }

    fn at(at_ns: u64, what: Happened) -> Seen {
        Seen::Moment(Moment { at_ns, what })
    }

    #[test]
    #[cfg(target_endian = "little")]
    fn records_are_read_as_the_kernel_writes_them() {
        let chain = vec![(-128i64) as u64, 0x10, (-512i64) as u64, 0x20];
        let words = [7, 8, 1000, 0, 4, 0, -128i32 as u32, u32::MAX, 0x10, 0, -512i32 as u32, u32::MAX, 0x20, 0];
        let sampled = Happened::Sampled { process: 7, thread: 8, chain };
        assert_eq!(record(SAMPLE, 1, &words, "").unwrap(), at(1000, sampled));

        let forked = Happened::Forked { process: 9, parent: 7, thread: 10, parent_thread: 8 };
        assert_eq!(record(FORK, 0, &[9, 7, 10, 8, 800, 0], "").unwrap(), at(800, forked));

        for (misc, by_exec) in [(0, false), (COMM_EXEC, true)] {
            let named = Happened::Named { process: 7, thread: 8, name: "exe".into(), by_exec };
            assert_eq!(record(COMM, misc, &[7, 8], "exe\0\0\0\0\0").unwrap(), at(900, named));
        }

        let words = [7, 8, 0x1000, 0, 0x2000, 0, 0x3000, 0, 1, 2, 3, 0, 0, 0, 5, 2];
        let (start, length, offset) = (0x1000, 0x2000, 0x3000);
        let mapped = Happened::Mapped { process: 7, start, length, offset, file: "/lib/c.so".into() };
        assert_eq!(record(MMAP2, 2, &words, "/lib/c.so\0\0\0\0\0\0\0").unwrap(), at(900, mapped));

        assert_eq!(record(LOST, 0, &[1, 0, 42, 0], "").unwrap(), Seen::Lost(42));
        assert_eq!(record(LOST_SAMPLES, 0, &[43, 0], "").unwrap(), Seen::Lost(43));
        assert_eq!(record(THROTTLE, 0, &[800, 0, 1, 0, 1, 0], "").unwrap(), Seen::Throttled);
        assert_eq!(record(999, 0, &[1, 2], "").unwrap(), Seen::Other, "a later kernel's");
    }

    #[test]
    fn a_record_that_is_cut_off_is_an_error() {
        let error = record(SAMPLE, 1, &[7, 8, 1000, 0, 4, 0, 1, 0], "").unwrap_err().to_string();
        assert!(error.contains("type 9, 40 bytes"), "{error}");
    }
}
