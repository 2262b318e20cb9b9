//! Receiving a stream, and the choice of bytes to compare.

use std::sync::Arc;

use crate::base::setting::{Kind, Setting, Settings};
use crate::base::unit::Unit;
use crate::protocol::pattern::difference;
use crate::protocol::workload::Input;
use crate::transfer::primitive::Want;

use super::reel;

pub const RECEIVE_SIZE: Setting = Setting {
    name: "receive_size",
    help: "Maximum size of one receive of a stream",
    unit: Unit::Bytes,
    kind: Kind::Integer { minimum: 1, maximum: 16 << 20, default: 128 << 10 },
    for_more: Some("a receive cannot return more than the socket's buffer holds (sysctl net.ipv4.tcp_rmem)"),
};

pub const VERIFY: Setting = Setting {
    name: "verify",
    help: "Bytes of a stream that the receiver compares with what is sent: all, the first 64 of each receive, or \
           none; bytes that are not stored are only counted",
    unit: Unit::None,
    kind: Kind::Choice { choices: &["all", "sample", "none"], default: "sample" },
    for_more: None,
};

/// Bytes per receive that are compared as a sample.
const SAMPLE: usize = 64;

/// Bytes per comparison.
const AT_A_TIME: usize = 64 << 10;

/// The receiving end of a stream.
#[derive(Clone)]
pub struct Receiving {
    most: usize,
    /// Bytes per receive that are compared.
    compared: usize,
    /// The expected bytes from any position of a stream, up to this length.
    expected: Arc<[u8]>,
}

impl Receiving {
    pub fn new(settings: &Settings) -> Self {
        let compared = match settings.word(VERIFY.name) {
            "all" => usize::MAX,
            "sample" => SAMPLE,
            _ => 0,
        };
        let expected = reel::bytes_of_a_stream(AT_A_TIME + reel::PERIOD).into();
        Receiving { most: settings.integer(RECEIVE_SIZE.name) as usize, compared, expected }
    }

    pub fn want(&self, due: u64) -> Want {
        Want::Exactly(due.min(self.most as u64) as usize)
    }

    /// Takes the received bytes of a stream, after `before` bytes and with `due` bytes expected; returns how many came.
    /// The error names the wrong byte.
    pub fn take(&self, input: &mut Input<'_>, before: u64, due: u64) -> std::result::Result<u64, String> {
        let not_stored = input.not_stored as u64;
        let part = (input.bytes().len() as u64).min(due - not_stored) as usize;
        let from = before + not_stored;
        let compared = &input.bytes()[..part.min(self.compared)];
        for (index, seen) in compared.chunks(AT_A_TIME).enumerate() {
            let from = from + (index * AT_A_TIME) as u64;
            let expected = &self.expected[(from % reel::PERIOD as u64) as usize..][..seen.len()];
            if let Some(place) = difference(seen, expected) {
                return Err(format!(
                    "byte {} of the stream is {}, expected {} (--verify none for other programs)",
                    from + place as u64,
                    seen[place],
                    expected[place]
                ));
            }
        }
        input.take(part);
        Ok(not_stored + part as u64)
    }
}
