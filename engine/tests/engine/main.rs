//! Tests of the whole program, with real sockets and processes: one folder for each part.
//!
//! They are one test program, since each would have to be linked with the whole engine. They share a process: changes to it
//! (a limit, a folder named after its number) must suit all tests. `cargo test --test engine reach::` runs only the tests of
//! `net/reach.rs`.

#[path = "../support/mod.rs"]
mod support;

mod cli;
mod count;
mod fuzzed;
mod keepers;
mod load;
mod net;
mod serve;
mod signals;
