//! Servers: every design with every workload, their primitives, their clients, and their ends.

mod blast;
mod cpu_accounting;
mod deaths;
mod dynamic_pools;
mod event_loops;
mod fields;
mod http_clients;
mod http_refusals;
mod many_clients;
mod moving_bytes;
mod streams;
mod users;
mod workloads;
