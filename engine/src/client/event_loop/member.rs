//! One client of an event loop and where it stands.

use std::collections::VecDeque;

use crate::client::connect::Attempt;
use crate::client::exchange::Caller;
use crate::client::scheduled::Moments;
use crate::client::state::ClientState;

/// A client.
pub struct Member<Watch> {
    /// How it decides.
    pub state: ClientState<'static>,
    /// Where it stands.
    pub place: Place,
    /// What the back end keeps of its socket.
    pub watch: Watch,
    /// When it last came further.
    pub moved: u64,
    /// Since when it has found the listener's queue full.
    pub full_since: Option<u64>,
    /// Its requests that are not over, in the order in which they became due.
    pub requests: VecDeque<Request>,
    /// How many of them have been sent, or begun to be.
    pub sent: usize,
    /// How many requests its connection has been used for.
    pub made: u64,
    /// Since when its connection has been able to take the next request: it was made, or what came before was sent, or the one
    /// before it ended.
    pub able: u64,
    /// Its connection did not take all that was to be sent.
    pub held_up: bool,
    /// How many requests it may still have at a time: those that it has, and those that it waits to be given.
    pub slots: usize,
}

/// Where a client stands.
pub enum Place {
    /// It has no connection, and need not have one.
    Disconnected,
    /// It waits for its turn to connect.
    Waiting,
    /// It connects.
    Connecting(Attempt<'static>),
    /// It has a connection.
    Connected(Box<Caller<'static>>),
    /// It has reached its end.
    Finished,
}

/// How far a client has come, and how many requests it has that are not over.
pub type Standing<'a> = (&'a ClientState<'static>, usize);

/// A request that has become due, and its moments (CLOCK_MONOTONIC, nanoseconds; 0: not yet).
#[derive(Debug, Clone, Copy)]
pub struct Request {
    /// The number of its arrival, counted from 0, where it goes by a schedule.
    pub arrival: Option<u64>,
    /// When it became due, when there was a client for it, and when that sent it or began to connect for it.
    pub moments: Moments,
    /// When it was sent.
    pub asked: u64,
}

impl Request {
    /// One that was due at a moment, given to a client that was free since another.
    pub fn new(arrival: Option<u64>, due: u64, free: u64) -> Self {
        Request { arrival, moments: Moments { due, free, begun: 0 }, asked: 0 }
    }
}

impl<Watch: Default> Member<Watch> {
    /// One that has not begun.
    pub fn new(state: ClientState<'static>, slots: usize) -> Self {
        Member {
            state,
            place: Place::Disconnected,
            watch: Watch::default(),
            moved: 0,
            full_since: None,
            requests: VecDeque::new(),
            sent: 0,
            made: 0,
            able: 0,
            held_up: false,
            slots,
        }
    }

    /// What decides whether it is given another request.
    pub fn standing(&self) -> Standing<'_> {
        (&self.state, self.requests.len())
    }

    /// It has no connection any more, and may make the next.
    pub fn has_none_since(&mut self, at: u64) {
        (self.made, self.able, self.held_up) = (0, at, false);
    }

    /// Takes it out of its place, for whoever puts it into the next.
    pub fn leave(&mut self) -> Place {
        std::mem::replace(&mut self.place, Place::Disconnected)
    }
}
