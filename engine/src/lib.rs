//! What is measured: real sockets, real system calls; figures of what happened, and no statistics.
//!
//! ARCHITECTURE.md has the floors of the house.

#![deny(unsafe_code)]

pub mod about;
pub mod address;
pub mod address_space;
pub mod asking;
pub mod channel;
pub mod cli;
pub mod commands;
pub mod connection;
pub mod control_group;
pub mod counter;
pub mod counters;
pub mod counting;
pub mod course;
pub mod cpu_time;
pub mod design;
pub mod designs;
pub mod exchange;
pub mod flame;
pub mod gate;
pub mod holes;
pub mod inbox;
pub mod limit;
pub mod limits;
pub mod lines;
pub mod linger;
pub mod listener;
pub mod load;
pub mod loads;
pub mod measure;
pub mod mistake;
pub mod named_event;
pub mod namespace;
pub mod netlink;
pub mod outbox;
pub mod output;
pub mod pattern;
pub mod perf_event;
pub mod pipes;
pub mod pool;
pub mod primitive;
pub mod primitives;
pub mod probing;
pub mod process_tree;
pub mod profile_lines;
pub mod profiling;
pub mod qdisc;
pub mod registry;
pub mod round_trip;
pub mod sampling;
pub mod scoreboard;
pub mod setting;
pub mod show;
pub mod socket_diagnosis;
pub mod spin;
pub mod supervisor;
pub mod symbols;
pub mod sys;
pub mod tally;
pub mod tcp;
pub mod veth;
pub mod workload;
pub mod workloads;
