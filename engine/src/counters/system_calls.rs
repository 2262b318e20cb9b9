//! System calls of a process tree: all of them, and each that a server or a load makes by its name.

use anyhow::Result;

use crate::about::About;
use crate::counter::{Counter, Figure, Kind, Part, Reading, Source, Subject};
use crate::events_at_once::EventsAtOnce;
use crate::perf_event::TreeEvent;

pub static ENTRY: Counter = Counter {
    about: About {
        summary: "System calls that a process tree begins, all and by name; it costs: give it trials of its own. Every fork and \
                  thread copies an event for each name, and every call counts two",
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

/// Every call.
const ALL: TreeEvent = TreeEvent::tracepoint("raw_syscalls", "sys_enter");

/// Those without a name of their own here.
const OTHERS: &str = "others";

/// Pairs of a system call's name and its tracepoint, which for a few is that of an older implementation.
macro_rules! names {
    ($($name:ident $(as $traced:ident)?,)+) => { &[$((stringify!($name), names!(@ $name $($traced)?)),)+] };
    (@ $name:ident) => { concat!("sys_enter_", stringify!($name)) };
    (@ $name:ident $traced:ident) => { concat!("sys_enter_", stringify!($traced)) };
}

/// What `strace -c -f` finds under any design, primitive and load here, and what may stand in its place elsewhere; without what
/// only the start of a program asks for.
#[rustfmt::skip]
const NAMES: &[(&str, &str)] = names! {
    accept, accept4, bind, brk, clock_nanosleep, clone, clone3, close, connect, dup, epoll_create1, epoll_ctl, epoll_pwait,
    epoll_wait, eventfd2, execve, exit, exit_group, fcntl, flock, fork, ftruncate, futex, getdents64, getpeername, getpid,
    getppid, getrusage, getsockname, getsockopt, gettid, io_uring_enter, io_uring_register, io_uring_setup, kill, listen,
    lseek, madvise, memfd_create, mmap, mprotect, munmap, nanosleep, openat, pipe2, poll, ppoll, prctl, pread64, pselect6,
    read, readv, recvfrom, recvmmsg, recvmsg, restart_syscall, rseq, rt_sigaction, rt_sigprocmask, rt_sigreturn,
    sched_setaffinity, sched_yield, select, sendfile as sendfile64, sendmmsg, sendmsg, sendto, set_robust_list, setsockopt,
    shutdown, sigaltstack, signalfd4, socket, socketpair, splice, statx, tgkill, timerfd_create, timerfd_settime, vmsplice,
    wait4, waitid, write, writev,
};

/// All calls, and the names that this kernel tells apart.
struct SystemCalls {
    events: EventsAtOnce,
    names: Vec<&'static str>,
}

fn open(subject: &mut Subject) -> Result<Box<dyn Reading>> {
    let named: Vec<TreeEvent> = NAMES.iter().map(|(_, event)| TreeEvent::tracepoint("syscalls", event)).collect();
    let (events, counted) = EventsAtOnce::open(ALL, &named, &subject.tree)?;
    // Some processors lack old calls, such as select; whoever makes none of them misses nothing.
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
