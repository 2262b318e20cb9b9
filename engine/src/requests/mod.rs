//! The requests of a load: when they are due, their sizes, their order, and the recordings they are read from.

pub mod arrivals;
pub mod numbering;
pub mod recording;
pub mod schedule;
pub mod sizes;
pub mod traffic;
