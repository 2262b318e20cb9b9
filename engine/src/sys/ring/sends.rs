//! A ring for sends alone (io_uring(7)): an operation in the place of a system call.

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

/// Sends that one io_uring_enter takes.
pub const SENDS_AT_A_TIME: usize = 64;

/// Results of a notification: the bytes were copied after all (IORING_NOTIF_USAGE_ZC_COPIED, linux/io_uring.h).
const COPIED: u32 = 1 << 31;

/// Ask for [`COPIED`] (IORING_SEND_ZC_REPORT_USAGE).
const REPORT_USAGE: u16 = 1 << 3;

/// The mark of a cancellation among the results.
const CANCELLATION: u64 = u64::MAX;

/// A ring of a worker: to be made where it is used, after every fork.
pub struct SendRing {
    ring: IoUring,
    /// What was sent without being copied and has no notification yet, by the number of its send.
    held: HashMap<u64, Held>,
    sends: u64,
}

struct Held {
    owner: Arc<Owner>,
    /// Nothing of it was sent, and its notification is of no interest.
    failed: bool,
    /// Nobody reads it here; it must not go while the kernel may.
    _bytes: Arc<[u8]>,
}

/// Whoever sends without copying. It is asked without the ring, which may be waiting for another's peer just now: whatever
/// a worker takes from the ring meanwhile is noted here, for as long as anybody asks.
#[derive(Debug, Default)]
pub struct Owner(Mutex<Notes>);

#[derive(Debug, Default)]
struct Notes {
    /// Sends whose bytes are held.
    held: u64,
    /// Notifications since they were last taken, and how many of them say that the bytes were copied.
    notified: (u64, u64),
}

impl Owner {
    /// Whether bytes are held. Once they are not, and nothing more is sent, no notification is to come.
    pub fn holds(&self) -> bool {
        self.with(|notes| notes.held > 0)
    }

    /// Notifications since this was last asked: how many, and how many of them say that the bytes were copied after all.
    pub fn take_notifications(&self) -> (u64, u64) {
        self.with(|notes| std::mem::take(&mut notes.notified))
    }

    /// One send ends whose bytes were held; `copied` is what its notification says, where it is of interest.
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

/// How long a socket has its callers wait. The ring looks at neither O_NONBLOCK nor SO_SNDTIMEO, so it has to be told.
#[derive(Debug, Clone, Copy)]
pub enum Patience {
    /// Not at all.
    None,
    /// So long.
    Bounded(Duration),
    /// For ever.
    Unbounded,
}

impl Patience {
    /// That of a socket.
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
            // The kernel sees to it that nothing waits.
            Patience::None | Patience::Unbounded => None,
        }
    }

    fn flags(self) -> libc::c_int {
        libc::MSG_NOSIGNAL | if matches!(self, Patience::None) { libc::MSG_DONTWAIT } else { 0 }
    }
}

/// Why sends cannot be made through a ring here, or not without copying; `None` where they can.
pub fn refusal(without_copying: bool) -> Option<Refusal> {
    let (code, name) = match without_copying {
        false => (opcode::Send::CODE, "IORING_OP_SEND"),
        true => (opcode::SendZc::CODE, "IORING_OP_SEND_ZC"),
    };
    tried(code, name).err()
}

/// Why there is no ring at all here; `None` where there is.
pub fn no_ring() -> Option<Refusal> {
    IoUring::new(1).err().map(|error| Refusal { call: "io_uring_setup", error })
}

fn tried(code: u8, name: &'static str) -> Result<(), Refusal> {
    let refused = |call| move |error| Refusal { call, error };
    let mut ring = IoUring::new(1).map_err(refused("io_uring_setup"))?;
    let mut probe = Probe::new();
    ring.submitter().register_probe(&mut probe).map_err(refused("io_uring_register"))?;
    if !probe.is_supported(code) {
        return Err(refused(name)(io::Error::from_raw_os_error(libc::EOPNOTSUPP)));
    }
    // A send that is given up after a time takes two things more, which no probe tells of: to wait for so long and no
    // longer (IORING_FEAT_EXT_ARG), and to cancel whatever is under way on a socket (IORING_ASYNC_CANCEL_FD).
    let (socket, _peer) = UnixStream::pair().map_err(refused("socketpair"))?;
    // SAFETY: the entry points to nothing.
    let pushed = unsafe { ring.submission().push(&cancel(socket.as_fd())) };
    pushed.expect("an empty ring has a place");
    wait(&ring, Some(Instant::now() + TRIAL)).map_err(refused("io_uring_enter"))?;
    let result = ring.completion().next().map(|entry| entry.result());
    match result {
        // None was under way: by the number of them (IORING_ASYNC_CANCEL_ALL), or as an error.
        Some(0..) => Ok(()),
        Some(error) if error == -libc::ENOENT => Ok(()),
        Some(error) => Err(refused("IORING_ASYNC_CANCEL_FD")(io::Error::from_raw_os_error(-error))),
        None => Err(refused("io_uring_enter")(io::Error::from_raw_os_error(libc::ETIME))),
    }
}

/// How long a cancellation of nothing may take, which comes back at once.
const TRIAL: Duration = Duration::from_secs(1);

/// Cancels all that is under way on a socket.
fn cancel(socket: BorrowedFd<'_>) -> squeue::Entry {
    let all = CancelBuilder::fd(Fd(socket.as_raw_fd())).all();
    opcode::AsyncCancel2::new(all).build().user_data(CANCELLATION)
}

/// Submits, and waits for a completion until then. The kernel tells how many were submitted, if any were, and not that the
/// time was over meanwhile, nor of a signal (io_uring_enter(2)): who waits for something looks whether it has come, and
/// waits again until the same moment.
fn wait(ring: &IoUring, until: Option<Instant>) -> io::Result<()> {
    let waited = retry(|| match until {
        None => ring.submit_and_wait(1),
        Some(until) => {
            let time = Timespec::from(until.saturating_duration_since(Instant::now()));
            ring.submitter().submit_with_args(1, &SubmitArgs::new().timespec(&time))
        }
    });
    match waited {
        // There are more completions than the ring has places for: they are about to be taken.
        Err(error) if !matches!(error.raw_os_error(), Some(libc::ETIME | libc::EBUSY)) => Err(error),
        _ => Ok(()),
    }
}

impl SendRing {
    /// Makes a ring. An error is a [`Refusal`], which says why there is none and what helps.
    pub fn new() -> io::Result<Self> {
        let ring = IoUring::builder()
            .setup_cqsize(4096)
            .build(SENDS_AT_A_TIME as u32)
            .map_err(|error| Refusal { call: "io_uring_setup", error })?;
        Ok(SendRing { ring, held: HashMap::new(), sends: 0 })
    }

    /// Sends pieces one after another by one io_uring_enter, as linked operations: a piece that is not taken in full ends the
    /// row. Says how many bytes were taken; an error when the first piece had it, EAGAIN where the time was over.
    ///
    /// # Panics
    /// When there are more pieces than [`SENDS_AT_A_TIME`].
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
        // The pieces are borrowed, so the kernel must be done with all of them before this returns.
        self.wait_for(socket, patience.time(), |number, result| {
            results[(number - first) as usize] = Some(result);
            !results.contains(&None)
        });
        let mut sent = 0;
        for (result, piece) in results.into_iter().flatten().zip(pieces) {
            match taken(result) {
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

    /// Sends without copying, and holds the bytes until the kernel is done with them; its owner is told then. Says how many
    /// bytes were taken; EAGAIN where the time was over, ENOMEM where the user may not pin so much memory (RLIMIT_MEMLOCK;
    /// Linux, io_uring/notif.h, io_notif_account_mem).
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
        taken(found.expect("it was waited for"))
    }

    /// Tells the owners what the kernel has said since.
    pub fn notify(&mut self) {
        self.collect(&mut |_, _| {});
    }

    /// Whether no bytes are held, of anybody.
    #[cfg(test)]
    pub fn is_empty(&self) -> bool {
        self.held.is_empty()
    }

    /// Waits until the results of sends are complete, as the callback says that takes them. What has not been done after so
    /// long is cancelled, and ends as an error of the socket would end it.
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
                // The kernel may go on reading what is borrowed: there is no way back to the caller.
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

    /// Takes all completions that have come, and gives the results of sends to the callback.
    fn collect(&mut self, sent: &mut dyn FnMut(u64, i32)) {
        loop {
            self.collect_from_ring(sent);
            if !self.ring.submission().cq_overflow() {
                return;
            }
            // Those for which the ring had no places come only when they are asked for.
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
                // No notification follows: it failed, or was a send that copies.
                self.held.remove(&number).iter().for_each(|held| held.owner.ended(None));
            } else if let Some(held) = self.held.get_mut(&number) {
                held.failed = entry.result() < 0;
            }
            sent(number, entry.result());
        }
    }

    fn push(&mut self, entry: &squeue::Entry) {
        // SAFETY: what an entry points to is borrowed, or held, until its completion has come.
        let pushed = unsafe { self.ring.submission().push(entry) };
        pushed.expect("what was pushed before has been submitted");
    }
}

impl Drop for SendRing {
    /// What the kernel may still read stays where it is for good.
    fn drop(&mut self) {
        std::mem::forget(std::mem::take(&mut self.held));
    }
}

/// The result of a send: bytes, or an error. One that was cancelled did not get on in time, as EAGAIN says of a socket.
fn taken(result: i32) -> io::Result<usize> {
    usize::try_from(result).map_err(|_| match -result {
        libc::ECANCELED => io::Error::from_raw_os_error(libc::EAGAIN),
        number => io::Error::from_raw_os_error(number),
    })
}

fn length(piece: &[u8]) -> u32 {
    u32::try_from(piece.len()).unwrap_or(u32::MAX)
}
