//! Code shared by all designs: connections, pools of workers, and how a server stops.

pub mod connection;
pub mod design;
pub mod idle;
pub mod pool;
pub mod scoreboard;
pub mod shares;
pub mod steering;
