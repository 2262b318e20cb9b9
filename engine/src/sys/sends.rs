//! A ring for sends alone (io_uring(7)): an operation in the place of a system call.

use std::collections::HashMap;
use std::io;
use std::ops::Range;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::sync::Arc;

use io_uring::types::Fd;
use io_uring::{IoUring, Probe, cqueue, opcode, squeue};

use super::retry;
use super::ring::Refusal;

/// Sends that one io_uring_enter takes.
pub const SENDS_AT_A_TIME: usize = 64;

/// Results of a notification: the bytes were copied after all (IORING_NOTIF_USAGE_ZC_COPIED, linux/io_uring.h).
const COPIED: u32 = 1 << 31;

/// Ask for [`COPIED`] (IORING_SEND_ZC_REPORT_USAGE).
const REPORT_USAGE: u16 = 1 << 3;

/// A ring of a worker: to be made where it is used, after every fork.
pub struct SendRing {
    ring: IoUring,
    /// What was sent without being copied and has no notification yet, by the number of its send: whose it is, and the
    /// bytes.
    held: HashMap<u64, (u64, Arc<[u8]>)>,
    sends: u64,
    /// Notifications that their owners have not asked for: how many, and how many of them say that the bytes were copied.
    notified: HashMap<u64, (u64, u64)>,
}

/// Why sends cannot be made through a ring here, or not without copying; `None` where they can.
pub fn refusal(without_copying: bool) -> Option<Refusal> {
    let (code, name) = match without_copying {
        false => (opcode::Send::CODE, "IORING_OP_SEND"),
        true => (opcode::SendZc::CODE, "IORING_OP_SEND_ZC"),
    };
    let ring = match IoUring::new(1) {
        Ok(ring) => ring,
        Err(error) => return Some(Refusal { call: "io_uring_setup", error }),
    };
    let mut probe = Probe::new();
    if let Err(error) = ring.submitter().register_probe(&mut probe) {
        return Some(Refusal { call: "io_uring_register", error });
    }
    let missing = || Refusal { call: name, error: io::Error::from_raw_os_error(libc::EOPNOTSUPP) };
    (!probe.is_supported(code)).then(missing)
}

impl SendRing {
    /// Makes a ring.
    pub fn new() -> io::Result<Self> {
        let ring = IoUring::builder().setup_cqsize(4096).build(SENDS_AT_A_TIME as u32)?;
        Ok(SendRing { ring, held: HashMap::new(), sends: 0, notified: HashMap::new() })
    }

    /// Sends pieces one after another by one io_uring_enter, as linked operations: a piece that is not taken in full ends the
    /// row. Waits as the socket does. Says how many bytes were taken; an error when the first piece had it.
    ///
    /// # Panics
    /// When there are more pieces than [`SENDS_AT_A_TIME`].
    pub fn send(&mut self, socket: BorrowedFd<'_>, pieces: &[&[u8]]) -> io::Result<usize> {
        assert!(pieces.len() <= SENDS_AT_A_TIME);
        for (index, piece) in pieces.iter().enumerate() {
            let flags = libc::MSG_NOSIGNAL | libc::MSG_WAITALL;
            let entry = opcode::Send::new(Fd(socket.as_raw_fd()), piece.as_ptr(), length(piece)).flags(flags).build();
            let link = if index + 1 < pieces.len() { squeue::Flags::IO_LINK } else { squeue::Flags::empty() };
            self.push(&entry.flags(link).user_data(index as u64));
        }
        let mut results = vec![None; pieces.len()];
        // The pieces are borrowed, so the kernel must be done with all of them before this returns.
        while results.contains(&None) {
            self.wait();
            for entry in self.ring.completion() {
                results[entry.user_data() as usize] = Some(entry.result());
            }
        }
        let mut sent = 0;
        for (result, piece) in results.into_iter().flatten().zip(pieces) {
            match usize::try_from(result) {
                Ok(bytes) => sent += bytes,
                Err(_) if sent > 0 => break,
                Err(_) => return Err(io::Error::from_raw_os_error(-result)),
            }
            if (result as usize) < piece.len() {
                break;
            }
        }
        Ok(sent)
    }

    /// Sends without copying, for an owner of a number of its own choice, and holds the bytes until the kernel is done with
    /// them. Waits as the socket does. Says how many bytes were taken.
    pub fn send_zc(
        &mut self,
        owner: u64,
        socket: BorrowedFd<'_>,
        bytes: &Arc<[u8]>,
        range: Range<usize>,
    ) -> io::Result<usize> {
        self.sends += 1;
        let number = self.sends;
        let piece = &bytes[range];
        let entry = opcode::SendZc::new(Fd(socket.as_raw_fd()), piece.as_ptr(), length(piece))
            .flags(libc::MSG_NOSIGNAL)
            .zc_flags(REPORT_USAGE)
            .build();
        self.held.insert(number, (owner, Arc::clone(bytes)));
        self.push(&entry.user_data(number));
        loop {
            self.wait();
            if let Some(result) = self.collect(number) {
                return usize::try_from(result).map_err(|_| io::Error::from_raw_os_error(-result));
            }
        }
    }

    /// Notifications of an owner since this was last asked: how many, and how many of them say that the bytes were copied
    /// after all.
    pub fn notifications(&mut self, owner: u64) -> (u64, u64) {
        self.collect(0);
        self.notified.remove(&owner).unwrap_or_default()
    }

    /// Whether bytes of an owner are held.
    pub fn holds(&self, owner: u64) -> bool {
        self.held.values().any(|&(whose, _)| whose == owner)
    }

    /// Takes all completions that have come; the result of a send, if it is among them.
    fn collect(&mut self, number: u64) -> Option<i32> {
        let mut found = None;
        for entry in self.ring.completion() {
            let of = entry.user_data();
            if cqueue::notif(entry.flags()) {
                let (owner, _) = self.held.remove(&of).expect("a notification comes once");
                let (notified, copied) = self.notified.entry(owner).or_default();
                *notified += 1;
                *copied += u64::from(entry.result() as u32 & COPIED != 0);
                continue;
            }
            if !cqueue::more(entry.flags()) {
                // It failed, and no notification follows.
                self.held.remove(&of);
            }
            if of == number {
                found = Some(entry.result());
            }
        }
        found
    }

    fn wait(&self) {
        if let Err(error) = retry(|| self.ring.submit_and_wait(1)) {
            // The kernel may go on reading what is borrowed: there is no way back to the caller.
            eprintln!("thunderherd-engine: io_uring_enter: {error}");
            std::process::abort();
        }
    }

    fn push(&mut self, entry: &squeue::Entry) {
        // SAFETY: what an entry points to is borrowed, or held, until its completion has come.
        let pushed = unsafe { self.ring.submission().push(entry) };
        pushed.expect("what was pushed before has been submitted");
    }
}

fn length(piece: &[u8]) -> u32 {
    u32::try_from(piece.len()).unwrap_or(u32::MAX)
}
