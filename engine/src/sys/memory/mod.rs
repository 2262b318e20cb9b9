//! Memory from the kernel: new pages, shared memory, mapped receives, and iovec tables.

pub mod mapped;
pub mod pages;
pub mod piece_table;
pub mod shared;
