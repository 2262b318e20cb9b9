//! `thunderherd-engine`, the command. Everything is in the library of the same name.

use std::process::ExitCode;

use thunderherd_engine::cli;

fn main() -> ExitCode {
    cli::run(std::env::args_os().collect()).unwrap_or_else(|error| cli::fail(&error))
}
