//! The server that a case is run against, as the case sees it.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use crate::conform::chance::Chance;
use crate::conform::connection::{Connection, LastRequest, OwnTrouble, in_words};
use crate::conform::protocol::{Exchange, Protocol};
use crate::conform::verdict::Fault;

/// Time for a server to accept a connection.
const ACCEPTED: Duration = Duration::from_millis(1);

/// Wait of a fast client after which it counts as blocked by a slow one.
const PROMPT: Duration = Duration::from_secs(1);

/// The proc file system of this machine (proc(5)).
pub const PROC: &str = "/proc";

/// What runs the cases, and may know more of the server.
pub trait Host {
    /// A case begins.
    fn begin(&mut self) {}

    /// A connection was made. The pause lets a server accept it: its queue may have room for a few only, and a client that
    /// finds it full tries again after a second (listen(2)).
    fn connected(&mut self) {
        std::thread::sleep(ACCEPTED);
    }

    /// Waits until the server has received this many bytes since the case began, and thus all that this client has sent.
    fn await_taken(&mut self, _bytes: u64, client: &Connection) {
        let _ = client.await_taken();
    }

    /// Whether it has started the server, so that a case may stop its processes.
    fn has_started(&self) -> bool {
        false
    }

    /// Returns the proc file system that the server reads, if it reads one.
    fn proc(&self) -> PathBuf {
        PathBuf::from(PROC)
    }

    /// Stops the server with SIGTERM and waits for its end. `None` if it cannot. The error says what was wrong.
    fn stop(&mut self) -> Option<Result<(), String>> {
        None
    }
}

/// Knows the server by its address only.
pub struct Stranger;

impl Host for Stranger {}

/// A server under test.
pub struct Subject<'a> {
    /// Where it listens.
    pub address: SocketAddr,
    /// What its clients say.
    pub protocol: &'static Protocol,
    /// Path of its resource, for a workload that has paths.
    pub path: String,
    /// Whether every exchange is a short one: the requests that loads send, and no others.
    pub plain: bool,
    /// Seed of random inputs.
    pub seed: u64,
    /// Longest wait.
    pub patience: Duration,
    /// What runs the cases.
    pub host: &'a mut dyn Host,
    /// Length of the largest reply and the time that it took, once a case has seen it, of a workload that does not say.
    pub largest_reply: Option<(usize, Duration)>,
    /// Random numbers of the running case.
    pub chance: Chance,
    /// The request that the running case sent last.
    pub last_request: LastRequest,
    /// What this process itself could not do in the running case.
    pub trouble: OwnTrouble,
}

impl<'a> Subject<'a> {
    /// Describes a server.
    pub fn new(address: SocketAddr, protocol: &'static Protocol, host: &'a mut dyn Host) -> Self {
        Subject {
            address,
            protocol,
            path: "/".to_owned(),
            plain: false,
            seed: 1,
            patience: Duration::from_secs(5),
            host,
            largest_reply: None,
            chance: Chance::new(1, 0),
            last_request: LastRequest::default(),
            trouble: OwnTrouble::default(),
        }
    }

    /// Returns a random exchange; the first ones have the sizes at which servers go wrong.
    pub fn exchange(&mut self, number: usize) -> Exchange {
        if self.plain {
            return self.short();
        }
        (self.protocol.exchange)(&self.path, number, &mut self.chance)
    }

    /// Returns a short exchange.
    pub fn short(&mut self) -> Exchange {
        (self.protocol.short)(&self.path, &mut self.chance)
    }

    /// Connects.
    pub fn connect(&mut self) -> Result<Connection, Fault> {
        self.connect_with(false, self.last_request.clone())
    }

    /// Connects with small buffers at both ends.
    pub fn connect_slow(&mut self) -> Result<Connection, Fault> {
        self.connect_with(true, self.last_request.clone())
    }

    fn connect_with(&mut self, slow: bool, last_request: LastRequest) -> Result<Connection, Fault> {
        let opened = Connection::open(self.address, self.patience, slow, last_request, self.trouble.clone());
        let opened = opened.map_err(|error| {
            self.trouble.note("connect", &error);
            Fault::new("a server that accepts connections", in_words(&error, self.patience))
        })?;
        self.host.connected();
        Ok(opened)
    }

    /// Makes a request on a connection of its own, and receives the reply and the end.
    pub fn asks(&mut self, exchange: &Exchange) -> Result<(), Fault> {
        let mut client = self.connect()?;
        client.send(&exchange.request)?;
        client.reply(exchange)?;
        client.half_close();
        client.ends().map(|_| ())
    }

    /// Checks that the server serves another client after what has happened. If not, the request before is the reason.
    pub fn still_serves(&mut self) -> Result<(), Fault> {
        let exchange = self.short();
        let mut client = self.connect_with(false, LastRequest::default()).map_err(|fault| fault.when("afterwards"))?;
        client.send(&exchange.request).map_err(|fault| fault.when("afterwards"))?;
        client.reply(&exchange).map(|_| ()).map_err(|fault| fault.when("afterwards"))
    }

    /// Makes a request beside a slow client. Returns the connection and its exchange if the reply has to wait for that client.
    pub fn asks_beside(&mut self) -> Result<Option<(Connection, Exchange)>, Fault> {
        let exchange = self.short();
        let mut client = self.connect()?;
        client.send(&exchange.request)?;
        let reply = client.reply_within(&exchange, PROMPT.min(self.patience / 3))?;
        Ok(reply.is_none().then_some((client, exchange)))
    }
}
