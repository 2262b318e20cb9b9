//! A client's course through a load: it asks, waits for the reply, pauses, and asks again, until its requests are
//! made, the window is over, or there is no server to be measured.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use anyhow::{Context, Result};

use crate::client::connect::connect;
use crate::client::edges::sleep_until;
use crate::client::exchange::{Caller, Failure};
use crate::client::load::{LOOPS, LoadRun, THINK};
use crate::client::measure::Measure;
use crate::count::tally::{ErrorKind, Slot};
use crate::sys::clock::now;
use crate::sys::signal;
use crate::transfer::channel::{Channel, Openers};

/// A client that fails so often in a row gives up: there is no server to be measured.
const FAILURES_IN_A_ROW: u32 = 3;

/// Time between two of the connections that are made before anybody asks. A server that makes a thread for each keeps up
/// with that; where the queue of those to be accepted runs over, TCP tries again only after a second.
pub const CONNECT_INTERVAL: Duration = Duration::from_micros(100);

/// What every client of a load decides in the same way, whatever it waits in.
pub struct Course<'run> {
    run: &'run LoadRun,
    slot: &'static Slot,
    number: usize,
    left: u64,
    failures: u32,
    /// Requests that count.
    counted: u64,
}

impl<'run> Course<'run> {
    /// Of the client with this number, counted from 1 as it is shown, that makes so many requests.
    pub fn new(run: &'run LoadRun, slot: &'static Slot, number: usize, requests: u64) -> Self {
        Course { run, slot, number, left: requests, failures: 0, counted: 0 }
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

impl Drop for Course<'_> {
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

/// A client that waits in its calls: a process or a thread of its own.
pub struct Client<'run> {
    course: Course<'run>,
    keeps: bool,
    openers: Openers,
    caller: Option<Caller<'run>>,
    measure: Option<Measure<'run>>,
}

impl<'run> Client<'run> {
    /// To be made where it runs. Keeps its connection or not; measures or only counts.
    pub fn new(course: Course<'run>, keeps: bool, measure: Option<Measure<'run>>) -> Result<Self> {
        let prepared = course.run.way.prepare(&course.run.settings);
        let openers = prepared
            .inspect_err(|error| course.slot.error(ErrorKind::of(error)))
            .context("the primitives could not be prepared")?;
        Ok(Client { course, keeps, openers, caller: None, measure })
    }

    /// Makes the connection that is to be kept, before there is anything to ask.
    pub fn connect(&mut self) {
        match self.connected() {
            Ok(caller) => self.caller = Some(caller),
            Err(failure) => self.course.failed(&failure),
        }
    }

    /// Asks again and again until the end of its course. What was measured is added to the sums of the load.
    pub fn take_turns(mut self) {
        let (run, pause) = (self.course.run, pause(self.course.run));
        let mut at = now();
        while self.course.goes_on(at) {
            if let Err(failure) = self.turn(&mut at) {
                self.course.failed(&failure);
            }
            if pause > 0 {
                sleep_until(at + pause, || self.course.goes_on(now()));
                at = now();
            }
        }
        if let Some(caller) = self.caller {
            caller.finish(run.target.patience);
        }
        if let Some(measure) = &self.measure {
            run.measured().add(measure);
        }
    }

    /// One request; sets the time to when its reply was there.
    fn turn(&mut self, at: &mut u64) -> Result<(), Failure> {
        let mut caller = match self.caller.take() {
            Some(caller) => caller,
            None => self.connected()?,
        };
        let asked = now();
        let result = caller.exchange();
        *at = now();
        if result.is_ok() {
            self.course.answered(&mut caller, *at);
            if let Some(measure) = &mut self.measure {
                measure.answered(asked, *at);
                if let Some(kind) = caller.kind() {
                    measure.answered_of_kind(kind, asked, *at);
                }
            }
        }
        match result {
            Ok(true) if self.keeps => self.caller = Some(caller),
            _ => caller.finish(self.course.run.target.patience),
        }
        result.map(drop)
    }

    fn connected(&mut self) -> Result<Caller<'run>, Failure> {
        let run = self.course.run;
        let socket = connect(&run.target, self.course.number)?;
        if let Some(measure) = &mut self.measure {
            measure.connected(now());
        }
        self.course.caller(socket, &mut self.openers)
    }
}
