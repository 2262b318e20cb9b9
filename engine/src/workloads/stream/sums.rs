//! Sums that both ends of a stream account for.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::protocol::workload::Account;

/// Names of the sums that both ends account for: bytes of all completed streams.
pub const TO_SERVER: &str = "bytes_streamed_to_server";
pub const TO_CLIENT: &str = "bytes_streamed_to_client";

/// Bytes of completed streams, in memory that processes share.
#[derive(Default)]
pub struct Sums {
    pub to_server: AtomicU64,
    pub to_client: AtomicU64,
}

impl Sums {
    pub fn account(&self) -> Account {
        Account::from([(TO_SERVER, self.to_server.load(Relaxed)), (TO_CLIENT, self.to_client.load(Relaxed))])
    }
}
