//! What every design stands on: its connections, its pools of workers, and how it is stopped.

pub mod connection;
pub mod design;
pub mod pool;
pub mod scoreboard;
pub mod steering;
