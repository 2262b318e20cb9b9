//! How an event loop waits: for what, and whether asleep or looking again and again, which takes a CPU for each thread.

use crate::base::setting::{Kind, Setting, Settings};

/// How a loop waits for what comes next.
pub const WAIT: Setting = Setting {
    name: "wait",
    help: "How event loops wait: sleep until there is work, or spin (busy-poll), which avoids wake-ups and their \
           latency but uses one CPU per thread",
    unit: None,
    kind: Kind::Choice { choices: &["sleep", SPIN], default: "sleep" },
    for_more: None,
};

/// How a load's event loop waits for its sockets.
pub const BACK_END: Setting = Setting {
    name: "back_end",
    help: "How event loops wait: for readiness, with bytes moved by the primitives (epoll); for completions, with \
           bytes moved by io_uring (io_uring); or by busy-polling every connection that waits for a reply (polling), \
           which uses one CPU per thread",
    unit: None,
    kind: Kind::Choice { choices: &["epoll", COMPLETIONS, POLLING], default: "epoll" },
    for_more: None,
};

/// The word of [`BACK_END`] for a ring of submissions and completions.
pub const COMPLETIONS: &str = "io_uring";

/// The word of [`BACK_END`] for trying instead of waiting.
pub const POLLING: &str = "polling";

const SPIN: &str = "spin";

/// The settings by which loops never sleep, and their words for that.
pub const NEVER_SLEEPS: &[(Setting, &str)] = &[(WAIT, SPIN), (BACK_END, POLLING)];

/// Whether loops with these settings, which may have none of them, never sleep.
pub fn spins(settings: &Settings) -> bool {
    let has = |setting: &Setting| settings.values().contains_key(setting.name);
    NEVER_SLEEPS.iter().any(|(setting, word)| has(setting) && settings.word(setting.name) == *word)
}
