//! Lines of `conform`: a case, its verdict, and the request to stop the server.

use schemars::JsonSchema;
use serde::Serialize;

use crate::conform::case::Need;

/// A case that `conform --list` prints.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct ConformCase {
    /// Version of the lines.
    pub schema: u32,
    /// Number of the case, which stays the same for ever.
    pub number: u32,
    /// Name, a few words.
    pub name: &'static str,
    /// What a server must do.
    pub rule: &'static str,
    /// Section of the standard that demands it; null if it follows from TCP and the workload.
    pub source: Option<&'static str>,
    /// Workloads that have the case.
    pub workloads: Vec<&'static str>,
    /// What a load does that only works with a server that passes the case; null if no load needs it.
    pub needed_by: Option<Need>,
}

/// A case that was run against a server.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct Conformed {
    /// Version of the lines.
    pub schema: u32,
    /// Number of the case.
    pub number: u32,
    /// Name, a few words.
    pub name: &'static str,
    /// What a server must do.
    pub rule: &'static str,
    /// Section of the standard that demands it; null if it follows from TCP and the workload.
    pub source: Option<&'static str>,
    /// What the case showed.
    pub verdict: ConformVerdict,
    /// The right behaviour, of a case that failed or warns.
    pub expected: Option<String>,
    /// The behaviour of the server, of a case that failed or warns; of other cases what is worth knowing.
    pub actual: Option<String>,
    /// The first line of the request that the case sent last, or the beginning of it, in quotes; of a case that failed.
    pub request: Option<String>,
    /// Time that the case took.
    pub elapsed_ns: u64,
}

/// What a case showed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ConformVerdict {
    /// The server did what it must.
    Passed,
    /// The server did something that is left to it.
    Allowed,
    /// The server did not do something that it should do.
    Warned,
    /// The server broke a rule that it must keep.
    Failed,
    /// The case cannot be judged here.
    NotJudged,
}

/// A case has opened its connections. The reader of this line should stop the server now with SIGTERM, and then write a line:
/// `stopped`, or what was wrong.
#[derive(Debug, Serialize, JsonSchema)]
pub struct ConformStop {
    /// Number of the case.
    pub number: u32,
}
