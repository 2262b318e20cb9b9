//! The loads: a file each, and a line in this list.

use crate::client::load::Load;

#[cfg(test)]
mod last_answers_tests;

crate::register! {
    /// All loads.
    LOADS: Load {
        closed,
        closed_threads,
        closed_connections,
        open,
    }
}
