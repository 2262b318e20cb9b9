//! `thunderherd-engine`, the command. Everything is in the library of the same name.

use std::process::ExitCode;

use thunderherd_engine::base::mistake::Mistake;
use thunderherd_engine::base::output::complain;
use thunderherd_engine::cli;

fn main() -> ExitCode {
    match cli::run(std::env::args_os().collect()) {
        Ok(status) => status,
        Err(error) => {
            complain(&error);
            ExitCode::from(if error.is::<Mistake>() { 2 } else { 1 })
        }
    }
}
