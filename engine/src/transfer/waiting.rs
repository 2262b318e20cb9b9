//! Waiting of an event loop: its kernel interface, and whether it sleeps or busy-polls, which uses one CPU per thread.

use crate::base::setting::{Kind, Setting, Settings};
use crate::base::unit::Unit;

/// Sleeping or busy-polling of a loop that waits.
pub const WAIT: Setting = Setting {
    name: "wait",
    help: "How event loops wait: sleep until there is work, or spin (busy-poll), which avoids wake-ups and their \
           latency but uses one CPU per thread",
    unit: Unit::None,
    kind: Kind::Choice { choices: &["sleep", SPIN], default: "sleep" },
    for_more: None,
};

/// Kernel interface by which a load's event loop waits for its sockets.
pub const BACK_END: Setting = Setting {
    name: "back_end",
    help: "How event loops wait: for readiness, with bytes moved by the primitives (epoll); for completions, with \
           bytes moved by io_uring (io_uring); or by busy-polling every connection that waits for a reply (polling), \
           which uses one CPU per thread",
    unit: Unit::None,
    kind: Kind::Choice { choices: &["epoll", COMPLETIONS, POLLING], default: "epoll" },
    for_more: None,
};

/// Value of [`BACK_END`] for io_uring.
pub const COMPLETIONS: &str = "io_uring";

/// Value of [`BACK_END`] for busy-polling every connection.
pub const POLLING: &str = "polling";

const SPIN: &str = "spin";

/// Settings by which loops busy-poll, and their values for that.
pub const NEVER_SLEEPS: &[(Setting, &str)] = &[(WAIT, SPIN), (BACK_END, POLLING)];

/// Returns whether loops with these settings, which may lack them, busy-poll.
pub fn spins(settings: &Settings) -> bool {
    let has = |setting: &Setting| settings.values().contains_key(setting.name);
    NEVER_SLEEPS.iter().any(|(setting, word)| has(setting) && settings.word(setting.name) == *word)
}
