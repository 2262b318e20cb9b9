//! Memory from the kernel: new, shared, mapped, and named in a table for calls.

pub mod mapped;
pub mod pages;
pub mod piece_table;
pub mod shared;
