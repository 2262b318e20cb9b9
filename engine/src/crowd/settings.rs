//! What the loads with an event loop can be told, beside what all loads can.

use anyhow::Result;

use crate::load::{CLIENTS, LoadRun, clients};
use crate::mistake::mistake;
use crate::setting::{Kind, Setting};

/// How many event loops there are.
pub const THREADS: Setting = Setting {
    name: "threads",
    help: "Threads that ask, each with an event loop and its share of the clients; all begin together",
    unit: Some("threads"),
    kind: Kind::Integer { minimum: 1, maximum: 256, default: 1 },
};

/// How many requests a connection has under way.
pub const PIPELINE: Setting = Setting {
    name: "pipeline",
    help: "Requests that a connection may have under way at a time, without waiting for the replies before",
    unit: Some("requests"),
    kind: Kind::Integer { minimum: 1, maximum: 1024, default: 1 },
};

/// After how many requests a kept connection is closed.
pub const REQUESTS_PER_CONNECTION: Setting = Setting {
    name: "requests_per_connection",
    help: "Requests after which a kept connection is closed and another made; 0: it is kept to the end",
    unit: Some("requests"),
    kind: Kind::Integer { minimum: 0, maximum: 1_000_000_000, default: 0 },
};

/// How a client ends its connections.
pub const CLOSING: Setting = Setting {
    name: "closing",
    help: "How clients end their connections: with FIN, which leaves TIME_WAIT at the end that closes first, or with RST \
           (SO_LINGER of 0), which leaves none",
    unit: None,
    kind: Kind::Choice { choices: &["fin", "reset"], default: "fin" },
};

/// What a connection is used for, and how it ends.
#[derive(Debug, Clone, Copy)]
pub struct Use {
    /// Requests under way at a time.
    pub pipeline: usize,
    /// Requests after which it is closed.
    pub requests: u64,
    /// Closed with RST.
    pub resets: bool,
}

impl Use {
    /// As the settings have it; what contradicts itself is refused.
    pub fn of(run: &LoadRun) -> Result<Self> {
        let number = |setting: Setting| run.settings.integer(setting.name);
        let (pipeline, requests) = (number(PIPELINE), number(REQUESTS_PER_CONNECTION));
        for (setting, has_effect) in [(PIPELINE, pipeline > 1), (REQUESTS_PER_CONNECTION, requests > 0)] {
            if has_effect && !run.keeps() {
                let option = setting.option();
                return Err(mistake(format!(
                    "--{option} {} is for connections that are kept; give --connections kept too, or leave it out",
                    number(setting)
                )));
            }
        }
        let requests = match requests {
            _ if !run.keeps() => 1,
            0 => u64::MAX,
            number => number,
        };
        Ok(Use { pipeline: pipeline as usize, requests, resets: run.settings.word(CLOSING.name) == "reset" })
    }
}

/// How many threads there are: no more than clients.
pub fn threads(run: &LoadRun) -> Result<usize> {
    let (threads, clients) = (run.settings.integer(THREADS.name) as usize, clients(&run.settings));
    if threads > clients {
        return Err(mistake(format!(
            "--{} {threads} needs as many clients, and there are {clients}; fewer threads, or --{} {threads}",
            THREADS.option(),
            CLIENTS.option()
        )));
    }
    Ok(threads)
}
