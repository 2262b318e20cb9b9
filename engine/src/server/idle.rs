//! Connections whose clients are idle for too long, and are closed: one thread of a process looks at all of them. A
//! connection is not idle while a request is computed or a reply is sent, however slowly its client reads.
//!
//! It shuts a socket down (shutdown(2)), which ends every wait for it: the blocking call of a worker, epoll_wait(2) and a
//! ring. So no design needs a timer. Without a limit there is no thread.

use std::os::fd::RawFd;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use nix::sys::socket::{MsgFlags, Shutdown, recv, shutdown};
use nix::unistd::{Pid, getpid};

use crate::base::setting::{Kind, Setting, Settings};
use crate::base::unit::{HOUR, MILLISECOND, Unit};
use crate::sys::clock::now;
use crate::sys::thread::without_signals;

/// Time for which an idle client keeps its connection.
pub const IDLE_TIMEOUT: Setting = Setting {
    name: "idle_timeout",
    help: "Time after which the server closes the connection of an idle client; 0: never, so that idle clients hold the \
           workers of a pool",
    unit: Unit::Time { resolution: MILLISECOND },
    kind: Kind::Integer { minimum: 0, maximum: HOUR, default: 0 },
    for_more: Some("for more, use 0: idle connections are kept"),
};

/// Returns the limit of a server's settings; `None`: idle connections are kept for ever.
pub fn limit(settings: &Settings) -> Option<Duration> {
    Some(settings.time(IDLE_TIMEOUT.name)).filter(|limit| !limit.is_zero())
}

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
    /// Time since which the server waits for its client (CLOCK_MONOTONIC, nanoseconds), or [`SERVED`].
    since: AtomicU64,
    /// That time, as the last look found it too long ago.
    suspected: AtomicU64,
}

/// The connection is being served.
const SERVED: u64 = u64::MAX;

/// A watched connection. To be dropped before its socket is closed, since another connection may get its descriptor.
pub struct Watch(Arc<State>);

impl Watch {
    /// Watches the socket of a connection that may be idle for this long. Without a thread nothing is closed.
    pub fn new(socket: RawFd, limit: Duration) -> Self {
        let limit = limit.as_nanos() as u64;
        let state = Arc::new(State { socket, limit, since: AtomicU64::new(now()), suspected: AtomicU64::new(SERVED) });
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

    /// Notes that data has arrived, or is to be sent.
    pub fn serves(&self) {
        self.0.since.store(SERVED, Relaxed);
    }

    /// Notes that the server waits for its client, at the latest since now.
    pub fn waits(&self) {
        if self.0.since.load(Relaxed) == SERVED {
            self.0.since.store(now(), Relaxed);
        }
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

/// Whether data of the client waits for the server, which is late then, on a busy machine: the client is not idle.
fn has_unread(socket: RawFd) -> bool {
    recv(socket, &mut [0], MsgFlags::MSG_PEEK | MsgFlags::MSG_DONTWAIT).is_ok_and(|bytes| bytes > 0)
}

fn look() {
    loop {
        let mut nap = LONGEST_NAP;
        let at = now();
        for State { socket, limit, since, suspected } in watched().connections.iter().map(AsRef::as_ref) {
            let since = since.load(Relaxed);
            // Being served is later than any time.
            let idle = at.saturating_sub(since);
            // The second look gives a server that had no CPU time the chance to see a request that its ring has received.
            if idle >= *limit && !has_unread(*socket) && suspected.swap(since, Relaxed) == since {
                // An error means that the peer has reset the connection.
                let _ = shutdown(*socket, Shutdown::Both);
            }
            nap = nap.min((limit.saturating_sub(idle)).max(limit / 4).max(1_000_000));
        }
        thread::sleep(Duration::from_nanos(nap));
    }
}
