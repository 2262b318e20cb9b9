//! Preforked children busy-poll: each tries to accept, and then tries every one of its connections, again and again. No
//! child waits for readiness, and no child sleeps.
//!
//! If data has nearly always arrived, this is the least work: no wait, no readiness list, no wake-ups. A child receives
//! from all its connections before it sends to any, so consecutive calls of the same kind find their code and data in
//! the CPU's caches. Requests that need computing come last: one for each connection, whose reply is sent before the next
//! is computed. Between two rounds a child yields the CPU. With one child per CPU and `--steer cpu`, a connection
//! stays on the CPU of the client that made it. Client and server may then share this CPU: they switch once per round.

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
use crate::server::shares::Shares;
use crate::server::steering::{ONE_ADDRESS, REUSEPORT, STEER, check, keep_own_listener, steer};
use crate::sys::descriptor::{PollFlags, poll, set_nonblocking};
use crate::transfer::primitive::Waits;

pub static ENTRY: Design = Design {
    about: About {
        summary: "Preforked processes, which busy-poll their connections",
        source: "UNP volume 1, third edition, section 6.2, nonblocking I/O",
    },
    waits: Waits::ForReadiness,
    shares: Shares::Turns { accepts: Some(ACCEPTS) },
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

/// Each child uses all of the CPU time it can get.
const ONE: Setting = Setting { kind: Kind::Integer { minimum: 1, maximum: MOST_WORKERS, default: 1 }, ..POOL };

/// Maximum accepts per round. With a single accept per round, every new connection would wait until all others have
/// been tried.
const ACCEPTS: usize = 64;

fn serve(run: &'static Run) -> Result<()> {
    run.listeners.iter().try_for_each(|listener| set_nonblocking(listener.as_fd()))?;
    let cpus = steer(run)?;
    fork_pool(run, |worker| {
        keep_own_listener(run, worker, cpus.as_deref())?;
        // A server that does not wait for readiness sees no errors either, and completions are reported as
        // errors.
        let ready = if run.way.out.item.completes { PollFlags::POLLERR } else { PollFlags::empty() };
        let mut accepting = true;
        let mut connections: Vec<Connection> = Vec::new();
        while accepting || !connections.is_empty() {
            for _ in 0..if may_accept(worker.listener()) { ACCEPTS } else { 0 } {
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
            each(&mut connections, Connection::work_turn);
            thread::yield_now();
        }
        Ok(())
    })
}

/// Gives every connection a turn, and closes those that are over.
fn each(connections: &mut Vec<Connection>, turn: impl Fn(&mut Connection) -> Turn) {
    let mut number = 0;
    while let Some(connection) = connections.get_mut(number) {
        match turn(connection) {
            Turn::Blocked(_) | Turn::Yields(_) => number += 1,
            Turn::Over => connections.swap_remove(number).finish(),
        }
    }
}

/// Returns whether there is a connection to accept, or whether the listener is shut down. Mostly there is none, and
/// this check costs less than a failed accept(2), which makes a socket before it looks.
fn may_accept(listener: BorrowedFd<'_>) -> bool {
    poll(&[(listener, PollFlags::POLLIN)], Some(Duration::ZERO)).map_or(true, |ready| !ready[0].is_empty())
}
