//! poll(2) on an array that its caller keeps.

use std::io;
use std::os::fd::RawFd;

use nix::poll::PollFlags;

use crate::sys::{check, named, retry};

/// An entry of the array. poll(2) ignores entries with a negative descriptor.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub struct PollFd(libc::pollfd);

impl PollFd {
    /// Makes an entry that waits for these events of the descriptor.
    pub fn new(descriptor: RawFd, flags: PollFlags) -> Self {
        PollFd(libc::pollfd { fd: descriptor, events: flags.bits(), revents: 0 })
    }

    /// Makes an entry that waits for nothing.
    pub const fn unused() -> Self {
        PollFd(libc::pollfd { fd: -1, events: 0, revents: 0 })
    }

    /// Returns the descriptor.
    pub fn descriptor(&self) -> RawFd {
        self.0.fd
    }

    /// Returns what the descriptor is ready for, including errors; empty if it is not ready.
    pub fn ready(&self) -> PollFlags {
        PollFlags::from_bits_retain(self.0.revents)
    }
}

/// Waits until an entry is ready.
pub fn poll(entries: &mut [PollFd]) -> io::Result<()> {
    // SAFETY: PollFd has the layout of `pollfd`, and the length is that of the slice.
    let waited = retry(|| check(unsafe { libc::poll(entries.as_mut_ptr().cast(), entries.len() as libc::nfds_t, -1) }));
    named("poll", waited).map(drop)
}
