//! Counters, profiles, and the limits of the machine.

mod by_turns;
mod counters;
mod flame_graphs;
mod limits;
mod profiles;
mod states;
mod verified;
