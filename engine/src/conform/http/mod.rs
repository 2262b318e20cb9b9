//! Cases that only servers of HTTP have, and their replies.

mod framing;
mod heads;
mod lengths;
pub mod reply;
mod reply_fields;

use crate::conform::case::Case;

/// Groups of cases.
pub const GROUPS: [&[Case]; 4] = [heads::CASES, framing::CASES, lengths::CASES, reply_fields::CASES];
