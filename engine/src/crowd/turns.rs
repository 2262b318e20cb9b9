//! All clients of a thread, and whose turn is when: each connects, asks, is answered, and asks again.

use std::collections::VecDeque;
use std::time::Duration;

use anyhow::Result;

use super::back_end::BackEnd;
use super::member::{Member, Place, Request};
use super::pace::{Due, Kind, Pace};
use crate::course::{Course, RAMP, requests_each};
use crate::exchange::{Attempt, Attempted, Caller, Failure, Progress};
use crate::load::LoadRun;
use crate::measure::{Measure, now};
use crate::sys::descriptor::PollFlags;

/// Connections that are being made at the same time: as many as the shortest backlog in common use has places (SOMAXCONN
/// before Linux 5.4). More would overrun it by themselves; and where one is full nevertheless, no more than these wait the
/// second until TCP knocks again, while the server catches up.
const CONNECTING_AT_A_TIME: usize = 128;

/// Time until a client tries again that found a Unix listener's queue full.
const KNOCK: u64 = 1_000_000;

/// The longest that the loop waits, so that an interrupt that comes just before is noticed.
const NAP: u64 = 50_000_000;

/// The event loop.
pub struct Turns<B: BackEnd> {
    run: &'static LoadRun,
    back_end: B,
    pace: Pace,
    measure: Measure<'static>,
    /// The time by the clock, read anew before whatever needs it exactly.
    at: u64,
    members: Vec<Member<B::Watch>>,
    /// Clients that have not reached their end.
    going: usize,
    /// Every kept connection has been made.
    asking: bool,
    connecting: usize,
    /// Clients that are to connect.
    waiting: VecDeque<usize>,
    /// Not before that moment, while the kept connections are made.
    next_connect: u64,
    /// Not before that moment, since the listener's queue was full.
    next_knock: u64,
    timeout: u64,
    /// When to look next whose time is over. That is found out a tenth of the time late, for the sake of a loop that keeps
    /// no timer for each request.
    sweep: u64,
}

impl<B: BackEnd> Turns<B> {
    /// Clients that have not begun.
    pub fn new(run: &'static LoadRun, back_end: B, kind: Kind, clients: usize) -> Self {
        let requests = requests_each(run);
        let member = |number| Member::new(Course::new(run, run.tally.shared(), number, requests), 1);
        Turns {
            run,
            back_end,
            pace: Pace::new(kind),
            measure: Measure::new(&run.window),
            at: now(),
            members: (1..=clients).map(member).collect(),
            going: clients,
            asking: false,
            connecting: 0,
            waiting: VecDeque::new(),
            next_connect: 0,
            next_knock: 0,
            timeout: run.target.patience.as_nanos() as u64,
            sweep: 0,
        }
    }

    /// Makes the connections that are kept.
    pub fn connect_all(&mut self) -> Result<()> {
        if self.run.keeps() {
            (0..self.members.len()).for_each(|index| self.queue(index));
            while self.connecting > 0 || !self.waiting.is_empty() {
                self.step(None)?;
            }
        }
        Ok(())
    }

    /// From this moment on clients ask.
    pub fn begin(&mut self, at: u64) {
        self.asking = true;
        self.pace.begin(self.members.len(), at);
        self.at = now();
        self.serve();
    }

    /// Whether a client has not reached its end.
    pub fn go_on(&self) -> bool {
        self.going > 0
    }

    /// The time as the loop last read it.
    pub fn at(&self) -> u64 {
        self.at
    }

    /// What was measured.
    pub fn measure(&self) -> &Measure<'static> {
        &self.measure
    }

    /// Once around the loop; waits for events no longer than until that moment.
    pub fn step(&mut self, until: Option<u64>) -> Result<()> {
        while self.connecting < CONNECTING_AT_A_TIME
            && (self.asking || self.at >= self.next_connect)
            && self.at >= self.next_knock
            && let Some(index) = self.waiting.pop_front()
        {
            self.next_connect = self.at + RAMP.as_nanos() as u64;
            self.connect(index);
        }
        self.at = now();
        let due = [until, self.next_attempt(), self.pace.next(), Some(self.sweep)];
        let due = due.into_iter().flatten().fold(self.at + NAP, u64::min);
        self.back_end.wait(Duration::from_nanos(due.saturating_sub(self.at)))?;
        while let Some((index, ready)) = self.back_end.next() {
            self.at = now();
            self.ready(index, ready);
            self.serve();
        }
        self.at = now();
        self.serve();
        if self.at >= self.sweep {
            self.sweep = self.at + (self.timeout / 10).max(1_000_000);
            self.time_out();
        }
        Ok(())
    }

    /// When the next of those that wait for it may connect.
    fn next_attempt(&self) -> Option<u64> {
        let may = self.connecting < CONNECTING_AT_A_TIME && !self.waiting.is_empty();
        may.then_some(if self.asking { self.next_knock } else { self.next_connect.max(self.next_knock) })
    }

    /// Gives what is due to whom it is for.
    fn serve(&mut self) {
        if !self.asking {
            return;
        }
        while let Some(due) = self.pace.due(self.at, |index| self.members[index].goes_on(self.at)) {
            match due {
                Due::Ask(index, request) => self.assign(index, request),
                Due::Retire(index) => self.retire(index),
            }
            self.at = now();
        }
    }

    fn assign(&mut self, index: usize, request: Request) {
        let member = &mut self.members[index];
        member.requests.push_back(request);
        match member.leave() {
            Place::Apart => self.queue(index),
            Place::Connected(caller) => self.ask(index, caller),
            // As soon as it is connected.
            place => member.place = place,
        }
    }

    /// The client waits for its turn to connect.
    fn queue(&mut self, index: usize) {
        self.members[index].place = Place::Waiting;
        self.waiting.push_back(index);
    }

    /// One request less that the client may have at a time; without any it has reached its end.
    fn retire(&mut self, index: usize) {
        let member = &mut self.members[index];
        member.slots -= 1;
        if member.slots > 0 {
            return;
        }
        if let Place::Connected(caller) = member.leave() {
            self.back_end.close(&mut member.watch, caller, self.run.target.patience);
        }
        member.place = Place::Home;
        self.going -= 1;
    }

    /// A request of the client's is over, well or not.
    fn freed(&mut self, index: usize) {
        if self.members[index].goes_on(self.at) {
            self.pace.freed(index, self.at);
        } else {
            self.retire(index);
        }
    }

    fn connect(&mut self, index: usize) {
        let member = &mut self.members[index];
        // Those that it was to make beside this one are not made either.
        if self.asking && !member.course.goes_on(self.at) {
            member.place = Place::Apart;
            for _ in member.requests.drain(..).collect::<Vec<_>>() {
                self.retire(index);
            }
            return;
        }
        if !member.course.goes_on(self.at) {
            return member.place = Place::Apart;
        }
        self.connecting += 1;
        let attempt = match Attempt::begin(&self.run.target) {
            Ok(attempt) if attempt.found_no_room() => {
                if self.at - *member.knocking.get_or_insert(self.at) < self.timeout {
                    self.connecting -= 1;
                    self.next_knock = self.at + KNOCK;
                    return self.waiting.push_front(index);
                }
                attempt.give_up()
            }
            attempt => attempt.map(Attempted::Again),
        };
        member.knocking = None;
        self.attempted(index, attempt);
    }

    fn attempted(&mut self, index: usize, attempted: Result<Attempted<'static>, Failure>) {
        let member = &mut self.members[index];
        let failure = match attempted {
            Ok(Attempted::Again(attempt)) => {
                member.watch = B::Watch::default();
                member.moved = self.at;
                match self.back_end.watch(index, &mut member.watch, attempt.socket(), PollFlags::POLLOUT) {
                    Ok(()) => return member.place = Place::Connecting(attempt),
                    Err(error) => Failure::waiting(&error),
                }
            }
            Ok(Attempted::Connected(socket)) => {
                self.measure.connected(self.at);
                let opened =
                    member.course.open(socket, |socket, slot| self.back_end.open(&mut member.watch, socket, slot));
                match opened {
                    Ok(caller) => {
                        self.connecting -= 1;
                        return self.connected(index, Box::new(caller));
                    }
                    Err(failure) => failure,
                }
            }
            Err(failure) => failure,
        };
        self.connecting -= 1;
        self.failed(index, &failure);
    }

    fn connected(&mut self, index: usize, caller: Box<Caller<'static>>) {
        if self.asking {
            return self.ask(index, caller);
        }
        self.settle(index, caller, PollFlags::POLLIN);
    }

    /// Sends the requests that are due.
    fn ask(&mut self, index: usize, mut caller: Box<Caller<'static>>) {
        let member = &mut self.members[index];
        let Some(request) = member.requests.get_mut(member.sent) else {
            return member.place = Place::Connected(caller);
        };
        request.asked = self.at;
        member.sent += 1;
        match caller.ask() {
            Ok(Progress::Blocked(flags) | Progress::Yields(flags)) => self.settle(index, caller, flags),
            Ok(Progress::Answered { .. }) => unreachable!("who asks does not receive"),
            Err(failure) => self.lose(index, caller, &failure),
        }
    }

    /// A connection is ready for something.
    fn ready(&mut self, index: usize, ready: PollFlags) {
        let member = &mut self.members[index];
        match member.leave() {
            Place::Connecting(attempt) => self.attempted(index, attempt.finish()),
            Place::Connected(mut caller) if member.sent > 0 => {
                if ready.contains(PollFlags::POLLERR) {
                    // Completions are no failure; a failure is met by the next call.
                    let _ = caller.reap();
                }
                match caller.advance() {
                    Ok(Progress::Blocked(flags) | Progress::Yields(flags)) => self.settle(index, caller, flags),
                    Ok(Progress::Answered { open }) => self.answered(index, caller, open),
                    Err(failure) => self.lose(index, caller, &failure),
                }
            }
            Place::Connected(caller) => {
                // The peer has closed, or speaks unasked: the next request will meet it, as that of a client does that
                // waits in its calls. Until then it is not to wake the loop again and again.
                self.back_end.ignore(&mut member.watch, caller.socket());
                member.place = Place::Connected(caller);
            }
            place @ (Place::Apart | Place::Waiting | Place::Home) => member.place = place,
        }
    }

    fn answered(&mut self, index: usize, mut caller: Box<Caller<'static>>, open: bool) {
        self.at = now();
        let member = &mut self.members[index];
        let request = member.requests.pop_front().expect("a reply is to a request");
        member.sent -= 1;
        self.measure.answered(request.asked, self.at);
        member.course.answered(&mut caller, self.at);
        if open && self.run.keeps() {
            member.place = Place::Connected(caller);
        } else {
            self.back_end.close(&mut member.watch, caller, self.run.target.patience);
        }
        self.freed(index);
    }

    /// The connection waits for this, if the back end can do that.
    fn settle(&mut self, index: usize, caller: Box<Caller<'static>>, flags: PollFlags) {
        let member = &mut self.members[index];
        member.moved = self.at;
        match self.back_end.watch(index, &mut member.watch, caller.socket(), flags) {
            Ok(()) => member.place = Place::Connected(caller),
            Err(error) => self.lose(index, caller, &Failure::waiting(&error)),
        }
    }

    fn lose(&mut self, index: usize, caller: Box<Caller<'static>>, failure: &Failure) {
        self.back_end.close(&mut self.members[index].watch, caller, self.run.target.patience);
        self.failed(index, failure);
    }

    /// The client has no connection any more, and what it had asked over it has failed.
    fn failed(&mut self, index: usize, failure: &Failure) {
        let member = &mut self.members[index];
        member.course.failed(failure);
        member.sent = 0;
        if member.requests.pop_front().is_some() {
            self.freed(index);
        } else if member.course.goes_on(self.at) {
            self.queue(index);
        }
    }

    fn time_out(&mut self) {
        for index in 0..self.members.len() {
            let member = &mut self.members[index];
            if self.at.saturating_sub(member.moved) < self.timeout {
                continue;
            }
            match member.leave() {
                Place::Connecting(attempt) => {
                    self.back_end.forget(&mut member.watch, attempt.socket());
                    self.attempted(index, attempt.give_up());
                }
                Place::Connected(caller) if member.sent > 0 => {
                    let failure = caller.timed_out();
                    self.lose(index, caller, &failure);
                }
                place => member.place = place,
            }
        }
    }
}
