//! The registered entries, and which of them fit together.

pub mod catalogue;
mod fallbacks;
pub mod fit;
