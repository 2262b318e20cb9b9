//! All clients of a thread, and whose turn is when: each connects, asks, is answered, and asks again.

use std::collections::VecDeque;
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
use crate::transfer::waiting;

/// The longest that the loop waits, so that an interrupt that comes just before is noticed.
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
    /// The time as it was read last.
    pub(super) at: u64,
    /// Something has been done since that takes time: whoever needs it exactly looks first.
    pub(super) is_old: bool,
    pub(super) members: Vec<Member<B::Watch>>,
    /// Clients that have not reached their end.
    going: usize,
    /// Its thread never sleeps, at the latest once every kept connection has been made.
    spins: bool,
    /// Every kept connection has been made.
    pub(super) asking: bool,
    pub(super) connecting: usize,
    /// While so many connections are being closed, none is made.
    pub(super) most_closing: usize,
    /// Clients that are to connect.
    pub(super) waiting: VecDeque<usize>,
    /// Clients that were given requests over a connection that they have, each once.
    due: VecDeque<usize>,
    /// Not before that moment, while the kept connections are made.
    pub(super) next_connect: u64,
    /// When the last connection was made.
    pub(super) last_connected: u64,
    /// Not before that moment, since the listener's queue was full.
    pub(super) next_retry: u64,
    pub(super) timeout: u64,
    /// When to look next whose time is over. That is found out a tenth of the time late, for the sake of a loop that keeps
    /// no timer for each request.
    sweep: u64,
}

impl<B: BackEnd> Turns<B> {
    /// This thread's share of so many clients, which have not begun.
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
            asking: false,
            connecting: 0,
            waiting: VecDeque::new(),
            due: VecDeque::new(),
            next_connect: 0,
            last_connected: 0,
            next_retry: 0,
            timeout: run.target.patience.as_nanos() as u64,
            sweep: 0,
        }
    }

    /// From this moment on clients ask.
    pub fn begin(&mut self, at: u64) {
        self.asking = true;
        self.pace.begin(self.members.len(), self.usage.pipeline, at, self.run.ramp());
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

    /// What was measured, all clients having reached their end.
    pub fn finish(mut self) -> Result<Measure<'static>> {
        self.back_end.finish()?;
        self.at = now();
        self.own_time.look(self.at, &self.run.window);
        for due in self.pace.left() {
            self.account.left(due);
        }
        Ok(self.account.close(self.own_time.of_window()))
    }

    /// Once around the loop; waits for events no longer than until that moment.
    pub fn step(&mut self, until: Option<u64>) -> Result<()> {
        self.is_old = true;
        self.connect_those_that_wait();
        self.at = now();
        self.own_time.look(self.at, &self.run.window);
        let moments =
            [until, self.next_attempt(), self.pace.next(), Some(self.sweep), self.own_time.next(&self.run.window)];
        let next = moments.into_iter().flatten().fold(self.at + NAP, u64::min);
        let time = if self.asking && self.spins { 0 } else { next.saturating_sub(self.at) };
        self.back_end.wait(Duration::from_nanos(time))?;
        let began = self.at;
        self.at = now();
        self.own_time.waited(self.at - began);
        self.is_old = false;
        // What was due while the loop slept comes before what has become ready.
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
        if self.asking && self.at >= self.run.window.awaits_until(self.timeout) {
            self.end_all();
        }
        Ok(())
    }

    /// Reads the clock if it has not just been read: a call of it is no small part of what the loop itself does for a request.
    pub(super) fn look(&mut self) {
        if std::mem::take(&mut self.is_old) {
            self.at = now();
        }
    }

    /// Gives what is due to whom it is for: first all of it, so that what one client has to send is there together.
    fn serve(&mut self) {
        if !self.asking {
            return;
        }
        loop {
            let mut dues = 0;
            while self.pace.somebody_could_ask() {
                self.look();
                match self.pace.due(self.at, |index| self.members[index].standing()) {
                    Some(Due::Ask(index, request)) => self.assign(index, request),
                    Some(Due::Retire(index)) => self.retire(index),
                    None => break,
                }
                dues += 1;
                self.is_old = dues > self.back_end.together();
            }
            let Some(index) = self.due.pop_front() else { return };
            let member = &mut self.members[index];
            match member.leave() {
                Place::Connected(caller) => self.ask(index, caller),
                // It has lost its connection since.
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
            // Of several it is told with the first.
            Place::Connected(_) if member.requests.len() == member.sent + 1 => self.due.push_back(index),
            // As soon as it is connected, or has sent what came before.
            _ => {}
        }
    }

    /// One request less that the client may have at a time; without any it has reached its end.
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

    /// A request of the client's is over, well or not.
    fn freed(&mut self, index: usize) {
        if self.pace.goes_on(self.members[index].standing(), self.at) {
            self.pace.freed(index, self.at);
        } else {
            self.retire(index);
        }
    }

    /// Those of the client's requests that have not been begun will not be made.
    pub(super) fn drop_requests(&mut self, index: usize) {
        while let Some(request) = self.members[index].requests.pop_front() {
            self.account.dropped(&request);
            self.retire(index);
        }
    }

    /// The next request of the client begins, with its connection or with its first byte.
    pub(super) fn begin_request(&mut self, index: usize) {
        let member = &mut self.members[index];
        if let Some(request) = member.requests.get_mut(member.sent)
            && request.moments.begun == 0
        {
            // Of several that a client may have at a time, each waits until the connection takes it.
            request.moments.free = request.moments.free.max(member.able);
            request.moments.begun = self.at;
            self.account.begun(request);
        }
    }

    /// Sends the requests that are due, as many together as the primitive gathers and as far as the connection takes them, and
    /// waits for what it waits for.
    pub(super) fn ask(&mut self, index: usize, mut caller: Box<Caller<'static>>) {
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
            // What is sent by another call is sent later.
            self.is_old = true;
            if let Err(failure) = caller.begin() {
                return self.lose(index, caller, &failure);
            }
        }
        let member = &mut self.members[index];
        member.held_up = caller.is_sending();
        let flags = match member.sent {
            _ if !caller.is_sending() => PollFlags::POLLIN,
            // Nobody answers a request that has not come.
            1 => PollFlags::POLLOUT,
            // A server that cannot send its replies to the others takes no more of this one.
            _ => PollFlags::POLLIN | PollFlags::POLLOUT,
        };
        self.settle(index, caller, flags);
    }

    /// Whether a request of the client's is due that its connection takes.
    fn has_another(&self, index: usize) -> bool {
        let member = &self.members[index];
        member.sent < member.requests.len() && member.made < self.usage.requests
    }

    /// The next request of the client's is to be sent.
    fn put(&mut self, index: usize, caller: &mut Caller<'static>) {
        self.begin_request(index);
        let member = &mut self.members[index];
        let request = &mut member.requests[member.sent];
        request.asked = self.at;
        self.account.asked(request);
        member.sent += 1;
        member.made += 1;
        member.moved = self.at;
        caller.put(request.arrival);
    }

    /// A connection is ready for something.
    fn ready(&mut self, index: usize, ready: PollFlags) {
        let member = &mut self.members[index];
        match member.leave() {
            Place::Connecting(attempt) => {
                self.look();
                self.attempted(index, attempt.finish());
            }
            Place::Connected(mut caller) if member.sent > 0 => {
                if ready.contains(PollFlags::POLLERR) {
                    // Completions are no failure; a failure is met by the next call.
                    let _ = caller.reap();
                }
                if ready.contains(PollFlags::POLLOUT) {
                    // There is room, also where what takes it had left the outbox before.
                    self.at = now();
                    member.moved = self.at;
                }
                self.advance(index, caller);
            }
            Place::Connected(caller) => {
                // The peer has closed, or speaks unasked: the next request will meet it, as that of a client does that
                // waits in its calls. Until then it is not to wake the loop again and again.
                self.back_end.ignore(&mut member.watch, caller.socket());
                member.place = Place::Connected(caller);
            }
            place @ (Place::Disconnected | Place::Waiting | Place::Finished) => member.place = place,
        }
    }

    /// Takes the replies that have come, one after another.
    fn advance(&mut self, index: usize, mut caller: Box<Caller<'static>>) {
        loop {
            self.is_old = true;
            match caller.advance() {
                Err(failure) => return self.lose(index, caller, &failure),
                // Meanwhile all may have been sent that kept others from being sent.
                Ok(Progress::Blocked(_)) if !caller.is_sending() => return self.ask(index, caller),
                Ok(Progress::Blocked(flags) | Progress::Yields(flags)) => return self.settle(index, caller, flags),
                Ok(Progress::Answered { open }) => {
                    self.answered(index, &mut caller);
                    let member = &mut self.members[index];
                    let stays = open && (member.sent > 0 || member.made < self.usage.requests);
                    if !stays {
                        return self.part(index, caller);
                    }
                    if !caller.is_behind() {
                        // Others may be due that could not be sent before.
                        self.ask(index, caller);
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
        member.state.answered(caller, self.at);
        self.account.answered(&request, caller.kind(), self.at);
    }

    /// The connection that brought the last reply takes no more requests.
    fn part(&mut self, index: usize, caller: Box<Caller<'static>>) {
        let member = &mut self.members[index];
        self.back_end.close(&mut member.watch, caller, self.run.target.patience);
        member.has_none_since(self.at);
        if member.sent > 0 {
            let message = "the server closed after a reply, but later requests were in flight".to_owned();
            self.failed(index, &Failure { kind: ErrorKind::Truncated, message });
        } else if !member.requests.is_empty() {
            self.queue(index);
        }
        self.freed(index);
    }

    /// The connection waits for this, if the back end can do that.
    pub(super) fn settle(&mut self, index: usize, mut caller: Box<Caller<'static>>, flags: PollFlags) {
        let member = &mut self.members[index];
        // What was ready has moved; what was only tried may not have.
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
        self.back_end.close(&mut self.members[index].watch, caller, self.run.target.patience);
        self.is_old = true;
        self.failed(index, failure);
    }

    /// The client has no connection any more. What it had asked over it has failed, or what it was to ask first.
    pub(super) fn failed(&mut self, index: usize, failure: &Failure) {
        let member = &mut self.members[index];
        member.has_none_since(self.at);
        let lost = std::mem::take(&mut member.sent).max(usize::from(!member.requests.is_empty()));
        member.state.failed_together(lost.max(1) as u64, failure);
        for _ in 0..lost {
            self.fail_first(index);
            self.freed(index);
        }
        let member = &self.members[index];
        if self.asking && !member.state.perseveres() {
            self.drop_requests(index);
        } else if !member.requests.is_empty() || !self.asking && member.state.goes_on(self.at) {
            self.queue(index);
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

    /// The time is over that replies are waited for behind the window: what is under way has failed, and what is not is never
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
                Place::Disconnected | Place::Waiting => {}
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
    }
}
