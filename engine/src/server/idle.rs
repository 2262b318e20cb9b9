//! Connections whose clients are idle for too long, and are closed: one thread of a process looks at all of them.
//!
//! It shuts a socket down (shutdown(2)), which ends every wait for it: the blocking call of a worker, epoll_wait(2) and a
//! ring. So no design needs a timer. Without a limit there is no thread.

use std::os::fd::RawFd;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use nix::sys::socket::{Shutdown, shutdown};
use nix::unistd::{Pid, getpid};

use crate::sys::clock::now;
use crate::sys::thread::without_signals;

/// The longest sleep of the thread, in nanoseconds.
const LONGEST_NAP: u64 = 500_000_000;

/// Connections of this process that have a limit.
static WATCHED: Mutex<Watched> = Mutex::new(Watched { process: None, connections: Vec::new() });

struct Watched {
    /// Process whose thread looks: a forked child has no such thread.
    process: Option<Pid>,
    connections: Vec<Arc<State>>,
}

struct State {
    socket: RawFd,
    /// Nanoseconds for which the connection may be idle.
    limit: u64,
    /// Time of its last activity (CLOCK_MONOTONIC, nanoseconds).
    active: AtomicU64,
}

/// A watched connection. To be dropped before its socket is closed, since another connection may get its descriptor.
pub struct Watch(Arc<State>);

impl Watch {
    /// Watches the socket of a connection that may be idle for this long. Without a thread nothing is closed.
    pub fn new(socket: RawFd, limit: Duration) -> Self {
        let limit = limit.as_nanos() as u64;
        let state = Arc::new(State { socket, limit, active: AtomicU64::new(now()) });
        let mut watched = watched();
        if watched.process != Some(getpid()) {
            // The connections of the parent are its own.
            watched.connections.clear();
            let spawned = without_signals(|| thread::Builder::new().spawn(look)).is_ok_and(|spawned| spawned.is_ok());
            watched.process = spawned.then(getpid);
        }
        watched.connections.push(Arc::clone(&state));
        Watch(state)
    }

    /// Notes that the connection is active.
    pub fn touch(&self) {
        self.0.active.store(now(), Relaxed);
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        let mut watched = watched();
        if let Some(place) = watched.connections.iter().position(|other| Arc::ptr_eq(other, &self.0)) {
            watched.connections.swap_remove(place);
        }
    }
}

fn watched() -> MutexGuard<'static, Watched> {
    WATCHED.lock().unwrap_or_else(PoisonError::into_inner)
}

fn look() {
    loop {
        let mut nap = LONGEST_NAP;
        let at = now();
        for State { socket, limit, active } in watched().connections.iter().map(AsRef::as_ref) {
            let idle = at.saturating_sub(active.load(Relaxed));
            if idle >= *limit {
                // An error means that the peer has reset the connection.
                let _ = shutdown(*socket, Shutdown::Both);
            }
            nap = nap.min((limit.saturating_sub(idle)).max(limit / 4).max(1_000_000));
        }
        thread::sleep(Duration::from_nanos(nap));
    }
}
