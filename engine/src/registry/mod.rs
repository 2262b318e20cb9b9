//! What there is, and what fits what.

pub mod catalogue;
pub mod fit;
