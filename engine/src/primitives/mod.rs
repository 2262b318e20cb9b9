//! The primitives: a file each, and a line here.

use crate::primitive::Primitive;

#[cfg(test)]
mod test_only;

crate::register! {
    /// All primitives.
    PRIMITIVES: Primitive {
        send,
    }
}
