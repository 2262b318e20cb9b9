//! Children made beforehand; a mutex in shared memory lets one at a time into accept.

use anyhow::{Context, Result};

use crate::about::About;
use crate::design::{COMMON, Design, POOL, Run, pool};
use crate::pool::{RESPAWN, fork_pool};
use crate::primitive::Waits;
use crate::sys::lock::SharedMutex;

pub static ENTRY: Design = Design {
    about: About {
        summary: "Processes made beforehand, a process-shared mutex around accept",
        source: "UNP volume 1, third edition, section 30.8; Fig. 30.1 row 4",
    },
    waits: Waits::InTheCall,
    settings: &[POOL, RESPAWN],
    workers: pool,
    serve,
    ..COMMON
};

fn serve(run: &'static Run) -> Result<()> {
    let mutex = SharedMutex::new().context("the shared mutex could not be made")?;
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
