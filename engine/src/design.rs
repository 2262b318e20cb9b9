//! The vocabulary of designs: how connections are accepted and handed to whatever serves them.

use std::os::fd::{AsFd, OwnedFd};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use anyhow::{Context, Result};

use crate::about::About;
use crate::connection::Connection;
use crate::primitive::{Opener, Primitive, Waits};
use crate::setting::{Kind, Setting, Settings};
use crate::sys;
use crate::tally::{ErrorKind, Slot, Tally};
use crate::workload::Service;

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
}

/// The size of a pool, for designs that have one.
pub const POOL: Setting = Setting {
    name: "pool",
    help: "Processes or threads made beforehand",
    unit: Some("workers"),
    kind: Kind::Integer { minimum: 1, maximum: 4096, default: 15 },
};

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
    /// The listening socket, blocking.
    pub listener: OwnedFd,
    /// The complete settings.
    pub settings: Settings,
    /// Where everything is counted.
    pub tally: &'static Tally,
    /// The serving end of the workload.
    pub service: Box<dyn Service>,
    /// How bytes are moved.
    pub primitive: &'static Primitive,
}

impl Run {
    /// The size of the pool; panics where the design has none.
    pub fn pool(&self) -> usize {
        pool(&self.settings)
    }

    /// A worker of the pool, counted from 0. To be made where it runs: after the fork, in its thread.
    pub fn pool_worker(&'static self, index: usize) -> Result<Worker> {
        self.worker_with(self.tally.worker(index))
    }

    /// A worker that is not of a pool; all of these are counted together. To be made where it runs.
    pub fn worker(&'static self) -> Result<Worker> {
        self.worker_with(self.tally.shared())
    }

    /// One that accepts for others to serve.
    pub fn acceptor(&'static self) -> Acceptor {
        Acceptor { run: self, slot: self.tally.shared() }
    }

    fn worker_with(&'static self, slot: &'static Slot) -> Result<Worker> {
        let opener = (self.primitive.prepare)(&self.settings)
            .inspect_err(|error| slot.error(ErrorKind::of(error)))
            .context("the primitive could not be prepared")?;
        Ok(Worker { acceptor: Acceptor { run: self, slot }, opener })
    }
}

/// Whoever accepts.
pub struct Acceptor {
    run: &'static Run,
    slot: &'static Slot,
}

impl Acceptor {
    /// Waits in accept for the next connection; `None` once the listener has been shut down.
    pub fn accept(&mut self) -> Option<OwnedFd> {
        loop {
            match sys::socket::accept(self.run.listener.as_fd()) {
                Ok(socket) => return Some(socket),
                Err(error) => match error.raw_os_error() {
                    Some(libc::EINVAL) => return None,
                    Some(libc::EINTR) => {}
                    _ => self.refused(&error),
                },
            }
        }
    }

    /// Tallies what kept a connection from being served. Where something has run out it waits a little: the shortage
    /// lasts until another connection ends, and asking again at once would only burn CPU time.
    pub fn refused(&self, error: &std::io::Error) {
        let kind = match error.raw_os_error() {
            // Of fork and of pthread_create: a limit on processes or threads.
            Some(libc::EAGAIN) => ErrorKind::ResourceLimit,
            _ => ErrorKind::of(error),
        };
        self.slot.error(kind);
        if kind == ErrorKind::ResourceLimit {
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

/// A process or thread that serves, and accepts where it does so for itself.
pub struct Worker {
    acceptor: Acceptor,
    opener: Box<dyn Opener>,
}

impl Worker {
    /// As [`Acceptor::accept`].
    pub fn accept(&mut self) -> Option<OwnedFd> {
        self.acceptor.accept()
    }

    /// Begins to serve a connection, for a design with an event loop, which then calls [`Connection::advance`]. `None`
    /// when that is not possible, which is tallied.
    pub fn open(&mut self, socket: OwnedFd) -> Option<Connection> {
        let Acceptor { run, slot } = self.acceptor;
        let transfer = self.opener.open().inspect_err(|error| self.acceptor.refused(error)).ok()?;
        Some(Connection::new(socket, run.service.open(), transfer, slot))
    }

    /// Serves a connection until its end. Whatever goes wrong with it is tallied and goes no further.
    pub fn serve(&mut self, socket: OwnedFd) {
        let Some(mut connection) = self.open(socket) else { return };
        if catch_unwind(AssertUnwindSafe(|| connection.serve())).is_err() {
            self.acceptor.slot.error(ErrorKind::Fault);
        }
        connection.finish();
    }
}
