//! The command line: its refusals, and their messages.

mod availability;
mod command_line;
mod conforming;
mod dry_runs;
mod impossible_settings;
mod refusals;
