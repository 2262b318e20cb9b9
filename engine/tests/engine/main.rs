//! The program as a whole, over real sockets and with real processes: a folder for each part of it.
//!
//! One test program for all of them, since each has to be linked with the whole engine. They share a process: what a test
//! changes of it (a limit, a folder's name with its number in it) has to suit the others. `cargo test --test engine reach::`
//! runs the tests of `net/reach.rs` alone.

#[path = "../support/mod.rs"]
mod support;

mod cli;
mod count;
mod load;
mod net;
mod serve;
