//! An epoll instance (epoll(7)). Make it after every fork, in the process that uses it: an inherited instance is shared with
//! the parent.

use std::io;
use std::os::fd::{AsFd, AsRawFd, RawFd};
use std::time::Duration;

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags};
use nix::sys::epoll::{self, EpollCreateFlags, EpollEvent, EpollTimeout};

pub use nix::sys::epoll::EpollFlags;

use crate::sys::{named, retry};

/// Maximum events of one wait, as in nginx.
pub const MOST_EVENTS: usize = 512;

/// Room for the events of one wait.
pub type Events = [EpollEvent; MOST_EVENTS];

/// Returns empty room for events.
pub fn no_events() -> Events {
    [EpollEvent::empty(); MOST_EVENTS]
}

/// An epoll instance.
pub struct Epoll(epoll::Epoll);

impl Epoll {
    /// Makes an instance that watches nothing (epoll_create1(2)).
    pub fn create() -> io::Result<Self> {
        named("epoll_create1", epoll::Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC)).map(Epoll)
    }

    /// Watches a descriptor (EPOLL_CTL_ADD, epoll_ctl(2)). The kernel forgets it when its last copy is closed.
    pub fn add(&self, descriptor: impl AsFd, flags: EpollFlags) -> io::Result<()> {
        let event = event(&descriptor, flags);
        named("epoll_ctl", self.0.add(descriptor, event))
    }

    /// Watches a descriptor for something else (EPOLL_CTL_MOD). If it is ready for that already, it is reported anew, even
    /// edge-triggered.
    pub fn modify(&self, descriptor: impl AsFd, flags: EpollFlags) -> io::Result<()> {
        let mut event = event(&descriptor, flags);
        named("epoll_ctl", self.0.modify(descriptor, &mut event))
    }

    /// Stops watching a descriptor (EPOLL_CTL_DEL).
    pub fn delete(&self, descriptor: impl AsFd) -> io::Result<()> {
        named("epoll_ctl", self.0.delete(descriptor))
    }

    /// Waits until something is ready, or only checks. Returns each ready descriptor once, with what it is ready for
    /// (epoll_wait(2)).
    pub fn wait<'a>(
        &self,
        events: &'a mut Events,
        waiting: bool,
    ) -> io::Result<impl Iterator<Item = (RawFd, PollFlags)> + use<'a>> {
        let timeout = if waiting { EpollTimeout::NONE } else { EpollTimeout::ZERO };
        let count = named("epoll_wait", retry(|| self.0.wait(events, timeout).map_err(io::Error::from)))?;
        Ok(events[..count].iter().map(ready))
    }

    /// As [`Epoll::wait`], with a maximum time. A signal also ends the wait. Returns the number of events (epoll_pwait2(2)).
    pub fn wait_at_most(&self, events: &mut Events, time: Duration) -> io::Result<usize> {
        match self.pwait2(events, time) {
            Ok(count) => Ok(count),
            Err(Errno::EINTR) => Ok(0),
            // Filters of containers answer EPERM to calls that are newer than they are.
            Err(Errno::ENOSYS | Errno::EPERM) => self.wait_at_most_as_before(events, time),
            Err(error) => named("epoll_pwait2", Err(error)),
        }
    }

    /// Tries the call that [`Epoll::wait_at_most`] makes if it exists (epoll_pwait2(2)).
    pub fn try_pwait2() -> io::Result<()> {
        named("epoll_pwait2", Epoll::create()?.pwait2(&mut no_events(), Duration::ZERO)).map(drop)
    }

    fn pwait2(&self, events: &mut Events, time: Duration) -> Result<usize, Errno> {
        let length = events.len() as libc::c_int;
        let timeout = libc::timespec {
            tv_sec: libc::time_t::try_from(time.as_secs()).unwrap_or(libc::time_t::MAX),
            tv_nsec: time.subsec_nanos().into(),
        };
        // SAFETY: nix's events have the kernel's layout. The kernel writes no more than fit, and only reads the time.
        let result = unsafe {
            let (epoll, events) = (self.0.0.as_raw_fd(), events.as_mut_ptr());
            libc::syscall(libc::SYS_epoll_pwait2, epoll, events, length, &raw const timeout, std::ptr::null::<u8>(), 0)
        };
        Errno::result(result).map(|count| count as usize)
    }

    /// The same without that call, which Linux has since 5.11. epoll_wait counts whole milliseconds, so it waits for most of the time, and ppoll for the
    /// rest.
    fn wait_at_most_as_before(&self, events: &mut Events, time: Duration) -> io::Result<usize> {
        let whole = time.as_millis().saturating_sub(1);
        if whole == 0 && !time.is_zero() {
            let mut this = [PollFd::new(self.0.0.as_fd(), PollFlags::POLLIN)];
            if let Err(error) = nix::poll::ppoll(&mut this, Some(time.into()), None)
                && error != Errno::EINTR
            {
                return named("ppoll", Err(error));
            }
        }
        match self.0.wait(events, EpollTimeout::try_from(whole).unwrap_or(EpollTimeout::MAX)) {
            Ok(count) => Ok(count),
            Err(Errno::EINTR) => Ok(0),
            Err(error) => named("epoll_wait", Err(error)),
        }
    }
}

/// Returns the descriptor of an event, and what it is ready for.
pub fn ready(event: &EpollEvent) -> (RawFd, PollFlags) {
    (event.data() as RawFd, PollFlags::from_bits_retain(event.events().bits() as libc::c_short))
}

fn event(descriptor: &impl AsFd, flags: EpollFlags) -> EpollEvent {
    EpollEvent::new(flags, descriptor.as_fd().as_raw_fd() as u64)
}

/// Converts flags of poll(2) to those of epoll, which have the same numbers.
pub fn flags(flags: PollFlags) -> EpollFlags {
    EpollFlags::from_bits_retain(flags.bits().into())
}
