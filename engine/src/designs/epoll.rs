//! One process waits for many connections with level-triggered epoll, and serves the ready ones.
//!
//! The kernel keeps the list of watched descriptors: the cost of a wait depends on the number of ready connections, not
//! on the number of all connections.

use std::os::fd::{AsRawFd, RawFd};

use anyhow::Result;
use rustc_hash::FxHashMap;

use crate::base::about::About;
use crate::base::feature::EPOLL;
use crate::server::connection::{Connection, Turn};
use crate::server::design::{ACCEPTS_IN_A_TURN, Accepted, COMMON, Design, Run};
use crate::server::shares::Shares;
use crate::sys::descriptor::{PollFlags, set_nonblocking};
use crate::sys::readiness::epoll::{self, Epoll, EpollFlags};
use crate::transfer::primitive::Waits;
use crate::transfer::waiting::{WAIT, spins};

pub static ENTRY: Design = Design {
    about: About { summary: "One process with a level-triggered epoll event loop", source: "epoll(7)" },
    waits: Waits::ForReadiness,
    shares: Shares::Turns { accepts: Some(ACCEPTS_IN_A_TURN) },
    settings: &[WAIT],
    serve,
    rests_on: &[&EPOLL],
    ..COMMON
};

fn serve(run: &'static Run) -> Result<()> {
    let mut worker = run.worker()?;
    let listener = worker.listener().as_raw_fd();
    set_nonblocking(worker.listener())?;
    let epoll = Epoll::create()?;
    epoll.add(worker.listener(), EpollFlags::EPOLLIN)?;
    let mut events = epoll::no_events();
    let sleeps = !spins(&run.settings);
    let mut accepting = true;
    let mut connections: FxHashMap<RawFd, (Connection, PollFlags)> = FxHashMap::default();
    while accepting || !connections.is_empty() {
        for (descriptor, ready) in epoll.wait(&mut events, sleeps)? {
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
}
