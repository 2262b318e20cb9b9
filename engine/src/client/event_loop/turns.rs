//! All clients of a thread and their turns: each connects, sends a request, gets a reply, and repeats.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::time::Duration;

use anyhow::Result;

use super::account::Account;
use super::back_end::BackEnd;
use super::member::{Member, Place, Request};
use super::own_time::OwnTime;
use super::pace::{Due, Kind, Pace, Share};
use super::settings::ConnectionUse;
use crate::client::exchange::{Caller, Failure, Progress};
use crate::client::load::{LoadRun, closing};
use crate::client::measure::Measure;
use crate::client::state::{ClientState, requests_each};
use crate::count::tally::ErrorKind;
use crate::sys::clock::now;
use crate::sys::descriptor::PollFlags;
use crate::sys::signal;
use crate::transfer::waiting;

/// Maximum wait of the loop, so that an interrupt just before the wait is noticed.
const NAP: u64 = 50_000_000;

/// The event loop.
pub struct Turns<B: BackEnd> {
    pub(super) run: &'static LoadRun,
    pub(super) back_end: B,
    pub(super) share: Share,
    pub(super) pace: Pace,
    pub(super) usage: ConnectionUse,
    pub(super) account: Account,
    own_time: OwnTime,
    /// Time of the last clock reading.
    pub(super) at: u64,
    /// Work has been done since then that takes time: code that needs the exact time reads the clock again.
    pub(super) is_old: bool,
    pub(super) members: Vec<Member<B::Watch>>,
    /// Clients that have not ended.
    going: usize,
    /// The thread busy-polls, at the latest once every persistent connection has been opened.
    spins: bool,
    /// True once clients send requests: every persistent connection has been opened.
    pub(super) started: bool,
    pub(super) connecting: usize,
    /// While this many connections are being closed, none is opened.
    pub(super) most_closing: usize,
    /// Clients that are to connect.
    pub(super) waiting: VecDeque<usize>,
    /// Clients that pause after failures, and when they go on.
    resting: BinaryHeap<Reverse<(u64, usize)>>,
    /// Clients whose last request has a rest that waits for the server, and when it is sent nevertheless.
    held: VecDeque<(u64, usize)>,
    /// Connected clients with new requests, each once.
    due: VecDeque<usize>,
    /// No attempt before this moment, while persistent connections are opened.
    pub(super) next_connect: u64,
    /// Time at which the last connection was opened.
    pub(super) last_connected: u64,
    /// No attempt before this moment, because the listener's queue was full.
    pub(super) next_retry: u64,
    pub(super) timeout: u64,
    /// Time of the next check for timeouts. They are detected up to a tenth of the time late, so that the loop needs no
    /// timer per request.
    sweep: u64,
}

impl<B: BackEnd> Turns<B> {
    /// Makes this thread's share of this many clients, which have not started.
    pub fn new(
        run: &'static LoadRun,
        back_end: B,
        kind: Kind,
        usage: ConnectionUse,
        share: Share,
        clients: usize,
    ) -> Self {
        let requests = requests_each(run);
        let slot = run.tally.worker(share.thread);
        let member = |number| Member::new(ClientState::new(run, slot, number, requests), usage.pipeline);
        let members: Vec<_> = (share.thread + 1..=clients).step_by(share.threads).map(member).collect();
        Turns {
            run,
            back_end,
            share,
            pace: Pace::new(kind, share, run),
            spins: waiting::spins(&run.settings),
            most_closing: (closing(clients, &run.settings) / share.threads).max(1),
            usage,
            account: Account::new(kind, run),
            own_time: OwnTime::default(),
            at: now(),
            is_old: false,
            going: members.len(),
            members,
            started: false,
            connecting: 0,
            waiting: VecDeque::new(),
            resting: BinaryHeap::new(),
            held: VecDeque::new(),
            due: VecDeque::new(),
            next_connect: 0,
            last_connected: 0,
            next_retry: 0,
            timeout: run.target.patience.as_nanos() as u64,
            sweep: 0,
        }
    }

    /// Starts the clients at this moment.
    pub fn begin(&mut self, at: u64) {
        self.started = true;
        self.pace.begin(self.members.len(), self.usage.pipeline, at, self.run.ramp());
        self.at = now();
        self.serve();
    }

    /// Returns whether any client has not ended.
    pub fn go_on(&self) -> bool {
        self.going > 0
    }

    /// The time as the loop last read it.
    pub fn at(&self) -> u64 {
        self.at
    }

    /// Returns the measurements, after all clients have ended.
    pub fn finish(mut self) -> Result<Measure<'static>> {
        self.back_end.finish()?;
        self.at = now();
        self.own_time.look(self.at, &self.run.window);
        for due in self.pace.left() {
            self.account.left(due);
        }
        Ok(self.account.close(self.own_time.of_window()))
    }

    /// Runs one round of the loop; waits for events until this moment at most.
    pub fn step(&mut self, until: Option<u64>) -> Result<()> {
        self.is_old = true;
        self.connect_those_that_wait();
        self.at = now();
        self.own_time.look(self.at, &self.run.window);
        let rested = self.resting.peek().map(|Reverse((until, _))| *until);
        let moments = [
            until,
            self.next_attempt(),
            self.pace.next(),
            rested,
            self.held.front().map(|&(until, _)| until),
            Some(self.sweep),
            self.own_time.next(&self.run.window),
        ];
        let next = moments.into_iter().flatten().fold(self.at + NAP, u64::min);
        let time = if self.started && self.spins { 0 } else { next.saturating_sub(self.at) };
        self.back_end.wait(Duration::from_nanos(time))?;
        let began = self.at;
        self.at = now();
        self.own_time.waited(self.at - began);
        self.is_old = false;
        self.wake();
        self.release();
        // Requests that became due while the loop slept come before ready sockets.
        self.serve();
        let mut together = 0;
        while let Some((index, ready)) = self.back_end.next() {
            self.is_old = true;
            self.ready(index, ready);
            together += 1;
            if together >= self.back_end.together() {
                together = 0;
                self.serve();
            }
        }
        self.serve();
        self.look();
        if self.at >= self.sweep {
            self.sweep = self.at + (self.timeout / 10).max(1_000_000);
            self.time_out();
            self.serve();
        }
        if self.started && self.at >= self.run.window.awaits_until(self.timeout) {
            self.end_all();
        }
        Ok(())
    }

    /// Reads the clock if it has not just been read: a reading is a considerable part of the loop's own work per
    /// request.
    pub(super) fn look(&mut self) {
        if std::mem::take(&mut self.is_old) {
            self.at = now();
        }
    }

    /// Assigns due requests to their clients: all of them first, so that the requests of one client are sent together.
    fn serve(&mut self) {
        if !self.started {
            return;
        }
        loop {
            let mut dues = 0;
            while self.pace.has_waiting_client() {
                self.look();
                match self.pace.due(self.at, |index| self.members[index].standing()) {
                    Some(Due::Send(index, request)) => self.assign(index, request),
                    Some(Due::Retire(index)) => self.retire(index),
                    None => break,
                }
                dues += 1;
                self.is_old = dues > self.back_end.together();
            }
            let Some(index) = self.due.pop_front() else { return };
            let member = &mut self.members[index];
            match member.leave() {
                // Nothing reports its state while it is idle.
                Place::Connected(caller)
                    if !B::WAITS && member.sent == 0 && self.run.client.reconnects() && caller.is_closed() =>
                {
                    self.part_idle(index, caller);
                }
                Place::Connected(caller) => self.send_due(index, caller),
                // It has lost its connection meanwhile.
                place => member.place = place,
            }
        }
    }

    fn assign(&mut self, index: usize, request: Request) {
        self.account.assigned(&request);
        let member = &mut self.members[index];
        member.requests.push_back(request);
        match member.place {
            Place::Disconnected => self.queue(index),
            // With several requests, the first takes care of it.
            Place::Connected(_) if member.requests.len() == member.sent + 1 => self.due.push_back(index),
            // It is sent as soon as the client is connected, or has sent what came before.
            _ => {}
        }
    }

    /// Reduces the client's requests in flight by one; without any it has ended.
    pub(super) fn retire(&mut self, index: usize) {
        let member = &mut self.members[index];
        member.slots -= 1;
        if member.slots > 0 {
            return;
        }
        if let Place::Connected(caller) = member.leave() {
            self.back_end.close(&mut member.watch, caller, self.run.target.patience);
        }
        member.place = Place::Finished;
        self.going -= 1;
    }

    /// Notes that a request of the client is over, successful or not.
    fn freed(&mut self, index: usize) {
        if self.pace.goes_on(self.members[index].standing(), self.at) {
            self.pace.freed(index, self.at);
        } else {
            self.retire(index);
        }
    }

    /// Drops the client's requests that have not been begun.
    pub(super) fn drop_requests(&mut self, index: usize) {
        while let Some(request) = self.members[index].requests.pop_front() {
            self.account.dropped(&request);
            self.retire(index);
        }
    }

    /// Begins the client's next request, with its connection or its first byte.
    pub(super) fn begin_request(&mut self, index: usize) {
        let member = &mut self.members[index];
        if let Some(request) = member.requests.get_mut(member.sent)
            && request.moments.begun == 0
        {
            // With several requests in flight, each waits until the connection takes it.
            request.moments.free = request.moments.free.max(member.able);
            request.moments.begun = self.at;
            self.account.begun(request);
        }
    }

    /// Sends the due requests, as many together as the primitive gathers and the connection takes, and then watches the
    /// socket.
    pub(super) fn send_due(&mut self, index: usize, mut caller: Box<Caller<'static>>) {
        let was_held_up = std::mem::replace(&mut self.members[index].held_up, caller.is_sending());
        if was_held_up && !caller.is_sending() {
            self.look();
            self.members[index].able = self.at;
        }
        if !self.has_another(index) {
            self.look();
        }
        while self.has_another(index) && !caller.is_sending() {
            self.look();
            self.put(index, &mut caller);
            while caller.gathers_another() && self.has_another(index) {
                self.put(index, &mut caller);
            }
            // What another call sends is sent later.
            self.is_old = true;
            if let Some(until) = caller.held_until() {
                self.held.push_back((until, index));
            }
            match caller.begin() {
                Ok(Progress::Answered { .. }) => {
                    self.answered(index, &mut caller);
                    return self.part(index, caller);
                }
                Ok(_) => {}
                Err(failure) => return self.lose(index, caller, &failure),
            }
        }
        let member = &mut self.members[index];
        member.held_up = caller.is_sending();
        let flags = match member.sent {
            _ if !caller.is_sending() || caller.is_held() => PollFlags::POLLIN,
            // A request that has not arrived gets no reply.
            1 if !self.run.client.answers_early() => PollFlags::POLLOUT,
            // A server that cannot send its replies to the others takes no more of this one.
            _ => PollFlags::POLLIN | PollFlags::POLLOUT,
        };
        self.settle(index, caller, flags);
    }

    /// Returns whether the client has a due request that its connection takes.
    fn has_another(&self, index: usize) -> bool {
        let member = &self.members[index];
        member.sent < member.requests.len() && member.made < self.usage.requests
    }

    /// Prepares the client's next request for sending.
    fn put(&mut self, index: usize, caller: &mut Caller<'static>) {
        self.begin_request(index);
        let member = &mut self.members[index];
        let request = &mut member.requests[member.sent];
        if !request.is_repeated {
            request.sent_at = self.at;
            self.account.sending(request);
        }
        member.sent += 1;
        member.made += 1;
        member.moved = self.at;
        caller.put(request.arrival);
    }

    /// Handles a ready connection.
    fn ready(&mut self, index: usize, ready: PollFlags) {
        let member = &mut self.members[index];
        match member.leave() {
            Place::Connecting(attempt) => {
                self.look();
                self.attempted(index, attempt.finish());
            }
            Place::Connected(mut caller) if member.sent > 0 => {
                if ready.contains(PollFlags::POLLERR) {
                    // Completions are not a failure; the next call reports a real one.
                    let _ = caller.reap();
                }
                if ready.contains(PollFlags::POLLOUT) {
                    // There is room to send, even if the data that fills it had left the outbox before.
                    self.at = now();
                    member.moved = self.at;
                }
                self.advance(index, caller);
            }
            Place::Connected(caller) if self.run.client.reconnects() && caller.is_closed() => {
                self.part_idle(index, caller)
            }
            Place::Connected(caller) => {
                // The peer has closed, or sends unasked: the next request will notice, as for a blocking client. Until
                // then the socket must not wake the loop again and again.
                self.back_end.ignore(&mut member.watch, caller.socket());
                member.place = Place::Connected(caller);
            }
            place @ (Place::Disconnected | Place::Waiting | Place::Resting | Place::Finished) => member.place = place,
        }
    }

    /// Takes the replies that have arrived, one after another.
    fn advance(&mut self, index: usize, mut caller: Box<Caller<'static>>) {
        loop {
            self.is_old = true;
            match caller.advance() {
                Err(failure) => return self.lose(index, caller, &failure),
                // Data that blocked other requests may have been sent meanwhile.
                Ok(Progress::Blocked(_)) if !caller.is_sending() => return self.send_due(index, caller),
                Ok(Progress::Blocked(flags) | Progress::Yields(flags)) => return self.settle(index, caller, flags),
                Ok(Progress::Answered { open }) => {
                    self.answered(index, &mut caller);
                    let member = &mut self.members[index];
                    let stays = open && (member.sent > 0 || member.made < self.usage.requests);
                    if !stays {
                        return self.part(index, caller);
                    }
                    if !caller.is_behind() {
                        // Other requests may be due that could not be sent before.
                        self.send_due(index, caller);
                        return self.freed(index);
                    }
                    self.freed(index);
                }
            }
        }
    }

    fn answered(&mut self, index: usize, caller: &mut Caller<'static>) {
        (self.at, self.is_old) = (now(), false);
        let member = &mut self.members[index];
        let request = member.requests.pop_front().expect("a reply is to a request");
        member.sent -= 1;
        member.state.answered(caller, self.account.counts_from(&request), self.at);
        self.account.answered(&request, caller.status(), caller.kind(), self.at);
    }

    /// Handles a connection that takes no more requests after its last reply.
    fn part(&mut self, index: usize, caller: Box<Caller<'static>>) {
        let member = &mut self.members[index];
        let all_repeat = caller.all_repeat() || caller.refuses_later();
        self.back_end.close(&mut member.watch, caller, self.run.target.patience);
        member.has_none_since(self.at);
        if member.sent > 0 && all_repeat && self.repeat(index) {
            // They are sent again.
        } else if self.members[index].sent > 0 {
            let message = "the server closed after a reply, but later requests were in flight".to_owned();
            self.failed(index, &Failure { kind: ErrorKind::Truncated, message });
        } else if !self.members[index].requests.is_empty() {
            self.queue(index);
        }
        self.freed(index);
    }

    /// Handles a persistent connection that the server has closed while no request was in flight.
    fn part_idle(&mut self, index: usize, caller: Box<Caller<'static>>) {
        let member = &mut self.members[index];
        member.state.found_closed();
        self.back_end.close(&mut member.watch, caller, self.run.target.patience);
        // The client has been free: its next request does not wait for it, only for the new connection.
        member.has_none_since(member.able);
        if !member.requests.is_empty() {
            self.queue(index);
        }
    }

    /// Has the client's requests in flight sent again, over another connection. Returns false if one of them has been before.
    fn repeat(&mut self, index: usize) -> bool {
        let member = &mut self.members[index];
        let sent = std::mem::take(&mut member.sent);
        if sent == 0 || member.requests.iter().take(sent).any(|request| request.is_repeated) {
            member.sent = sent;
            return false;
        }
        member.requests.iter_mut().take(sent).for_each(|request| request.is_repeated = true);
        member.state.repeats(sent);
        member.has_none_since(self.at);
        self.queue(index);
        true
    }

    /// Watches the connection for these events, if the back end supports it.
    pub(super) fn settle(&mut self, index: usize, mut caller: Box<Caller<'static>>, flags: PollFlags) {
        let member = &mut self.members[index];
        // A socket that was ready has made progress; one that was only tried may not have.
        if caller.has_moved() || B::WAITS {
            member.moved = self.at;
        }
        match self.back_end.watch(index, &mut member.watch, caller.socket(), flags) {
            Ok(()) => member.place = Place::Connected(caller),
            Err(error) => self.lose(index, caller, &Failure::waiting(&error)),
        }
    }

    fn lose(&mut self, index: usize, caller: Box<Caller<'static>>, failure: &Failure) {
        self.look();
        let may_repeat = caller.may_repeat(failure);
        self.back_end.close(&mut self.members[index].watch, caller, self.run.target.patience);
        self.is_old = true;
        if may_repeat && self.repeat(index) {
            return;
        }
        self.failed(index, failure);
    }

    /// Handles the loss of the client's connection. Its requests in flight, or the first one to send, have failed.
    pub(super) fn failed(&mut self, index: usize, failure: &Failure) {
        let member = &mut self.members[index];
        member.has_none_since(self.at);
        let lost = std::mem::take(&mut member.sent).max(usize::from(!member.requests.is_empty()));
        member.state.failed_together(lost.max(1) as u64, failure);
        let rest = if member.state.perseveres() { member.state.rest() } else { 0 };
        // What is still due when the window is over waits no longer for a server that keeps failing.
        let is_last = rest > 0 && self.started && self.run.window.is_over(self.at);
        if rest > 0 && !is_last {
            member.resting = lost;
            member.place = Place::Resting;
            self.resting.push(Reverse((self.at + rest, index)));
            (0..lost).for_each(|_| self.fail_first(index));
            return;
        }
        for _ in 0..lost {
            self.fail_first(index);
            self.freed(index);
        }
        let member = &self.members[index];
        if self.started && (is_last || !member.state.perseveres()) {
            self.drop_requests(index);
        } else if !member.requests.is_empty() || !self.started && member.state.goes_on(self.at) {
            self.queue(index);
        }
    }

    /// Lets clients go on that have paused long enough after failures. When the load is about to end, a client that has nothing
    /// to send pauses no longer.
    fn wake(&mut self) {
        while let Some(&Reverse((until, index))) = self.resting.peek()
            && (self.at >= until
                || signal::interrupted()
                || self.run.window.is_over(self.at) && self.members[index].requests.is_empty())
        {
            self.resting.pop();
            let member = &mut self.members[index];
            member.place = Place::Disconnected;
            member.able = self.at;
            for _ in 0..std::mem::take(&mut member.resting) {
                self.freed(index);
            }
            if !self.members[index].state.perseveres() {
                self.drop_requests(index);
            } else if !self.members[index].requests.is_empty()
                || !self.started && self.members[index].state.goes_on(self.at)
            {
                self.queue(index);
            }
        }
    }

    /// Lets requests go on that have waited long enough for their server.
    fn release(&mut self) {
        while let Some(&(until, index)) = self.held.front()
            && self.at >= until
        {
            self.held.pop_front();
            match self.members[index].leave() {
                // It may have another request by now.
                Place::Connected(caller) if caller.held_until().is_some_and(|until| self.at >= until) => {
                    self.members[index].moved = self.at;
                    self.advance(index, caller);
                }
                place => self.members[index].place = place,
            }
        }
    }

    fn fail_first(&mut self, index: usize) {
        if let Some(request) = self.members[index].requests.pop_front() {
            self.account.failed(&request, self.at);
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

    /// Handles the end of the wait for replies after the window: requests in flight have failed, and others are never
    /// sent.
    fn end_all(&mut self) {
        for index in 0..self.members.len() {
            let member = &mut self.members[index];
            match member.leave() {
                Place::Finished => {
                    member.place = Place::Finished;
                    continue;
                }
                Place::Connecting(attempt) => {
                    self.connecting -= 1;
                    self.back_end.forget(&mut member.watch, attempt.socket());
                }
                Place::Connected(caller) => {
                    self.back_end.close(&mut member.watch, caller, self.run.target.patience);
                }
                Place::Disconnected | Place::Waiting | Place::Resting => {}
            }
            let begun = member.requests.iter().filter(|request| request.moments.begun > 0).count();
            if begun > 0 {
                let failure = Failure::behind_the_window();
                member.state.failed_together(begun as u64, &failure);
            }
            for _ in 0..begun {
                self.fail_first(index);
                self.retire(index);
            }
            self.drop_requests(index);
            while self.members[index].slots > 0 {
                self.retire(index);
            }
        }
        self.waiting.clear();
        self.resting.clear();
    }
}
