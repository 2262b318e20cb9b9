//! Counters: the tally that processes share, process trees, control groups, and the perf interface.

pub mod command_tree;
pub mod control_group;
pub mod counter;
pub mod event_name;
pub mod missing_event;
pub mod multiplexing;
pub mod own_memory;
pub mod perf_event;
pub mod perf_events_at_once;
pub mod perf_names;
pub mod pmu;
pub mod process_tree;
pub mod tally;
pub mod tracefs;
