//! Profiles: samples of call stacks, their symbols, and flame graphs.

pub mod address_space;
pub mod flame_graph;
pub mod perf_record;
pub mod sampling;
pub mod symbols;
