//! Settings of the loads with an event loop, besides those of all loads.

use crate::base::setting::{Kind, SEVERAL_LOADS, Setting};
use crate::base::unit::Unit;
use crate::client::load::{CLIENTS, CONNECTIONS, KEPT, LoadRun};
use crate::client::requirement::{Needs, Requirement};

/// Number of event loops.
pub const THREADS: Setting = Setting {
    name: "threads",
    help: "Threads that send requests, each with an event loop and its share of the clients; all start together",
    unit: Unit::Of("threads"),
    kind: Kind::Integer { minimum: 1, maximum: 256, default: 1 },
    for_more: Some(SEVERAL_LOADS),
};

/// Pinning of threads to CPUs.
pub const PIN_THREADS: Setting = Setting {
    name: "pin_threads",
    help: "Pin each thread to one of the CPUs that the load may use, in turn; otherwise the kernel moves threads \
           among these CPUs. Loads that share CPUs would pin their first threads to the same CPU: give each load \
           separate CPUs (--cpus)",
    unit: Unit::None,
    kind: Kind::Boolean { default: false },
    for_more: None,
};

/// Requests in flight per connection.
pub const PIPELINE: Setting = Setting {
    name: "pipeline",
    help: "Pipelining: maximum requests in flight per connection. Requests that are due together are sent in one call \
           if the primitive gathers (--primitive writev --messages-at-once N)",
    unit: Unit::Of("requests"),
    kind: Kind::Integer { minimum: 1, maximum: 1024, default: 1 },
    for_more: Some("for more requests in flight, use more --clients"),
};

/// Requests after which a persistent connection is closed.
pub const REQUESTS_PER_CONNECTION: Setting = Setting {
    name: "requests_per_connection",
    help: "Requests after which a client closes its persistent connection and opens a new one; 0: never",
    unit: Unit::Of("requests"),
    kind: Kind::Integer { minimum: 0, maximum: 1_000_000_000, default: 0 },
    for_more: Some("for more, use 0: connections persist to the end"),
};

/// Way in which a client closes its connections.
pub const CLOSING: Setting = Setting {
    name: "closing",
    help: "How clients close their connections: with FIN, which leaves TIME_WAIT at the end that closes first, or \
           with RST (SO_LINGER of 0), which leaves none. A stream without a fixed length always ends with FIN",
    unit: Unit::None,
    kind: Kind::Choice { choices: &["fin", "reset"], default: "fin" },
    for_more: None,
};

/// Maximum requests in flight, over all clients: each takes some hundred bytes of memory from the start.
const MOST_UNDER_WAY: u64 = 1 << 20;

/// Persistent connections.
const KEPT_ONES: Needs = Needs::Word { other: CONNECTIONS.name, word: KEPT };

/// Requirements of these settings.
pub const REQUIREMENTS: &[Requirement] = &[
    Requirement { setting: PIPELINE.name, beyond: 1, needs: KEPT_ONES },
    Requirement { setting: REQUESTS_PER_CONNECTION.name, beyond: 0, needs: KEPT_ONES },
    Requirement { setting: THREADS.name, beyond: 1, needs: Needs::AsMany { other: CLIENTS.name } },
    Requirement {
        setting: PIPELINE.name,
        beyond: 1,
        needs: Needs::Product { other: CLIENTS.name, most: MOST_UNDER_WAY },
    },
];

/// Use of a connection, and the way in which it ends.
#[derive(Debug, Clone, Copy)]
pub struct ConnectionUse {
    /// Requests in flight.
    pub pipeline: usize,
    /// Requests after which it is closed.
    pub requests: u64,
    /// Closed with RST.
    pub resets: bool,
}

impl ConnectionUse {
    /// Reads the settings.
    pub fn of(run: &LoadRun) -> Self {
        let number = |setting: Setting| run.settings.integer(setting.name);
        let (pipeline, requests) = (number(PIPELINE), number(REQUESTS_PER_CONNECTION));
        let requests = match requests {
            _ if !run.keeps() => 1,
            0 => u64::MAX,
            number => number,
        };
        ConnectionUse { pipeline: pipeline as usize, requests, resets: run.settings.word(CLOSING.name) == "reset" }
    }

    /// Number of requests always in flight for this many clients that send again as soon as they are answered, over
    /// persistent connections; `None` if they reconnect now and then.
    pub fn always_under_way(&self, clients: usize) -> Option<u64> {
        (self.requests == u64::MAX).then(|| (clients * self.pipeline) as u64)
    }
}
