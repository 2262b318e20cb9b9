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

use std::fmt;
use std::io;

/// The error of a system call together with the call's name, so that a message says what failed.
#[derive(Debug)]
struct Failed {
    call: &'static str,
    error: io::Error,
}

impl fmt::Display for Failed {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}: {}", self.call, self.error)
    }
}

impl std::error::Error for Failed {}

/// Adds the name of a system call to its error. [`number`] returns the error's number as before.
pub fn named<T, E: Into<io::Error>>(call: &'static str, result: Result<T, E>) -> io::Result<T> {
    result.map_err(|error| add_name(call, error.into()))
}

fn add_name(call: &'static str, error: io::Error) -> io::Error {
    io::Error::new(error.kind(), Failed { call, error })
}

/// Returns the number of a system error (errno(3)), whether its call is named or not.
pub fn number(error: &io::Error) -> Option<i32> {
    let inside = || error.get_ref()?.downcast_ref::<Failed>()?.error.raw_os_error();
    error.raw_os_error().or_else(inside)
}

/// Returns the name of the call that failed, if it was added to the error.
pub fn call_of(error: &io::Error) -> Option<&'static str> {
    Some(error.get_ref()?.downcast_ref::<Failed>()?.call)
}

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_named_error_keeps_its_number_and_its_kind() {
        let failed = || Err::<(), _>(io::Error::from_raw_os_error(libc::EINTR));
        let error = named("wait4", failed()).unwrap_err();
        assert_eq!((number(&error), error.kind()), (Some(libc::EINTR), io::ErrorKind::Interrupted));
        assert_eq!(error.to_string(), format!("wait4: {}", failed().unwrap_err()));
        assert_eq!(number(&io::Error::other("not of the system")), None);
    }
}
