//! The program as a whole, over real sockets and with real processes: a file for each thing that it does.
//!
//! One test program for all of them, since each has to be linked with the whole engine. They share a process: what a test
//! changes of it (a limit, a folder's name with its number in it) has to suit the others. `cargo test --test engine reach::`
//! runs the tests of `reach.rs` alone.

#[path = "../support/mod.rs"]
mod support;

mod availability;
mod blast;
mod closed_loads;
mod closings;
mod command_line;
mod congestion;
mod counters;
mod counters_by_turns;
mod counters_states;
mod counters_verified;
mod cpu_accounting;
mod crowded_connections;
mod deaths;
mod dynamic_pools;
mod event_loops;
mod faulty_servers;
mod fields;
mod flame_graphs;
mod held_up_requests;
mod http_clients;
mod http_servers;
mod impossible_settings;
mod limits;
mod load;
mod many_clients;
mod moving_bytes;
mod namespaces;
mod open_loads;
mod profiles;
mod reach;
mod refusals;
mod streams;
mod traffic;
mod unix_sockets;
mod workloads;
