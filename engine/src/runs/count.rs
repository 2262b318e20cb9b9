//! Counts the whole life of a server or a load from exec to exit, including its supervisor, as `perf stat` does.

use std::process::ExitCode;

use anyhow::Result;

use crate::base::about::Entry;
use crate::count::counter::{Counter, Counting, Subject};
use crate::lines::Life;
use crate::runs::start_gate::{self, Command, Watcher};

/// The command to run, and the counters.
pub struct Plan {
    /// The counters.
    pub counters: Vec<&'static Entry<Counter>>,
    /// The command.
    pub command: Command,
}

impl Watcher for Counting {}

/// Runs the command to its end. Returns its counts, and the exit status for this process.
pub fn count(plan: &Plan) -> Result<(Life, ExitCode)> {
    let begin = |tree| Ok(Counting::begin(&plan.counters, Subject::new(tree, None)));
    let (mut counting, passed) = start_gate::run(&plan.command, begin)?;
    let life = Life {
        readout: counting.read()?,
        elapsed_ns: passed.ended_ns - passed.started_ns,
        started_monotonic_ns: passed.started_ns,
        used: (&passed.used).into(),
        status: passed.status,
    };
    Ok((life, passed.exit_code()))
}
