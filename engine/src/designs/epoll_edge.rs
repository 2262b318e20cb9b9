//! One process waits for many connections with epoll, edge-triggered, and serves whichever has become ready.
//!
//! What is ready is said once: whoever does not go on until the call would block is not told again. So reads, writes and
//! accepts are drained, and what is left undone, for a time or for a shortage, is remembered.

use std::collections::HashMap;
use std::os::fd::{AsRawFd, RawFd};

use anyhow::Result;

use crate::base::about::About;
use crate::base::feature::EPOLL;
use crate::server::connection::{Connection, Turn};
use crate::server::design::{Accepted, COMMON, Design, Run};
use crate::sys::descriptor::set_nonblocking;
use crate::sys::readiness::epoll::{self, Epoll, EpollFlags};
use crate::transfer::primitive::Waits;
use crate::transfer::waiting::{WAIT, spins};

pub static ENTRY: Design = Design {
    about: About { summary: "One process with an edge-triggered epoll event loop", source: "epoll(7), EPOLLET" },
    waits: Waits::ForReadiness,
    settings: &[WAIT],
    serve,
    rests_on: &[&EPOLL],
    ..COMMON
};

/// Turns that a connection takes, and connections that are accepted, before others have theirs.
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
    // Connections may be waiting: true from the listener's edge until accept has found none.
    let mut queued = false;
    let mut connections: HashMap<RawFd, Connection> = HashMap::new();
    while accepting || !connections.is_empty() {
        for (descriptor, ready) in epoll.wait(&mut events, sleeps && !queued)? {
            if descriptor == listener {
                queued = true;
                continue;
            }
            let Some(connection) = connections.get_mut(&descriptor) else { continue };
            let mut turn = connection.turn(ready);
            for _ in 1..AT_ONCE {
                if !matches!(turn, Turn::Yields(_)) {
                    break;
                }
                turn = connection.turn(ready);
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
                // Still queued, and of that there is no edge: the next round tries again.
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
