//! The closed load of UNP section 30.3: each child connects, sends its request, waits for the reply, closes, and
//! repeats.

use std::collections::HashSet;
use std::sync::atomic::Ordering::Relaxed;

use anyhow::{Context, Result};

use crate::base::about::About;
use crate::base::setting::{Kind, Setting};
use crate::base::unit::Unit;
use crate::client::blocking::BlockingClient;
use crate::client::edges::wait_for_start;
use crate::client::live::line::LiveLine;
use crate::client::load::{COMMON, LOOPS, Load, LoadRun, THINK};
use crate::client::state::ClientState;
use crate::server::pool::report;
use crate::sys::process::{self, Ended};
use crate::sys::signal::{self, Signal};

pub static ENTRY: Load = Load {
    about: About {
        summary: "Closed load from child processes: each waits for its reply before the next request; one connection \
                  per request",
        source: "UNP volume 1, third edition, section 30.3",
    },
    settings: &[CHILDREN, LOOPS, THINK],
    workers: |settings| settings.integer(CHILDREN.name) as usize,
    requests: &[CHILDREN, LOOPS],
    run,
    ..COMMON
};

const CHILDREN: Setting = Setting {
    name: "children",
    help: "Number of concurrent client processes",
    unit: Unit::Of("processes"),
    kind: Kind::Integer { minimum: 1, maximum: 4096, default: 5 },
    for_more: Some("for more, use a --load whose clients are not processes, with --clients"),
};

fn run(run: &'static LoadRun) -> Result<()> {
    signal::note_interrupts()?;
    wait_for_start(run);
    let mut children = HashSet::new();
    for index in 0..run.settings.integer(CHILDREN.name) as usize {
        let child = process::fork(|| report(child(run, index)))
            .with_context(|| format!("cannot fork child {index} (use fewer --children, or raise ulimit -u)"))?;
        children.insert(child);
    }
    let _line = LiveLine::start(run);
    let mut passed_on = false;
    while let Some((child, ended)) = process::wait()? {
        children.remove(&child);
        let interrupted = signal::interrupted();
        // A child that has just been forked may not leave at interrupts yet, so a second one, which is SIGTERM, kills it.
        let ends_well = ended == Ended::Exited(0) || interrupted && ended == Ended::Killed(Signal::SIGTERM);
        if !ends_well {
            // A load that has lost a child is a different load; continuing would measure nothing useful.
            run.tally.general().workers_lost.fetch_add(1, Relaxed);
            run.first_error.note(&format!("a client child was lost, and the load ended with it: the child {ended}"));
            children.iter().copied().for_each(process::kill_child);
            return Ok(process::wait_for_all()?);
        }
        if interrupted && !std::mem::replace(&mut passed_on, true) {
            // The other children may be waiting for replies that are no longer needed.
            children.iter().for_each(|&child| process::pass_on(Signal::SIGTERM, child));
        }
    }
    Ok(())
}

fn child(run: &'static LoadRun, index: usize) -> Result<()> {
    // A terminal interrupts every process of its group, and a reply may take long.
    signal::leave_at_interrupt();
    let state = ClientState::new(run, run.tally.worker(index), index + 1, run.settings.integer(LOOPS.name));
    BlockingClient::new(state, false, None)?.take_turns();
    Ok(())
}
