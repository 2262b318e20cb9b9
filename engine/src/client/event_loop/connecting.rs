//! Connecting of clients: a limited number at a time, and persistent connections one after another.

use std::time::Duration;

use anyhow::Result;
use socket2::SockRef;

use super::back_end::BackEnd;
use super::member::Place;
use super::turns::Turns;
use crate::client::connect::{Attempt, Attempted};
use crate::client::exchange::Failure;
use crate::client::state::CONNECT_INTERVAL;
use crate::sys::clock::now;
use crate::sys::descriptor::PollFlags;
use crate::sys::signal;

/// Maximum simultaneous connection attempts of a load: the shortest backlog in common use (SOMAXCONN before Linux 5.4).
/// More would overrun that backlog by themselves. If it is full nevertheless, only these wait the second until TCP
/// tries again, and the server catches up meanwhile.
const CONNECTING_AT_A_TIME: usize = 128;

/// Nanoseconds until a client retries after a Unix listener's queue was full.
const FULL_RETRY: u64 = 1_000_000;

impl<B: BackEnd> Turns<B> {
    /// Opens the persistent connections, as long as `goes_on` returns true. If none could be opened
    /// for the time that one may take, all clients without a connection give up. Otherwise a load of many clients would
    /// try for hours if its server never answers.
    pub fn connect_all(&mut self, goes_on: impl Fn() -> bool) -> Result<()> {
        if !self.run.keeps() {
            return Ok(());
        }
        (0..self.members.len()).for_each(|index| self.queue(index));
        self.last_connected = self.at;
        while (self.connecting > 0 || !self.waiting.is_empty()) && goes_on() {
            self.step(None)?;
            if self.at > self.last_connected + self.timeout {
                self.stop_connecting();
            }
        }
        Ok(())
    }

    fn stop_connecting(&mut self) {
        for index in 0..self.members.len() {
            let member = &mut self.members[index];
            match member.leave() {
                Place::Connecting(attempt) => {
                    self.back_end.forget(&mut member.watch, attempt.socket());
                    self.connecting -= 1;
                    member.state.failed(&attempt.timed_out());
                    member.state.give_up();
                }
                Place::Waiting => member.state.give_up(),
                place => member.place = place,
            }
        }
        self.waiting.clear();
    }

    /// Queues the client to connect.
    pub(super) fn queue(&mut self, index: usize) {
        self.members[index].place = Place::Waiting;
        self.waiting.push_back(index);
    }

    /// Starts the attempts of the clients whose turn it is.
    pub(super) fn connect_those_that_wait(&mut self) {
        if self.waiting.is_empty() {
            return;
        }
        self.look();
        while self.may_connect()
            && (self.started || self.at >= self.next_connect)
            && self.at >= self.next_retry
            && let Some(index) = self.waiting.pop_front()
        {
            self.next_connect = self.at + CONNECT_INTERVAL.as_nanos() as u64 * self.share.threads as u64;
            self.connect(index);
            self.at = now();
        }
    }

    fn may_connect(&self) -> bool {
        let share = |of_all: usize| (of_all / self.share.threads).max(1);
        self.connecting < share(CONNECTING_AT_A_TIME) && self.back_end.closing() < self.most_closing
    }

    /// Returns the time at which the next queued client may connect.
    pub(super) fn next_attempt(&self) -> Option<u64> {
        let may = self.may_connect() && !self.waiting.is_empty();
        may.then_some(if self.started { self.next_retry } else { self.next_connect.max(self.next_retry) })
    }

    fn connect(&mut self, index: usize) {
        let member = &mut self.members[index];
        // A request that was in flight at the end of the window may have to be sent again.
        let repeats = member.requests.front().is_some_and(|request| request.is_repeated) && !signal::interrupted();
        if !repeats && !self.pace.goes_on((&member.state, 0), self.at) {
            member.place = Place::Disconnected;
            if self.started {
                self.drop_requests(index);
            }
            return;
        }
        self.connecting += 1;
        self.begin_request(index);
        let member = &mut self.members[index];
        member.connecting_since = member.full_since.unwrap_or(self.at);
        let attempt = match Attempt::begin(&self.run.target, member.state.number()) {
            Ok(attempt) if attempt.found_no_room() => {
                if self.at - *member.full_since.get_or_insert(self.at) < self.timeout {
                    self.connecting -= 1;
                    self.next_retry = self.at + FULL_RETRY;
                    return self.waiting.push_front(index);
                }
                attempt.give_up()
            }
            attempt => attempt.map(Attempted::Again),
        };
        member.full_since = None;
        self.attempted(index, attempt);
    }

    /// Handles the result of a connection attempt.
    pub(super) fn attempted(&mut self, index: usize, attempted: Result<Attempted<'static>, Failure>) {
        let member = &mut self.members[index];
        // The client has no state until the result is handled.
        member.place = Place::Disconnected;
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
                self.account.connected(member.connecting_since, self.at);
                self.last_connected = self.at;
                let resets = self.usage.resets;
                let opened = member.state.open(socket, |socket, slot| {
                    if resets {
                        SockRef::from(&socket).set_linger(Some(Duration::ZERO))?;
                    }
                    self.back_end.open(&mut member.watch, socket, slot)
                });
                match opened {
                    Ok(mut caller) => {
                        if member.requests.is_empty() {
                            caller.stand_by();
                        }
                        self.connecting -= 1;
                        member.able = self.at;
                        return self.send_due(index, Box::new(caller));
                    }
                    Err(failure) => failure,
                }
            }
            Err(failure) => failure,
        };
        self.connecting -= 1;
        self.failed(index, &failure);
    }
}
