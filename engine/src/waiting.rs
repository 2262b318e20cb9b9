//! How an event loop waits that could have a CPU for itself: asleep, or looking again and again.

use crate::setting::{Kind, Setting, Settings};

/// How a loop waits for what comes next.
pub const WAIT: Setting = Setting {
    name: "wait",
    help: "Sleep until there is something to do, or spin: never late by a wake-up, never to be woken at another's cost, and a CPU \
           for each thread",
    unit: None,
    kind: Kind::Choice { choices: &["sleep", SPIN], default: "sleep" },
};

const SPIN: &str = "spin";

/// Whether it never sleeps.
pub fn spins(settings: &Settings) -> bool {
    settings.word(WAIT.name) == SPIN
}
