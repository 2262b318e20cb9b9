//! Prethreaded: the threads of a pool all block in accept on the same listener, without a lock.

use anyhow::Result;

use crate::base::about::About;
use crate::base::feature::THREADS;
use crate::server::design::{COMMON, Design, POOL, Run, Worker, pool};
use crate::server::pool::thread_pool;
use crate::server::shares::Shares;
use crate::transfer::primitive::Waits;

pub static ENTRY: Design = Design {
    about: About {
        summary: "Prethreaded: a pool of threads, all blocked in accept",
        source: "UNP volume 1, third edition, section 30.11, without its mutex",
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
    let serve = |worker: &mut Worker| {
        while let Some(socket) = worker.accept() {
            worker.serve(socket);
        }
        Ok(())
    };
    thread_pool(run, serve, || Ok(()))
}
