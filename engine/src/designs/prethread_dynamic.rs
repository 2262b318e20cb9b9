//! A pool of threads that follows the load: the main thread creates more when few are free, and ends the excess.
//!
//! The rule of `prefork_dynamic`, for the threads of UNP section 30.11. A thread that becomes busy and leaves fewer
//! than `minimum_spare` free threads wakes the main thread. At every maintenance interval, the main thread tells free
//! threads above `maximum_spare` to leave. A signal interrupts their accept, which returns either EINTR or a
//! connection, and loses none.

use std::os::fd::AsFd;
use std::sync::atomic::Ordering::Relaxed;
use std::thread::{Builder, JoinHandle};
use std::time::Instant;

use anyhow::{Context, Result, ensure};

use crate::base::about::About;
use crate::base::feature::THREADS;
use crate::count::tally::ErrorKind;
use crate::server::design::{COMMON, Design, Run};
use crate::server::pool::report;
use crate::server::scoreboard::{SETTINGS, Scoreboard, check, maximum_workers};
use crate::server::shares::Shares;
use crate::sys::descriptor::{self, PollFlags};
use crate::sys::signal;
use crate::transfer::primitive::Waits;

pub static ENTRY: Design = Design {
    about: About {
        summary: "Prethreaded; the pool grows when few threads are free and shrinks when many are",
        source: "UNP volume 1, third edition, section 30.11; Apache HTTP Server 2.4, prefork MPM",
    },
    waits: Waits::InTheCall,
    shares: Shares::Workers,
    settings: SETTINGS,
    workers: maximum_workers,
    serve,
    check,
    rests_on: &[&THREADS],
    ..COMMON
};

fn serve(run: &'static Run) -> Result<()> {
    let board = Scoreboard::new(&run.settings).context("cannot create the scoreboard")?;
    // It lives as long as the process, because threads may.
    let board: &'static Scoreboard = Box::leak(Box::new(board));
    signal::allow_interruption()?;
    let spawn = |place| Builder::new().spawn(move || live(run, board, place));
    let mut threads: Vec<Option<JoinHandle<Result<()>>>> = Vec::new();
    threads.resize_with(maximum_workers(&run.settings), || None);
    for place in board.take(board.start) {
        let thread = spawn(place).with_context(|| {
            format!("cannot create thread {place} of {} (lower --start-workers, or raise ulimit -u)", board.start)
        })?;
        threads[place] = Some(thread);
    }
    let mut maintenance = Instant::now() + board.interval;
    // If a thread could not be created or could not continue, the next attempt waits for the next maintenance.
    let mut growing = true;
    while !descriptor::is_shut_down(run.listener().as_fd())? {
        while growing && let Some(place) = board.take_missing() {
            threads[place] = spawn(place).ok();
            if threads[place].is_none() {
                board.vacate(place);
                run.tally.shared().error(ErrorKind::ResourceLimit);
                growing = false;
            }
        }
        let events = [(board.event.as_fd(), PollFlags::POLLIN), (run.listener().as_fd(), PollFlags::empty())];
        descriptor::poll(&events, Some(maintenance.saturating_duration_since(Instant::now())))?;
        board.event.clear();
        for place in board.left() {
            let went_well = threads[place].take().is_none_or(|thread| join(run, thread));
            board.vacate(place);
            growing &= went_well;
            // Each thread has reported its reason.
            ensure!(went_well || threads.iter().any(Option::is_some), "no worker of the pool can continue");
        }
        if maintenance <= Instant::now() {
            for place in board.tell_excess() {
                threads[place].as_ref().map_or(Ok(()), signal::interrupt_thread)?;
            }
            maintenance = Instant::now() + board.interval;
            growing = true;
        }
    }
    for thread in threads.into_iter().flatten() {
        join(run, thread);
    }
    Ok(())
}

/// Serves connections until the thread is told to leave or the listener is shut down.
fn live(run: &'static Run, board: &'static Scoreboard, place: usize) -> Result<()> {
    let _leaves = Leaves { board, place };
    let mut worker = run.pool_worker(place)?;
    while let Some(socket) = worker.accept_unless(|| board.is_told(place)) {
        board.busy(place);
        worker.serve(socket);
        board.free(place);
    }
    Ok(())
}

/// Reports that a thread is about to end, for whatever reason.
struct Leaves {
    board: &'static Scoreboard,
    place: usize,
}

impl Drop for Leaves {
    fn drop(&mut self) {
        self.board.leave(self.place);
    }
}

/// Joins a thread that has left. False if the thread could not continue, which is tallied.
fn join(run: &Run, thread: JoinHandle<Result<()>>) -> bool {
    let went_well = thread.join().is_ok_and(|result| report(result) == 0);
    run.tally.general().workers_lost.fetch_add(u64::from(!went_well), Relaxed);
    went_well
}
