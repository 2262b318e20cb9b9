//! Types for all other folders: settings, kernel features, mistakes, output and its tables, and the window of a
//! load.

pub mod about;
pub mod feature;
pub mod limit;
pub mod mistake;
pub mod output;
pub mod proc_file;
pub mod quantity;
pub mod regular_file;
pub mod round_trip;
pub mod setting;
pub mod table;
pub mod unit;
pub mod window;
