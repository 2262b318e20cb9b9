//! Preforked children, which all block in accept on the same listener.
//!
//! Linux wakes one child per connection. The older kernels that the book measured woke all of them: the thundering
//! herd.

use anyhow::Result;

use crate::base::about::About;
use crate::base::feature::FORK;
use crate::server::design::{COMMON, Design, POOL, Run, pool};
use crate::server::pool::{RESPAWN, fork_pool};
use crate::server::shares::Shares;
use crate::transfer::primitive::Waits;

pub static ENTRY: Design = Design {
    about: About {
        summary: "Preforked processes, all blocked in accept",
        source: "UNP volume 1, third edition, section 30.6; Fig. 30.1 row 2",
    },
    waits: Waits::InTheCall,
    shares: Shares::Workers,
    settings: &[POOL, RESPAWN],
    workers: pool,
    serve,
    rests_on: &[&FORK],
    ..COMMON
};

fn serve(run: &'static Run) -> Result<()> {
    fork_pool(run, |worker| {
        while let Some(socket) = worker.accept() {
            worker.serve(socket);
        }
        Ok(())
    })
}
