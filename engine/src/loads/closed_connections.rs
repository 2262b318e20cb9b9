//! A closed load of very many connections from one process: an event loop with epoll, level-triggered.
//!
//! Kept connections are all made before the first request. Where the load ends by time, that comes before its warm-up.

use std::collections::VecDeque;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::time::Duration;

use anyhow::{Context, Result};

use crate::about::About;
use crate::channel::Openers;
use crate::course::{Course, Edges, RAMP, pause, requests_each};
use crate::exchange::{Attempt, Attempted, Caller, Failure, Progress};
use crate::load::{CLIENTS, CONNECTIONS, LOOPS, Load, LoadRun, MILLISECONDS, THINK, WARM_UP, clients};
use crate::measure::{Measure, now};
use crate::primitive::Waits;
use crate::sys::descriptor::PollFlags;
use crate::sys::epoll::{self, Epoll, Events};
use crate::sys::signal;

pub static ENTRY: Load = Load {
    about: About {
        summary: "One process with an event loop, each connection waiting for its reply before it asks again",
        source: "epoll(7)",
    },
    waits: Waits::ForReadiness,
    settings: &[CLIENTS, CONNECTIONS, LOOPS, MILLISECONDS, WARM_UP, THINK],
    workers: |_| 0,
    requests: &[CLIENTS, LOOPS],
    duration: Some(&MILLISECONDS),
    run,
};

/// Connections that are being made at the same time: as many as the shortest backlog in common use has places (SOMAXCONN
/// before Linux 5.4). More would overrun it by themselves; and where one is full nevertheless, no more than these wait the
/// second until TCP knocks again, while the server catches up.
const CONNECTING_AT_A_TIME: usize = 128;

/// Time until a client tries again that found a Unix listener's queue full.
const KNOCK: u64 = 1_000_000;

/// The longest that the loop waits, so that an interrupt that comes just before is noticed.
const NAP: u64 = 50_000_000;

fn run(run: &'static LoadRun) -> Result<()> {
    let clients = clients(&run.settings);
    run.make_room(clients)?;
    signal::note_interrupts()?;
    let mut turns = Turns::new(run, clients)?;
    let mut events = epoll::no_events();
    if run.keeps() {
        turns.waiting.extend(0..clients);
        while turns.connecting > 0 || !turns.waiting.is_empty() {
            turns.step(None, &mut events)?;
        }
    }
    let mut edges = Edges::begin(run);
    turns.asking = true;
    for index in 0..clients {
        turns.at = now();
        turns.turn(index);
    }
    while turns.going > 0 && !signal::interrupted() {
        turns.step(edges.next(), &mut events)?;
        edges.look(turns.at);
    }
    edges.cut();
    while turns.going > 0 {
        turns.step(None, &mut events)?;
    }
    run.measured.lock().expect("one thread alone").add(&turns.measure);
    Ok(())
}

/// One client and where it stands.
struct Client {
    course: Course<'static>,
    place: Place,
    /// What epoll watches its connection for; `None` where it does not.
    watched: Option<PollFlags>,
    /// When it last came further.
    moved: u64,
    /// When it sent its request.
    asked: u64,
    /// Since when it has found the listener's queue full.
    knocking: Option<u64>,
}

enum Place {
    /// It waits for its turn to connect, or pauses without a connection.
    Apart,
    Connecting(Attempt<'static>),
    /// It waits for the others, or pauses.
    Connected(Caller<'static>),
    /// It waits for the reply.
    Asking(Caller<'static>),
    Home,
}

/// All clients, and whose turn is when.
struct Turns {
    run: &'static LoadRun,
    epoll: Epoll,
    openers: Openers,
    measure: Measure<'static>,
    /// The time by the clock, read anew before whatever needs it exactly.
    at: u64,
    clients: Vec<Client>,
    /// The client of each descriptor.
    of_descriptor: Vec<usize>,
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
    pause: u64,
    /// When whose pause is over; all pauses are of the same length, so they end in the order of their beginnings.
    pausing: VecDeque<(u64, usize)>,
    timeout: u64,
    /// When to look next whose time is over. That is found out a tenth of the time late, for the sake of a loop that keeps
    /// no timer for each request.
    sweep: u64,
}

impl Turns {
    fn new(run: &'static LoadRun, clients: usize) -> Result<Self> {
        let requests = requests_each(run);
        let client = |number| Client {
            course: Course::new(run, run.tally.shared(), number, requests),
            place: Place::Apart,
            watched: None,
            moved: 0,
            asked: 0,
            knocking: None,
        };
        Ok(Turns {
            run,
            epoll: Epoll::create().context("an epoll instance could not be made")?,
            openers: run.way.prepare(&run.settings).context("the primitives could not be prepared")?,
            measure: Measure::new(&run.window),
            at: now(),
            clients: (1..=clients).map(client).collect(),
            of_descriptor: Vec::new(),
            going: clients,
            asking: false,
            connecting: 0,
            waiting: VecDeque::new(),
            next_connect: 0,
            next_knock: 0,
            pause: pause(run),
            pausing: VecDeque::new(),
            timeout: run.target.patience.as_nanos() as u64,
            sweep: 0,
        })
    }

    /// Once around the loop; waits for events no longer than until that moment.
    fn step(&mut self, until: Option<u64>, events: &mut Events) -> Result<()> {
        while self.connecting < CONNECTING_AT_A_TIME
            && (self.asking || self.at >= self.next_connect)
            && self.at >= self.next_knock
            && let Some(index) = self.waiting.pop_front()
        {
            self.next_connect = self.at + RAMP.as_nanos() as u64;
            self.connect(index);
        }
        self.at = now();
        let connect = self.connecting < CONNECTING_AT_A_TIME && !self.waiting.is_empty();
        let connect =
            connect.then_some(if self.asking { self.next_knock } else { self.next_connect.max(self.next_knock) });
        let pause = self.pausing.front().map(|&(due, _)| due);
        let due = [until, connect, pause, Some(self.sweep)].into_iter().flatten().fold(self.at + NAP, u64::min);
        let time = Duration::from_nanos(due.saturating_sub(self.at));
        for (descriptor, ready) in self.epoll.wait_at_most(events, time)? {
            self.at = now();
            self.ready(self.of_descriptor[descriptor as usize], ready);
        }
        self.at = now();
        while let Some(&(due, index)) = self.pausing.front()
            && (due <= self.at || !self.clients[index].course.goes_on(self.at))
        {
            self.pausing.pop_front();
            self.turn(index);
            self.at = now();
        }
        if self.at >= self.sweep {
            self.sweep = self.at + (self.timeout / 10).max(1_000_000);
            self.time_out(self.at);
        }
        Ok(())
    }

    /// A client's next request is due.
    fn turn(&mut self, index: usize) {
        let goes_on = self.clients[index].course.goes_on(self.at);
        match self.leave(index) {
            Place::Connected(caller) if goes_on => self.ask(index, caller),
            Place::Connected(caller) => {
                caller.finish(self.run.target.patience);
                self.go_home(index);
            }
            Place::Apart if goes_on => self.waiting.push_back(index),
            Place::Apart => self.go_home(index),
            place => self.clients[index].place = place,
        }
    }

    fn go_home(&mut self, index: usize) {
        self.clients[index].place = Place::Home;
        self.going -= 1;
    }

    /// Takes a client out of its place, for whoever puts it into the next.
    fn leave(&mut self, index: usize) -> Place {
        std::mem::replace(&mut self.clients[index].place, Place::Apart)
    }

    fn connect(&mut self, index: usize) {
        if !self.clients[index].course.goes_on(self.at) {
            return self.go_home(index);
        }
        self.connecting += 1;
        let attempt = match Attempt::begin(&self.run.target) {
            Ok(attempt) if attempt.found_no_room() => {
                if self.at - *self.clients[index].knocking.get_or_insert(self.at) < self.timeout {
                    self.connecting -= 1;
                    self.next_knock = self.at + KNOCK;
                    return self.waiting.push_front(index);
                }
                attempt.give_up()
            }
            attempt => attempt.map(Attempted::Again),
        };
        self.clients[index].knocking = None;
        self.attempted(index, attempt);
    }

    fn attempted(&mut self, index: usize, attempted: Result<Attempted<'static>, Failure>) {
        // A socket's last copy took its place in the epoll instance along.
        self.clients[index].watched = None;
        let failure = match attempted {
            Ok(Attempted::Again(attempt)) => match self.watch(index, attempt.socket(), PollFlags::POLLOUT) {
                Ok(()) => return self.clients[index].place = Place::Connecting(attempt),
                Err(failure) => failure,
            },
            Ok(Attempted::Connected(socket)) => {
                self.measure.connected(self.at);
                // epoll still knows the socket by the descriptor that the attempt had.
                self.clients[index].watched = Some(PollFlags::POLLOUT);
                match self.clients[index].course.caller(socket, &mut self.openers) {
                    Ok(caller) => {
                        self.connecting -= 1;
                        return self.connected(index, caller);
                    }
                    Err(failure) => failure,
                }
            }
            Err(failure) => failure,
        };
        self.connecting -= 1;
        self.failed(index, &failure);
    }

    fn connected(&mut self, index: usize, caller: Caller<'static>) {
        if self.asking {
            return self.ask(index, caller);
        }
        let watched = self.watch(index, caller.socket(), PollFlags::POLLIN);
        self.settle(index, caller, Place::Connected, watched);
    }

    fn ask(&mut self, index: usize, mut caller: Caller<'static>) {
        self.clients[index].asked = self.at;
        let progress = caller.ask();
        self.progressed(index, caller, progress);
    }

    /// A connection is ready for something.
    fn ready(&mut self, index: usize, ready: PollFlags) {
        match self.leave(index) {
            Place::Connecting(attempt) => self.attempted(index, attempt.finish()),
            Place::Asking(mut caller) => {
                if ready.contains(PollFlags::POLLERR) {
                    // Completions are no failure; a failure is met by the next call.
                    let _ = caller.reap();
                }
                let progress = caller.advance();
                self.progressed(index, caller, progress);
            }
            Place::Connected(caller) => {
                // The peer has closed, or speaks unasked: the next request will meet it, as that of a client does that
                // waits in its calls. Until then it is not to wake the loop again and again.
                let _ = self.epoll.delete(caller.socket());
                self.clients[index].watched = None;
                self.clients[index].place = Place::Connected(caller);
            }
            place @ (Place::Apart | Place::Home) => self.clients[index].place = place,
        }
    }

    fn progressed(&mut self, index: usize, mut caller: Caller<'static>, progress: Result<Progress, Failure>) {
        match progress {
            Ok(Progress::Blocked(flags) | Progress::Yields(flags)) => {
                let watched = self.watch(index, caller.socket(), flags);
                self.settle(index, caller, Place::Asking, watched);
            }
            Ok(Progress::Answered { open }) => {
                let client = &mut self.clients[index];
                self.at = now();
                self.measure.answered(client.asked, self.at);
                client.course.answered(&mut caller, self.at);
                if open && self.run.keeps() {
                    client.place = Place::Connected(caller);
                } else {
                    caller.finish(self.run.target.patience);
                }
                self.rest(index);
            }
            Err(failure) => self.lose(index, caller, &failure),
        }
    }

    /// Puts a client with its connection into its place, if epoll watches it there.
    fn settle(
        &mut self,
        index: usize,
        caller: Caller<'static>,
        place: fn(Caller<'static>) -> Place,
        watched: Result<(), Failure>,
    ) {
        match watched {
            Ok(()) => self.clients[index].place = place(caller),
            Err(failure) => self.lose(index, caller, &failure),
        }
    }

    fn lose(&mut self, index: usize, caller: Caller<'static>, failure: &Failure) {
        caller.finish(self.run.target.patience);
        self.failed(index, failure);
    }

    /// The client has no connection any more.
    fn failed(&mut self, index: usize, failure: &Failure) {
        self.clients[index].course.failed(failure);
        if self.asking {
            self.rest(index);
        } else if self.clients[index].course.goes_on(self.at) {
            self.waiting.push_back(index);
        }
    }

    /// A pause, if there is one, and then the next request.
    fn rest(&mut self, index: usize) {
        if self.pause > 0 && self.clients[index].course.goes_on(self.at) {
            self.pausing.push_back((self.at + self.pause, index));
        } else {
            self.turn(index);
        }
    }

    fn watch(&mut self, index: usize, socket: BorrowedFd<'_>, flags: PollFlags) -> Result<(), Failure> {
        let client = &mut self.clients[index];
        client.moved = self.at;
        let result = match client.watched {
            Some(watched) if watched == flags => Ok(()),
            Some(_) => self.epoll.modify(socket, epoll::flags(flags)),
            None => self.epoll.add(socket, epoll::flags(flags)),
        };
        client.watched = Some(flags);
        let descriptor = socket.as_raw_fd() as usize;
        if descriptor >= self.of_descriptor.len() {
            self.of_descriptor.resize(descriptor + 1, usize::MAX);
        }
        self.of_descriptor[descriptor] = index;
        result.map_err(|error| Failure::system("waiting for a connection", &error))
    }

    fn time_out(&mut self, at: u64) {
        for index in 0..self.clients.len() {
            if at.saturating_sub(self.clients[index].moved) < self.timeout {
                continue;
            }
            match self.leave(index) {
                Place::Connecting(attempt) => self.attempted(index, attempt.give_up()),
                Place::Asking(caller) => {
                    let failure = caller.timed_out();
                    self.lose(index, caller, &failure);
                }
                place => self.clients[index].place = place,
            }
        }
    }
}
