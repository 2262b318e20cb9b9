//! How bytes go out and come in: the two primitives of an end, and what they move bytes between.

pub mod channel;
pub mod inbox;
pub mod linger;
pub mod outbox;
pub mod pipes;
pub mod primitive;
pub mod ring;
pub mod waiting;
