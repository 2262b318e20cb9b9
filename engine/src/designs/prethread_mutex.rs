//! Prethreaded; a mutex lets one thread at a time into accept.

use std::sync::{Mutex, PoisonError};

use anyhow::Result;

use crate::base::about::About;
use crate::base::feature::THREADS;
use crate::server::design::{COMMON, Design, POOL, Run, Worker, pool};
use crate::server::pool::thread_pool;
use crate::server::shares::Shares;
use crate::transfer::primitive::Waits;

pub static ENTRY: Design = Design {
    about: About {
        summary: "Prethreaded, with a mutex around accept",
        source: "UNP volume 1, third edition, section 30.11; Fig. 30.1 row 7",
    },
    waits: Waits::InTheCall,
    shares: Shares::Workers,
    settings: &[POOL],
    workers: pool,
    serve,
    rests_on: &[&THREADS],
    ..COMMON
};

fn serve(run: &'static Run) -> Result<()> {
    let mutex = Mutex::new(());
    let serve = |worker: &mut Worker| {
        loop {
            // The mutex guards accept and no data, so a poisoned mutex does no harm.
            let guard = mutex.lock().unwrap_or_else(PoisonError::into_inner);
            let accepted = worker.accept();
            drop(guard);
            let Some(socket) = accepted else { return Ok(()) };
            worker.serve(socket);
        }
    };
    thread_pool(run, serve, || Ok(()))
}
