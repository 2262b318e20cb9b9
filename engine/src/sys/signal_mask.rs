//! The signal mask of a thread (sigprocmask(2)).

use std::io;

use nix::sys::signal::SigSet;

use super::named;

/// Unblocks every signal, as a newly started process expects.
pub(super) fn unblock_all() -> io::Result<()> {
    named("sigprocmask", SigSet::empty().thread_set_mask())
}

/// Calls a function with every signal blocked; a thread that it starts inherits the mask and handles none.
pub(super) fn with_all_blocked<T>(call: impl FnOnce() -> T) -> io::Result<T> {
    let before = named("sigprocmask", SigSet::all().thread_swap_mask(nix::sys::signal::SigmaskHow::SIG_SETMASK))?;
    let result = call();
    named("sigprocmask", before.thread_set_mask())?;
    Ok(result)
}
