//! One client of an event loop and its state.

use std::collections::VecDeque;

use crate::client::connect::Attempt;
use crate::client::due_requests::Moments;
use crate::client::exchange::Caller;
use crate::client::state::ClientState;

/// A client.
pub struct Member<Watch> {
    /// Decides when it sends and stops.
    pub state: ClientState<'static>,
    /// State of its connection.
    pub place: Place,
    /// The back end's state of its socket.
    pub watch: Watch,
    /// Time of its last progress.
    pub moved: u64,
    /// Since when it has been connecting.
    pub connecting_since: u64,
    /// Since when the listener's queue has been full.
    pub full_since: Option<u64>,
    /// Its unfinished requests, in the order in which they became due.
    pub requests: VecDeque<Request>,
    /// Number of them that have been sent, or begun.
    pub sent: usize,
    /// Requests for which its connection has been used.
    pub made: u64,
    /// Since when its connection has been able to take the next request: it was opened, the previous request was sent,
    /// or the previous one ended.
    pub able: u64,
    /// Its connection did not take everything to be sent.
    pub held_up: bool,
    /// Failed requests after which it pauses: as many may follow them.
    pub resting: usize,
    /// Requests that it may have in flight: those that it has, and those that it waits for.
    pub slots: usize,
}

/// State of a client's connection.
pub enum Place {
    /// It has no connection, and needs none now.
    Disconnected,
    /// Queued to connect.
    Waiting,
    /// Connecting.
    Connecting(Attempt<'static>),
    /// Connected.
    Connected(Box<Caller<'static>>),
    /// It pauses after failures.
    Resting,
    /// Ended.
    Finished,
}

/// Progress of a client, and its number of unfinished requests.
pub type Standing<'a> = (&'a ClientState<'static>, usize);

/// A due request, and its moments (CLOCK_MONOTONIC, nanoseconds; 0: not yet).
#[derive(Debug, Clone, Copy)]
pub struct Request {
    /// Number of its arrival, counted from 0, in a load with a schedule.
    pub arrival: Option<u64>,
    /// Times at which it became due, a client was free for it, and that client started to send it or to connect for it.
    pub moments: Moments,
    /// Time at which it was sent first.
    pub sent_at: u64,
    /// It is sent again, over another connection.
    pub is_repeated: bool,
}

impl Request {
    /// Makes a request that was due at a moment, for a client that was free since another.
    pub fn new(arrival: Option<u64>, due: u64, free: u64) -> Self {
        Request { arrival, moments: Moments { due, free, begun: 0 }, sent_at: 0, is_repeated: false }
    }
}

impl<Watch: Default> Member<Watch> {
    /// Makes a client that has not started.
    pub fn new(state: ClientState<'static>, slots: usize) -> Self {
        Member {
            state,
            place: Place::Disconnected,
            watch: Watch::default(),
            moved: 0,
            connecting_since: 0,
            full_since: None,
            requests: VecDeque::new(),
            sent: 0,
            made: 0,
            able: 0,
            held_up: false,
            resting: 0,
            slots,
        }
    }

    /// Its progress, which decides whether it gets another request.
    pub fn standing(&self) -> Standing<'_> {
        (&self.state, self.requests.len())
    }

    /// Notes that it has no connection any more, and may open the next.
    pub fn has_none_since(&mut self, at: u64) {
        (self.made, self.able, self.held_up) = (0, at, false);
    }

    /// Takes the state, for the caller to replace it.
    pub fn leave(&mut self) -> Place {
        std::mem::replace(&mut self.place, Place::Disconnected)
    }
}
