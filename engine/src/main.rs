//! `thunderherd-engine`, the command. Everything is in the library of the same name.

use std::path::Path;
use std::process::ExitCode;

use thunderherd_engine::cli;
use thunderherd_engine::mistake::{self, Mistake};

fn main() -> ExitCode {
    let arguments: Vec<_> = std::env::args_os().collect();
    let program = arguments.first().and_then(|name| Path::new(name).file_name()).unwrap_or_default().to_owned();
    match cli::run(arguments) {
        Ok(status) => status,
        Err(error) => {
            eprintln!("{}: {}", program.to_string_lossy(), mistake::in_words(&error));
            ExitCode::from(if error.is::<Mistake>() { 2 } else { 1 })
        }
    }
}
