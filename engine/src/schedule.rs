//! When the requests of an open load are to be due: what its settings say of that, read once.

use crate::setting::{Kind, Setting, Settings};

/// How many requests are due.
pub const RATE: Setting = Setting {
    name: "rate",
    help: "Requests that are due each second, all threads together",
    unit: Some("requests a second"),
    kind: Kind::Integer { minimum: 1, maximum: 10_000_000, default: 1000 },
};

/// How they follow each other.
pub const ARRIVALS: Setting = Setting {
    name: "arrivals",
    help: "Requests become due independently of each other (a Poisson process), or evenly",
    unit: None,
    kind: Kind::Choice { choices: &["poisson", "constant"], default: "poisson" },
};

/// What the moments follow from.
pub const ARRIVAL_SEED: Setting = Setting {
    name: "arrival_seed",
    help: "Loads with the same seed, rate and threads have their requests due at the same moments; several loads beside each \
           other need different ones",
    unit: None,
    kind: Kind::Integer { minimum: 0, maximum: u64::MAX, default: 1 },
};

/// How the load waits for the next.
pub const WAIT: Setting = Setting {
    name: "wait",
    help: "Sleep until a request is due or a reply comes, or spin: never late by a wake-up, and a CPU for each thread",
    unit: None,
    kind: Kind::Choice { choices: &["sleep", "spin"], default: "sleep" },
};

/// How arrivals follow each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Process {
    /// Each independent of all others.
    Poisson,
    /// One like the other.
    Constant,
}

/// When requests of a whole load are due, and how they are waited for.
#[derive(Debug, Clone, Copy)]
pub struct Schedule {
    /// How they follow each other.
    pub process: Process,
    /// Requests a second, once the ramp is over.
    pub rate: u64,
    /// Two schedules with the same seed have the same moments.
    pub seed: u64,
    /// Nanoseconds over which the rate rises from 0, in a straight line.
    pub ramp: u64,
    /// Threads never sleep until a request is due.
    pub spins: bool,
}

impl Schedule {
    /// As the settings have it, with the load's own ramp; `None` of a load that goes by none.
    pub fn of(settings: &Settings, ramp: u64) -> Option<Self> {
        settings.values().contains_key(ARRIVALS.name).then(|| Schedule {
            process: if settings.word(ARRIVALS.name) == "poisson" { Process::Poisson } else { Process::Constant },
            rate: settings.integer(RATE.name),
            seed: settings.integer(ARRIVAL_SEED.name),
            ramp,
            spins: settings.word(WAIT.name) == "spin",
        })
    }
}
