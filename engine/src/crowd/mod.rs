//! Very many clients of one process: an event loop in which each of them connects, asks and is answered, whoever decides
//! when it asks ([`pace`]) and whatever tells that a socket is ready ([`back_end`]).
//!
//! Kept connections are all made before the first request. Where the load ends by time, that comes before its warm-up.

mod back_end;
mod epoll;
mod member;
mod pace;
mod turns;

use anyhow::Result;

use crate::course::Edges;
use crate::load::{LoadRun, clients};
use crate::sys::signal;

use epoll::Readiness;
pub use pace::Kind;
use turns::Turns;

/// Runs a load of such clients to its end.
pub fn run(run: &'static LoadRun, kind: Kind) -> Result<()> {
    let clients = clients(&run.settings);
    run.make_room(clients)?;
    signal::note_interrupts()?;
    let mut turns = Turns::new(run, Readiness::new(run)?, kind, clients);
    turns.connect_all()?;
    let mut edges = Edges::begin(run);
    turns.begin(edges.began());
    while turns.go_on() && !signal::interrupted() {
        turns.step(edges.next())?;
        edges.look(turns.at());
    }
    edges.cut();
    while turns.go_on() {
        turns.step(None)?;
    }
    run.measured.lock().expect("one thread alone").add(turns.measure());
    Ok(())
}
