//! poll(2) on an array that its caller keeps.

use std::io;
use std::os::fd::RawFd;

use nix::poll::PollFlags;

use crate::sys::{check, retry};

/// An entry of the array. One with a negative descriptor is passed over.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub struct PollFd(libc::pollfd);

impl PollFd {
    /// Waits for this on the descriptor.
    pub fn new(descriptor: RawFd, flags: PollFlags) -> Self {
        PollFd(libc::pollfd { fd: descriptor, events: flags.bits(), revents: 0 })
    }

    /// An entry that waits for nothing.
    pub const fn unused() -> Self {
        PollFd(libc::pollfd { fd: -1, events: 0, revents: 0 })
    }

    /// The descriptor.
    pub fn descriptor(&self) -> RawFd {
        self.0.fd
    }

    /// What it is ready for, errors among it; empty when it is not.
    pub fn ready(&self) -> PollFlags {
        PollFlags::from_bits_retain(self.0.revents)
    }
}

/// Waits until an entry is ready.
pub fn poll(entries: &mut [PollFd]) -> io::Result<()> {
    // SAFETY: the entries are `pollfd` and as many as is said.
    retry(|| check(unsafe { libc::poll(entries.as_mut_ptr().cast(), entries.len() as libc::nfds_t, -1) })).map(drop)
}
