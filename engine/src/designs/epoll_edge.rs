//! One process waits for many connections with edge-triggered epoll, and serves those that have become ready.
//!
//! epoll reports readiness only once. So the server repeats reads, writes and accepts until the call would block, and
//! remembers connections that it leaves early, to be fair to others or for lack of descriptors.

use std::os::fd::{AsRawFd, RawFd};

use anyhow::Result;
use rustc_hash::FxHashMap;

use crate::base::about::About;
use crate::base::feature::EPOLL;
use crate::server::connection::{Connection, Turn};
use crate::server::design::{Accepted, COMMON, Design, Run};
use crate::server::shares::Shares;
use crate::sys::descriptor::set_nonblocking;
use crate::sys::readiness::epoll::{self, Epoll, EpollFlags};
use crate::transfer::primitive::Waits;
use crate::transfer::waiting::{WAIT, spins};

pub static ENTRY: Design = Design {
    about: About { summary: "One process with an edge-triggered epoll event loop", source: "epoll(7), EPOLLET" },
    waits: Waits::ForReadiness,
    shares: Shares::Turns { accepts: Some(AT_ONCE) },
    settings: &[WAIT],
    serve,
    rests_on: &[&EPOLL],
    ..COMMON
};

/// Maximum turns of one connection, and maximum accepts, before others have their turn.
const AT_ONCE: usize = 16;

fn serve(run: &'static Run) -> Result<()> {
    let mut worker = run.worker()?;
    let listener = worker.listener().as_raw_fd();
    set_nonblocking(worker.listener())?;
    let epoll = Epoll::create()?;
    epoll.add(worker.listener(), EpollFlags::EPOLLIN | EpollFlags::EPOLLET)?;
    let both_ways = EpollFlags::EPOLLIN | EpollFlags::EPOLLOUT | EpollFlags::EPOLLET;
    let mut events = epoll::no_events();
    let sleeps = !spins(&run.settings);
    let mut accepting = true;
    // Connections may be queued: true from the listener's edge until accept finds none.
    let mut queued = false;
    let mut connections: FxHashMap<RawFd, Connection> = FxHashMap::default();
    while accepting || !connections.is_empty() {
        for (descriptor, ready) in epoll.wait(&mut events, sleeps && !queued)? {
            if descriptor == listener {
                queued = true;
                continue;
            }
            let Some(connection) = connections.get_mut(&descriptor) else { continue };
            let mut turn = connection.turn(ready);
            for _ in 1..AT_ONCE {
                if !matches!(turn, Turn::Yields(_)) || connection.has_work() {
                    break;
                }
                turn = connection.another_turn(ready);
            }
            match turn {
                Turn::Blocked(_) => {}
                Turn::Yields(_) => epoll.modify(connection.socket(), both_ways)?,
                Turn::Over => connections.remove(&descriptor).expect("it was there").finish(),
            }
        }
        for _ in 0..AT_ONCE {
            if !queued {
                break;
            }
            match worker.try_accept(libc::SOCK_NONBLOCK) {
                Accepted::Connection(socket) => {
                    let descriptor = socket.as_raw_fd();
                    if let Err(error) = epoll.add(&socket, both_ways) {
                        worker.refused(&error);
                    } else if let Some(connection) = worker.open(socket) {
                        connections.insert(descriptor, connection);
                    }
                }
                Accepted::Nothing => queued = false,
                // Connections are still queued, and no further edge will report them: the next round tries again.
                Accepted::Refused => break,
                Accepted::ShutDown => {
                    epoll.delete(worker.listener())?;
                    queued = false;
                    accepting = false;
                }
            }
        }
    }
    Ok(())
}
