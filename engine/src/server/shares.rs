//! How the clients of a server share it when their requests need computing: the rule of each design, which the conformance
//! tests read and hold, and the sentences about it.

use serde::Serialize;

/// Rule by which a design chooses the request that is computed next.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(tag = "rule", rename_all = "snake_case")]
pub enum Shares {
    /// One connection is served to its end, and then the next.
    Connections,
    /// Each worker of a pool serves one connection to its end.
    Workers,
    /// Each connection has its own process or thread.
    Scheduler,
    /// An event loop computes at most one request of each connection per turn.
    Turns {
        /// Maximum connections that it accepts per turn in which others are computed; `None`: all that are queued.
        accepts: Option<usize>,
    },
    /// An event loop queues requests for a pool of threads, at most one of each connection at a time.
    Queue,
}

impl Shares {
    /// Describes the rule for a user.
    pub fn sentences(self) -> String {
        match self {
            Shares::Connections => "The server serves one connection to its end, however many requests it sends. All \
                other clients wait. This is inherent in the design."
                .to_owned(),
            Shares::Workers => "A worker serves one connection to its end, however many requests it sends. While all \
                workers are busy, other clients wait until a connection ends. This is inherent in the design. The \
                kernel's scheduler shares the CPUs among the workers."
                .to_owned(),
            Shares::Scheduler => "Each connection has its own process or thread, so no connection waits for the end of \
                another. The kernel's scheduler shares the CPUs among them and decides the order of their replies. This \
                is inherent in the design."
                .to_owned(),
            Shares::Turns { accepts } => {
                let accepts = match accepts {
                    None => "A turn accepts all queued connections.".to_owned(),
                    Some(1) => "A turn accepts one connection, so that the workers share new clients: behind N other \
                        new clients, a client waits N turns."
                        .to_owned(),
                    Some(most) => format!("After a turn that has computed, it accepts up to {most} queued connections."),
                };
                format!(
                    "A turn of the event loop computes at most one request of each connection, and sends its reply \
                     before it computes the next. {accepts}"
                )
            }
            Shares::Queue => "At most one request of each connection is in the queue of the thread pool, and the queue \
                is served in order. The event loop sends each reply when it has been computed. If more threads compute \
                than there are CPUs, the kernel's scheduler decides when the loop runs, so replies may arrive together. \
                This is inherent in the design."
                .to_owned(),
        }
    }
}
