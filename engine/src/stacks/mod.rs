//! Where the time goes: samples of call stacks, their symbols, flame graphs.

pub mod address_space;
pub mod flame;
pub mod perf_record;
pub mod sampling;
pub mod symbols;
