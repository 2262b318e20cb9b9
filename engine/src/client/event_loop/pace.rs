//! Who asks when: in a closed loop whoever was answered, in an open one whoever is free when a request is due.

use std::collections::VecDeque;

use super::arrivals::Arrivals;
use super::member::{Request, Standing};
use crate::base::window::Window;
use crate::client::load::LoadRun;
use crate::client::schedule::Schedule;

/// Which load the clients make.
#[derive(Debug, Clone, Copy)]
pub enum Kind {
    /// Each waits for its reply, and pauses for so many nanoseconds, before it asks again.
    Closed {
        /// The pause.
        pause: u64,
    },
    /// Requests are due by a schedule.
    Open(Schedule),
}

/// Of the threads of a load, one.
#[derive(Debug, Clone, Copy)]
pub struct Share {
    /// Its number, counted from 0.
    pub thread: usize,
    /// How many there are.
    pub threads: usize,
}

/// What has become due.
pub enum Due {
    /// This client asks.
    Ask(usize, Request),
    /// This client is to be given one request less at a time.
    Retire(usize),
}

/// The clients that could ask, and when they do. One that may have several requests at a time stands in it several times.
pub enum Pace {
    /// Of a closed loop.
    Closed(Closed),
    /// Of an open loop.
    Open(Box<Open>),
}

/// See [`Kind::Closed`].
pub struct Closed {
    pause: u64,
    /// When who begins, one after another.
    beginning: VecDeque<(u64, usize)>,
    /// When whose pause is over; all pauses are of the same length, so they end in the order of their beginnings.
    pausing: VecDeque<(u64, usize)>,
}

/// See [`Kind::Open`]. Requests that wait for a connection take no memory: the schedule lags behind.
pub struct Open {
    schedule: Schedule,
    share: Share,
    /// From the beginning on.
    arrivals: Option<Arrivals>,
    /// The first request that nobody was given: when it is due, and its number.
    next: u64,
    number: u64,
    /// Free clients, each since when: who is free longest asks first.
    idle: VecDeque<(usize, u64)>,
    /// Nothing is due from its end on.
    window: &'static Window,
}

impl Pace {
    /// Nobody yet.
    pub fn new(kind: Kind, share: Share, run: &'static LoadRun) -> Self {
        match kind {
            Kind::Closed { pause } => {
                Pace::Closed(Closed { pause, beginning: VecDeque::new(), pausing: VecDeque::new() })
            }
            Kind::Open(schedule) => Pace::Open(Box::new(Open {
                schedule,
                share,
                arrivals: None,
                next: u64::MAX,
                number: share.thread as u64,
                idle: VecDeque::new(),
                window: &run.window,
            })),
        }
    }

    /// The load begins at this moment: so many clients could ask, each so many times. Those of a closed loop do so one
    /// after another over `ramp` nanoseconds.
    pub fn begin(&mut self, clients: usize, times: usize, at: u64, ramp: u64) {
        let all = (0..times).flat_map(|_| 0..clients);
        match self {
            Pace::Closed(closed) => {
                // In the order of their moments.
                let moment = |client: usize| at + (ramp as u128 * client as u128 / clients as u128) as u64;
                let each = (0..clients).flat_map(|client| (0..times).map(move |_| client));
                closed.beginning = if ramp > 0 {
                    each.map(|client| (moment(client), client)).collect()
                } else {
                    all.map(|client| (at, client)).collect()
                };
            }
            Pace::Open(open) => {
                open.idle = all.map(|client| (client, at)).collect();
                let mut arrivals = open.schedule.of_thread(open.share.thread, open.share.threads, at);
                open.next = arrivals.next().unwrap_or(u64::MAX);
                open.arrivals = Some(arrivals);
            }
        }
    }

    /// A request of this client is over.
    pub fn freed(&mut self, client: usize, at: u64) {
        match self {
            Pace::Closed(closed) => closed.pausing.push_back((at + closed.pause, client)),
            Pace::Open(open) => open.idle.push_back((client, at)),
        }
    }

    /// Whether anybody waits to be given a request, now or later.
    pub fn somebody_could_ask(&self) -> bool {
        match self {
            Pace::Closed(closed) => !closed.beginning.is_empty() || !closed.pausing.is_empty(),
            Pace::Open(open) => !open.idle.is_empty(),
        }
    }

    /// Whether a client that stands so is to be given another request.
    pub fn goes_on(&self, standing: Standing<'_>, at: u64) -> bool {
        match self {
            Pace::Closed(_) => Closed::goes_on(standing, at),
            Pace::Open(_) => Open::goes_on(standing),
        }
    }

    /// What is due at this moment, given how each client stands. One that does not go on is not let wait.
    pub fn due<'a>(&mut self, at: u64, standing: impl Fn(usize) -> Standing<'a>) -> Option<Due> {
        match self {
            Pace::Closed(closed) => closed.due(at, standing),
            Pace::Open(open) => open.due(at, standing),
        }
    }

    /// When something will be due for a client that is free, as far as that is known.
    pub fn next(&self) -> Option<u64> {
        match self {
            Pace::Closed(closed) => {
                let first = |queue: &VecDeque<(u64, usize)>| queue.front().map(|&(due, _)| due);
                [first(&closed.beginning), first(&closed.pausing)].into_iter().flatten().min()
            }
            Pace::Open(open) => (!open.idle.is_empty()).then(|| open.next.min(open.window.edges().end)),
        }
    }

    /// The moments of an open loop that came before the window's end, and at which nobody was free until it was too late.
    pub fn left(&mut self) -> impl Iterator<Item = u64> {
        let open = match self {
            Pace::Closed(_) => None,
            Pace::Open(open) => Some(open),
        };
        open.into_iter().flat_map(|open| {
            let end = open.window.edges().end;
            let first = Some(std::mem::replace(&mut open.next, u64::MAX));
            first.into_iter().chain(open.arrivals.take().into_iter().flatten()).take_while(move |&due| due < end)
        })
    }
}

impl Closed {
    fn goes_on((state, requests): Standing<'_>, at: u64) -> bool {
        state.goes_on_beside(requests as u64, at)
    }

    fn due<'a>(&mut self, at: u64, standing: impl Fn(usize) -> Standing<'a>) -> Option<Due> {
        for queue in [&mut self.beginning, &mut self.pausing] {
            let Some(&(due, client)) = queue.front() else { continue };
            let goes_on = Self::goes_on(standing(client), at);
            if at >= due || !goes_on {
                queue.pop_front();
                return Some(if goes_on {
                    Due::Ask(client, Request::new(None, due, due))
                } else {
                    Due::Retire(client)
                });
            }
        }
        None
    }
}

impl Open {
    /// What is due before the window's end is made after it, too.
    fn goes_on((state, _): Standing<'_>) -> bool {
        state.perseveres()
    }

    fn due<'a>(&mut self, at: u64, standing: impl Fn(usize) -> Standing<'a>) -> Option<Due> {
        let &(client, free) = self.idle.front()?;
        let end = self.window.edges().end;
        let none_is_left = at >= end && self.next >= end;
        if none_is_left || !Self::goes_on(standing(client)) {
            self.idle.pop_front();
            return Some(Due::Retire(client));
        }
        if at < self.next || self.next >= end {
            return None;
        }
        self.idle.pop_front();
        let following = self.arrivals.as_mut().and_then(Iterator::next).unwrap_or(u64::MAX);
        let due = std::mem::replace(&mut self.next, following);
        let number = self.number;
        self.number += self.share.threads as u64;
        Some(Due::Ask(client, Request::new(Some(number), due, free)))
    }
}
