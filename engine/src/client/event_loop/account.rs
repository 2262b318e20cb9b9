//! Accounts for each request of a thread: in a closed loop from its sending, in an open one from the moment it was due,
//! whether or not it was ever sent.

use super::member::Request;
use super::pace::Kind;
use crate::client::generator::Generator;
use crate::client::load::LoadRun;
use crate::client::measure::Measure;
use crate::protocol::workload::Status;

/// Account of a thread.
pub struct Account {
    measure: Measure<'static>,
    counts: Counts,
}

/// Moment at which a request enters the system, and its latency starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Counts {
    /// The moment at which it is sent.
    FromSending,
    /// The moment at which it is due.
    FromItsMoment,
}

impl Account {
    /// Makes an empty account, for a load of this kind.
    pub fn new(kind: Kind, run: &'static LoadRun) -> Self {
        let (measure, counts) = match kind {
            Kind::Closed { .. } => (Measure::new(&run.window), Counts::FromSending),
            Kind::Open(_) => (Measure::of_schedule(&run.window), Counts::FromItsMoment),
        };
        Account { measure, counts }
    }

    /// Counts a new connection, whose first attempt began at a moment.
    pub fn connected(&mut self, begun: u64, at: u64) {
        self.measure.connected(begun, at);
    }

    /// Counts a request assigned to a client.
    pub fn assigned(&mut self, request: &Request) {
        match self.counts {
            Counts::FromSending => {}
            Counts::FromItsMoment => self.measure.due(request.moments.due),
        }
    }

    /// Notes that its connection, or its first byte, was begun.
    pub fn begun(&mut self, request: &Request) {
        match self.counts {
            Counts::FromSending => {}
            Counts::FromItsMoment => self.measure.sent(request.moments),
        }
    }

    /// Notes that it is being sent.
    pub fn sending(&mut self, request: &Request) {
        match self.counts {
            Counts::FromSending => self.measure.comes(request.sent_at),
            Counts::FromItsMoment => {}
        }
    }

    /// Counts its reply, with its status if it has one, and its kind if requests have several kinds.
    pub fn answered(&mut self, request: &Request, status: Option<Status>, kind: Option<usize>, at: u64) {
        self.measure.goes(at);
        let from = self.counts_from(request);
        match self.counts {
            Counts::FromSending => self.measure.answered(status, from, at),
            Counts::FromItsMoment => self.measure.answered_by_schedule(status, request.moments, at),
        }
        if let Some(kind) = kind.filter(|_| status.is_none_or(|status| !status.is_error)) {
            self.measure.answered_of_kind(kind, from, at);
        }
    }

    /// Counts a failure, sent or not.
    pub fn failed(&mut self, request: &Request, at: u64) {
        if self.counts == Counts::FromItsMoment || request.sent_at > 0 {
            self.measure.goes(at);
        }
        self.measure.failed(request.moments.due);
    }

    /// Returns the moment from which a request's latency counts.
    pub fn counts_from(&self, request: &Request) -> u64 {
        match self.counts {
            Counts::FromSending => request.sent_at,
            Counts::FromItsMoment => request.moments.due,
        }
    }

    /// Counts a request that its client will not send.
    pub fn dropped(&mut self, request: &Request) {
        match self.counts {
            Counts::FromSending => {}
            Counts::FromItsMoment => self.measure.never_sent(request.moments.due),
        }
    }

    /// Counts a request due at this moment for which no client was free in time.
    pub fn left(&mut self, due: u64) {
        self.measure.due(due);
        self.measure.never_sent(due);
    }

    /// Returns all measurements, including the thread's own usage in the window.
    pub fn close(mut self, generator: Option<Generator>) -> Measure<'static> {
        self.measure.generator = generator;
        self.measure
    }
}
