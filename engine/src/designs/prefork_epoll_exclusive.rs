//! Preforked children, each with its own event loop and epoll instance, all watching the same listener with
//! EPOLLEXCLUSIVE: the kernel wakes one sleeping child, not all.
//!
//! The kernel looks at the children in the order in which they began to watch, so the first that sleeps gets most of
//! the connections.

use std::io;
use std::os::fd::{AsFd, AsRawFd, RawFd};

use anyhow::Result;
use rustc_hash::FxHashMap;

use crate::base::about::About;
use crate::base::feature::{EPOLL, FORK, Feature, refused};
use crate::server::connection::{Connection, Turn};
use crate::server::design::{Accepted, COMMON, Design, POOL, Run, pool};
use crate::server::pool::{RESPAWN, fork_pool};
use crate::server::shares::Shares;
use crate::sys::descriptor::{self, PollFlags, set_nonblocking};
use crate::sys::readiness::epoll::{self, Epoll, EpollFlags};
use crate::transfer::primitive::Waits;

pub static ENTRY: Design = Design {
    about: About {
        summary: "Preforked processes, each with an epoll event loop, sharing one listener with EPOLLEXCLUSIVE",
        source: "epoll_ctl(2), EPOLLEXCLUSIVE; Linux 4.5",
    },
    waits: Waits::ForReadiness,
    shares: Shares::Turns { accepts: Some(1) },
    settings: &[POOL, RESPAWN],
    workers: pool,
    serve,
    rests_on: &[&FORK, &EPOLL, &EXCLUSIVE],
    ..COMMON
};

/// Exclusive wake-ups.
const EXCLUSIVE: Feature = Feature {
    name: "epoll_ctl(2), EPOLLEXCLUSIVE",
    since: Some("4.5"),
    refusal: || refused("epoll_ctl, EPOLLEXCLUSIVE", watched_exclusively()),
};

fn watched_exclusively() -> io::Result<()> {
    let (reader, _writer) = descriptor::pipe()?;
    Epoll::create()?.add(&reader, EpollFlags::EPOLLIN | EpollFlags::EPOLLEXCLUSIVE)
}

fn serve(run: &'static Run) -> Result<()> {
    set_nonblocking(run.listener().as_fd())?;
    fork_pool(run, |worker| {
        let listener = worker.listener().as_raw_fd();
        let epoll = Epoll::create()?;
        epoll.add(worker.listener(), EpollFlags::EPOLLIN | EpollFlags::EPOLLEXCLUSIVE)?;
        let mut events = epoll::no_events();
        let mut accepting = true;
        let mut connections: FxHashMap<RawFd, (Connection, PollFlags)> = FxHashMap::default();
        while accepting || !connections.is_empty() {
            for (descriptor, ready) in epoll.wait(&mut events, true)? {
                if descriptor == listener {
                    match worker.try_accept(libc::SOCK_NONBLOCK) {
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
