//! The server that a load connects to.

use std::time::Duration;

use crate::net::address::Address;
use crate::net::source_addresses::Sources;
use crate::net::tcp::TcpOptions;

/// The server that a load connects to, and the options of its sockets.
pub struct Target {
    /// Addresses of the server's name. The first that answers is used.
    pub addresses: Vec<Address>,
    /// Options of TCP sockets; `None` for another family.
    pub tcp: Option<TcpOptions>,
    /// Local addresses of the connections.
    pub sources: Sources,
    /// Time to wait for progress, while connecting and afterwards.
    pub patience: Duration,
}
