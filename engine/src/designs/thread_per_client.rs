//! A new thread for every connection; the thread ends with its connection.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;

use crate::base::about::About;
use crate::base::feature::THREADS;
use crate::server::design::{COMMON, Design, Makes, Run, no_pool};
use crate::server::pool::report;
use crate::server::shares::Shares;
use crate::sys::thread;
use crate::transfer::primitive::Waits;

pub static ENTRY: Design = Design {
    about: About {
        summary: "A new thread for every connection",
        source: "UNP volume 1, third edition, section 30.10; Fig. 30.1 row 6",
    },
    waits: Waits::InTheCall,
    shares: Shares::Scheduler,
    settings: &[],
    workers: no_pool,
    makes: Some(Makes::Thread),
    serve,
    rests_on: &[&THREADS],
    ..COMMON
};

fn serve(run: &'static Run) -> Result<()> {
    let mut acceptor = run.acceptor();
    let alive = Arc::new(());
    while let Some(socket) = acceptor.accept() {
        let alive = Arc::clone(&alive);
        let thread = thread::spawn_detached(move || {
            report(run.worker().map(|mut worker| worker.serve(socket)));
            drop(alive);
        });
        if let Err(error) = thread {
            acceptor.refused(&error);
        }
    }
    // Detached threads are not joined: each holds a reference to `alive` instead.
    while Arc::strong_count(&alive) > 1 {
        std::thread::sleep(Duration::from_millis(1));
    }
    Ok(())
}
