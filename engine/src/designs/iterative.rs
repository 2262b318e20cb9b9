//! One process serves one connection after another: the baseline without any process control.
//!
//! A client that connects and sends nothing makes all others wait. That is inherent in the design.

use anyhow::Result;

use crate::base::about::About;
use crate::base::feature::ACCEPT;
use crate::server::design::{COMMON, Design, Run, no_pool};
use crate::server::shares::Shares;
use crate::transfer::primitive::Waits;

pub static ENTRY: Design = Design {
    about: About {
        summary: "One process, which serves one connection after another",
        source: "UNP volume 1, third edition, section 30.2; Fig. 30.1 row 0",
    },
    waits: Waits::InTheCall,
    shares: Shares::Connections,
    settings: &[],
    workers: no_pool,
    serve,
    rests_on: &[&ACCEPT],
    ..COMMON
};

fn serve(run: &'static Run) -> Result<()> {
    let mut worker = run.worker()?;
    while let Some(socket) = worker.accept() {
        worker.serve(socket);
    }
    Ok(())
}
