//! What is measured: real sockets, real system calls; figures of what happened, and no statistics.
//!
//! ARCHITECTURE.md has the floors of the house.

#![deny(unsafe_code)]

pub mod asking;
pub mod attempt;
pub mod base;
pub mod cli;
pub mod commands;
pub mod connection;
pub mod count;
pub mod counters;
pub mod counting;
pub mod course;
pub mod cpu_source;
pub mod cpu_time;
pub mod crowd;
pub mod design;
pub mod designs;
pub mod edges;
pub mod exchange;
pub mod gate;
pub mod generator;
pub mod histograms;
pub mod holes;
pub mod limits;
pub mod lines;
pub mod listener;
pub mod load;
pub mod load_lines;
pub mod load_words;
pub mod loads;
pub mod measure;
pub mod namespace;
pub mod net;
pub mod pool;
pub mod primitives;
pub mod probing;
pub mod profile_lines;
pub mod profiling;
pub mod protocol;
pub mod registry;
pub mod remote;
pub mod requests;
pub mod requirement;
pub mod schedule;
mod scheduled;
pub mod scoreboard;
pub mod show;
pub mod stacks;
pub mod steering;
pub mod supervisor;
pub mod sys;
pub mod transfer;
pub mod used;
pub mod validity;
pub mod workloads;
