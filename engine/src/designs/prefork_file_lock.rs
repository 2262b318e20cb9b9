//! Preforked children; a record lock on a file lets one child at a time into accept.

use anyhow::{Context, Result};

use crate::base::about::About;
use crate::base::feature::{FORK, Feature, refused};
use crate::server::design::{COMMON, Design, POOL, Run, pool};
use crate::server::pool::{RESPAWN, fork_pool};
use crate::server::shares::Shares;
use crate::sys::lock::FileLock;
use crate::transfer::primitive::Waits;

pub static ENTRY: Design = Design {
    about: About {
        summary: "Preforked processes, with a file lock around accept",
        source: "UNP volume 1, third edition, section 30.7; Fig. 30.1 row 3",
    },
    waits: Waits::InTheCall,
    shares: Shares::Workers,
    settings: &[POOL, RESPAWN],
    workers: pool,
    serve,
    rests_on: &[&FORK, &RECORD_LOCK],
    ..COMMON
};

/// A record lock on an unnamed file.
const RECORD_LOCK: Feature = Feature {
    name: "fcntl(2), F_SETLKW of memfd_create(2)",
    since: Some("3.17"),
    refusal: || refused("fcntl, F_SETLKW", FileLock::new().and_then(|lock| lock.lock().map(drop))),
};

fn serve(run: &'static Run) -> Result<()> {
    let lock = FileLock::new().context("cannot create the lock file")?;
    fork_pool(run, |worker| {
        loop {
            let guard = lock.lock()?;
            let accepted = worker.accept();
            drop(guard);
            let Some(socket) = accepted else { return Ok(()) };
            worker.serve(socket);
        }
    })
}
