//! Times at which clients send: in a closed loop, a client sends again after its reply; in an open one, any free client
//! sends when a request is due.

use std::collections::VecDeque;

use super::member::{Request, Standing};
use crate::base::window::Window;
use crate::client::load::LoadRun;
use crate::requests::arrivals::Arrivals;
use crate::requests::schedule::Schedule;

/// Kind of the load.
#[derive(Debug, Clone, Copy)]
pub enum Kind {
    /// Each client waits for its reply, and pauses for this many nanoseconds before its next request.
    Closed {
        /// Think time.
        pause: u64,
    },
    /// A schedule decides when requests are due.
    Open(Schedule),
}

/// One thread of a load.
#[derive(Debug, Clone, Copy)]
pub struct Share {
    /// Its number, counted from 0.
    pub thread: usize,
    /// Number of threads.
    pub threads: usize,
}

/// Something that has become due.
pub enum Due {
    /// This client sends a request.
    Send(usize, Request),
    /// This client may have one request less in flight.
    Retire(usize),
}

/// The clients that could send, and when they do. A client that may have several requests in flight occurs several
/// times.
pub enum Pace {
    /// Of a closed loop.
    Closed(Closed),
    /// Of an open loop.
    Open(Box<Open>),
}

/// See [`Kind::Closed`].
pub struct Closed {
    pause: u64,
    /// Start of each client, one after another.
    beginning: VecDeque<(u64, usize)>,
    /// End of each client's pause; all pauses have the same length, so they end in the order of their starts.
    pausing: VecDeque<(u64, usize)>,
}

/// See [`Kind::Open`]. Requests that wait for a connection take no memory: the schedule lags behind.
pub struct Open {
    schedule: Schedule,
    share: Share,
    /// All moments from the start.
    arrivals: Option<Arrivals>,
    /// The first unassigned request: when it is due, and its number.
    next: u64,
    number: u64,
    /// Free clients, each with the time since when; the longest free client sends first.
    idle: VecDeque<(usize, u64)>,
    /// End of the window: no request is due from then on.
    window: &'static Window,
}

impl Pace {
    /// Makes it without clients.
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

    /// Starts the load at this moment, with this many clients and requests in flight per client. Clients of a closed
    /// loop start one after another over `ramp` nanoseconds.
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

    /// Notes that a request of this client is over.
    pub fn freed(&mut self, client: usize, at: u64) {
        match self {
            Pace::Closed(closed) => closed.pausing.push_back((at + closed.pause, client)),
            Pace::Open(open) => open.idle.push_back((client, at)),
        }
    }

    /// Returns whether any client waits for a request, now or later.
    pub fn has_waiting_client(&self) -> bool {
        match self {
            Pace::Closed(closed) => !closed.beginning.is_empty() || !closed.pausing.is_empty(),
            Pace::Open(open) => !open.idle.is_empty(),
        }
    }

    /// Returns whether a client with this progress gets another request.
    pub fn goes_on(&self, standing: Standing<'_>, at: u64) -> bool {
        match self {
            Pace::Closed(_) => Closed::goes_on(standing, at),
            Pace::Open(_) => Open::goes_on(standing),
        }
    }

    /// Returns what is due at this moment, given the progress of each client. A client that has ended does not wait.
    pub fn due<'a>(&mut self, at: u64, standing: impl Fn(usize) -> Standing<'a>) -> Option<Due> {
        match self {
            Pace::Closed(closed) => closed.due(at, standing),
            Pace::Open(open) => open.due(at, standing),
        }
    }

    /// Returns the time at which something will be due for a free client, as far as known.
    pub fn next(&self) -> Option<u64> {
        match self {
            Pace::Closed(closed) => {
                let first = |queue: &VecDeque<(u64, usize)>| queue.front().map(|&(due, _)| due);
                [first(&closed.beginning), first(&closed.pausing)].into_iter().flatten().min()
            }
            Pace::Open(open) => (!open.idle.is_empty()).then(|| open.next.min(open.window.edges().end)),
        }
    }

    /// Returns the moments of an open loop before the window's end for which no client was free in time.
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
                    Due::Send(client, Request::new(None, due, due))
                } else {
                    Due::Retire(client)
                });
            }
        }
        None
    }
}

impl Open {
    /// Requests due before the window's end are sent after it, too.
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
        Some(Due::Send(client, Request::new(Some(number), due, free)))
    }
}
