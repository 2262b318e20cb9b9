//! A pool of processes that follows the load: the parent forks more children when few are free, and ends the excess.
//!
//! UNP leaves open when a server should fork more children and when it should end some (section 30.6); the rule is that
//! of Apache's prefork MPM. A child that becomes busy and leaves fewer than `minimum_spare` free children wakes the
//! parent. At every maintenance interval, the parent tells free children above `maximum_spare` to leave. All children
//! block in accept, as in `prefork`. A signal interrupts accept without losing a connection: the call returns either
//! EINTR or a connection.

use std::collections::HashMap;
use std::os::fd::AsFd;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Instant;

use anyhow::{Context, Result, ensure};

use crate::base::about::About;
use crate::base::feature::FORK;
use crate::count::tally::ErrorKind;
use crate::server::design::{COMMON, Design, Run, Worker};
use crate::server::pool::report;
use crate::server::scoreboard::{SETTINGS, Scoreboard, check, maximum_workers};
use crate::server::shares::Shares;
use crate::sys::descriptor::{self, PollFlags};
use crate::sys::process::{self, Ended};
use crate::sys::signal::{self, SignalDescriptor};
use crate::transfer::primitive::Waits;

pub static ENTRY: Design = Design {
    about: About {
        summary: "Preforked processes; the pool grows when few are free and shrinks when many are",
        source: "UNP volume 1, third edition, section 30.6; Apache HTTP Server 2.4, prefork MPM",
    },
    waits: Waits::InTheCall,
    shares: Shares::Workers,
    settings: SETTINGS,
    workers: maximum_workers,
    serve,
    check,
    rests_on: &[&FORK],
    ..COMMON
};

fn serve(run: &'static Run) -> Result<()> {
    let board = Scoreboard::new(&run.settings).context("cannot create the scoreboard")?;
    let deaths = SignalDescriptor::of_children()?;
    signal::allow_interruption()?;
    let fork = |place| {
        process::fork(|| {
            descriptor::close_inherited(&deaths);
            report(run.pool_worker(place).map(|mut worker| serve_connections(&mut worker, &board, place)))
        })
    };
    let mut children = HashMap::new();
    for place in board.take(board.start) {
        let child = fork(place).with_context(|| {
            format!("cannot fork worker {place} of {} (lower --start-workers, or raise ulimit -u)", board.start)
        })?;
        children.insert(child, place);
    }
    let mut maintenance = Instant::now() + board.interval;
    // If a child could not be created or could not continue, the next attempt waits for the next maintenance.
    let mut growing = true;
    while !descriptor::is_shut_down(run.listener().as_fd())? {
        while growing && let Some(place) = board.take_missing() {
            if let Ok(child) = fork(place) {
                children.insert(child, place);
            } else {
                board.vacate(place);
                run.tally.shared().error(ErrorKind::ResourceLimit);
                growing = false;
            }
        }
        let events = [
            (board.event.as_fd(), PollFlags::POLLIN),
            (deaths.as_fd(), PollFlags::POLLIN),
            (run.listener().as_fd(), PollFlags::empty()),
        ];
        descriptor::poll(&events, Some(maintenance.saturating_duration_since(Instant::now())))?;
        board.event.clear();
        while deaths.read()?.is_some() {}
        while let Some((child, ended)) = process::wait_without_hanging()? {
            tally_loss(run, ended);
            board.vacate(children.remove(&child).context("an unknown child has ended")?);
            if let Ended::Exited(1..) = ended {
                growing = false;
                // Each child has reported its reason.
                ensure!(!children.is_empty(), "no worker of the pool can continue");
            }
        }
        if maintenance <= Instant::now() {
            let told = board.tell_excess();
            for (child, _) in children.iter().filter(|(_, place)| told.contains(place)) {
                signal::interrupt_process(*child)?;
            }
            maintenance = Instant::now() + board.interval;
            growing = true;
        }
    }
    while let Some((_, ended)) = process::wait()? {
        tally_loss(run, ended);
    }
    Ok(())
}

/// Serves connections until the child is told to leave or the listener is shut down.
fn serve_connections(worker: &mut Worker, board: &Scoreboard, place: usize) {
    while let Some(socket) = worker.accept_unless(|| board.is_told(place)) {
        board.busy(place);
        worker.serve(socket);
        board.free(place);
    }
}

/// A child exits by itself, with status 0, when it is told to leave or when the server is stopped.
fn tally_loss(run: &Run, ended: Ended) {
    run.tally.general().workers_lost.fetch_add(u64::from(ended != Ended::Exited(0)), Relaxed);
}
