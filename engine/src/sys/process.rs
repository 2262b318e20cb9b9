//! Processes: fork, wait, kill, and resource usage.

use std::convert::Infallible;
use std::ffi::{CString, OsString};
use std::io::{self, Write};
use std::ops::Add;
use std::os::unix::ffi::OsStrExt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::sys::prctl;
use nix::sys::resource::{Resource, UsageWho, getrlimit, getrusage, setrlimit};
use nix::sys::signal::{Signal, kill, killpg};
use nix::sys::wait::WaitStatus;
use nix::unistd::{getpid, getppid, setpgid};

pub use nix::unistd::Pid;

use super::{check, named, retry, signal_mask};

/// Exit status of a child whose code panicked.
const PANICKED: i32 = 101;

/// Exit status of a child that could not begin, and has said why.
const NOT_BEGUN: i32 = 1;

/// Forks. The child runs `child` and ends by `_exit` with the status that it returns.
///
/// The child never outlives the thread that forked it (PR_SET_PDEATHSIG; it checks its parent afterwards, which may have
/// died before the call). It starts with every signal unblocked, runs the function of [`before_leaving`] last, and never
/// unwinds into its parent's stack. The parent drops `child` with everything it captured, and so closes its copies of
/// descriptors.
pub fn fork(child: impl FnOnce() -> i32) -> io::Result<Pid> {
    let parent = getpid();
    // SAFETY: processes that fork have one thread, so the child may allocate and lock.
    match unsafe { nix::unistd::fork() }? {
        nix::unistd::ForkResult::Parent { child } => Ok(child),
        nix::unistd::ForkResult::Child => {
            let status = catch_unwind(AssertUnwindSafe(|| {
                if let Err(error) = die_with_parent(parent).and_then(|()| signal_mask::unblock_all()) {
                    // Without its parent it is to end, which is no failure.
                    if getppid() == parent {
                        let line = format!("{}: a forked process could not begin: {error}\n", env!("CARGO_PKG_NAME"));
                        let _ = io::stderr().write_all(line.as_bytes());
                    }
                    return NOT_BEGUN;
                }
                let status = child();
                LAST.get().inspect(|last| last());
                status
            }))
            .unwrap_or(PANICKED);
            // Exit handlers belong to the parent, so they are skipped.
            leave(status)
        }
    }
}

/// Forks, and goes on in both processes: returns the child in the parent, and `None` in the child.
///
/// The kernel sends the child this signal when the parent ends. Blocked signals stay blocked, so that none is lost before the
/// child reads it.
pub fn split(at_end_of_parent: Signal) -> io::Result<Option<Pid>> {
    let parent = getpid();
    // SAFETY: processes that fork have one thread, so the child may allocate and lock.
    match unsafe { nix::unistd::fork() }? {
        nix::unistd::ForkResult::Parent { child } => Ok(Some(child)),
        nix::unistd::ForkResult::Child => end_with_parent(parent, at_end_of_parent).map(|()| None),
    }
}

/// The function that every forked child runs last.
static LAST: OnceLock<fn()> = OnceLock::new();

/// Makes every forked child run this function after its code has returned. If this process is itself a forked child, it does
/// so too. Otherwise, work of its threads would end unfinished with the process.
pub fn before_leaving(last: fn()) {
    LAST.get_or_init(|| last);
}

/// Ends this process at once, with all its threads.
pub fn leave(status: i32) -> ! {
    // SAFETY: no exit handler runs, so nothing of this process runs after this call.
    unsafe { libc::_exit(status) }
}

/// Makes the kernel kill this process when its parent ends. Fails if the parent has ended already.
pub fn die_with_parent(parent: Pid) -> io::Result<()> {
    end_with_parent(parent, Signal::SIGKILL)
}

/// Makes the kernel send this process a signal when its parent ends. Fails if the parent has ended already.
pub fn end_with_parent(parent: Pid, signal: Signal) -> io::Result<()> {
    named("prctl", prctl::set_pdeathsig(signal))?;
    if getppid() == parent { Ok(()) } else { Err(io::Error::other("the parent has ended")) }
}

/// Makes orphaned descendants children of this process, so that their CPU time is not lost (PR_SET_CHILD_SUBREAPER).
pub fn become_subreaper() -> io::Result<()> {
    named("prctl", prctl::set_child_subreaper(true))
}

/// Puts a process into a new process group that it leads.
pub fn lead_group(process: Pid) -> io::Result<()> {
    named("setpgid", setpgid(process, process))
}

/// Kills a process group at once. An empty group is no error.
pub fn kill_group(group: Pid) {
    let _ = killpg(group, Signal::SIGKILL);
}

/// Kills a child that has not been waited for. If it has ended, that is no error.
pub fn kill_child(child: Pid) {
    let _ = kill(child, Signal::SIGKILL);
}

/// Passes a signal on to a child that has not been waited for. If it has ended, that is no error.
pub fn pass_on(signal: Signal, child: Pid) {
    let _ = kill(child, signal);
}

/// Replaces this process by this program with other arguments (execv(2) of /proc/self/exe). Returns only with an error.
pub fn become_engine(arguments: &[OsString]) -> io::Result<Infallible> {
    let name = OsString::from("thunderherd-engine");
    let words = std::iter::once(&name).chain(arguments).map(|word| CString::new(word.as_bytes()));
    let words: Vec<CString> = words.collect::<Result<_, _>>()?;
    nix::unistd::execv(c"/proc/self/exe", &words).map_err(io::Error::from)
}

/// Ending of a child.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// By itself, with this status.
    Exited(i32),
    /// By this signal.
    Killed(Signal),
}

impl std::fmt::Display for Ended {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Ended::Exited(status) => write!(formatter, "exited with status {status}"),
            Ended::Killed(signal) => write!(formatter, "was killed by {signal}"),
        }
    }
}

/// Waits for any child to end; `None` when there is none left.
pub fn wait() -> io::Result<Option<(Pid, Ended)>> {
    named("wait4", retry(|| wait_with(0)))
}

/// Waits until no child is left.
pub fn wait_for_all() -> io::Result<()> {
    while wait()?.is_some() {}
    Ok(())
}

/// Returns a child that has ended, if there is one; also `Ok(None)` if there is no child at all.
pub fn wait_without_hanging() -> io::Result<Option<(Pid, Ended)>> {
    named("wait4", retry(|| wait_with(libc::WNOHANG)))
}

/// Waits for one child to end, and returns how it ended. Its usage is not counted anywhere.
pub fn wait_for(child: Pid) -> io::Result<Ended> {
    match named("waitpid", retry(|| nix::sys::wait::waitpid(child, None).map_err(io::Error::from)))? {
        WaitStatus::Exited(_, status) => Ok(Ended::Exited(status)),
        WaitStatus::Signaled(_, signal, _) => Ok(Ended::Killed(signal)),
        other => Err(io::Error::other(format!("the child has not ended: {other:?}"))),
    }
}

/// Does the minimum for a process: fork(2), a child that only calls _exit(2), and waitpid(2). Unlike [`fork`] it makes no
/// other call: this child ends too soon to outlive its parent.
pub fn fork_exit_wait() -> io::Result<()> {
    // SAFETY: processes that fork have one thread, and the child calls nothing but _exit.
    match unsafe { nix::unistd::fork() }? {
        nix::unistd::ForkResult::Child => leave(0),
        nix::unistd::ForkResult::Parent { child } => match wait_for(child)? {
            Ended::Exited(0) => Ok(()),
            other => Err(io::Error::other(format!("a child that does nothing {other}"))),
        },
    }
}

/// Returns whether this program is one file, with its C library in it: the kernel has loaded no dynamic linker
/// (AT_BASE, getauxval(3)).
pub fn is_static() -> bool {
    // SAFETY: the call takes a number.
    unsafe { libc::getauxval(libc::AT_BASE) == 0 }
}

/// Asks the kernel for the parent of this process (getppid(2)), each time.
pub fn parent() -> Pid {
    getppid()
}

fn wait_with(flags: libc::c_int) -> io::Result<Option<(Pid, Ended)>> {
    loop {
        match wait4(flags) {
            Ok(None) => return Ok(None),
            Ok(Some((process, status))) if libc::WIFEXITED(status) => {
                return Ok(Some((process, Ended::Exited(libc::WEXITSTATUS(status)))));
            }
            Ok(Some((process, status))) if libc::WIFSIGNALED(status) => {
                let signal = Signal::try_from(libc::WTERMSIG(status))?;
                return Ok(Some((process, Ended::Killed(signal))));
            }
            Ok(Some(_)) => {}
            Err(error) if error.raw_os_error() == Some(libc::ECHILD) => return Ok(None),
            Err(error) => return Err(error),
        }
    }
}

/// Sums of what ended processes had used, in memory that several processes may share.
#[derive(Default)]
pub struct Reaped {
    user: AtomicU64,
    system: AtomicU64,
    voluntary_switches: AtomicU64,
    involuntary_switches: AtomicU64,
    minor_faults: AtomicU64,
    major_faults: AtomicU64,
}

impl Reaped {
    /// Returns the sums so far, without the largest resident set.
    pub fn usage(&self) -> Usage {
        Usage {
            user: Duration::from_nanos(self.user.load(Relaxed)),
            system: Duration::from_nanos(self.system.load(Relaxed)),
            voluntary_switches: self.voluntary_switches.load(Relaxed),
            involuntary_switches: self.involuntary_switches.load(Relaxed),
            minor_faults: self.minor_faults.load(Relaxed),
            major_faults: self.major_faults.load(Relaxed),
            max_resident_kib: 0,
        }
    }

    /// Subtracts the usage so far of a living process. When it ends, only its later usage is in the sums.
    pub fn take_off(&self, usage: &Usage) {
        for (sum, part) in self.parts(usage) {
            sum.fetch_sub(part, Relaxed);
        }
    }

    /// Replaces the sums by those of a process that has waited for all of them.
    pub fn replace(&self, usage: &Usage) {
        for (sum, part) in self.parts(usage) {
            sum.store(part, Relaxed);
        }
    }

    fn add(&self, usage: &Usage) {
        for (sum, part) in self.parts(usage) {
            sum.fetch_add(part, Relaxed);
        }
    }

    fn parts(&self, usage: &Usage) -> [(&AtomicU64, u64); 6] {
        [
            (&self.user, usage.user.as_nanos() as u64),
            (&self.system, usage.system.as_nanos() as u64),
            (&self.voluntary_switches, usage.voluntary_switches),
            (&self.involuntary_switches, usage.involuntary_switches),
            (&self.minor_faults, usage.minor_faults),
            (&self.major_faults, usage.major_faults),
        ]
    }
}

static REAPED: AtomicPtr<Reaped> = AtomicPtr::new(std::ptr::null_mut());

/// Makes this process, and all that it forks, add up the usage of every child that it waits for. A child's usage includes
/// its own children, so only one level of a process tree may do this.
pub fn count_reaped(reaped: &'static Reaped) {
    REAPED.store(std::ptr::from_ref(reaped).cast_mut(), Relaxed);
}

/// Waits for a child and adds its usage to the sums; async-signal-safe.
pub(super) fn wait4(flags: libc::c_int) -> io::Result<Option<(Pid, libc::c_int)>> {
    let mut status = 0;
    // SAFETY: zero bytes are a valid rusage, and the call writes one int and one rusage.
    let (process, usage) = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        (check(libc::wait4(-1, &mut status, flags, &mut usage))?, usage)
    };
    // SAFETY: the pointer is null or points to sums that live for ever.
    let sums = unsafe { REAPED.load(Relaxed).as_ref() };
    if process > 0
        && let Some(sums) = sums
    {
        sums.add(&Usage::from(&usage));
    }
    Ok((process > 0).then(|| (Pid::from_raw(process), status)))
}

/// Returns the CPU time of a process so far, including ended threads (clock_getcpuclockid(3)).
pub fn cpu_nanoseconds(process: Pid) -> io::Result<u64> {
    let clock = nix::time::clock_getcpuclockid(process)?;
    let time = nix::time::clock_gettime(clock)?;
    Ok(time.tv_sec() as u64 * 1_000_000_000 + time.tv_nsec() as u64)
}

/// Resource usage of processes (getrusage(2)).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Usage {
    /// Time in user mode. If the kernel samples at its tick, the sum with `system` is exact, but the split is not.
    pub user: Duration,
    /// Time in the kernel.
    pub system: Duration,
    /// Context switches of threads that gave up their CPU to wait.
    pub voluntary_switches: u64,
    /// Context switches of threads that had to give up their CPU.
    pub involuntary_switches: u64,
    /// Page faults without input.
    pub minor_faults: u64,
    /// Page faults with input.
    pub major_faults: u64,
    /// The largest resident set of any one process, in KiB.
    pub max_resident_kib: u64,
}

impl Usage {
    /// Returns the usage since an earlier reading. The largest resident set covers the whole life.
    pub fn since(&self, earlier: &Usage) -> Usage {
        Usage {
            user: self.user.saturating_sub(earlier.user),
            system: self.system.saturating_sub(earlier.system),
            voluntary_switches: self.voluntary_switches - earlier.voluntary_switches,
            involuntary_switches: self.involuntary_switches - earlier.involuntary_switches,
            minor_faults: self.minor_faults - earlier.minor_faults,
            major_faults: self.major_faults - earlier.major_faults,
            max_resident_kib: self.max_resident_kib,
        }
    }
}

/// Adds two usages. The largest resident set is the larger of the two.
impl Add for Usage {
    type Output = Usage;

    fn add(self, other: Usage) -> Usage {
        Usage {
            user: self.user + other.user,
            system: self.system + other.system,
            voluntary_switches: self.voluntary_switches + other.voluntary_switches,
            involuntary_switches: self.involuntary_switches + other.involuntary_switches,
            minor_faults: self.minor_faults + other.minor_faults,
            major_faults: self.major_faults + other.major_faults,
            max_resident_kib: self.max_resident_kib.max(other.max_resident_kib),
        }
    }
}

/// Returns the usage of this process and its threads.
pub fn usage_of_self() -> io::Result<Usage> {
    usage(UsageWho::RUSAGE_SELF)
}

/// Returns the usage of the children that this process has waited for, and of their children.
pub fn usage_of_children() -> io::Result<Usage> {
    usage(UsageWho::RUSAGE_CHILDREN)
}

fn usage(who: UsageWho) -> io::Result<Usage> {
    Ok(Usage::from(named("getrusage", getrusage(who))?.as_ref()))
}

impl From<&libc::rusage> for Usage {
    fn from(usage: &libc::rusage) -> Self {
        let duration =
            |time: libc::timeval| Duration::from_secs(time.tv_sec as u64) + Duration::from_micros(time.tv_usec as u64);
        Usage {
            user: duration(usage.ru_utime),
            system: duration(usage.ru_stime),
            voluntary_switches: usage.ru_nvcsw as u64,
            involuntary_switches: usage.ru_nivcsw as u64,
            minor_faults: usage.ru_minflt as u64,
            major_faults: usage.ru_majflt as u64,
            max_resident_kib: usage.ru_maxrss as u64,
        }
    }
}

/// Returns the number of threads of this process (proc(5)).
pub fn threads() -> io::Result<usize> {
    Ok(std::fs::read_dir("/proc/self/task")?.count())
}

/// Pins this thread, and the threads and processes that it will make, to these CPUs.
pub fn pin(cpus: &[usize]) -> io::Result<()> {
    let mut set = CpuSet::new();
    for &cpu in cpus {
        set.set(cpu)?;
    }
    named("sched_setaffinity", sched_setaffinity(Pid::from_raw(0), &set))
}

/// Lists the CPUs that this process may run on.
pub fn allowed_cpus() -> io::Result<Vec<usize>> {
    let set = named("sched_getaffinity", sched_getaffinity(Pid::from_raw(0)))?;
    Ok((0..CpuSet::count()).filter(|&cpu| set.is_set(cpu).unwrap_or(false)).collect())
}

/// Returns the number of CPUs that are online (sysconf(3)).
pub fn online_cpus() -> io::Result<usize> {
    let count = nix::unistd::sysconf(nix::unistd::SysconfVar::_NPROCESSORS_ONLN)?;
    Ok(count.unwrap_or(1) as usize)
}

/// Returns the soft and the hard limit of descriptors: the number this process may have, and the number it may allow itself
/// without privilege (RLIMIT_NOFILE, getrlimit(2)).
pub fn descriptor_limits() -> io::Result<(u64, u64)> {
    named("getrlimit", getrlimit(Resource::RLIMIT_NOFILE))
}

/// Raises the soft limit of descriptors to the hard limit, for this process and the processes it will fork (RLIMIT_NOFILE,
/// getrlimit(2)). Returns the limit.
pub fn raise_descriptor_limit() -> io::Result<u64> {
    let (_, hard) = named("getrlimit", getrlimit(Resource::RLIMIT_NOFILE))?;
    named("setrlimit", setrlimit(Resource::RLIMIT_NOFILE, hard, hard))?;
    Ok(hard)
}

/// Returns the maximum descriptors of any process, even with privilege (fs.nr_open, proc_sys_fs(5)). `None` if that cannot
/// be read.
pub fn most_descriptors() -> Option<u64> {
    std::fs::read_to_string("/proc/sys/fs/nr_open").ok()?.trim().parse().ok()
}

/// Returns whether this process could raise its hard limit of descriptors this far. It tries, and restores the limit.
/// Even root may not be allowed to, in a container or user namespace (CAP_SYS_RESOURCE, capabilities(7)).
pub fn may_raise_descriptor_limit(wanted: u64) -> bool {
    let Ok((soft, hard)) = getrlimit(Resource::RLIMIT_NOFILE) else { return false };
    setrlimit(Resource::RLIMIT_NOFILE, soft, wanted).is_ok() && setrlimit(Resource::RLIMIT_NOFILE, soft, hard).is_ok()
}
