//! What every design stands on: its connections, its pools of workers, and how clients are steered to them.

pub mod connection;
pub mod design;
pub mod pool;
pub mod scoreboard;
pub mod steering;
