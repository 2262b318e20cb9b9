//! Readiness from the epoll instance of an async runtime (epoll(7)).

use std::io;
use std::os::fd::AsRawFd;

use tokio::io::unix::AsyncFd;

use crate::sys::add_name;

/// Registers a descriptor, by its owner, with the runtime of the calling task. Returns the owner if that fails.
///
/// The owner must never change its descriptor or be swapped for another: the runtime removes the registration by the
/// descriptor's number.
pub fn register<T: AsRawFd>(owner: T) -> Result<AsyncFd<T>, (T, io::Error)> {
    // SAFETY: see above; the owner closes its descriptor after the registration is removed.
    unsafe { AsyncFd::register(owner) }.map_err(|error| {
        let (owner, error) = error.into_parts();
        (owner, add_name("epoll_ctl", error))
    })
}
