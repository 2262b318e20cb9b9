//! Keepers: a second process above each that supervises programs that are not ours.
//!
//! Such programs start processes that do not end with the supervisor, since children do not inherit a parent-death signal
//! (prctl(2)). If the supervisor is killed, the keeper ends them. If the keeper is killed, the supervisor ends as after SIGTERM,
//! and they end with it. The keeper only waits, so that it costs a measurement nothing.

use std::io::IsTerminal;

use anyhow::{Context, Result};

use crate::count::command_tree::end_descendants;
use crate::count::control_group;
use crate::runs::start_gate;
use crate::sys::process::{self, Ended, Pid};
use crate::sys::signal::{self, Signal, SignalDescriptor};

/// Makes this process a keeper, and returns in its child, which goes on as the supervisor. The keeper passes signals on, and ends
/// as the supervisor has ended. Comes before any thread and any other child.
pub fn begin() -> Result<()> {
    let signals = SignalDescriptor::of_children_and_interrupts()?;
    // What the supervisor leaves becomes a child of the keeper.
    process::become_subreaper()?;
    let terminal = std::io::stdin().is_terminal();
    let forked = process::split(Signal::SIGTERM).context("the supervisor could not be forked (ulimit -u)")?;
    let Some(supervisor) = forked else {
        // A kill of the keeper's whole group then spares the supervisor. But only a terminal's own group may read from it.
        if !terminal {
            process::lead_group(Pid::this())?;
        }
        return Ok(());
    };
    let ended = start_gate::wait(supervisor, &signals, terminal, None, &mut ());
    // A supervisor that was killed has left its programs and its control groups; one that ended by itself has not.
    end_descendants(supervisor)?;
    control_group::remove_made_by(supervisor);
    match ended? {
        Ended::Exited(status) => process::leave(status),
        Ended::Killed(signal) => signal::end_by(signal),
    }
}
