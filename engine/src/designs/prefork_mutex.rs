//! Preforked children; a mutex in shared memory lets one child at a time into accept.

use anyhow::{Context, Result};

use crate::base::about::About;
use crate::base::feature::{FORK, Feature, refused};
use crate::server::design::{COMMON, Design, POOL, Run, pool};
use crate::server::pool::{RESPAWN, fork_pool};
use crate::server::shares::Shares;
use crate::sys::lock::SharedMutex;
use crate::transfer::primitive::Waits;

pub static ENTRY: Design = Design {
    about: About {
        summary: "Preforked processes, with a process-shared mutex around accept",
        source: "UNP volume 1, third edition, section 30.8; Fig. 30.1 row 4",
    },
    waits: Waits::InTheCall,
    shares: Shares::Workers,
    settings: &[POOL, RESPAWN],
    workers: pool,
    serve,
    rests_on: &[&FORK, &SHARED_MUTEX],
    ..COMMON
};

/// A robust mutex: the next child gets it if its holder has died.
const SHARED_MUTEX: Feature = Feature {
    name: "futex(2), robust and between processes",
    since: Some("2.6.17"),
    refusal: || refused("pthread_mutex_init", SharedMutex::new()),
};

fn serve(run: &'static Run) -> Result<()> {
    let mutex = SharedMutex::new().context("cannot create the shared mutex")?;
    fork_pool(run, |worker| {
        loop {
            let guard = mutex.lock()?;
            let accepted = worker.accept();
            drop(guard);
            let Some(socket) = accepted else { return Ok(()) };
            worker.serve(socket);
        }
    })
}
