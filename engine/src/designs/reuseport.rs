//! Preforked children, each with its own event loop, epoll instance and listener. The kernel distributes connections
//! among the listeners of the address, by a hash of both ends or by CPU.
//!
//! The kernel assigns a connection to a listener when it arrives, not when a child is free; only the child of that
//! listener can accept it. If a child is lost and not replaced, its listener is shut down, so that the others get its
//! share. The hash decides then, even if connections are steered by CPU and each listener keeps its own.

use std::os::fd::{AsFd, AsRawFd, RawFd};

use anyhow::Result;
use rustc_hash::FxHashMap;

use crate::base::about::About;
use crate::base::feature::{EPOLL, FORK};
use crate::server::connection::{Connection, Turn};
use crate::server::design::{ACCEPTS_IN_A_TURN, Accepted, COMMON, Design, POOL, Run, pool};
use crate::server::pool::{RESPAWN, fork_pool};
use crate::server::shares::Shares;
use crate::server::steering::{ONE_ADDRESS, REUSEPORT, STEER, check, keep_own_listener, steer};
use crate::sys::descriptor::{PollFlags, set_nonblocking};
use crate::sys::readiness::epoll::{self, Epoll, EpollFlags};
use crate::transfer::primitive::Waits;

pub static ENTRY: Design = Design {
    about: About {
        summary: "Preforked processes, each with an epoll event loop and its own listener",
        source: "socket(7), SO_REUSEPORT; Linux 3.9",
    },
    waits: Waits::ForReadiness,
    shares: Shares::Turns { accepts: Some(ACCEPTS_IN_A_TURN) },
    settings: &[POOL, RESPAWN, STEER],
    workers: pool,
    listeners: pool,
    tcp_only: ONE_ADDRESS,
    check,
    serve,
    rests_on: &[&FORK, &EPOLL, &REUSEPORT],
    ..COMMON
};

fn serve(run: &'static Run) -> Result<()> {
    run.listeners.iter().try_for_each(|listener| set_nonblocking(listener.as_fd()))?;
    let cpus = steer(run)?;
    fork_pool(run, |worker| {
        keep_own_listener(run, worker, cpus.as_deref())?;
        let listener = worker.listener().as_raw_fd();
        let epoll = Epoll::create()?;
        epoll.add(worker.listener(), EpollFlags::EPOLLIN)?;
        let mut events = epoll::no_events();
        let mut accepting = true;
        let mut connections: FxHashMap<RawFd, (Connection, PollFlags)> = FxHashMap::default();
        while accepting || !connections.is_empty() {
            for (descriptor, ready) in epoll.wait(&mut events, true)? {
                if descriptor == listener {
                    for accepted in worker.accept_in_turn(libc::SOCK_NONBLOCK) {
                        match accepted {
                            Accepted::Connection(socket) => {
                                let descriptor = socket.as_raw_fd();
                                if let Err(error) = epoll.add(&socket, EpollFlags::EPOLLIN) {
                                    worker.refused(&error);
                                } else if let Some(connection) = worker.open(socket) {
                                    connections.insert(descriptor, (connection, PollFlags::POLLIN));
                                }
                            }
                            Accepted::Nothing => worker.woke_for_nothing(),
                            Accepted::Refused => {}
                            Accepted::ShutDown => {
                                epoll.delete(worker.listener())?;
                                accepting = false;
                            }
                        }
                    }
                    continue;
                }
                let Some((connection, watched)) = connections.get_mut(&descriptor) else { continue };
                match connection.turn(ready) {
                    Turn::Blocked(flags) | Turn::Yields(flags) if flags == *watched => {}
                    Turn::Blocked(flags) | Turn::Yields(flags) => {
                        epoll.modify(connection.socket(), epoll::flags(flags))?;
                        *watched = flags;
                    }
                    Turn::Over => connections.remove(&descriptor).expect("it was there").0.finish(),
                }
            }
        }
        Ok(())
    })
}
