//! What becomes of each request of a thread, as its load counts it: a closed loop from its sending on, an open one from the
//! moment at which it was due, whether or not it was ever sent.

use super::member::Request;
use super::pace::Kind;
use crate::client::generator::Generator;
use crate::client::load::LoadRun;
use crate::client::measure::Measure;

/// The account of a thread.
pub struct Account {
    measure: Measure<'static>,
    counts: Counts,
}

/// When a request comes into the system, and its latency begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Counts {
    /// As it is sent.
    FromSending,
    /// As it is due.
    FromItsMoment,
}

impl Account {
    /// Nothing yet, of a load of this kind.
    pub fn new(kind: Kind, run: &'static LoadRun) -> Self {
        let (measure, counts) = match kind {
            Kind::Closed { .. } => (Measure::new(&run.window), Counts::FromSending),
            Kind::Open(_) => (Measure::of_schedule(&run.window), Counts::FromItsMoment),
        };
        Account { measure, counts }
    }

    /// A connection was made.
    pub fn connected(&mut self, at: u64) {
        self.measure.connected(at);
    }

    /// A request was given to a client.
    pub fn assigned(&mut self, request: &Request) {
        match self.counts {
            Counts::FromSending => {}
            Counts::FromItsMoment => self.measure.due(request.moments.due),
        }
    }

    /// Its connection was begun, or its first byte.
    pub fn begun(&mut self, request: &Request) {
        match self.counts {
            Counts::FromSending => {}
            Counts::FromItsMoment => self.measure.sent(request.moments),
        }
    }

    /// It is being sent.
    pub fn asked(&mut self, request: &Request) {
        match self.counts {
            Counts::FromSending => self.measure.comes(request.asked),
            Counts::FromItsMoment => {}
        }
    }

    /// Its reply came, and was right; where requests are of several kinds, it was of this one.
    pub fn answered(&mut self, request: &Request, kind: Option<usize>, at: u64) {
        self.measure.goes(at);
        let from = match self.counts {
            Counts::FromSending => {
                self.measure.answered(request.asked, at);
                request.asked
            }
            Counts::FromItsMoment => {
                self.measure.answered_by_schedule(request.moments, at);
                request.moments.due
            }
        };
        if let Some(kind) = kind {
            self.measure.answered_of_kind(kind, from, at);
        }
    }

    /// It failed, sent or not.
    pub fn failed(&mut self, request: &Request, at: u64) {
        if self.counts == Counts::FromItsMoment || request.asked > 0 {
            self.measure.goes(at);
        }
        self.measure.failed(request.moments.due);
    }

    /// It was given to a client, which will not make it.
    pub fn dropped(&mut self, request: &Request) {
        match self.counts {
            Counts::FromSending => {}
            Counts::FromItsMoment => self.measure.never_sent(request.moments.due),
        }
    }

    /// One was due at this moment, and no client was free until it was too late.
    pub fn left(&mut self, due: u64) {
        self.measure.due(due);
        self.measure.never_sent(due);
    }

    /// All that was measured, with what the thread itself used in the window.
    pub fn close(mut self, generator: Option<Generator>) -> Measure<'static> {
        self.measure.generator = generator;
        self.measure
    }
}
