//! Pools of processes and of threads. The work of a worker is in the file of its design.

use std::collections::HashMap;
use std::os::fd::AsFd;
use std::sync::atomic::Ordering::Relaxed;

use anyhow::{Context, Result, bail};

use crate::base::output::complain;
use crate::base::setting::{Kind, Setting};
use crate::base::unit::Unit;
use crate::count::tally::ErrorKind;
use crate::server::design::{Run, Worker};
use crate::server::steering;
use crate::sys::process::{self, Ended, Pid};
use crate::sys::socket;

/// Replacement of lost workers, for pools of processes.
pub const RESPAWN: Setting = Setting {
    name: "respawn",
    help: "Fork a new worker to replace one that was killed by a signal",
    unit: Unit::None,
    kind: Kind::Boolean { default: false },
    for_more: None,
};

/// Forks a pool, runs `serve` in every child, and waits for all of them.
///
/// A worker killed by a signal is tallied, and replaced if the setting [`RESPAWN`] says so; the others continue.
/// Returns an error if no worker is left although the server was not stopped.
pub fn fork_pool(run: &'static Run, serve: impl Fn(&mut Worker) -> Result<()>) -> Result<()> {
    let fork = |index| fork_worker(run, index, || (), &serve);
    let mut workers = HashMap::new();
    for index in 0..run.pool() {
        workers.insert(fork(index)?, index);
    }
    let mut stopped = false;
    let mut group: Vec<usize> = (0..run.listeners.len()).collect();
    while let Some((child, ended)) = process::wait()? {
        let Some(index) = workers.remove(&child) else { continue };
        if ended == Ended::Exited(0) {
            stopped = true;
            continue;
        }
        let replacement = run.settings.boolean(RESPAWN.name).then(|| replace(run, || fork(index))).flatten();
        match replacement {
            Some(worker) => drop(workers.insert(worker, index)),
            None => give_up_listener(run, &mut group, index)?,
        }
        run.tally.general().workers_lost.fetch_add(1, Relaxed);
    }
    if !stopped {
        bail!("all workers of the pool were lost; --respawn true replaces them");
    }
    Ok(())
}

/// If every worker has its own listener, nobody accepts from the listener of a lost worker. So it is shut down and
/// leaves the group, and new connections go to the others. Connections in its queue are reset, and tallied.
fn give_up_listener(run: &Run, group: &mut Vec<usize>, index: usize) -> Result<()> {
    if run.listeners.len() > 1 {
        let listener = run.listeners[index].as_fd();
        run.tally.shared().errors(ErrorKind::QueuedAtStop, socket::listen_queue(listener)?.0.into());
        socket::shutdown(listener)?;
        steering::left(run, group, index)?;
    }
    Ok(())
}

/// Creates a worker to replace a lost one. A failure is tallied, and the others continue without it.
pub fn replace<T>(run: &Run, make: impl FnOnce() -> Result<T>) -> Option<T> {
    let counter = &run.tally.general().workers_replaced;
    let made = make().inspect_err(|_| run.tally.shared().error(ErrorKind::ResourceLimit)).ok();
    counter.fetch_add(made.is_some().into(), Relaxed);
    made
}

/// Forks one worker of a pool. `enter` runs first in the child, to close what it should not inherit.
pub fn fork_worker(
    run: &'static Run,
    index: usize,
    enter: impl FnOnce(),
    serve: impl FnOnce(&mut Worker) -> Result<()>,
) -> Result<Pid> {
    process::fork(|| {
        enter();
        report(run.pool_worker(index).and_then(|mut worker| serve(&mut worker)))
    })
    .with_context(|| format!("cannot fork worker {index} of {} (lower --pool, or raise ulimit -u)", run.pool()))
}

/// Starts a pool of threads, runs `serve` in every thread and `meanwhile` in the calling thread, and waits for all.
///
/// If a thread cannot be created, the process exits at once: the threads created so far block in accept, and joining
/// them would never end.
pub fn thread_pool(
    run: &'static Run,
    serve: impl Fn(&mut Worker) -> Result<()> + Sync,
    meanwhile: impl FnOnce() -> Result<()>,
) -> Result<()> {
    threads(run, |index| serve(&mut run.pool_worker(index)?), meanwhile)
}

/// As [`thread_pool`], for threads that know their index in the pool, and need not be workers.
pub fn threads(
    run: &'static Run,
    body: impl Fn(usize) -> Result<()> + Sync,
    meanwhile: impl FnOnce() -> Result<()>,
) -> Result<()> {
    std::thread::scope(|scope| {
        let body = &body;
        let mut threads = Vec::new();
        for index in 0..run.pool() {
            // If one thread could not continue, the others would go on serving without anybody noticing.
            let body = move || body(index).unwrap_or_else(fail);
            let thread = std::thread::Builder::new().spawn_scoped(scope, body);
            let thread = thread.with_context(|| {
                format!("cannot create thread {index} of {} (lower --pool, or raise ulimit -u)", run.pool())
            });
            threads.push(thread.unwrap_or_else(fail));
        }
        meanwhile().unwrap_or_else(fail);
        for thread in threads {
            if thread.join().is_err() {
                bail!("a thread of the pool panicked");
            }
        }
        Ok(())
    })
}

/// Exit status of a child that has reported its failure on standard error.
pub const FAILED: i32 = 1;

/// Exit status of a child: 0, or [`FAILED`] with the reason on standard error.
pub fn report(result: Result<()>) -> i32 {
    match result {
        Ok(()) => 0,
        Err(error) => {
            complain(&error);
            FAILED
        }
    }
}

/// Exits this process, with all its threads, because of an error.
fn fail<T>(error: anyhow::Error) -> T {
    process::leave(report(Err(error)))
}
