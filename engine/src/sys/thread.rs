//! A detached thread as C makes it: pthread_create(3) with default attributes.
//!
//! The standard library's threads also set up an alternate signal stack, eight more system calls a thread (strace -f -c
//! counts them), which a design that makes a thread for every connection would be charged with.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};

type Body = Box<dyn FnOnce() + Send>;

/// Starts a thread that nobody waits for.
pub fn spawn_detached(body: impl FnOnce() + Send + 'static) -> io::Result<()> {
    let body: *mut Body = Box::into_raw(Box::new(Box::new(body) as Body));
    let mut thread = 0;
    // SAFETY: `enter` takes the box over; it is taken back below if there is no thread to do so.
    let result = unsafe { libc::pthread_create(&mut thread, std::ptr::null(), enter, body.cast()) };
    if result != 0 {
        // SAFETY: no thread was made, so the box is still ours.
        drop(unsafe { Box::from_raw(body) });
        return Err(io::Error::from_raw_os_error(result));
    }
    // SAFETY: the thread exists, and its number is not used again.
    unsafe { libc::pthread_detach(thread) };
    Ok(())
}

extern "C" fn enter(body: *mut libc::c_void) -> *mut libc::c_void {
    // SAFETY: this is the box of `spawn_detached`, given to this thread alone.
    let body = unsafe { Box::from_raw(body.cast::<Body>()) };
    // A panic must not unwind into C; its message has been printed.
    let _ = catch_unwind(AssertUnwindSafe(body));
    std::ptr::null_mut()
}
