//! The command line: what it refuses, and with which words.

mod availability;
mod command_line;
mod impossible_settings;
mod refusals;
