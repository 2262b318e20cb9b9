//! The loads: a file each, and a line here.

use crate::load::Load;

crate::register! {
    /// All loads.
    LOADS: Load {
        closed,
        closed_threads,
    }
}
