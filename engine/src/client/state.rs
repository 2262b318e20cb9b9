//! State of a client: it sends a request, waits for the reply, pauses, and repeats, until its requests are done, the
//! window is over, or there is no server to measure.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use crate::base::setting::Value;
use crate::client::exchange::{Caller, Failure};
use crate::client::load::{GIVE_UP, LOOPS, LoadRun, THINK};
use crate::count::tally::{ErrorKind, Slot};
use crate::sys::clock::now;
use crate::sys::signal;
use crate::transfer::channel::{Channel, Openers};

/// Failures in a row after which a client gives up in a load without a reply, unless the user gave another number: there is no
/// server to measure.
const WITHOUT_A_REPLY: u64 = 3;

/// Pause after the second failure in a row, in nanoseconds; doubled after each further one. After a single failure a client goes
/// on at once.
const FIRST_REST: u64 = 10_000_000;

/// The longest pause.
const LONGEST_REST: u64 = 1_000_000_000;

/// Time between two of the connections opened before the first request. A server that creates a thread for each keeps
/// up with that. If its accept queue overflows, TCP tries again only after a second.
pub const CONNECT_INTERVAL: Duration = Duration::from_micros(100);

/// Decisions that every client of a load makes in the same way, however it waits.
pub struct ClientState<'run> {
    pub(super) run: &'run LoadRun,
    pub(super) slot: &'static Slot,
    number: usize,
    left: u64,
    /// Failures in a row.
    failures: u64,
    /// Failures in a row after which it gives up; 0: never.
    give_up: u64,
    has_given_up: bool,
    /// Counted requests.
    counted: u64,
}

impl<'run> ClientState<'run> {
    /// Makes the state of the client with this number, counted from 1 as displayed, with this many requests.
    pub fn new(run: &'run LoadRun, slot: &'static Slot, number: usize, requests: u64) -> Self {
        let give_up = run.settings.integer(GIVE_UP.name);
        ClientState { run, slot, number, left: requests, failures: 0, give_up, has_given_up: false, counted: 0 }
    }

    /// Number of the client, counted from 1.
    pub fn number(&self) -> usize {
        self.number
    }

    /// Returns whether the client makes another request at this moment.
    pub fn goes_on(&self, at: u64) -> bool {
        self.goes_on_beside(0, at)
    }

    /// The same for a client with this many unfinished requests.
    pub fn goes_on_beside(&self, requests: u64, at: u64) -> bool {
        self.left > requests && self.perseveres() && !self.run.window.is_over(at)
    }

    /// Returns whether the client has not given up.
    pub fn perseveres(&self) -> bool {
        !self.has_given_up && !signal::interrupted()
    }

    /// Ends the client's requests. After the end of the load's window, or of its own requests, it has not given up.
    pub fn give_up(&mut self) {
        let at = now();
        if !std::mem::replace(&mut self.has_given_up, true) && self.left > 0 && !self.run.window.is_over(at) {
            self.run.giving_up.note(at);
        }
    }

    /// Notes a reply, with the moment from which its latency counts. A correct one counts if it arrived within the load's
    /// window.
    pub fn answered(&mut self, caller: &mut Caller<'_>, from: u64, at: u64) {
        self.left -= 1;
        self.failures = 0;
        if let Some(rejection) = caller.rejection() {
            return self.note(1, &rejection);
        }
        if let Some(live) = &self.run.live {
            live.note(self.number, at.saturating_sub(from));
        }
        if self.run.window.contains(at) {
            self.counted += 1;
            caller.counts();
        }
    }

    /// Notes that the server had closed the client's persistent connection before its next request.
    pub fn found_closed(&self) {
        self.slot.closed_idle.fetch_add(1, Relaxed);
    }

    /// Notes that this many requests are sent again.
    pub fn repeats(&self, requests: usize) {
        self.slot.sent_again.fetch_add(requests as u64, Relaxed);
    }

    /// Notes a failed request, or a failed connection.
    pub fn failed(&mut self, failure: &Failure) {
        self.failed_together(1, failure);
    }

    /// Notes that this many requests failed with their connection: in a row, that is one failure.
    pub fn failed_together(&mut self, requests: u64, failure: &Failure) {
        self.note(requests, failure);
        self.left -= requests;
        self.failures += 1;
        let is_usual = Value::Integer(self.give_up) == GIVE_UP.default();
        if self.failures == self.give_up || is_usual && self.failures >= WITHOUT_A_REPLY && !self.has_replies() {
            self.give_up();
        }
    }

    /// Returns whether the load has had a reply.
    fn has_replies(&self) -> bool {
        let counts = self.run.tally.counts();
        counts.requests > 0 || counts.errors.contains_key(ErrorKind::ErrorStatus.name())
    }

    /// Returns for how long the client pauses after its failures in a row, in nanoseconds: a server that starts again, or is
    /// overloaded, is not helped by attempts that follow each other at once.
    pub fn rest(&self) -> u64 {
        match self.failures {
            0 | 1 => 0,
            failures => LONGEST_REST.min(FIRST_REST << (failures - 2).min(10)),
        }
    }

    fn note(&self, requests: u64, failure: &Failure) {
        self.slot.errors(failure.kind, requests);
        self.run.first_error.note(&failure.message);
        if let Some(show) = &self.run.show {
            show.failed(self.number, &failure.message);
        }
    }

    /// Makes a caller for a new connection.
    pub fn caller(&self, socket: OwnedFd, openers: &mut Openers) -> Result<Caller<'run>, Failure> {
        self.open(socket, |socket, slot| openers.open(socket, slot))
    }

    /// The same, with a function that makes the channel.
    pub fn open(
        &self,
        socket: OwnedFd,
        open: impl FnOnce(OwnedFd, &'static Slot) -> std::io::Result<Channel>,
    ) -> Result<Caller<'run>, Failure> {
        self.run.tally.general().first_connection.note(socket.as_fd());
        let channel = open(socket, self.slot).map_err(|error| {
            // The connection was made all the same, and the server counts it.
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
    /// At its end: a shared counter, touched at every request, would contend for its cache line.
    fn drop(&mut self) {
        self.run.by_client.set(self.number, self.counted);
    }
}

/// Requests per client: those of the setting, or unlimited in a load that ends by time.
pub fn requests_each(run: &LoadRun) -> u64 {
    if run.is_timed() { u64::MAX } else { run.settings.integer(LOOPS.name) }
}

/// Think time of a client in nanoseconds.
pub fn pause(run: &LoadRun) -> u64 {
    run.settings.integer(THINK.name)
}
