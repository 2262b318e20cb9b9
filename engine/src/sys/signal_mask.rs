//! The signal mask of a thread (sigprocmask(2)).

use std::io;

use nix::sys::signal::SigSet;

/// Unblocks every signal, as a newly started process expects.
pub(super) fn unblock_all() -> io::Result<()> {
    SigSet::empty().thread_set_mask().map_err(io::Error::from)
}

/// Calls a function with every signal blocked; a thread that it starts inherits the mask and handles none.
pub(super) fn with_all_blocked<T>(call: impl FnOnce() -> T) -> io::Result<T> {
    let before = SigSet::all().thread_swap_mask(nix::sys::signal::SigmaskHow::SIG_SETMASK)?;
    let result = call();
    before.thread_set_mask()?;
    Ok(result)
}
