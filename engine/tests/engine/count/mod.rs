//! Counters, profiles, and machine limits.

mod by_turns;
mod counters;
mod flame_graphs;
mod limits;
mod profiles;
mod states;
mod verified;
