//! Code shared by all loads: their settings, their clients, and their measurements.

pub mod blocking;
pub mod connect;
pub(crate) mod due_requests;
pub mod edges;
pub mod event_loop;
pub mod exchange;
pub mod gave_up;
pub mod generator;
pub mod histograms;
pub mod live;
pub mod load;
pub mod measure;
pub mod requirement;
pub mod show;
pub mod state;
pub mod validity;
