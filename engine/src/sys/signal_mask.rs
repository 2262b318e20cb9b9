//! The mask of signals that a thread lets through or not (sigprocmask(2)).

use std::io;

use nix::sys::signal::SigSet;

/// Lets every signal through again, as a process expects that was just started.
pub(super) fn unblock_all() -> io::Result<()> {
    SigSet::empty().thread_set_mask().map_err(io::Error::from)
}
