//! What the requests of a load are: their sizes, their order, and the recordings that they are read from.

pub mod numbering;
pub mod recording;
pub mod sizes;
pub mod traffic;
