//! A ring of submissions and completions (io_uring(7)), with the memory that the kernel reads and writes.
//!
//! The ring owns that memory: the bytes of a send until its completion, the receive buffers for its whole life. Callers must
//! keep a socket open while an operation on it is in flight.

mod receives;
pub mod sends;
#[cfg(test)]
mod tests;

use std::fmt;
use std::io;
use std::mem::ManuallyDrop;
use std::ops::Range;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicU16, Ordering::Release};
use std::time::Duration;

use io_uring::types::{BufRingEntry, CancelBuilder, Fd, SubmitArgs, Timespec};
use io_uring::{IoUring, Probe, cqueue, opcode, squeue};

use super::descriptor::PollFlags;
use super::{named, retry};
use receives::Receives;

/// Submissions of one io_uring_enter. More of them take another call.
const SUBMISSIONS: u32 = 1024;

/// Room for completions in the ring. The kernel keeps those that do not fit (IORING_FEAT_NODROP).
const COMPLETIONS: u32 = 4096;

/// Makes the kernel do work that completions depend on (IORING_ENTER_GETEVENTS, io_uring_enter(2)).
const GET_EVENTS: u32 = 1;

/// The only group of receive buffers.
const GROUP: u16 = 0;

/// Kinds of operations. The word that returns with a completion holds the kind in its upper half and the socket in its lower
/// half.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Operation {
    Accept,
    Receive,
    Send,
    Cancel,
    Pause,
    Poll,
    /// The timer of [`Ring::find_lost_ends`].
    Search,
}

impl Operation {
    const ALL: [Operation; 7] = [
        Operation::Accept,
        Operation::Receive,
        Operation::Send,
        Operation::Cancel,
        Operation::Pause,
        Operation::Poll,
        Operation::Search,
    ];

    fn tag(self, socket: RawFd) -> u64 {
        (self as u64) << 32 | u64::from(socket as u32)
    }
}

/// A ring of one thread. Make it after every fork, in the process that uses it.
pub struct Ring {
    ring: IoUring,
    memory: ManuallyDrop<Memory>,
    receives: Receives,
    /// The timer of [`Ring::find_lost_ends`] is in flight.
    searches: bool,
}

/// Memory that the kernel may read or write.
struct Memory {
    buffers: Buffers,
    /// Bytes in flight, by descriptor.
    sending: Vec<Option<Arc<[u8]>>>,
    pause: Box<Timespec>,
    search: Box<Timespec>,
}

/// Results of operations.
pub enum Completion {
    /// Of [`Ring::accept`].
    Accepted {
        /// The connection, with a blocking socket, or why there is none.
        result: io::Result<OwnedFd>,
        /// True if more completions will follow by themselves.
        more: bool,
    },
    /// Of [`Ring::receive`].
    Received {
        /// The socket.
        socket: RawFd,
        /// Bytes, for [`Ring::take`]; `None` if the peer will send no more. ENOBUFS if no buffer was free, ECANCELED after
        /// [`Ring::cancel_receive`].
        result: io::Result<Option<Buffer>>,
        /// True if more completions will follow by themselves.
        more: bool,
    },
    /// Of [`Ring::send`].
    Sent {
        /// The socket.
        socket: RawFd,
        /// Bytes that the kernel took, perhaps not all.
        result: io::Result<usize>,
    },
    /// Of [`Ring::pause`]: the time is over.
    Paused,
    /// Of [`Ring::poll`]: the socket is ready, has failed (the next call on it reports how), or the poll was cancelled.
    Ready {
        /// The socket.
        socket: RawFd,
        /// The mark of the poll.
        mark: u16,
    },
}

/// A receive buffer that holds bytes. [`Ring::take`] returns it to the kernel.
#[must_use]
pub struct Buffer {
    id: u16,
    length: usize,
}

impl Buffer {
    /// Returns the number of bytes it holds.
    pub fn length(&self) -> usize {
        self.length
    }
}

impl Ring {
    /// Makes a ring with this many receive buffers of this size.
    pub fn new(buffers: u16, buffer_bytes: usize) -> Result<Ring, Refusal> {
        let ring: IoUring = IoUring::builder()
            .setup_cqsize(COMPLETIONS)
            // If one operation fails at once, the others are still submitted.
            .setup_submit_all()
            // Completions are processed only when this thread asks for them.
            .setup_single_issuer()
            .setup_defer_taskrun()
            .build(SUBMISSIONS)
            .map_err(|error| Refusal { call: "io_uring_setup", error })?;
        let register = |error| Refusal { call: "io_uring_register", error };
        let mut probe = Probe::new();
        ring.submitter().register_probe(&mut probe).map_err(register)?;
        for (code, name) in [
            (opcode::AcceptMulti::CODE, "IORING_OP_ACCEPT"),
            (opcode::RecvMulti::CODE, "IORING_OP_RECV"),
            (opcode::Send::CODE, "IORING_OP_SEND"),
            (opcode::AsyncCancel::CODE, "IORING_OP_ASYNC_CANCEL"),
            (opcode::Timeout::CODE, "IORING_OP_TIMEOUT"),
            (opcode::PollAdd::CODE, "IORING_OP_POLL_ADD"),
        ] {
            if !probe.is_supported(code) {
                return Err(Refusal { call: name, error: io::Error::from_raw_os_error(libc::EOPNOTSUPP) });
            }
        }
        let buffers = Buffers::new(buffers, buffer_bytes).map_err(|error| Refusal { call: "mmap", error })?;
        // From here on the ring's own drop releases the memory, after it has cancelled all operations.
        let search = Box::new(Timespec::from(receives::INTERVAL));
        let memory = Memory { buffers, sending: Vec::new(), pause: Box::default(), search };
        let ring = Ring { ring, memory: ManuallyDrop::new(memory), receives: Receives::default(), searches: false };
        let buffers = &ring.memory.buffers;
        // SAFETY: the entries are page-aligned memory of that length, which outlives the kernel's ring.
        unsafe { ring.ring.submitter().register_buf_ring_with_flags(buffers.entries as u64, buffers.places, GROUP, 0) }
            .map_err(register)?;
        Ok(ring)
    }

    /// Accepts connections until a completion says that no more will follow.
    pub fn accept(&mut self, listener: BorrowedFd<'_>) -> io::Result<()> {
        let listener = listener.as_raw_fd();
        let entry = opcode::AcceptMulti::new(Fd(listener)).flags(libc::SOCK_CLOEXEC).build();
        self.push(entry.user_data(Operation::Accept.tag(listener)))
    }

    /// Receives whenever bytes arrive, until a completion says that no more will follow. ECANCELED without
    /// [`Ring::cancel_receive`] means that the receive must be made again; see [`receives`].
    pub fn receive(&mut self, socket: BorrowedFd<'_>) -> io::Result<()> {
        let socket = socket.as_raw_fd();
        self.receives.note(socket, true);
        self.search_later()?;
        let entry = opcode::RecvMulti::new(Fd(socket), GROUP).build();
        self.push(entry.user_data(Operation::Receive.tag(socket)))
    }

    /// Cancels the receive of a socket. Its last completion is ECANCELED, or an earlier result.
    pub fn cancel_receive(&mut self, socket: impl AsRawFd) -> io::Result<()> {
        let socket = socket.as_raw_fd();
        let entry = opcode::AsyncCancel::new(Operation::Receive.tag(socket)).build();
        self.push(entry.user_data(Operation::Cancel.tag(socket)))
    }

    /// Sends bytes, and keeps them until the completion. One send at a time for each socket.
    pub fn send(&mut self, socket: BorrowedFd<'_>, bytes: Arc<[u8]>, range: Range<usize>) -> io::Result<()> {
        let socket = socket.as_raw_fd();
        let part = &bytes[range];
        let length = u32::try_from(part.len()).unwrap_or(u32::MAX);
        let entry = opcode::Send::new(Fd(socket), part.as_ptr(), length).flags(libc::MSG_NOSIGNAL).build();
        let place = socket as usize;
        if place >= self.memory.sending.len() {
            self.memory.sending.resize(place + 1, None);
        }
        let before = self.memory.sending[place].replace(bytes);
        assert!(before.is_none(), "only one send at a time is allowed for each socket");
        self.push(entry.user_data(Operation::Send.tag(socket)))
    }

    /// Cancels the send of a socket. Its completion is ECANCELED, or an earlier result.
    pub fn cancel_send(&mut self, socket: BorrowedFd<'_>) -> io::Result<()> {
        let entry = opcode::AsyncCancel::new(Operation::Send.tag(socket.as_raw_fd())).build();
        self.push(entry.user_data(Operation::Cancel.tag(0)))
    }

    /// Reports once when a socket is ready. The mark returns with the completion: after a socket was closed, its poll may
    /// complete when another socket has its number.
    pub fn poll(&mut self, socket: BorrowedFd<'_>, flags: PollFlags, mark: u16) -> io::Result<()> {
        let entry = opcode::PollAdd::new(Fd(socket.as_raw_fd()), flags.bits() as u32).build();
        self.push(entry.user_data(Operation::Poll.tag(socket.as_raw_fd()) | u64::from(mark) << 48))
    }

    /// Cancels a poll.
    pub fn cancel_poll(&mut self, socket: RawFd, mark: u16) -> io::Result<()> {
        let entry = opcode::AsyncCancel::new(Operation::Poll.tag(socket) | u64::from(mark) << 48).build();
        self.push(entry.user_data(Operation::Cancel.tag(0)))
    }

    /// Starts a timer, whose completion arrives when the time is over. One at a time.
    pub fn pause(&mut self, time: Duration) -> io::Result<()> {
        *self.memory.pause = Timespec::from(time);
        let entry = opcode::Timeout::new(&*self.memory.pause).build();
        self.push(entry.user_data(Operation::Pause.tag(0)))
    }

    /// Submits all pending operations, and waits until there is a completion.
    pub fn wait(&mut self) -> io::Result<()> {
        named("io_uring_enter", retry(|| self.ring.submit_and_wait(1))).map(drop)
    }

    /// Submits all pending operations, and collects completions without waiting.
    ///
    /// Waiting with a timeout of zero would also work, but makes the kernel set a timer.
    pub fn look(&mut self) -> io::Result<()> {
        let count = self.ring.submission().len() as u32;
        // SAFETY: without an argument the call takes only numbers. The entries are as for every other submission.
        match unsafe { self.ring.submitter().enter::<libc::sigset_t>(count, 0, GET_EVENTS, None) } {
            // EBUSY: completions must be taken before more is submitted.
            Err(error) if matches!(error.raw_os_error(), Some(libc::EINTR | libc::EBUSY)) => Ok(()),
            result => named("io_uring_enter", result).map(drop),
        }
    }

    /// As [`Ring::wait`], with a maximum time. A signal also ends the wait (io_uring_enter(2), IORING_ENTER_EXT_ARG).
    pub fn wait_at_most(&mut self, time: Duration) -> io::Result<()> {
        if time.is_zero() {
            return self.look();
        }
        let time = Timespec::from(time);
        match self.ring.submitter().submit_with_args(1, &SubmitArgs::new().timespec(&time)) {
            // EBUSY: completions must be taken before more is submitted.
            Err(error) if matches!(error.raw_os_error(), Some(libc::ETIME | libc::EINTR | libc::EBUSY)) => Ok(()),
            result => named("io_uring_enter", result).map(drop),
        }
    }

    /// Returns the next completion, if there is one.
    pub fn completion(&mut self) -> Option<Completion> {
        loop {
            let entry = self.ring.completion().next()?;
            let operation = Operation::ALL[(entry.user_data() >> 32) as u16 as usize];
            let socket = entry.user_data() as u32 as RawFd;
            let more = cqueue::more(entry.flags());
            // The kernel's form of a result: negative values are error numbers.
            let result = match entry.result() {
                error if error < 0 => Err(io::Error::from_raw_os_error(-error)),
                number => Ok(number as usize),
            };
            return Some(match operation {
                Operation::Accept => {
                    // SAFETY: the kernel has just made this descriptor for us.
                    let result = result.map(|descriptor| unsafe { OwnedFd::from_raw_fd(descriptor as RawFd) });
                    Completion::Accepted { result, more }
                }
                Operation::Receive => {
                    let result = match (cqueue::buffer_select(entry.flags()), result) {
                        (Some(id), Ok(length)) if length > 0 => Ok(Some(Buffer { id, length })),
                        (unused, result) => {
                            unused.into_iter().for_each(|id| self.memory.buffers.provide(id));
                            result.map(|_| None)
                        }
                    };
                    if !more {
                        self.receives.note(socket, false);
                    }
                    Completion::Received { socket, result, more }
                }
                Operation::Send => {
                    self.memory.sending[socket as usize] = None;
                    Completion::Sent { socket, result }
                }
                Operation::Pause => Completion::Paused,
                Operation::Poll => Completion::Ready { socket, mark: (entry.user_data() >> 48) as u16 },
                // The cancelled operation reports its own end.
                Operation::Cancel => continue,
                Operation::Search => {
                    self.searches = false;
                    // If it fails, the next one may succeed.
                    let _ = self.find_lost_ends();
                    continue;
                }
            });
        }
    }

    /// Appends the bytes of a buffer, and returns the buffer to the kernel.
    pub fn take(&mut self, buffer: Buffer, into: &mut impl for<'a> Extend<&'a u8>) {
        into.extend(self.memory.buffers.bytes(&buffer));
        self.memory.buffers.provide(buffer.id);
    }

    /// Cancels the receives of sockets that have ended: made again, they report the end.
    fn find_lost_ends(&mut self) -> io::Result<()> {
        let sockets = self.receives.sockets();
        if sockets.is_empty() {
            return Ok(());
        }
        self.search_later()?;
        // SAFETY: a socket stays open while an operation on it is in flight.
        for socket in unsafe { receives::ended(&sockets) }? {
            self.cancel_receive(socket)?;
        }
        Ok(())
    }

    fn search_later(&mut self) -> io::Result<()> {
        if !std::mem::replace(&mut self.searches, true) {
            let entry = opcode::Timeout::new(&*self.memory.search).build();
            self.push(entry.user_data(Operation::Search.tag(0)))?;
        }
        Ok(())
    }

    fn push(&mut self, entry: squeue::Entry) -> io::Result<()> {
        // SAFETY: every pointer of an entry points into `self.memory`, which lives until its completion.
        while unsafe { self.ring.submission().push(&entry) }.is_err() {
            named("io_uring_enter", retry(|| self.ring.submit()))?;
        }
        Ok(())
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        // Operations run only within calls of this thread. Cancelled or absent operations run no more.
        let cancelled = match self.ring.submitter().register_sync_cancel(None, CancelBuilder::any()) {
            Err(error) => error.raw_os_error() == Some(libc::ENOENT),
            Ok(()) => true,
        };
        if cancelled {
            // SAFETY: nothing is in flight, and the memory is not used again.
            unsafe { ManuallyDrop::drop(&mut self.memory) };
        }
    }
}

/// Receive buffers of one size, and the ring that gives the kernel the free ones (io_uring_register(2),
/// IORING_REGISTER_PBUF_RING).
struct Buffers {
    /// The whole mapping: the ring's entries, then the buffers.
    entries: *mut BufRingEntry,
    mapped: usize,
    /// Places in the ring, a power of two.
    places: u16,
    first: *mut u8,
    size: usize,
    count: u16,
    tail: u16,
}

impl Buffers {
    fn new(count: u16, size: usize) -> io::Result<Self> {
        const PAGE: usize = 4096;
        let places = count.next_power_of_two();
        let ahead = (usize::from(places) * size_of::<BufRingEntry>()).next_multiple_of(PAGE);
        let mapped = ahead + usize::from(count) * size;
        let (protection, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
        // SAFETY: a new anonymous mapping aliases nothing.
        let start = unsafe { libc::mmap(std::ptr::null_mut(), mapped, protection, flags, -1, 0) };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the buffers lie in the mapping, behind the entries.
        let first = unsafe { start.cast::<u8>().add(ahead) };
        let mut buffers = Buffers { entries: start.cast(), mapped, places, first, size, count, tail: 0 };
        (0..count).for_each(|id| buffers.provide(id));
        Ok(buffers)
    }

    /// Gives a buffer to the kernel.
    fn provide(&mut self, id: u16) {
        let address = self.address(id);
        // SAFETY: the place lies in the ring, and is free: there are no more buffers than places. The kernel also reads the
        // tail; the Release store makes it see the entry first.
        unsafe {
            let entry = &mut *self.entries.add(usize::from(self.tail & (self.places - 1)));
            entry.set_addr(address as u64);
            entry.set_len(self.size as u32);
            entry.set_bid(id);
            self.tail = self.tail.wrapping_add(1);
            (*BufRingEntry::tail(self.entries).cast::<AtomicU16>()).store(self.tail, Release);
        }
    }

    fn bytes(&self, buffer: &Buffer) -> &[u8] {
        assert!(buffer.length <= self.size, "a buffer belongs to the ring that it came from");
        // SAFETY: the kernel has written that many bytes, and has not been given the buffer again.
        unsafe { std::slice::from_raw_parts(self.address(buffer.id), buffer.length) }
    }

    fn address(&self, id: u16) -> *mut u8 {
        assert!(id < self.count, "a buffer belongs to the ring that it came from");
        // SAFETY: the buffer lies in the mapping.
        unsafe { self.first.add(usize::from(id) * self.size) }
    }
}

impl Drop for Buffers {
    fn drop(&mut self) {
        // SAFETY: this is the mapping made above, and no operation in flight uses it: see the drop of [`Ring`].
        unsafe { libc::munmap(self.entries.cast(), self.mapped) };
    }
}

/// Reason why there is no ring.
#[derive(Debug)]
pub struct Refusal {
    pub(super) call: &'static str,
    pub(super) error: io::Error,
}

impl std::error::Error for Refusal {}

impl fmt::Display for Refusal {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Refusal { call, error } = self;
        let policy = std::fs::read_to_string("/proc/sys/kernel/io_uring_disabled").unwrap_or_default();
        let why = match (error.raw_os_error(), policy.trim()) {
            (Some(libc::EPERM), "2") => "kernel.io_uring_disabled is 2, which forbids it to all users",
            (Some(libc::EPERM), "1") => {
                "kernel.io_uring_disabled is 1, which forbids it outside of kernel.io_uring_group; or a seccomp filter does"
            }
            (Some(libc::EPERM | libc::EACCES), _) => "a policy forbids it, such as a container's seccomp filter",
            (Some(libc::ENOSYS), _) => "this kernel was built without it, or a seccomp filter hides it",
            (Some(libc::ENOMEM), _) => return write!(formatter, "{call}: {error}: {}", no_memory()),
            (Some(libc::EINVAL | libc::EOPNOTSUPP), _) => "this kernel is too old for it; Linux 6.1 has all of it",
            _ => return write!(formatter, "{call}: {error}"),
        };
        write!(formatter, "{call}: {error}: {why}")
    }
}

impl From<Refusal> for io::Error {
    /// Keeps the message; [`number`] returns the error's number.
    fn from(refusal: Refusal) -> Self {
        io::Error::new(refusal.error.kind(), refusal)
    }
}

/// Returns the number of a system error (errno(3)), including the one inside a [`Refusal`] and that of a named call.
pub fn number(error: &io::Error) -> Option<i32> {
    let refusal = || error.get_ref()?.downcast_ref::<Refusal>()?.error.raw_os_error();
    super::number(error).or_else(refusal)
}

/// Returns why there is no memory for a ring, and a remedy.
fn no_memory() -> String {
    let limits = std::fs::read_to_string("/proc/self/limits").unwrap_or_default();
    let line = limits.lines().find_map(|line| line.strip_prefix("Max locked memory"));
    let soft = line.and_then(|line| line.split_whitespace().next()).unwrap_or("unknown");
    format!(
        "the rings of all processes of a user count towards its locked memory (RLIMIT_MEMLOCK, {soft} bytes) and the memory \
         of the control group (memory.max); raise the limit (ulimit -l), or choose a lower --pool or fewer --clients: \
         each worker that sends through a ring makes its own"
    )
}
