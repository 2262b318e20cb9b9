//! The sockets whose receive is in flight, to find those whose end the kernel has not reported.
//!
//! A multishot receive may lose the end of a connection that comes just as the data before it is received, and then never
//! completes again: seen on Linux 6.18 with resets of TCP connections and with closed Unix sockets, once in some ten thousand
//! connections (github.com/axboe/liburing/issues/1549).

use std::io;
use std::os::fd::{BorrowedFd, RawFd};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};

/// Time between two searches for lost ends.
pub const INTERVAL: Duration = Duration::from_secs(1);

/// Receives in flight.
#[derive(Default)]
pub struct Receives {
    /// By descriptor.
    in_flight: Vec<bool>,
}

impl Receives {
    /// Notes that a receive has been submitted, or has ended.
    pub fn note(&mut self, socket: RawFd, in_flight: bool) {
        let place = socket as usize;
        if place >= self.in_flight.len() {
            self.in_flight.resize(place + 1, false);
        }
        self.in_flight[place] = in_flight;
    }

    /// Returns the sockets with a receive in flight.
    pub fn sockets(&self) -> Vec<RawFd> {
        (0..).zip(&self.in_flight).filter(|(_, in_flight)| **in_flight).map(|(socket, _)| socket).collect()
    }
}

/// Returns which of these sockets have ended (poll(2)).
///
/// # Safety
/// The sockets are open.
pub unsafe fn ended(sockets: &[RawFd]) -> io::Result<Vec<RawFd>> {
    // SAFETY: the caller promises this.
    let open = sockets.iter().map(|&socket| unsafe { BorrowedFd::borrow_raw(socket) });
    // An error and the end of both directions are always reported.
    let mut polled: Vec<_> = open.map(|socket| PollFd::from_borrowed_fd(socket, PollFlags::RDHUP)).collect();
    poll(&mut polled, Some(&Timespec::default()))?;
    Ok(sockets.iter().zip(polled).filter(|(_, one)| !one.revents().is_empty()).map(|(&socket, _)| socket).collect())
}
