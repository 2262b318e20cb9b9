//! Signals: a descriptor that reads them (signalfd(2)) for event loops, and handlers for other code.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::thread::JoinHandleExt;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, Ordering::Relaxed};
use std::thread::JoinHandle;
use std::time::Duration;

use super::{clock, process, retry};
use crate::sys::memory::shared::SharedArray;
pub use nix::sys::signal::Signal;
use nix::sys::signal::{SaFlags, SigAction, SigHandler, SigSet, sigaction};
use nix::sys::signalfd::{SfdFlags, SignalFd};

/// Maximum delay after which a second signal counts as the same one: timeout(1) signals its child, and then its child's
/// group.
pub const ECHO: Duration = Duration::from_millis(100);

/// Signals of a supervisor, read from a descriptor. They are blocked while this value lives.
pub struct SignalDescriptor {
    descriptor: SignalFd,
}

impl SignalDescriptor {
    /// Blocks the signals and opens the descriptor in non-blocking mode.
    pub fn new(signals: &[Signal]) -> io::Result<Self> {
        let set: SigSet = signals.iter().copied().collect();
        set.thread_block()?;
        let descriptor = SignalFd::with_flags(&set, SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK)?;
        Ok(SignalDescriptor { descriptor })
    }

    /// Returns the next signal, if one has arrived.
    pub fn read(&self) -> io::Result<Option<Signal>> {
        Ok(self.read_with_origin()?.map(|(signal, _)| signal))
    }

    /// Returns the next signal, if one has arrived, and whether the kernel sent it, as for a key of the terminal.
    pub fn read_with_origin(&self) -> io::Result<Option<(Signal, bool)>> {
        let information = retry(|| self.descriptor.read_signal().map_err(io::Error::from))?;
        Ok(information.and_then(|information| {
            let by_kernel = information.ssi_code == libc::SI_KERNEL;
            Some((Signal::try_from(information.ssi_signo as i32).ok()?, by_kernel))
        }))
    }
}

impl AsFd for SignalDescriptor {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }
}

static LOST: AtomicPtr<AtomicU64> = AtomicPtr::new(std::ptr::null_mut());

/// Reaps children as they end, in a SIGCHLD handler as in UNP section 5.10, and counts those that a signal killed.
///
/// accept continues after the handler (SA_RESTART).
pub fn reap_children(lost: &'static AtomicU64) -> io::Result<()> {
    LOST.store(std::ptr::from_ref(lost).cast_mut(), Relaxed);
    handle(Signal::SIGCHLD, reap, SaFlags::SA_RESTART | SaFlags::SA_NOCLDSTOP)
}

extern "C" fn reap(_signal: libc::c_int) {
    // SAFETY: wait4 and the access to errno are async-signal-safe (signal-safety(7)); LOST points to a counter that lives
    // for ever.
    unsafe {
        let errno = *libc::__errno_location();
        while let Ok(Some((_, status))) = process::wait4(libc::WNOHANG) {
            if libc::WIFSIGNALED(status) {
                (*LOST.load(Relaxed)).fetch_add(1, Relaxed);
            }
        }
        *libc::__errno_location() = errno;
    }
}

static INTERRUPTED: AtomicPtr<AtomicBool> = AtomicPtr::new(std::ptr::null_mut());

/// Signals that interrupt a run: from a key of the terminal, kill(1), timeout(1), and so on.
const INTERRUPTS: [Signal; 2] = [Signal::SIGINT, Signal::SIGTERM];

/// Time of the first interrupt of this process (CLOCK_MONOTONIC, nanoseconds); 0 if there was none.
static FIRST: AtomicU64 = AtomicU64::new(0);

/// Makes SIGINT and SIGTERM set a flag that this process shares with its forked children. A second signal after [`ECHO`]
/// ends the process.
pub fn note_interrupts() -> io::Result<()> {
    let flag: &'static SharedArray<AtomicBool> = Box::leak(Box::new(SharedArray::new(1)?));
    INTERRUPTED.store(std::ptr::from_ref(&flag[0]).cast_mut(), Relaxed);
    INTERRUPTS.into_iter().try_for_each(|signal| handle(signal, note, SaFlags::empty()))
}

/// Makes SIGINT and SIGTERM end this process at once with status 0, for a child whose results are in shared memory. They
/// also set the flag of [`note_interrupts`] for all processes that share it: without one of its children, a load is
/// incomplete.
pub fn leave_at_interrupt() -> io::Result<()> {
    INTERRUPTS.into_iter().try_for_each(|signal| handle(signal, leave, SaFlags::empty()))
}

extern "C" fn leave(_signal: libc::c_int) {
    // SAFETY: the pointer is null or points to a flag that lives for ever.
    if let Some(flag) = unsafe { INTERRUPTED.load(Relaxed).as_ref() } {
        flag.store(true, Relaxed);
    }
    process::leave(0);
}

/// Returns whether this process, or one that shares its flag, was interrupted.
pub fn interrupted() -> bool {
    // SAFETY: the pointer is null or points to a flag that lives for ever.
    unsafe { INTERRUPTED.load(Relaxed).as_ref() }.is_some_and(|flag| flag.load(Relaxed))
}

extern "C" fn note(signal: libc::c_int) {
    let at = clock::now();
    match FIRST.compare_exchange(0, at, Relaxed, Relaxed) {
        // SAFETY: the flag was set before the handler was, and lives for ever.
        Ok(_) => unsafe { (*INTERRUPTED.load(Relaxed)).store(true, Relaxed) },
        Err(first) if at.saturating_sub(first) < ECHO.as_nanos() as u64 => {}
        // SAFETY: signal and raise are async-signal-safe (signal-safety(7)). The raised signal is delivered after this
        // handler.
        Err(_) => unsafe {
            libc::signal(signal, libc::SIG_DFL);
            libc::raise(signal);
        },
    }
}

/// Signal that interrupts a waiting call.
const INTERRUPTION: Signal = Signal::SIGUSR1;

/// Lets [`interrupt_process`] and [`interrupt_thread`] end waiting calls of this process and its forked children with EINTR.
/// The signal has no other effect.
pub fn allow_interruption() -> io::Result<()> {
    handle(INTERRUPTION, do_nothing, SaFlags::empty())
}

extern "C" fn do_nothing(_signal: libc::c_int) {}

/// Interrupts the call in which a child waits, if it does. A child that is just about to call is not interrupted
/// (signal(7)).
pub fn interrupt_process(child: process::Pid) -> io::Result<()> {
    Ok(nix::sys::signal::kill(child, INTERRUPTION)?)
}

/// As [`interrupt_process`], for a thread of this process.
pub fn interrupt_thread<T>(thread: &JoinHandle<T>) -> io::Result<()> {
    // SAFETY: a thread that has not been joined may receive a signal, even after it ended.
    match unsafe { libc::pthread_kill(thread.as_pthread_t(), INTERRUPTION as libc::c_int) } {
        0 | libc::ESRCH => Ok(()),
        number => Err(io::Error::from_raw_os_error(number)),
    }
}

fn handle(signal: Signal, handler: extern "C" fn(libc::c_int), flags: SaFlags) -> io::Result<()> {
    let action = SigAction::new(SigHandler::Handler(handler), flags, SigSet::empty());
    // SAFETY: the handlers of this module do only what signal-safety(7) allows.
    unsafe { sigaction(signal, &action) }?;
    Ok(())
}
