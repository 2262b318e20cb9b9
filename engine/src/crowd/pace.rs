//! Who asks when.

use std::collections::VecDeque;

use super::member::Request;

/// Which load the clients make.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Each waits for its reply, and pauses for so many nanoseconds, before it asks again.
    Closed {
        /// The pause.
        pause: u64,
    },
}

/// What has become due.
pub enum Due {
    /// This client asks.
    Ask(usize, Request),
    /// This client is to be given nothing more.
    Retire(usize),
}

/// The clients that could ask, and when they do.
pub struct Pace {
    pause: u64,
    /// When whose pause is over; all pauses are of the same length, so they end in the order of their beginnings.
    pausing: VecDeque<(u64, usize)>,
}

impl Pace {
    /// Nobody yet.
    pub fn new(kind: Kind) -> Self {
        let Kind::Closed { pause } = kind;
        Pace { pause, pausing: VecDeque::new() }
    }

    /// So many clients could ask from this moment on.
    pub fn begin(&mut self, clients: usize, at: u64) {
        self.pausing.extend((0..clients).map(|client| (at, client)));
    }

    /// A request of this client is over.
    pub fn freed(&mut self, client: usize, at: u64) {
        self.pausing.push_back((at + self.pause, client));
    }

    /// What is due at this moment, given who still goes on. A client that does not is not let wait.
    pub fn due(&mut self, at: u64, goes_on: impl Fn(usize) -> bool) -> Option<Due> {
        let &(due, client) = self.pausing.front()?;
        let goes_on = goes_on(client);
        if goes_on && at < due {
            return None;
        }
        self.pausing.pop_front();
        Some(if goes_on { Due::Ask(client, Request { asked: 0 }) } else { Due::Retire(client) })
    }

    /// When something will be due, as far as that is known.
    pub fn next(&self) -> Option<u64> {
        self.pausing.front().map(|&(due, _)| due)
    }
}
