//! Signals: a descriptor that reads them (signalfd(2)) for event loops, and handlers for other code.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::thread::JoinHandleExt;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, Ordering::Relaxed};
use std::thread::JoinHandle;
use std::time::Duration;

use super::{check, clock, named, process, retry};
use crate::sys::memory::shared::SharedArray;
use nix::sys::signal::SigSet;
pub use nix::sys::signal::Signal;
use nix::sys::signalfd::{SfdFlags, SignalFd};

/// Maximum delay after which a second signal counts as the same one: timeout(1) signals its child, and then its child's
/// group.
pub const ECHO: Duration = Duration::from_millis(100);

/// Signals of a supervisor, read from a descriptor. They are blocked while this value lives.
pub struct SignalDescriptor {
    descriptor: SignalFd,
}

impl SignalDescriptor {
    /// Blocks the end of children (SIGCHLD) and opens the descriptor in non-blocking mode.
    pub fn of_children() -> io::Result<Self> {
        Self::of(SigSet::from(Signal::SIGCHLD))
    }

    /// The same for the end of children and for the signals that interrupt a run.
    pub fn of_children_and_interrupts() -> io::Result<Self> {
        let mut set = *SigSet::from(Signal::SIGCHLD).as_ref();
        for signal in interrupts() {
            // SAFETY: the call writes to the set, which is initialised.
            check(unsafe { libc::sigaddset(&mut set, signal) })?;
        }
        // SAFETY: the set is initialised, and the kernel knows its signals.
        Self::of(unsafe { SigSet::from_sigset_t_unchecked(set) })
    }

    fn of(set: SigSet) -> io::Result<Self> {
        named("sigprocmask", set.thread_block())?;
        let descriptor = named("signalfd", SignalFd::with_flags(&set, SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK))?;
        Ok(SignalDescriptor { descriptor })
    }

    /// Returns the next signal, if one has arrived.
    pub fn read(&self) -> io::Result<Option<Signal>> {
        Ok(self.read_with_origin()?.map(|(signal, _)| signal))
    }

    /// Returns the next signal, if one has arrived, and whether the kernel sent it, as for a key of the terminal.
    pub fn read_with_origin(&self) -> io::Result<Option<(Signal, bool)>> {
        let information = named("read", retry(|| self.descriptor.read_signal().map_err(io::Error::from)))?;
        Ok(information.map(|information| {
            let by_kernel = information.ssi_code == libc::SI_KERNEL;
            // A real-time signal has no name. It asks for the same as SIGTERM.
            (Signal::try_from(information.ssi_signo as i32).unwrap_or(Signal::SIGTERM), by_kernel)
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
    handle(libc::SIGCHLD, reap, libc::SA_RESTART | libc::SA_NOCLDSTOP)
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

/// Signals that interrupt a run although the program that started it ignores them. A shell ignores SIGINT for its background
/// jobs, and scripts end these with `kill -INT`.
const ALWAYS: [libc::c_int; 2] = [libc::SIGINT, libc::SIGTERM];

/// Further signals that would end this process (signal(7)). Not among them are SIGPIPE, which Rust ignores, and the signals of
/// a program's own faults, such as SIGABRT.
const UNLESS_IGNORED: [libc::c_int; 12] = [
    libc::SIGHUP,
    libc::SIGQUIT,
    libc::SIGUSR1,
    libc::SIGUSR2,
    libc::SIGALRM,
    libc::SIGVTALRM,
    libc::SIGPROF,
    libc::SIGIO,
    libc::SIGPWR,
    libc::SIGSTKFLT,
    libc::SIGXCPU,
    libc::SIGXFSZ,
];

/// Returns the signals that interrupt a run: from a key of the terminal, kill(1), timeout(1), and so on. A signal that the
/// program that started this one ignores, as nohup(1) ignores SIGHUP, stays ignored.
fn interrupts() -> impl Iterator<Item = libc::c_int> {
    let unless_ignored = UNLESS_IGNORED.into_iter().chain(libc::SIGRTMIN()..=libc::SIGRTMAX());
    ALWAYS.into_iter().chain(unless_ignored.filter(|&signal| !is_ignored(signal)))
}

fn is_ignored(signal: libc::c_int) -> bool {
    // SAFETY: zero bytes are a valid sigaction.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    // SAFETY: the call changes nothing, and writes one sigaction.
    let read = unsafe { libc::sigaction(signal, std::ptr::null(), &mut action) };
    read == 0 && action.sa_sigaction == libc::SIG_IGN
}

/// Time of the first interrupt of this process (CLOCK_MONOTONIC, nanoseconds); 0 if there was none.
static FIRST: AtomicU64 = AtomicU64::new(0);

/// Makes the signals that interrupt a run set a flag that this process shares with its forked children. A second signal after
/// [`ECHO`] ends the process.
pub fn note_interrupts() -> io::Result<()> {
    let flag: &'static SharedArray<AtomicBool> = Box::leak(Box::new(SharedArray::new(1)?));
    INTERRUPTED.store(std::ptr::from_ref(&flag[0]).cast_mut(), Relaxed);
    interrupts().try_for_each(|signal| handle(signal, note, 0))
}

/// True in a child that ends at once at an interrupt.
static LEAVES: AtomicBool = AtomicBool::new(false);

/// Makes the signals of [`note_interrupts`] end this process at once with status 0, for a child that was forked after that call
/// and whose results are in shared memory. They also set the flag for all processes that share it: without one of its children,
/// a load is incomplete.
pub fn leave_at_interrupt() {
    LEAVES.store(true, Relaxed);
}

/// Returns whether this process, or one that shares its flag, was interrupted.
pub fn interrupted() -> bool {
    // SAFETY: the pointer is null or points to a flag that lives for ever.
    unsafe { INTERRUPTED.load(Relaxed).as_ref() }.is_some_and(|flag| flag.load(Relaxed))
}

extern "C" fn note(signal: libc::c_int) {
    if LEAVES.load(Relaxed) {
        // SAFETY: the flag was set before the handler was, and lives for ever.
        unsafe { (*INTERRUPTED.load(Relaxed)).store(true, Relaxed) };
        process::leave(0);
    }
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

/// Ends this process by a signal, so that its parent sees the same ending as of a child that the signal killed.
pub fn end_by(signal: Signal) -> ! {
    let number = signal as libc::c_int;
    // SAFETY: the call takes numbers, and the default action has no handler.
    unsafe { libc::signal(number, libc::SIG_DFL) };
    let _ = SigSet::from(signal).thread_unblock();
    let _ = nix::sys::signal::raise(signal);
    // Signals that kill a process do not get here.
    process::leave(128 + number)
}

/// Signal that interrupts a waiting call.
const INTERRUPTION: Signal = Signal::SIGUSR1;

/// Lets [`interrupt_process`] and [`interrupt_thread`] end waiting calls of this process and its forked children with EINTR.
/// The signal has no other effect.
pub fn allow_interruption() -> io::Result<()> {
    handle(INTERRUPTION as libc::c_int, do_nothing, 0)
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

/// Sets a handler by sigaction(2). nix has no names for real-time signals, so they have their numbers.
fn handle(signal: libc::c_int, handler: extern "C" fn(libc::c_int), flags: libc::c_int) -> io::Result<()> {
    // SAFETY: zero bytes are a valid sigaction, with an empty mask.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    action.sa_sigaction = handler as *const () as libc::sighandler_t;
    action.sa_flags = flags;
    // SAFETY: the handlers of this module do only what signal-safety(7) allows.
    check(unsafe { libc::sigaction(signal, &action, std::ptr::null_mut()) }).map(drop)
}
