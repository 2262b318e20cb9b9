//! What is measured: real sockets, real system calls; figures of what happened, and no statistics.
//!
//! ARCHITECTURE.md has the floors of the house.

#![deny(unsafe_code)]

pub mod asking;
pub mod base;
pub mod cli;
pub mod client;
pub mod commands;
pub mod count;
pub mod counters;
pub mod counting;
pub mod cpu_time;
pub mod designs;
pub mod gate;
pub mod holes;
pub mod limits;
pub mod lines;
pub mod listener;
pub mod load_words;
pub mod loads;
pub mod namespace;
pub mod net;
pub mod primitives;
pub mod probing;
pub mod profiling;
pub mod protocol;
pub mod registry;
pub mod remote;
pub mod requests;
pub mod server;
pub mod stacks;
pub mod supervisor;
pub mod sys;
pub mod transfer;
pub mod workloads;
