//! Whom a load connects to.

use std::time::Duration;

use crate::net::address::Address;
use crate::net::source_addresses::Sources;
use crate::net::tcp::TcpOptions;

/// Whom a load connects to, and how.
pub struct Target {
    /// The addresses of the server's name, the first that answers is used.
    pub addresses: Vec<Address>,
    /// What sockets of TCP are told; `None` where they are of another family.
    pub tcp: Option<TcpOptions>,
    /// Where connections come from.
    pub sources: Sources,
    /// How long to wait for progress, in connecting and afterwards.
    pub patience: Duration,
}
