//! An epoll instance (epoll(7)). To be made where it is used, after every fork: an inherited one is shared with the parent.

use std::io;
use std::os::fd::{AsFd, AsRawFd, RawFd};

use nix::poll::PollFlags;
use nix::sys::epoll::{self, EpollCreateFlags, EpollEvent, EpollTimeout};

pub use nix::sys::epoll::EpollFlags;

use super::retry;

/// Room for what one wait brings, as many events as nginx takes.
pub type Events = [EpollEvent; 512];

/// No event yet.
pub fn no_events() -> Events {
    [EpollEvent::empty(); 512]
}

/// The instance.
pub struct Epoll(epoll::Epoll);

impl Epoll {
    /// Makes an instance that watches nothing (epoll_create1(2)).
    pub fn create() -> io::Result<Self> {
        Ok(Epoll(epoll::Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC)?))
    }

    /// Watches a descriptor (EPOLL_CTL_ADD, epoll_ctl(2)). It is forgotten when its last copy is closed.
    pub fn add(&self, descriptor: impl AsFd, flags: EpollFlags) -> io::Result<()> {
        let event = event(&descriptor, flags);
        Ok(self.0.add(descriptor, event)?)
    }

    /// Watches it for something else (EPOLL_CTL_MOD). What it is ready for already is reported anew, also as an edge.
    pub fn modify(&self, descriptor: impl AsFd, flags: EpollFlags) -> io::Result<()> {
        let mut event = event(&descriptor, flags);
        Ok(self.0.modify(descriptor, &mut event)?)
    }

    /// Watches it no longer (EPOLL_CTL_DEL).
    pub fn delete(&self, descriptor: impl AsFd) -> io::Result<()> {
        Ok(self.0.delete(descriptor)?)
    }

    /// Waits until something is ready, or only looks; every descriptor comes once, with what it is ready for
    /// (epoll_wait(2)).
    pub fn wait<'a>(
        &self,
        events: &'a mut Events,
        waiting: bool,
    ) -> io::Result<impl Iterator<Item = (RawFd, PollFlags)> + use<'a>> {
        let timeout = if waiting { EpollTimeout::NONE } else { EpollTimeout::ZERO };
        let count = retry(|| self.0.wait(events, timeout).map_err(io::Error::from))?;
        let ready = |event: &EpollEvent| PollFlags::from_bits_retain(event.events().bits() as libc::c_short);
        Ok(events[..count].iter().map(move |event| (event.data() as RawFd, ready(event))))
    }
}

fn event(descriptor: &impl AsFd, flags: EpollFlags) -> EpollEvent {
    EpollEvent::new(flags, descriptor.as_fd().as_raw_fd() as u64)
}

/// The flags of poll(2) as those of epoll, which are the same numbers.
pub fn flags(flags: PollFlags) -> EpollFlags {
    EpollFlags::from_bits_retain(flags.bits().into())
}
