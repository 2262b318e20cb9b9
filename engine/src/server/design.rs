//! The vocabulary of designs: how connections are accepted and handed to whatever serves them.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use anyhow::{Context, Result};

use crate::base::about::About;
use crate::base::feature::{self, RestsOn};
use crate::base::setting::{Kind, Setting, Settings};
use crate::count::tally::{ErrorKind, Slot, Tally};
use crate::protocol::workload::Service;
use crate::server::connection::Connection;
use crate::sys;
use crate::transfer::channel::{Channel, Openers, Way};
use crate::transfer::primitive::{Receiver, Sender, Waits};

/// A registered design. Its file's name is its name.
pub struct Design {
    /// What it is and where it is described.
    pub about: About,
    /// How it waits for its sockets.
    pub waits: Waits,
    /// Its own settings.
    pub settings: &'static [Setting],
    /// The size of its pool; 0 where there is none.
    pub workers: fn(&Settings) -> usize,
    /// Serves until the listener is shut down, and then until what it has accepted is served.
    pub serve: fn(&'static Run) -> Result<()>,
    /// What it makes anew for every connection; `None` where it makes nothing, as most designs do ([`COMMON`]).
    pub makes: Option<Makes>,
    /// How many listeners it wants, all on the same address; one in most designs ([`COMMON`]).
    pub listeners: fn(&Settings) -> usize,
    /// Why it can serve over TCP alone; `None` where any stream socket will do, as in most designs ([`COMMON`]).
    pub tcp_only: Option<&'static str>,
    /// It never sleeps, whatever it is told; few designs do that ([`COMMON`]).
    pub spins: bool,
    /// What of the kernel it rests on; without any of it, it cannot run.
    pub rests_on: RestsOn,
    /// Refuses settings that contradict each other, before anything is started; in most designs none do ([`COMMON`]).
    pub check: fn(&Settings) -> Result<()>,
}

impl Design {
    /// Why it cannot run on this machine; `None` where it can.
    pub fn unavailable(&self) -> Option<String> {
        feature::missing(self.rests_on)
    }
}

/// What a design makes anew for every connection, which ends with it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Makes {
    /// A process (fork(2)).
    Process,
    /// A thread (pthread_create(3)).
    Thread,
}

/// What most designs have in common: the end of their entry is `..COMMON`.
pub const COMMON: Design = Design {
    about: About { summary: "", source: "" },
    waits: Waits::InTheCall,
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

/// The most workers that a pool may have: enough for ten thousand connections with a worker for each, and as many as the
/// standard library's threads may be where nobody has raised `vm.max_map_count`. It is 65,530, and a thread takes four
/// mappings: its stack, the stack on which it would report that the first has overflowed, and a page that guards each.
pub const MOST_WORKERS: u64 = 16_000;

/// The size of a pool, for designs that have one.
pub const POOL: Setting = Setting {
    name: "pool",
    help: "Size of the pool: processes or threads created at the start",
    unit: Some("workers"),
    kind: Kind::Integer { minimum: 1, maximum: MOST_WORKERS, default: 15 },
    for_more: None,
};

/// How long to wait where something has run out.
const SHORTAGE: Duration = Duration::from_millis(10);

/// For [`Design::workers`] of a design with the setting [`POOL`].
pub fn pool(settings: &Settings) -> usize {
    settings.integer(POOL.name) as usize
}

/// For [`Design::workers`] of a design that has no pool.
pub fn no_pool(_settings: &Settings) -> usize {
    0
}

/// One life of a server: what its design is given.
pub struct Run {
    /// The listening sockets, blocking: one, or as many as the design asked for.
    pub listeners: Vec<OwnedFd>,
    /// The complete settings.
    pub settings: Settings,
    /// Where everything is counted.
    pub tally: &'static Tally,
    /// The serving end of the workload.
    pub service: Box<dyn Service>,
    /// How bytes are moved.
    pub way: Way,
}

impl Run {
    /// The size of the pool; panics where the design has none.
    pub fn pool(&self) -> usize {
        pool(&self.settings)
    }

    /// The listening socket; the first, where there are several.
    pub fn listener(&self) -> &OwnedFd {
        &self.listeners[0]
    }

    /// A worker of the pool, counted from 0. To be made where it runs: after the fork, in its thread. It accepts from a
    /// listener of its own where there is one for every worker.
    pub fn pool_worker(&'static self, index: usize) -> Result<Worker> {
        self.worker_with(self.tally.worker(index), &self.listeners[index % self.listeners.len()])
    }

    /// A worker that is not of a pool; all of these are counted together. To be made where it runs.
    pub fn worker(&'static self) -> Result<Worker> {
        self.worker_with(self.tally.shared(), self.listener())
    }

    /// One that accepts for others to serve.
    pub fn acceptor(&'static self) -> Acceptor {
        Acceptor { run: self, slot: self.tally.shared(), listener: self.listener() }
    }

    fn worker_with(&'static self, slot: &'static Slot, listener: &'static OwnedFd) -> Result<Worker> {
        let prepared = self.way.prepare(&self.settings).inspect_err(|error| slot.error(ErrorKind::of(error)));
        let openers = prepared.context("cannot prepare the primitives")?;
        Ok(Worker { acceptor: Acceptor { run: self, slot, listener }, openers })
    }
}

/// Whoever accepts.
pub struct Acceptor {
    run: &'static Run,
    slot: &'static Slot,
    listener: &'static OwnedFd,
}

/// What one accept brought.
pub enum Accepted {
    /// A connection.
    Connection(OwnedFd),
    /// None was waiting (EAGAIN): another worker was quicker, or all have been taken.
    Nothing,
    /// The connection could not be had; why is tallied.
    Refused,
    /// The listener has been shut down: what is open is served to its end, and nothing more comes.
    ShutDown,
}

impl Acceptor {
    /// Waits in accept for the next connection; `None` once the listener has been shut down.
    pub fn accept(&mut self) -> Option<OwnedFd> {
        loop {
            match self.try_accept(0) {
                Accepted::Connection(socket) => return Some(socket),
                Accepted::ShutDown => return None,
                Accepted::Nothing | Accepted::Refused => {}
            }
        }
    }

    /// As [`Acceptor::accept`], for a worker that may be told to leave: asks before it waits, and again when a signal has
    /// interrupted it. A connection that comes first is returned all the same.
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

    /// Accepts once, with the flags of accept4(2): SOCK_NONBLOCK for a connection that an event loop will serve.
    pub fn try_accept(&mut self, flags: libc::c_int) -> Accepted {
        loop {
            if let Some(accepted) = self.accept_once(flags) {
                return accepted;
            }
        }
    }

    /// `None` when a signal has interrupted the call.
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

    /// Counts a wake-up that found nothing to do: another worker had taken the connection.
    pub fn woke_for_nothing(&self) {
        self.slot.empty_wakeups.fetch_add(1, Relaxed);
    }

    /// Tallies what kept a connection from being served. Where something has run out it waits a little: the shortage
    /// lasts until another connection ends, and asking again at once would only burn CPU time.
    pub fn refused(&self, error: &std::io::Error) {
        if let Some(pause) = self.tally_refusal(error) {
            std::thread::sleep(pause);
        }
    }

    /// As [`Acceptor::refused`], for a design that has a way of its own to wait: says for how long.
    pub fn tally_refusal(&self, error: &std::io::Error) -> Option<Duration> {
        let kind = match error.raw_os_error() {
            // Of fork and of pthread_create: a limit on processes or threads.
            Some(libc::EAGAIN) => ErrorKind::ResourceLimit,
            _ => ErrorKind::of(error),
        };
        self.slot.error(kind);
        (kind == ErrorKind::ResourceLimit).then_some(SHORTAGE)
    }
}

/// A process or thread that serves, and accepts where it does so for itself.
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

    /// As [`Acceptor::woke_for_nothing`].
    pub fn woke_for_nothing(&self) {
        self.acceptor.woke_for_nothing();
    }

    /// As [`Acceptor::refused`].
    pub fn refused(&self, error: &std::io::Error) {
        self.acceptor.refused(error);
    }

    /// Where it accepts.
    pub fn listener(&self) -> BorrowedFd<'static> {
        self.acceptor.listener.as_fd()
    }

    /// Begins to serve a connection, for a design with an event loop, which then calls [`Connection::turn`] or
    /// [`Connection::advance`]. `None` when that is not possible, which is tallied.
    pub fn open(&mut self, socket: OwnedFd) -> Option<Connection> {
        let Acceptor { run, slot, .. } = self.acceptor;
        run.tally.general().first_connection.note(socket.as_fd());
        let channel = self.openers.open(socket, slot).inspect_err(|error| self.acceptor.refused(error)).ok()?;
        Some(Connection::new(channel, run.service.open()))
    }

    /// As [`Worker::open`], for a design that moves the bytes itself.
    pub fn open_with(&mut self, socket: OwnedFd, sender: Box<dyn Sender>, receiver: Box<dyn Receiver>) -> Connection {
        let Acceptor { run, slot, .. } = self.acceptor;
        run.tally.general().first_connection.note(socket.as_fd());
        Connection::new(Channel::new(socket, sender, receiver, slot), run.service.open())
    }

    /// Serves a connection until its end. Whatever goes wrong with it is tallied and goes no further.
    pub fn serve(&mut self, socket: OwnedFd) {
        let Some(mut connection) = self.open(socket) else { return };
        connection.serve();
        connection.finish();
    }
}
