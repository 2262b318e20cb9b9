//! One run of a command from start to end: a file for each command, and what they share.

pub mod agreed_start;
pub mod conform;
pub mod count;
pub mod keeper;
pub mod limits;
pub mod load;
pub mod load_report;
mod load_verdict;
pub mod namespace;
pub mod profile;
pub mod remote;
pub mod serve;
pub mod start_gate;
