//! Preforked children, which all wait in select for the same listener, accept, and serve the connection to its end.
//!
//! The classical thundering herd: select wakes every waiting child, and one of them gets the connection. Most of the
//! others never return from select, because the kernel checks again first; only their context switches show it. Those
//! that do return find no connection. So the listener must not block, or they would wait in accept instead of select.

use std::os::fd::{AsFd, AsRawFd};

use anyhow::{Result, ensure};

use crate::base::about::About;
use crate::base::feature::{FORK, SELECT};
use crate::server::design::{Accepted, COMMON, Design, POOL, Run, pool};
use crate::server::pool::{RESPAWN, fork_pool};
use crate::server::shares::Shares;
use crate::sys::descriptor::set_nonblocking;
use crate::sys::readiness::select::{FD_SETSIZE, FdSet, select};
use crate::transfer::primitive::Waits;

pub static ENTRY: Design = Design {
    about: About {
        summary: "Preforked processes, all waiting in select before accept",
        source: "UNP volume 1, third edition, section 30.6, \"select Collisions\"",
    },
    waits: Waits::InTheCall,
    shares: Shares::Workers,
    settings: &[POOL, RESPAWN],
    workers: pool,
    serve,
    rests_on: &[&FORK, &SELECT],
    ..COMMON
};

fn serve(run: &'static Run) -> Result<()> {
    let listener = run.listener().as_raw_fd();
    ensure!(
        listener < FD_SETSIZE,
        "the listener's descriptor is {listener}, but select accepts only those below {FD_SETSIZE}"
    );
    set_nonblocking(run.listener().as_fd())?;
    fork_pool(run, |worker| {
        let mut reading = FdSet::zero();
        reading.set(listener);
        loop {
            select(listener, &mut reading.clone(), &mut FdSet::zero())?;
            match worker.try_accept(0) {
                Accepted::Connection(socket) => worker.serve(socket),
                Accepted::Nothing => worker.woke_for_nothing(),
                Accepted::Refused => {}
                Accepted::ShutDown => return Ok(()),
            }
        }
    })
}
