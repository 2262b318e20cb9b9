//! Both ends of a protocol without input or output: bytes in, pieces out.

pub mod pattern;
pub mod spin;
pub mod stall;
pub mod workload;
