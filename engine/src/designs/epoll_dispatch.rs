//! One thread accepts, and hands each connection to the next of several event loops, which serves it to its end.
//!
//! memcached has this design. Every loop has a queue of new connections, and a descriptor that wakes the loop from
//! epoll_wait when a connection is queued. Event loops share no other data.

use std::io;
use std::mem::take;
use std::os::fd::{AsFd, AsRawFd, OwnedFd, RawFd};
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Mutex, MutexGuard, PoisonError};

use anyhow::{Context, Result};
use rustc_hash::FxHashMap;

use crate::base::about::About;
use crate::base::feature::{EPOLL, EVENTFD, THREADS};
use crate::server::connection::{Connection, Turn};
use crate::server::design::{Accepted, COMMON, Design, POOL, Run, pool};
use crate::server::pool::threads;
use crate::server::shares::Shares;
use crate::sys::descriptor::{EventDescriptor, PollFlags};
use crate::sys::readiness::epoll::{self, Epoll, EpollFlags};
use crate::transfer::primitive::Waits;

pub static ENTRY: Design = Design {
    about: About {
        summary: "One thread accepts and hands connections to epoll event loops, one thread each",
        source: "memcached 1.6, doc/threads.txt; epoll(7)",
    },
    waits: Waits::ForReadiness,
    shares: Shares::Turns { accepts: None },
    settings: &[POOL],
    workers: pool,
    serve,
    rests_on: &[&THREADS, &EPOLL, &EVENTFD],
    ..COMMON
};

fn serve(run: &'static Run) -> Result<()> {
    // Created before the first connection, since many connections may use up all descriptors.
    let loops: io::Result<Vec<(Epoll, Queue)>> =
        (0..run.pool()).map(|_| Ok((Epoll::create()?, Queue::new()?))).collect();
    let loops = loops.context("cannot create the event loops (lower --pool, or raise ulimit -n)")?;
    let accept = || {
        let mut acceptor = run.acceptor();
        let mut next = loops.iter().cycle();
        loop {
            match acceptor.try_accept(libc::SOCK_NONBLOCK) {
                Accepted::Connection(socket) => {
                    run.tally.general().handed_over.fetch_add(1, Relaxed);
                    next.next().expect("a pool is not empty").1.put(socket);
                }
                Accepted::Nothing | Accepted::Refused => {}
                Accepted::ShutDown => break,
            }
        }
        loops.iter().for_each(|(_, queue)| queue.close());
        Ok(())
    };
    threads(run, |index| event_loop(run, index, &loops[index]), accept)
}

fn event_loop(run: &'static Run, index: usize, (epoll, queue): &(Epoll, Queue)) -> Result<()> {
    let mut worker = run.pool_worker(index)?;
    epoll.add(&queue.event, EpollFlags::EPOLLIN)?;
    let mut events = epoll::no_events();
    let mut closed = false;
    let mut connections: FxHashMap<RawFd, (Connection, PollFlags)> = FxHashMap::default();
    while !closed || !connections.is_empty() {
        for (descriptor, ready) in epoll.wait(&mut events, true)? {
            if descriptor == queue.event.as_fd().as_raw_fd() {
                let new = queue.take();
                closed = new.closed;
                for socket in new.sockets {
                    run.tally.general().handed_over.fetch_sub(1, Relaxed);
                    let descriptor = socket.as_raw_fd();
                    if let Err(error) = epoll.add(&socket, EpollFlags::EPOLLIN) {
                        worker.refused(&error);
                    } else if let Some(connection) = worker.open(socket) {
                        connections.insert(descriptor, (connection, PollFlags::POLLIN));
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

/// Connections on their way to an event loop.
struct Queue {
    waiting: Mutex<Waiting>,
    event: EventDescriptor,
}

#[derive(Default)]
struct Waiting {
    sockets: Vec<OwnedFd>,
    closed: bool,
}

impl Queue {
    fn new() -> io::Result<Self> {
        Ok(Queue { waiting: Mutex::default(), event: EventDescriptor::new()? })
    }

    fn put(&self, socket: OwnedFd) {
        self.lock().sockets.push(socket);
        self.event.notify();
    }

    /// Closes the queue: no more connections will come.
    fn close(&self) {
        self.lock().closed = true;
        self.event.notify();
    }

    /// Takes all queued connections. A connection queued after the first line makes the event readable again.
    fn take(&self) -> Waiting {
        self.event.clear();
        let mut waiting = self.lock();
        Waiting { sockets: take(&mut waiting.sockets), closed: waiting.closed }
    }

    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
