//! Sending and receiving: the send and receive primitives of an end, and the buffers between them and the protocol.

pub mod channel;
pub mod inbox;
pub mod linger;
pub mod outbox;
pub mod pipes;
pub mod primitive;
pub mod queue;
pub mod ring;
pub mod waiting;
