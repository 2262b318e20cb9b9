//! The primitives: a file each, and a line here.

use crate::primitive::Primitive;

#[cfg(test)]
mod transfer_forms;

crate::register! {
    /// All primitives.
    PRIMITIVES: Primitive {
        recv,
        recv_truncate,
        send,
        splice,
        zerocopy,
    }
}
