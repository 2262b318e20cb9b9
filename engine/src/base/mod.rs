//! Types for all other folders: settings, kernel features, mistakes, output, and the window of a load.

pub mod about;
pub mod feature;
pub mod limit;
pub mod mistake;
pub mod output;
pub mod round_trip;
pub mod setting;
pub mod window;
