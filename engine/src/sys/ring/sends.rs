//! A ring for sends only (io_uring(7)): operations instead of system calls.

use std::collections::HashMap;
use std::io;
use std::ops::Range;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use io_uring::types::{CancelBuilder, Fd, SubmitArgs, Timespec};
use io_uring::{IoUring, Probe, cqueue, opcode, squeue};
use socket2::SockRef;

use super::Refusal;
use crate::sys::retry;

/// Maximum sends of one io_uring_enter.
pub const SENDS_AT_A_TIME: usize = 64;

/// Notification flag: the kernel copied the bytes after all (IORING_NOTIF_USAGE_ZC_COPIED, linux/io_uring.h).
const COPIED: u32 = 1 << 31;

/// Send flag that requests [`COPIED`] (IORING_SEND_ZC_REPORT_USAGE).
const REPORT_USAGE: u16 = 1 << 3;

/// Number of a cancellation among the results.
const CANCELLATION: u64 = u64::MAX;

/// A ring of one worker. Make it after every fork, in the process that uses it.
pub struct SendRing {
    ring: IoUring,
    /// Zero-copy sends without a notification yet, by number.
    held: HashMap<u64, Held>,
    sends: u64,
}

struct Held {
    owner: Arc<Owner>,
    /// True if nothing was sent, so that the notification does not count.
    failed: bool,
    /// Never read here, but kept while the kernel may read it.
    _bytes: Arc<[u8]>,
}

/// A sender without copies. It can be queried without the ring, which may be waiting for another connection's peer. Workers
/// note here what they take from the ring meanwhile.
#[derive(Debug, Default)]
pub struct Owner(Mutex<Notes>);

#[derive(Debug, Default)]
struct Notes {
    /// Sends whose bytes are held.
    held: u64,
    /// Notifications since they were last taken, and how many of these report copied bytes.
    notified: (u64, u64),
}

impl Owner {
    /// Returns whether bytes are held. If none are, and nothing more is sent, no notification will follow.
    pub fn holds(&self) -> bool {
        self.with(|notes| notes.held > 0)
    }

    /// Returns the notifications since the last call, and how many of these report copied bytes.
    pub fn take_notifications(&self) -> (u64, u64) {
        self.with(|notes| std::mem::take(&mut notes.notified))
    }

    /// Ends a send whose bytes were held. `copied` is from its notification; `None` if that does not count.
    fn ended(&self, copied: Option<bool>) {
        self.with(|notes| {
            notes.held -= 1;
            notes.notified.0 += u64::from(copied.is_some());
            notes.notified.1 += u64::from(copied == Some(true));
        });
    }

    fn with<T>(&self, act: impl FnOnce(&mut Notes) -> T) -> T {
        act(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Time for which a socket makes its callers wait. The ring ignores O_NONBLOCK and SO_SNDTIMEO, so each send needs
/// this.
#[derive(Debug, Clone, Copy)]
pub enum Patience {
    /// No wait.
    None,
    /// Maximum wait.
    Bounded(Duration),
    /// No limit.
    Unbounded,
}

impl Patience {
    /// Reads it from a socket.
    pub fn of(socket: BorrowedFd<'_>) -> io::Result<Self> {
        let socket = SockRef::from(&socket);
        if socket.nonblocking()? {
            return Ok(Patience::None);
        }
        Ok(socket.write_timeout()?.map_or(Patience::Unbounded, Patience::Bounded))
    }

    fn time(self) -> Option<Duration> {
        match self {
            Patience::Bounded(time) => Some(time),
            // MSG_DONTWAIT keeps the kernel from waiting; unbounded sends have no deadline.
            Patience::None | Patience::Unbounded => None,
        }
    }

    fn flags(self) -> libc::c_int {
        libc::MSG_NOSIGNAL | if matches!(self, Patience::None) { libc::MSG_DONTWAIT } else { 0 }
    }
}

/// Tries sends through a ring, optionally without copying. Returns why they do not work on this machine; `None` if they do.
pub fn refusal(without_copying: bool) -> Option<Refusal> {
    let (code, name) = match without_copying {
        false => (opcode::Send::CODE, "IORING_OP_SEND"),
        true => (opcode::SendZc::CODE, "IORING_OP_SEND_ZC"),
    };
    attempt(code, name).err()
}

/// Returns why this machine has no rings at all; `None` if it has.
pub fn no_ring() -> Option<Refusal> {
    IoUring::new(1).err().map(|error| Refusal { call: "io_uring_setup", error })
}

fn attempt(code: u8, name: &'static str) -> Result<(), Refusal> {
    let refused = |call| move |error| Refusal { call, error };
    let mut ring = IoUring::new(1).map_err(refused("io_uring_setup"))?;
    let mut probe = Probe::new();
    ring.submitter().register_probe(&mut probe).map_err(refused("io_uring_register"))?;
    if !probe.is_supported(code) {
        return Err(refused(name)(io::Error::from_raw_os_error(libc::EOPNOTSUPP)));
    }
    // Sends with a deadline need two more features, which no probe reports: waiting with a timeout (IORING_FEAT_EXT_ARG),
    // and cancelling all operations of a socket (IORING_ASYNC_CANCEL_FD).
    let (socket, _peer) = UnixStream::pair().map_err(refused("socketpair"))?;
    // SAFETY: the entry points to nothing.
    let pushed = unsafe { ring.submission().push(&cancel(socket.as_fd())) };
    pushed.expect("an empty ring has a place");
    wait(&ring, Some(Instant::now() + CANCEL_TIMEOUT)).map_err(refused("io_uring_enter"))?;
    let result = ring.completion().next().map(|entry| entry.result());
    match result {
        // Nothing was in flight. The kernel returns the number of cancelled operations (IORING_ASYNC_CANCEL_ALL), or an
        // error.
        Some(0..) => Ok(()),
        Some(error) if error == -libc::ENOENT => Ok(()),
        Some(error) => Err(refused("IORING_ASYNC_CANCEL_FD")(io::Error::from_raw_os_error(-error))),
        None => Err(refused("io_uring_enter")(io::Error::from_raw_os_error(libc::ETIME))),
    }
}

/// Maximum time for a cancellation of nothing, which returns at once.
const CANCEL_TIMEOUT: Duration = Duration::from_secs(1);

/// Cancels all operations in flight on a socket.
fn cancel(socket: BorrowedFd<'_>) -> squeue::Entry {
    let all = CancelBuilder::fd(Fd(socket.as_raw_fd())).all();
    opcode::AsyncCancel2::new(all).build().user_data(CANCELLATION)
}

/// Submits, and waits for a completion until the deadline. If the kernel submitted anything, it returns that number, and
/// reports neither a timeout nor a signal (io_uring_enter(2)). So callers check for their completion, and wait again until
/// the same deadline.
fn wait(ring: &IoUring, until: Option<Instant>) -> io::Result<()> {
    let waited = retry(|| match until {
        None => ring.submit_and_wait(1),
        Some(until) => {
            let time = Timespec::from(until.saturating_duration_since(Instant::now()));
            ring.submitter().submit_with_args(1, &SubmitArgs::new().timespec(&time))
        }
    });
    match waited {
        // EBUSY: more completions than the ring has room for; the caller takes them next.
        Err(error) if !matches!(error.raw_os_error(), Some(libc::ETIME | libc::EBUSY)) => Err(error),
        _ => Ok(()),
    }
}

impl SendRing {
    /// Makes a ring. The error is a [`Refusal`] with the reason and a remedy.
    pub fn new() -> io::Result<Self> {
        let ring = IoUring::builder()
            .setup_cqsize(4096)
            .build(SENDS_AT_A_TIME as u32)
            .map_err(|error| Refusal { call: "io_uring_setup", error })?;
        Ok(SendRing { ring, held: HashMap::new(), sends: 0 })
    }

    /// Sends pieces in order by one io_uring_enter, as linked operations. The first incomplete piece ends the row. Returns
    /// the bytes taken, or an error if the first piece failed: EAGAIN after the timeout.
    ///
    /// # Panics
    /// If there are more pieces than [`SENDS_AT_A_TIME`].
    pub fn send(&mut self, socket: BorrowedFd<'_>, pieces: &[&[u8]], patience: Patience) -> io::Result<usize> {
        assert!(pieces.len() <= SENDS_AT_A_TIME);
        for (index, piece) in pieces.iter().enumerate() {
            let flags = patience.flags() | libc::MSG_WAITALL;
            let entry = opcode::Send::new(Fd(socket.as_raw_fd()), piece.as_ptr(), length(piece)).flags(flags).build();
            let link = if index + 1 < pieces.len() { squeue::Flags::IO_LINK } else { squeue::Flags::empty() };
            self.push(&entry.flags(link).user_data(self.sends + 1 + index as u64));
        }
        let first = self.sends + 1;
        self.sends += pieces.len() as u64;
        let mut results = vec![None; pieces.len()];
        // The pieces are borrowed, so the kernel must be done with all of them before this function returns.
        self.wait_for(socket, patience.time(), |number, result| {
            results[(number - first) as usize] = Some(result);
            !results.contains(&None)
        });
        let mut sent = 0;
        for (result, piece) in results.into_iter().flatten().zip(pieces) {
            match bytes_sent(result) {
                Ok(bytes) => sent += bytes,
                Err(_) if sent > 0 => break,
                Err(error) => return Err(error),
            }
            if (result as usize) < piece.len() {
                break;
            }
        }
        Ok(sent)
    }

    /// Sends without copying, and holds the bytes until the kernel is done with them; its owner is notified then. Returns
    /// the bytes taken. EAGAIN after the timeout; ENOMEM if the user may not pin this much memory (RLIMIT_MEMLOCK; Linux,
    /// io_uring/notif.h, io_notif_account_mem).
    pub fn send_zc(
        &mut self,
        owner: &Arc<Owner>,
        socket: BorrowedFd<'_>,
        bytes: &Arc<[u8]>,
        range: Range<usize>,
        patience: Patience,
    ) -> io::Result<usize> {
        self.sends += 1;
        let number = self.sends;
        let piece = &bytes[range];
        let entry = opcode::SendZc::new(Fd(socket.as_raw_fd()), piece.as_ptr(), length(piece))
            .flags(patience.flags())
            .zc_flags(REPORT_USAGE)
            .build();
        owner.with(|notes| notes.held += 1);
        self.held.insert(number, Held { owner: Arc::clone(owner), failed: false, _bytes: Arc::clone(bytes) });
        self.push(&entry.user_data(number));
        let mut found = None;
        self.wait_for(socket, patience.time(), |of, result| {
            if of == number {
                found = Some(result);
            }
            found.is_some()
        });
        bytes_sent(found.expect("the wait ends with this result"))
    }

    /// Passes new notifications of the kernel to their owners.
    pub fn notify(&mut self) {
        self.collect(&mut |_, _| {});
    }

    /// Returns whether no bytes are held, of any owner.
    #[cfg(test)]
    pub fn is_empty(&self) -> bool {
        self.held.is_empty()
    }

    /// Waits until the callback, which takes the results of sends, returns that they are complete. After the maximum wait,
    /// unfinished sends are cancelled, which ends them with an error like a socket's.
    fn wait_for(
        &mut self,
        socket: BorrowedFd<'_>,
        patience: Option<Duration>,
        mut complete: impl FnMut(u64, i32) -> bool,
    ) {
        let mut until = patience.map(|patience| Instant::now() + patience);
        let (mut done, mut cancelling, mut cancelled) = (false, false, false);
        while !done || cancelling && !cancelled {
            if let Err(error) = wait(&self.ring, until) {
                // The kernel may still read borrowed memory, so this function cannot return.
                eprintln!("thunderherd-engine: io_uring_enter: {error}");
                std::process::abort();
            }
            self.collect(&mut |number, result| match number {
                CANCELLATION => cancelled = true,
                _ => done |= complete(number, result),
            });
            if !done && until.is_some_and(|until| Instant::now() >= until) {
                self.push(&cancel(socket));
                (until, cancelling) = (None, true);
            }
        }
    }

    /// Takes all completions, and passes the results of sends to the callback.
    fn collect(&mut self, sent: &mut dyn FnMut(u64, i32)) {
        loop {
            self.collect_from_ring(sent);
            if !self.ring.submission().cq_overflow() {
                return;
            }
            // The kernel delivers overflowed completions only on request.
            if self.ring.submit().is_err() {
                return;
            }
        }
    }

    fn collect_from_ring(&mut self, sent: &mut dyn FnMut(u64, i32)) {
        for entry in self.ring.completion() {
            let number = entry.user_data();
            if cqueue::notif(entry.flags()) {
                let held = self.held.remove(&number).expect("a notification comes once");
                let copied = entry.result() as u32 & COPIED != 0;
                held.owner.ended((!held.failed).then_some(copied));
                continue;
            }
            if !cqueue::more(entry.flags()) {
                // No notification follows: the send failed, or copied its bytes.
                self.held.remove(&number).iter().for_each(|held| held.owner.ended(None));
            } else if let Some(held) = self.held.get_mut(&number) {
                held.failed = entry.result() < 0;
            }
            sent(number, entry.result());
        }
    }

    fn push(&mut self, entry: &squeue::Entry) {
        // SAFETY: everything that an entry points to is borrowed or held until its completion.
        let pushed = unsafe { self.ring.submission().push(entry) };
        pushed.expect("all earlier entries have been submitted");
    }
}

impl Drop for SendRing {
    /// Leaks all memory that the kernel may still read.
    fn drop(&mut self) {
        std::mem::forget(std::mem::take(&mut self.held));
    }
}

/// Converts the result of a send to bytes or an error. A cancelled send ran out of time, so it becomes EAGAIN as for a
/// socket.
fn bytes_sent(result: i32) -> io::Result<usize> {
    usize::try_from(result).map_err(|_| match -result {
        libc::ECANCELED => io::Error::from_raw_os_error(libc::EAGAIN),
        number => io::Error::from_raw_os_error(number),
    })
}

fn length(piece: &[u8]) -> u32 {
    u32::try_from(piece.len()).unwrap_or(u32::MAX)
}
