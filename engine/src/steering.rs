//! A listener for every worker of a pool, all at one address, and which of them a connection comes to.

use std::os::fd::{AsFd, AsRawFd};

use anyhow::{Context, Result};
use socket2::SockRef;

use crate::design::{Run, Worker, pool};
use crate::feature::{Feature, on_tcp_socket};
use crate::mistake::mistake;
use crate::setting::{Kind, Setting, Settings};
use crate::sys::descriptor::close_inherited;
use crate::sys::process::{allowed_cpus, pin};
use crate::sys::socket::steer_by_cpu;

/// Why such a design can serve over TCP alone; `tcp_only` of its entry.
pub const ONE_ADDRESS: Option<&str> = Some("SO_REUSEPORT shares a port (socket(7))");

/// Several listeners at one address (SO_REUSEPORT).
pub const REUSEPORT: Feature = Feature {
    name: "socket(7), SO_REUSEPORT",
    since: Some("3.9"),
    refusal: || on_tcp_socket("setsockopt, SO_REUSEPORT", |socket| SockRef::from(&socket).set_reuse_port(true)),
};

/// Which of its listeners a connection comes to.
pub const STEER: Setting = Setting {
    name: "steer",
    help: "Who gets a connection: by a hash, or the worker that is pinned to the CPU on which the connection came in",
    unit: None,
    kind: Kind::Choice { choices: &["none", "cpu"], default: "none" },
};

fn is_by_cpu(settings: &Settings) -> bool {
    settings.word(STEER.name) == "cpu"
}

/// Tells the kernel how to choose among the listeners, before the first worker is forked. Gives the CPU of each worker, where
/// they are to have one.
pub fn steer(run: &Run) -> Result<Option<Vec<usize>>> {
    if !is_by_cpu(&run.settings) {
        return Ok(None);
    }
    let cpus = allowed_cpus()?;
    // One by itself is in no group, and gets all.
    if run.listeners.len() > 1 {
        let steered = steer_by_cpu(run.listener().as_fd(), &cpus);
        steered.context("--steer cpu: the kernel refused SO_ATTACH_REUSEPORT_CBPF")?;
    }
    Ok(Some(cpus))
}

/// A worker's first steps, after the fork: it has no listener but its own, and runs on the CPU whose connections come to that.
pub fn keep_own_listener(run: &Run, worker: &Worker, cpus: Option<&[usize]>) -> Result<()> {
    for (index, listener) in run.listeners.iter().enumerate() {
        if listener.as_raw_fd() != worker.listener().as_raw_fd() {
            close_inherited(listener);
        } else if let Some(cpus) = cpus {
            pin(&cpus[index..=index])?;
        }
    }
    Ok(())
}

/// Refuses what `--steer cpu` cannot do; for `check` of such a design.
///
/// The kernel's program can say no more than which listener gets the connections of a CPU, and it is only of use if that
/// listener's worker runs there. SO_INCOMING_CPU would take any number of workers, but before Linux 6.2 a group of
/// SO_REUSEPORT does not heed it.
pub fn check(settings: &Settings) -> Result<()> {
    if !is_by_cpu(settings) {
        return Ok(());
    }
    let (cpus, pool) = (allowed_cpus()?, pool(settings));
    if pool != cpus.len() {
        return Err(mistake(format!(
            "--steer cpu takes one worker for each CPU that this server may use, which are {cpus:?}, and --pool is {pool}: \
             --pool {}",
            cpus.len()
        )));
    }
    Ok(())
}
