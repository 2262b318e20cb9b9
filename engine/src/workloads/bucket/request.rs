//! The parts of a request that both ends share: the buckets, the format of numbers, and the sum of all delays.

use crate::base::setting::{Kind, Setting};
use crate::base::unit::Unit;

pub const BUCKETS: Setting = Setting {
    name: "buckets",
    help: "Number of buckets; the server refuses a request for any other bucket",
    unit: Unit::Of("buckets"),
    kind: Kind::Integer { minimum: 1, maximum: 65_536, default: 32 },
    for_more: Some("for more, use several servers, with a load for each"),
};

/// Name of the sum that both ends account for: the delays of all served requests.
pub const DELAY_SUM: &str = "delay_sum";

/// Parses the delay and the bucket of a line; a carriage return (telnet) may follow them.
pub fn request(line: &[u8]) -> Option<(u64, u64)> {
    let line = std::str::from_utf8(line.strip_suffix(b"\r").unwrap_or(line)).ok()?;
    let (delay, bucket) = line.split_once(',')?;
    Some((number(delay)?, number(bucket)?))
}

/// Parses an unsigned number: digits only.
pub fn number(text: &str) -> Option<u64> {
    text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok())?
}
