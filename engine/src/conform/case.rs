//! A case, as a numbered row.

use schemars::JsonSchema;
use serde::Serialize;

use crate::conform::chance::Chance;
use crate::conform::protocol::Protocol;
use crate::conform::subject::Subject;
use crate::conform::verdict::{Fault, Verdict};

/// Number of the case that stops the server, which is run last.
pub const STOPS: u32 = 16;

/// What a load does that only works with a server that passes a case.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Need {
    /// Whatever the load does.
    AnyLoad,
    /// It sends several requests over a connection.
    KeptConnections,
    /// It sends requests before the replies to earlier ones.
    Pipelining,
    /// Its requests have a body.
    RequestBody,
    /// Its method is HEAD.
    Head,
}

/// One case.
pub struct Case {
    /// Number, by which it is chosen and reported.
    pub number: u32,
    /// Name, a few words.
    pub name: &'static str,
    /// What a server must do.
    pub rule: &'static str,
    /// Section of the standard that demands it; empty if it follows from TCP and the workload.
    pub source: &'static str,
    /// Whether a workload has this case.
    pub applies: fn(&Protocol) -> bool,
    /// What a load does whose figures are wrong if the case fails; `None` if no load needs it.
    pub needed_by: Option<Need>,
    /// Runs it. The error is the fault of a rule that a server must keep.
    pub run: fn(&mut Subject<'_>) -> Result<Verdict, Fault>,
}

impl Case {
    /// Runs it against a server.
    pub fn judge(&self, subject: &mut Subject<'_>) -> Result<Verdict, Fault> {
        subject.chance = Chance::new(subject.seed, self.number);
        subject.last_request.forget();
        subject.trouble.take();
        subject.host.begin();
        let judged = (self.run)(subject);
        // Whatever was seen of the server may be due to that.
        subject.trouble.take().map_or(judged, |reason| Ok(Verdict::NotJudged(reason)))
    }
}

/// Whether a workload has a case: each has it.
pub fn always(_: &Protocol) -> bool {
    true
}
