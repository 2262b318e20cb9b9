//! The measured half of Thunderherd: real sockets and system calls. It reports figures, and computes no statistics.
//!
//! ARCHITECTURE.md has the floors of the house.

#![deny(unsafe_code)]

pub mod base;
pub mod cli;
pub mod client;
pub mod conform;
pub mod count;
pub mod counters;
pub mod designs;
pub mod limits;
pub mod lines;
pub mod loads;
pub mod net;
pub mod primitives;
pub mod protocol;
pub mod registry;
pub mod requests;
pub mod runs;
pub mod server;
pub mod stacks;
pub mod sys;
pub mod transfer;
pub mod workloads;
