//! The signal mask of a thread (sigprocmask(2)).

use std::io;

use nix::sys::signal::SigSet;

/// Unblocks every signal, as a newly started process expects.
pub(super) fn unblock_all() -> io::Result<()> {
    SigSet::empty().thread_set_mask().map_err(io::Error::from)
}
