//! Threads as C makes them: pthread_create(3).
//!
//! The standard library's threads also set up an alternate signal stack. That takes eight more system calls a thread (strace
//! -f -c counts them), which would be charged to a design with a thread for every connection.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};

use super::{check_number, named, signal_mask};

/// Starts a detached thread with default attributes.
pub fn spawn_detached(body: impl FnOnce() + Send + 'static) -> io::Result<()> {
    // SAFETY: null attributes are the default ones.
    unsafe { spawn(std::ptr::null(), body) }
}

/// Starts a detached thread with a stack of this many bytes (pthread_attr_setstacksize(3)).
pub fn spawn_detached_with_stack(bytes: usize, body: impl FnOnce() + Send + 'static) -> io::Result<()> {
    // SAFETY: the attributes are initialised before use and destroyed after it.
    unsafe {
        let mut attributes = std::mem::zeroed();
        check_number(libc::pthread_attr_init(&mut attributes))?;
        let result = check_number(libc::pthread_attr_setstacksize(&mut attributes, bytes))
            .and_then(|()| spawn(&attributes, body));
        libc::pthread_attr_destroy(&mut attributes);
        result
    }
}

/// Sets how late the kernel may expire this thread's timers, in nanoseconds, to save wake-ups (PR_SET_TIMERSLACK). The
/// default is 50,000.
pub fn set_timer_slack(nanoseconds: u64) -> io::Result<()> {
    named("prctl", nix::sys::prctl::set_timerslack(nanoseconds))
}

/// Calls a function that starts threads; they handle no signals, so that signals interrupt the calls of other threads.
pub fn without_signals<T>(start: impl FnOnce() -> T) -> io::Result<T> {
    signal_mask::with_all_blocked(start)
}

/// Makes a thread with default attributes that does nothing, and waits until it ends (pthread_join(3)).
pub fn create_and_join() -> io::Result<()> {
    extern "C" fn end(_: *mut libc::c_void) -> *mut libc::c_void {
        std::ptr::null_mut()
    }
    let mut thread = 0;
    // SAFETY: null attributes are the default ones. The thread refers to nothing, and is joined once.
    unsafe {
        check_number(libc::pthread_create(&mut thread, std::ptr::null(), end, std::ptr::null_mut()))?;
        check_number(libc::pthread_join(thread, std::ptr::null_mut()))
    }
}

/// # Safety
/// The attributes are null or initialised.
unsafe fn spawn<Body: FnOnce() + Send + 'static>(
    attributes: *const libc::pthread_attr_t,
    body: Body,
) -> io::Result<()> {
    let body = Box::into_raw(Box::new(body));
    let mut thread = 0;
    // SAFETY: `enter` takes ownership of the box. If there is no thread, it is taken back below.
    let result = unsafe { libc::pthread_create(&mut thread, attributes, enter::<Body>, body.cast()) };
    if result != 0 {
        // SAFETY: no thread was made, so we still own the box.
        drop(unsafe { Box::from_raw(body) });
        return check_number(result);
    }
    // SAFETY: the thread exists, and its number is not used again.
    unsafe { libc::pthread_detach(thread) };
    Ok(())
}

extern "C" fn enter<Body: FnOnce()>(body: *mut libc::c_void) -> *mut libc::c_void {
    // SAFETY: this is the box of `spawn`, given to this thread only.
    let body = unsafe { Box::from_raw(body.cast::<Body>()) };
    // A panic must not unwind into C; its message has been printed.
    let _ = catch_unwind(AssertUnwindSafe(body));
    std::ptr::null_mut()
}
