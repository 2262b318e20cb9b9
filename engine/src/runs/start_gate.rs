//! Runs a server or a load that is watched from outside, from exec to exit.
//!
//! The child is this program itself, or a load generator that is not ours. It waits at a gate until the watcher is ready, and
//! then calls exec. Standard input and output are the child's.

use std::ffi::OsString;
use std::io::{self, IsTerminal};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use crate::count::command_tree::end_descendants;
use crate::count::process_tree::{Beginning, Tree};
use crate::count::tally::Tally;
use crate::server::pool::report;
use crate::sys::clock;
use crate::sys::descriptor::{self, PollFlags};
use crate::sys::memory::shared::SharedArray;
use crate::sys::process::{self, Ended, Pid, Reaped, Usage};
use crate::sys::signal::{ECHO, Signal, SignalDescriptor};
use crate::sys::user::User;

/// Time for a program that is not ours to end after a signal, before it is killed.
const TERM: Duration = Duration::from_secs(1);

/// Signals of a terminal's keys. SIGHUP is not one: if a terminal hangs up, the kernel sends that to the first process of its
/// session only.
const KEYS: [Signal; 2] = [Signal::SIGINT, Signal::SIGQUIT];

/// A command to run.
pub struct Command {
    /// Command with its arguments. This process becomes its parent. To a command of this program, `--parent` is added.
    pub words: Vec<OsString>,
    /// CPUs to which the command will pin itself.
    pub cpus: Option<Vec<usize>>,
    /// User that the command runs as; `None`: this process's.
    pub user: Option<User>,
    /// True for a program that is not ours: all that it leaves running is killed.
    pub of_user: bool,
}

/// Watches the command while it runs.
pub trait Watcher {
    /// Interval of [`look`](Self::look); `None` if there is nothing to do until the end.
    fn interval(&self) -> Option<Duration> {
        None
    }

    /// Looks at the command. An error ends the command.
    fn look(&mut self) -> Result<()> {
        Ok(())
    }
}

/// Watches nothing.
impl Watcher for () {}

/// A command that has ended, with all its child processes.
pub struct Passed {
    /// CLOCK_MONOTONIC right before exec.
    pub started_ns: u64,
    /// CLOCK_MONOTONIC after its end.
    pub ended_ns: u64,
    /// CLOCK_MONOTONIC after the end of its last child process.
    pub gone_ns: u64,
    /// Resources that all its processes used.
    pub used: Usage,
    /// Exit status; 128 plus the signal's number if a signal ended it.
    pub status: i32,
}

impl Passed {
    /// Exit status for this process.
    pub fn exit_code(&self) -> ExitCode {
        ExitCode::from(self.status as u8)
    }
}

/// Runs the command to its end. `begin` gets the process that waits at the gate, and makes the watcher. If `begin` fails, the
/// command does not start.
pub fn run<W: Watcher>(command: &Command, begin: impl FnOnce(Tree) -> Result<W>) -> Result<(W, Passed)> {
    let signals = SignalDescriptor::of_children_and_interrupts()?;
    process::become_subreaper()?;
    let reaped = &Tally::new(0)?.general().reaped;
    process::count_reaped(reaped);
    let started = SharedArray::<AtomicU64>::new(1)?;
    let (gate, opener) = descriptor::pipe()?;
    let parent = Pid::this();
    let child = process::fork(|| {
        descriptor::close_inherited(&opener);
        descriptor::close_inherited(&signals);
        report(become_command(command, parent, gate, reaped, &started[0]))
    })
    .context("the command could not be forked (ulimit -u)")?;
    let mut watcher = begin(Tree { root: child, from: Beginning::Exec, reaped })?;
    // A key of a terminal signals a whole group, so a signal that is passed on would arrive twice. But only the terminal's own
    // group may read from it.
    let terminal = std::io::stdin().is_terminal();
    if !terminal {
        process::lead_group(child)?;
    }
    descriptor::write(opener.as_fd(), b"\n")?;
    let ended = wait(child, &signals, terminal, command.of_user.then_some(TERM), &mut watcher)?;
    let ended_ns = clock::now();
    if command.of_user {
        end_descendants(child)?;
    }
    let started_ns = started[0].load(Relaxed);
    if started_ns == 0 {
        bail!("the command was not started: its process {ended}");
    }
    // Remaining child processes of ours have lost their parent, and are being killed.
    process::wait_for_all()?;
    let gone_ns = clock::now();
    let status = match ended {
        Ended::Exited(status) => status,
        Ended::Killed(signal) => 128 + signal as i32,
    };
    Ok((watcher, Passed { started_ns, ended_ns, gone_ns, used: reaped.usage(), status }))
}

/// Runs in the child until exec. Its usage before exec is not the command's.
fn become_command(command: &Command, parent: Pid, gate: OwnedFd, reaped: &Reaped, started: &AtomicU64) -> Result<()> {
    if descriptor::read(gate.as_fd(), &mut [0])? == 0 {
        // The parent has given up, and prints the reason.
        return Ok(());
    }
    // If the command pinned itself after exec, a migration would be counted. The command itself refuses missing CPUs.
    if let Some(cpus) = &command.cpus {
        let _ = process::pin(cpus);
    }
    reaped.take_off(&process::usage_of_self()?);
    started.store(clock::now(), Relaxed);
    let error = become_program(command, parent);
    started.store(0, Relaxed);
    error
}

/// Calls exec. Returns only if that fails.
fn become_program(command: &Command, parent: Pid) -> Result<()> {
    let mut words = command.words.clone();
    if let Some(user) = &command.user {
        user.assume().context("the command cannot run as another user")?;
    }
    if command.of_user {
        let error: io::Error = std::process::Command::new(&words[0]).args(&words[1..]).exec();
        return Err(error).with_context(|| format!("{} could not be started", words[0].display()));
    }
    words.splice(1..1, ["--parent".into(), parent.to_string().into()]);
    process::become_engine(&words).map(drop).context("/proc/self/exe could not be started")
}

/// Passes signals on until the child has ended. Returns how it ended. With `terminal`, both are in a terminal's group. With a
/// `patience`, the child is killed if it has not ended so long after a signal.
pub(super) fn wait(
    child: Pid,
    signals: &SignalDescriptor,
    terminal: bool,
    patience: Option<Duration>,
    watcher: &mut impl Watcher,
) -> Result<Ended> {
    let mut passed_on: Option<(Signal, Instant)> = None;
    loop {
        let left = passed_on.zip(patience).map(|((_, when), patience)| patience.saturating_sub(when.elapsed()));
        let timeout = watcher.interval().into_iter().chain(left).min();
        descriptor::poll(&[(signals.as_fd(), PollFlags::POLLIN)], timeout)?;
        watcher.look()?;
        if left.is_some_and(|left| left.is_zero()) {
            process::kill_child(child);
        }
        while let Some((signal, by_kernel)) = signals.read_with_origin()? {
            if signal == Signal::SIGCHLD {
                while let Some((process, ended)) = process::wait_without_hanging()? {
                    if process == child {
                        return Ok(ended);
                    }
                }
                continue;
            }
            let echo = passed_on.is_some_and(|(last, when)| last == signal && when.elapsed() < ECHO);
            // If both are in the terminal's group, its key has signalled the child, too.
            let is_key = terminal && by_kernel && KEYS.contains(&signal);
            if !(echo || is_key) {
                process::pass_on(signal, child);
                passed_on = Some((signal, Instant::now()));
            }
        }
    }
}
