//! A new process for every connection; the process ends with its connection.

use anyhow::Result;

use crate::base::about::About;
use crate::base::feature::FORK;
use crate::server::design::{COMMON, Design, Makes, Run, no_pool};
use crate::server::pool::report;
use crate::server::shares::Shares;
use crate::sys::{descriptor, process, signal};
use crate::transfer::inbox;
use crate::transfer::primitive::Waits;

pub static ENTRY: Design = Design {
    about: About {
        summary: "A new process for every connection",
        source: "UNP volume 1, third edition, section 30.5; Fig. 30.1 row 1",
    },
    waits: Waits::InTheCall,
    shares: Shares::Scheduler,
    settings: &[],
    workers: no_pool,
    makes: Some(Makes::Process),
    serve,
    rests_on: &[&FORK],
    ..COMMON
};

fn serve(run: &'static Run) -> Result<()> {
    signal::reap_children(&run.tally.general().workers_lost)?;
    let mut acceptor = run.acceptor();
    inbox::make_ready();
    while let Some(socket) = acceptor.accept() {
        let child = || {
            descriptor::close_inherited(run.listener());
            report(run.worker().map(|mut worker| worker.serve(socket)))
        };
        // The parent's copy of the socket is dropped with the closure.
        if let Err(error) = process::fork(child) {
            acceptor.refused(&error);
        }
    }
    process::wait_for_all()?;
    Ok(())
}
