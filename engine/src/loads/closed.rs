//! The closed load of UNP section 30.3: children, each of which connects, asks, waits for the reply, closes, and begins
//! again.

use std::collections::HashSet;
use std::os::fd::AsFd;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use crate::about::About;
use crate::exchange::{Failure, connect, exchange};
use crate::load::{Load, LoadRun, TIMEOUT};
use crate::pool::report;
use crate::primitive::Opener;
use crate::setting::{Kind, NODELAY, Setting};
use crate::sys::process::{self, Ended};
use crate::sys::signal;
use crate::tally::{ErrorKind, Slot};

pub static ENTRY: Load = Load {
    about: About {
        summary: "Children, each waiting for its reply before it asks again; a connection for every request",
        source: "UNP volume 1, third edition, section 30.3",
    },
    settings: &[CHILDREN, LOOPS],
    workers: |settings| settings.integer(CHILDREN.name) as usize,
    requests: &[CHILDREN, LOOPS],
    duration: None,
    run,
};

const CHILDREN: Setting = Setting {
    name: "children",
    help: "Client processes that ask at the same time",
    unit: Some("processes"),
    kind: Kind::Integer { minimum: 1, maximum: 4096, default: 5 },
};

const LOOPS: Setting = Setting {
    name: "loops",
    help: "Requests that each child makes",
    unit: Some("requests"),
    kind: Kind::Integer { minimum: 1, maximum: 10_000_000, default: 500 },
};

/// A child that fails so often in a row gives up: there is no server to be measured.
const FAILURES_IN_A_ROW: u32 = 3;

fn run(run: &'static LoadRun) -> Result<()> {
    signal::note_interrupts()?;
    let mut children = HashSet::new();
    for index in 0..run.settings.integer(CHILDREN.name) as usize {
        let child = process::fork(|| report(child(run, index)))
            .with_context(|| format!("child {index} could not be forked (fewer --children, or: ulimit -u)"))?;
        children.insert(child);
    }
    while let Some((child, ended)) = process::wait()? {
        children.remove(&child);
        if ended != Ended::Exited(0) {
            // Without one of its children it is another load: the rest of it would measure nothing.
            run.tally.general().workers_lost.fetch_add(1, Relaxed);
            run.first_error.note(&format!("a client child was lost, and the load ended with it: it {ended}"));
            children.iter().copied().for_each(process::kill_child);
            return Ok(process::wait_for_all()?);
        }
    }
    Ok(())
}

fn child(run: &'static LoadRun, index: usize) -> Result<()> {
    // A terminal interrupts every process of its group, and a reply may be long in coming.
    signal::leave_at_interrupt()?;
    let slot = run.tally.worker(index);
    let mut opener = (run.primitive.prepare)(&run.settings).context("the primitive could not be prepared")?;
    let mut failures = 0;
    for _ in 0..run.settings.integer(LOOPS.name) {
        if signal::interrupted() || failures == FAILURES_IN_A_ROW {
            break;
        }
        match request(run, slot, opener.as_mut()) {
            Ok(()) => failures = 0,
            Err(failure) => {
                slot.error(failure.kind);
                run.first_error.note(&failure.message);
                failures += 1;
            }
        }
    }
    Ok(())
}

fn request(run: &LoadRun, slot: &Slot, opener: &mut dyn Opener) -> std::result::Result<(), Failure> {
    let timeout = Duration::from_millis(run.settings.integer(TIMEOUT.name));
    let mut transfer = opener
        .open()
        .map_err(|error| Failure { kind: ErrorKind::of(&error), message: format!("opening a transfer: {error}") })?;
    let socket = connect(&run.target, timeout, run.settings.boolean(NODELAY.name))?;
    slot.connections.fetch_add(1, Relaxed);
    let result = exchange(socket.as_fd(), run.client.open().as_mut(), transfer.as_mut(), slot);
    transfer.finish(socket, Instant::now() + timeout);
    slot.closed.fetch_add(1, Relaxed);
    result
}
