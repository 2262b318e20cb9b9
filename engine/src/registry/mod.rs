//! The registered entries, and which of them fit together.

pub mod catalogue;
pub mod fit;
