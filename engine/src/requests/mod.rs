//! The requests of a load: their sizes, their order, and the recordings they are read from.

pub mod numbering;
pub mod recording;
pub mod sizes;
pub mod traffic;
