//! A load on a terminal while it runs.

pub mod latencies;
pub mod line;
