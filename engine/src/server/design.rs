//! Types of designs: how connections are accepted and handed to the workers that serve them.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use anyhow::{Context, Result};

use crate::base::about::About;
use crate::base::feature::{self, RestsOn};
use crate::base::setting::{Kind, Setting, Settings};
use crate::base::unit::Unit;
use crate::count::tally::{ErrorKind, Slot, Tally};
use crate::protocol::workload::Service;
use crate::server::connection::{Connection, has_computed};
use crate::server::shares::Shares;
use crate::sys;
use crate::transfer::channel::{Channel, Openers, Way};
use crate::transfer::primitive::{Receiver, Sender, Waits};

/// A registered design. Its name is that of its file.
pub struct Design {
    /// Description, and its source.
    pub about: About,
    /// Way in which the design waits for its sockets.
    pub waits: Waits,
    /// How clients whose requests need computing share the server; by workers in most designs ([`COMMON`]).
    pub shares: Shares,
    /// Settings of the design.
    pub settings: &'static [Setting],
    /// Size of its pool; 0 if it has none.
    pub workers: fn(&Settings) -> usize,
    /// Serves until the listener is shut down, and then until all accepted connections are served.
    pub serve: fn(&'static Run) -> Result<()>,
    /// Process or thread that the design creates for every connection; `None` for most designs ([`COMMON`]).
    pub makes: Option<Makes>,
    /// Number of listeners, all on the same address; one in most designs ([`COMMON`]).
    pub listeners: fn(&Settings) -> usize,
    /// Reason why the design supports only TCP; `None` if it supports any stream socket, as most designs do
    /// ([`COMMON`]).
    pub tcp_only: Option<&'static str>,
    /// The design always busy-polls, whatever its settings; few designs do ([`COMMON`]).
    pub spins: bool,
    /// Kernel features that the design needs in order to run.
    pub rests_on: RestsOn,
    /// Refuses contradictory settings before the server starts; most designs have none ([`COMMON`]).
    pub check: fn(&Settings) -> Result<()>,
}

impl Design {
    /// Returns why the design cannot run on this machine; `None` if it can.
    pub fn unavailable(&self) -> Option<String> {
        feature::missing(self.rests_on)
    }
}

/// Process or thread that a design creates for every connection, and that ends with it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Makes {
    /// A process (fork(2)).
    Process,
    /// A thread (pthread_create(3)).
    Thread,
}

/// Defaults shared by most designs: an entry ends with `..COMMON`.
pub const COMMON: Design = Design {
    about: About { summary: "", source: "" },
    waits: Waits::InTheCall,
    shares: Shares::Workers,
    settings: &[],
    workers: no_pool,
    serve: |_| Ok(()),
    makes: None,
    listeners: |_| 1,
    tcp_only: None,
    spins: false,
    rests_on: &[],
    check: |_| Ok(()),
};

/// Maximum size of a pool: enough for ten thousand connections with one worker each, and the maximum number of threads
/// of the standard library at the default `vm.max_map_count` (65,530). A thread takes four mappings: its stack, its
/// alternate signal stack for reporting an overflow, and a guard page for each.
pub const MOST_WORKERS: u64 = 16_000;

/// Size of the pool, for designs with a pool.
pub const POOL: Setting = Setting {
    name: "pool",
    help: "Size of the pool: processes or threads created at the start",
    unit: Unit::Of("workers"),
    kind: Kind::Integer { minimum: 1, maximum: MOST_WORKERS, default: 15 },
    for_more: None,
};

/// Maximum connections accepted per turn of an event loop after requests have been computed.
pub const ACCEPTS_IN_A_TURN: usize = 64;

/// Wait after a resource has run out.
const SHORTAGE: Duration = Duration::from_millis(10);

/// For [`Design::workers`] of a design with the setting [`POOL`].
pub fn pool(settings: &Settings) -> usize {
    settings.integer(POOL.name) as usize
}

/// For [`Design::workers`] of a design without a pool.
pub fn no_pool(_settings: &Settings) -> usize {
    0
}

/// One life of a server: the input of a design.
pub struct Run {
    /// The listening sockets, blocking: one, or as many as the design needs.
    pub listeners: Vec<OwnedFd>,
    /// The complete settings.
    pub settings: Settings,
    /// Counters of the server.
    pub tally: &'static Tally,
    /// Server side of the workload.
    pub service: Box<dyn Service>,
    /// Primitives that move the bytes.
    pub way: Way,
    /// How long a client may be idle; `None`: for ever.
    pub idle_limit: Option<Duration>,
}

impl Run {
    /// The size of the pool; panics where the design has none.
    pub fn pool(&self) -> usize {
        pool(&self.settings)
    }

    /// The listening socket; the first if there are several.
    pub fn listener(&self) -> &OwnedFd {
        &self.listeners[0]
    }

    /// Makes a worker of the pool, counted from 0. Call it where the worker runs: after the fork, or in its thread. The
    /// worker accepts from its own listener if there is one per worker.
    pub fn pool_worker(&'static self, index: usize) -> Result<Worker> {
        self.worker_with(self.tally.worker(index), &self.listeners[index % self.listeners.len()])
    }

    /// Makes a worker outside of any pool; all of these are counted together. Call it where the worker runs.
    pub fn worker(&'static self) -> Result<Worker> {
        self.worker_with(self.tally.shared(), self.listener())
    }

    /// Makes an acceptor for a design whose workers do not accept.
    pub fn acceptor(&'static self) -> Acceptor {
        Acceptor { run: self, slot: self.tally.shared(), listener: self.listener() }
    }

    fn worker_with(&'static self, slot: &'static Slot, listener: &'static OwnedFd) -> Result<Worker> {
        let prepared = self.way.prepare(&self.settings).inspect_err(|error| slot.error(ErrorKind::of(error)));
        let openers = prepared.context("cannot prepare the primitives")?;
        Ok(Worker { acceptor: Acceptor { run: self, slot, listener }, openers })
    }
}

/// Accepts connections.
pub struct Acceptor {
    run: &'static Run,
    slot: &'static Slot,
    listener: &'static OwnedFd,
}

/// Result of one accept.
pub enum Accepted {
    /// A connection.
    Connection(OwnedFd),
    /// No connection was waiting (EAGAIN): another worker was faster, or all have been accepted.
    Nothing,
    /// The accept failed; the reason has been tallied.
    Refused,
    /// The listener has been shut down: open connections are served to their end, and no more will come.
    ShutDown,
}

impl Acceptor {
    /// Blocks in accept until the next connection; `None` once the listener has been shut down.
    pub fn accept(&mut self) -> Option<OwnedFd> {
        loop {
            match self.try_accept(0) {
                Accepted::Connection(socket) => return Some(socket),
                Accepted::ShutDown => return None,
                Accepted::Nothing | Accepted::Refused => {}
            }
        }
    }

    /// As [`Acceptor::accept`], for a worker that may be told to leave: checks this before it waits, and after a signal
    /// has interrupted the wait. If a connection comes first, it is returned all the same.
    pub fn accept_unless(&mut self, told: impl Fn() -> bool) -> Option<OwnedFd> {
        while !told() {
            match self.accept_once(0) {
                Some(Accepted::Connection(socket)) => return Some(socket),
                Some(Accepted::ShutDown) => return None,
                Some(Accepted::Nothing | Accepted::Refused) | None => {}
            }
        }
        None
    }

    /// Accepts once, with flags of accept4(2): SOCK_NONBLOCK for a connection of an event loop.
    pub fn try_accept(&mut self, flags: libc::c_int) -> Accepted {
        loop {
            if let Some(accepted) = self.accept_once(flags) {
                return accepted;
            }
        }
    }

    /// `None` if a signal has interrupted the call.
    fn accept_once(&mut self, flags: libc::c_int) -> Option<Accepted> {
        let error = match sys::socket::accept(self.listener.as_fd(), flags) {
            Ok(socket) => return Some(Accepted::Connection(socket)),
            Err(error) => error,
        };
        match error.raw_os_error() {
            Some(libc::EINTR) => None,
            Some(libc::EINVAL) => Some(Accepted::ShutDown),
            Some(libc::EAGAIN) => Some(Accepted::Nothing),
            _ => {
                self.refused(&error);
                Some(Accepted::Refused)
            }
        }
    }

    /// Counts a wake-up that found nothing to do, because another worker had taken the connection.
    pub fn woke_for_nothing(&self) {
        self.slot.empty_wakeups.fetch_add(1, Relaxed);
    }

    /// Tallies an error that kept a connection from being served. If a resource has run out, waits a little: the
    /// shortage lasts until another connection ends, and retrying at once would only burn CPU time.
    pub fn refused(&self, error: &std::io::Error) {
        if let Some(pause) = self.tally_refusal(error) {
            std::thread::sleep(pause);
        }
    }

    /// As [`Acceptor::refused`], for a design that waits by itself: returns how long to wait.
    pub fn tally_refusal(&self, error: &std::io::Error) -> Option<Duration> {
        let kind = match error.raw_os_error() {
            // EAGAIN from fork or pthread_create: a limit on processes or threads.
            Some(libc::EAGAIN) => ErrorKind::ResourceLimit,
            _ => ErrorKind::of(error),
        };
        self.slot.error(kind);
        (kind == ErrorKind::ResourceLimit).then_some(SHORTAGE)
    }
}

/// A process or thread that serves, and that accepts in designs where workers do.
pub struct Worker {
    acceptor: Acceptor,
    openers: Openers,
}

impl Worker {
    /// As [`Acceptor::accept`].
    pub fn accept(&mut self) -> Option<OwnedFd> {
        self.acceptor.accept()
    }

    /// As [`Acceptor::accept_unless`].
    pub fn accept_unless(&mut self, told: impl Fn() -> bool) -> Option<OwnedFd> {
        self.acceptor.accept_unless(told)
    }

    /// As [`Acceptor::try_accept`].
    pub fn try_accept(&mut self, flags: libc::c_int) -> Accepted {
        self.acceptor.try_accept(flags)
    }

    /// Accepts in a turn of an event loop that shares its listener with no other worker: one connection. If requests have
    /// been computed since, connections have queued up meanwhile, and up to [`ACCEPTS_IN_A_TURN`] are accepted: none of
    /// them waits for further turns.
    pub fn accept_in_turn(&mut self, flags: libc::c_int) -> Vec<Accepted> {
        let most = if has_computed() { ACCEPTS_IN_A_TURN } else { 1 };
        let mut accepted = vec![self.try_accept(flags)];
        while accepted.len() < most && matches!(accepted.last(), Some(Accepted::Connection(_))) {
            match self.try_accept(flags) {
                Accepted::Nothing => break,
                another => accepted.push(another),
            }
        }
        accepted
    }

    /// As [`Acceptor::woke_for_nothing`].
    pub fn woke_for_nothing(&self) {
        self.acceptor.woke_for_nothing();
    }

    /// As [`Acceptor::refused`].
    pub fn refused(&self, error: &std::io::Error) {
        self.acceptor.refused(error);
    }

    /// The listener from which this worker accepts.
    pub fn listener(&self) -> BorrowedFd<'static> {
        self.acceptor.listener.as_fd()
    }

    /// Starts to serve a connection in an event loop, which then calls [`Connection::turn`] or [`Connection::advance`].
    /// `None` if that failed, which is tallied.
    pub fn open(&mut self, socket: OwnedFd) -> Option<Connection> {
        let Acceptor { run, slot, .. } = self.acceptor;
        run.tally.general().first_connection.note(socket.as_fd());
        match self.openers.open(socket, slot) {
            Ok(channel) => Some(Connection::new(channel, run.service.open(), run.idle_limit)),
            Err(error) => {
                self.acceptor.refused(&error);
                None
            }
        }
    }

    /// As [`Worker::open`], for a design that moves the bytes itself.
    pub fn open_with(&mut self, socket: OwnedFd, sender: Box<dyn Sender>, receiver: Box<dyn Receiver>) -> Connection {
        let Acceptor { run, slot, .. } = self.acceptor;
        run.tally.general().first_connection.note(socket.as_fd());
        Connection::new(Channel::new(socket, sender, receiver, slot), run.service.open(), run.idle_limit)
    }

    /// Serves a connection to its end. Any error is tallied and affects no other connection.
    pub fn serve(&mut self, socket: OwnedFd) {
        let Some(mut connection) = self.open(socket) else { return };
        connection.serve();
        connection.finish();
    }
}
