//! System calls of a process tree: the total, and by name each call that a server or a load makes.

use anyhow::Result;

use crate::base::about::About;
use crate::count::counter::{Counter, Figure, Kind, Part, Reading, Source, Subject};
use crate::count::perf_event::TreeEvent;
use crate::count::perf_events_at_once::EventsAtOnce;

pub static ENTRY: Counter = Counter {
    about: About {
        summary: "System calls that a process tree enters, in total and by name. Expensive, so count them in extra \
                  trials: every fork and thread copies an event per name, and every call counts two events",
        source: "Linux, Documentation/trace/events.rst; raw_syscalls:sys_enter, syscalls:sys_enter_NAME; strace(1), -c -f",
    },
    unit: "calls",
    source: Source::Many(ALL, open),
    kind: Kind::Count,
    parts: || {
        let names = NAMES.iter().map(|(name, _)| *name).chain([OTHERS]);
        names.map(|name| Part { name, unit: "calls" }).collect()
    },
};

/// All calls.
const ALL: TreeEvent = TreeEvent::tracepoint("raw_syscalls", "sys_enter");

/// Calls without a counter by name.
const OTHERS: &str = "others";

/// Pairs of a system call's name and its tracepoint. For a few calls the tracepoint has the name of an older
/// implementation.
macro_rules! names {
    ($($name:ident $(as $traced:ident)?,)+) => { &[$((stringify!($name), names!(@ $name $($traced)?)),)+] };
    (@ $name:ident) => { concat!("sys_enter_", stringify!($name)) };
    (@ $name:ident $traced:ident) => { concat!("sys_enter_", stringify!($traced)) };
}

/// Calls counted by name: those that `strace -c -f` finds under our designs, primitives and loads, their equivalents on
/// other systems, and calls that servers and clients often repeat (clocks, files, identities, timers, signals). A
/// kernel has 360 calls; the list is shorter because every fork and thread copies one event per name.
#[rustfmt::skip]
const NAMES: &[(&str, &str)] = names! {
    accept, accept4, access, bind, brk, clock_gettime, clock_nanosleep, clone, clone3, close, connect, copy_file_range,
    dup, dup2, dup3, epoll_create1, epoll_ctl, epoll_pwait, epoll_pwait2, epoll_wait, eventfd2, execve, exit, exit_group,
    fcntl, fdatasync, flock, fork, fstat as newfstat, fsync, ftruncate, futex, futex_wait, futex_wake, getcpu,
    getdents64, geteuid, getpeername, getpid, getppid, getrandom, getrusage, getsockname, getsockopt, gettid,
    gettimeofday, getuid, io_getevents, io_submit, io_uring_enter, io_uring_register, io_uring_setup, ioctl, kill,
    listen, lseek, madvise, membarrier, memfd_create, mmap, mprotect, mremap, munmap, nanosleep, newfstatat, open,
    openat, openat2, pause, pidfd_open, pidfd_send_signal, pipe2, poll, ppoll, prctl, pread64, preadv, prlimit64,
    pselect6, pwrite64, pwritev, read, readlink, readv, recvfrom, recvmmsg, recvmsg, restart_syscall, rseq, rt_sigaction,
    rt_sigprocmask, rt_sigreturn, rt_sigsuspend, rt_sigtimedwait, sched_getaffinity, sched_setaffinity, sched_yield,
    select, semop, semtimedop, sendfile as sendfile64, sendmmsg, sendmsg, sendto, set_robust_list, setitimer, setsockopt,
    shutdown, sigaltstack, signalfd4, socket, socketpair, splice, stat as newstat, statx, tee, tgkill, time,
    timerfd_create, timerfd_settime, times, tkill, unlink, vfork, vmsplice, wait4, waitid, write, writev,
};

/// All calls, and the names that this kernel can count.
struct SystemCalls {
    events: EventsAtOnce,
    names: Vec<&'static str>,
}

fn open(subject: &mut Subject) -> Result<Box<dyn Reading>> {
    let named: Vec<TreeEvent> = NAMES.iter().map(|(_, event)| TreeEvent::tracepoint("syscalls", event)).collect();
    let (events, counted) = EventsAtOnce::open(ALL, &named, &subject.tree)?;
    // Some architectures lack old calls, such as select; a program that never makes such a call misses nothing.
    let names = NAMES.iter().zip(counted).filter(|(_, counted)| *counted).map(|((name, _), _)| *name);
    Ok(Box::new(SystemCalls { events, names: names.collect() }))
}

impl Reading for SystemCalls {
    fn read(&mut self) -> Result<Vec<Figure>> {
        let (all, named) = self.events.read()?;
        let others = all.saturating_sub(named.iter().sum());
        let parts = self.names.iter().copied().zip(named).chain([(OTHERS, others)]);
        let parts = parts.map(|(name, value)| Figure::part(name, Some(value)));
        Ok([Figure::whole(all)].into_iter().chain(parts).collect())
    }
}
