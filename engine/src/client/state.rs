//! Where a client of a load stands: it asks, waits for the reply, pauses, and asks again, until its requests are made, the
//! window is over, or there is no server to be measured.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use crate::client::exchange::{Caller, Failure};
use crate::client::load::{LOOPS, LoadRun, THINK};
use crate::count::tally::Slot;
use crate::sys::signal;
use crate::transfer::channel::{Channel, Openers};

/// A client that fails so often in a row gives up: there is no server to be measured.
const FAILURES_IN_A_ROW: u32 = 3;

/// Time between two of the connections that are made before anybody asks. A server that makes a thread for each keeps up
/// with that; where the queue of those to be accepted runs over, TCP tries again only after a second.
pub const CONNECT_INTERVAL: Duration = Duration::from_micros(100);

/// What every client of a load decides in the same way, whatever it waits in.
pub struct ClientState<'run> {
    pub(super) run: &'run LoadRun,
    pub(super) slot: &'static Slot,
    number: usize,
    left: u64,
    failures: u32,
    /// Requests that count.
    counted: u64,
}

impl<'run> ClientState<'run> {
    /// Of the client with this number, counted from 1 as it is shown, that makes so many requests.
    pub fn new(run: &'run LoadRun, slot: &'static Slot, number: usize, requests: u64) -> Self {
        ClientState { run, slot, number, left: requests, failures: 0, counted: 0 }
    }

    /// The number of the client, counted from 1.
    pub fn number(&self) -> usize {
        self.number
    }

    /// Whether the client makes another request at this moment.
    pub fn goes_on(&self, at: u64) -> bool {
        self.goes_on_beside(0, at)
    }

    /// The same of one that has so many which are not over.
    pub fn goes_on_beside(&self, requests: u64, at: u64) -> bool {
        self.left > requests && self.perseveres() && !self.run.window.is_over(at)
    }

    /// Whether the client has not given up.
    pub fn perseveres(&self) -> bool {
        self.failures < FAILURES_IN_A_ROW && !signal::interrupted()
    }

    /// The client will make no other request.
    pub fn give_up(&mut self) {
        self.failures = FAILURES_IN_A_ROW;
    }

    /// A reply came and was right. It counts if that was within the load's window.
    pub fn answered(&mut self, caller: &mut Caller<'_>, at: u64) {
        self.left -= 1;
        self.failures = 0;
        if self.run.window.contains(at) {
            self.counted += 1;
            caller.counts();
        }
    }

    /// A request failed, or the connection that was made for it.
    pub fn failed(&mut self, failure: &Failure) {
        self.failed_together(1, failure);
    }

    /// So many requests failed with the connection that they were sent over: in a row, that is one failure.
    pub fn failed_together(&mut self, requests: u64, failure: &Failure) {
        self.slot.errors(failure.kind, requests);
        self.run.first_error.note(&failure.message);
        if let Some(show) = &self.run.show {
            show.failed(self.number, &failure.message);
        }
        self.left -= requests;
        self.failures += 1;
    }

    /// A connection that has just been made.
    pub fn caller(&self, socket: OwnedFd, openers: &mut Openers) -> Result<Caller<'run>, Failure> {
        self.open(socket, |socket, slot| openers.open(socket, slot))
    }

    /// The same, of which a channel is made in this way.
    pub fn open(
        &self,
        socket: OwnedFd,
        open: impl FnOnce(OwnedFd, &'static Slot) -> std::io::Result<Channel>,
    ) -> Result<Caller<'run>, Failure> {
        self.run.tally.general().first_connection.note(socket.as_fd());
        let channel = open(socket, self.slot).map_err(|error| {
            // It was made all the same, and the server counts it.
            self.slot.connections.fetch_add(1, Relaxed);
            self.slot.closed.fetch_add(1, Relaxed);
            Failure::system("preparing a connection", &error)
        })?;
        let shown = self.run.show.as_ref().map(|show| show.client(self.number));
        let patience = self.run.target.patience;
        Ok(Caller::new(channel, self.run.client.as_ref(), shown, &self.run.window, patience))
    }
}

impl Drop for ClientState<'_> {
    /// At its end: a counter that every request touched would be on a cache line with those of other clients.
    fn drop(&mut self) {
        self.run.by_client.set(self.number, self.counted);
    }
}

/// How many requests each client makes: those of the setting, or any number in a load that ends by time.
pub fn requests_each(run: &LoadRun) -> u64 {
    if run.is_timed() { u64::MAX } else { run.settings.integer(LOOPS.name) }
}

/// The pause of a client in nanoseconds.
pub fn pause(run: &LoadRun) -> u64 {
    run.settings.integer(THINK.name) * 1000
}
