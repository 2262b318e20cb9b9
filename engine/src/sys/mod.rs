//! Wrappers of system calls: one function for each call, under the call's own name. This is the only `unsafe` code of the
//! engine.

#![allow(unsafe_code)]

pub mod clock;
pub mod descriptor;
pub mod lock;
pub mod memory;
pub mod names;
pub mod namespace;
pub mod process;
pub mod readiness;
pub mod ring;
pub mod signal;
mod signal_mask;
pub mod socket;
pub mod thread;
pub mod user;
pub mod zero_copy;

use std::io;

/// Returns the size of a memory page in bytes (sysconf(3), _SC_PAGESIZE).
fn page_size() -> usize {
    // SAFETY: the call takes a number.
    let bytes = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    usize::try_from(bytes).expect("every system has a page size")
}

/// Turns the -1 of a system call into its error.
fn check(result: libc::c_int) -> io::Result<libc::c_int> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

/// Turns the -1 of a call that transfers bytes into its error.
fn check_size(result: libc::ssize_t) -> io::Result<usize> {
    usize::try_from(result).map_err(|_| io::Error::last_os_error())
}

/// Turns the result of a pthread function into an error. These return the error's number instead of setting errno.
fn check_number(number: libc::c_int) -> io::Result<()> {
    if number == 0 { Ok(()) } else { Err(io::Error::from_raw_os_error(number)) }
}

/// Repeats a call that a signal interrupted (signal(7)).
pub fn retry<T>(mut call: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    loop {
        match call() {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            result => return result,
        }
    }
}
