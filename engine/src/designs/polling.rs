//! Children made beforehand, each of which tries to accept, and then every one of its connections, again and again: nobody
//! asks which of them is ready, and nobody sleeps.
//!
//! Where something has nearly always come, that is the least work: no wait, no list of what is ready, nobody to be woken. All
//! that has come is received before anything is sent, so that of two calls that follow each other the second runs through what
//! the first has brought into the CPU's caches.
//! Between two rounds others may have the CPU. With a child for each CPU and `--steer cpu` a connection stays on the CPU of
//! the client that made it, which may share it: then they switch once for all that has come in a round.

use std::os::fd::{AsFd, BorrowedFd};
use std::thread;
use std::time::Duration;

use anyhow::Result;

use crate::base::about::About;
use crate::base::feature::FORK;
use crate::base::setting::{Kind, Setting};
use crate::server::connection::{Connection, Turn};
use crate::server::design::{Accepted, COMMON, Design, MOST_WORKERS, POOL, Run, pool};
use crate::server::pool::{RESPAWN, fork_pool};
use crate::server::steering::{ONE_ADDRESS, REUSEPORT, STEER, check, keep_own_listener, steer};
use crate::sys::descriptor::{PollFlags, poll, set_nonblocking};
use crate::transfer::primitive::Waits;

pub static ENTRY: Design = Design {
    about: About {
        summary: "Preforked processes, which busy-poll their connections",
        source: "UNP volume 1, third edition, section 6.2, nonblocking I/O",
    },
    waits: Waits::ForReadiness,
    settings: &[ONE, RESPAWN, STEER],
    workers: pool,
    listeners: pool,
    tcp_only: ONE_ADDRESS,
    spins: true,
    check,
    serve,
    rests_on: &[&FORK, &REUSEPORT],
    ..COMMON
};

/// Each takes what it can have of a CPU.
const ONE: Setting = Setting { kind: Kind::Integer { minimum: 1, maximum: MOST_WORKERS, default: 1 }, ..POOL };

/// The most that are accepted before those that are there have their turn: of one in each round, every connection would have to
/// wait until all others have been tried.
const ACCEPTS: usize = 64;

fn serve(run: &'static Run) -> Result<()> {
    run.listeners.iter().try_for_each(|listener| set_nonblocking(listener.as_fd()))?;
    let cpus = steer(run)?;
    fork_pool(run, |worker| {
        keep_own_listener(run, worker, cpus.as_deref())?;
        // Who does not ask what is ready is not told of errors either, among which completions are.
        let ready = if run.way.out.item.completes { PollFlags::POLLERR } else { PollFlags::empty() };
        let mut accepting = true;
        let mut connections: Vec<Connection> = Vec::new();
        while accepting || !connections.is_empty() {
            for _ in 0..if somebody_waits(worker.listener()) { ACCEPTS } else { 0 } {
                match worker.try_accept(libc::SOCK_NONBLOCK) {
                    Accepted::Connection(socket) => connections.extend(worker.open(socket)),
                    Accepted::Nothing | Accepted::Refused => break,
                    Accepted::ShutDown => {
                        accepting = false;
                        break;
                    }
                }
            }
            each(&mut connections, |connection| connection.receive_turn(ready));
            each(&mut connections, Connection::send_turn);
            thread::yield_now();
        }
        Ok(())
    })
}

/// Every connection has a turn; those that are over are closed.
fn each(connections: &mut Vec<Connection>, turn: impl Fn(&mut Connection) -> Turn) {
    let mut number = 0;
    while let Some(connection) = connections.get_mut(number) {
        match turn(connection) {
            Turn::Blocked(_) | Turn::Yields(_) => number += 1,
            Turn::Over => connections.swap_remove(number).finish(),
        }
    }
}

/// Whether there is something to accept, or nothing ever again. Mostly there is not, and this is less work than to try: accept(2)
/// makes a socket before it looks.
fn somebody_waits(listener: BorrowedFd<'_>) -> bool {
    poll(&[(listener, PollFlags::POLLIN)], Some(Duration::ZERO)).map_or(true, |ready| !ready[0].is_empty())
}
