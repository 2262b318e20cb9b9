//! Output of this program: results on standard output, failures on standard error.
//!
//! The reader may go away, as `head` in a pipe does. That is no failure, and must not panic as `println!` and `eprintln!`
//! do. Further output is discarded.

use std::ffi::OsString;
use std::io::{self, Write};
use std::path::Path;

use anyhow::{Context, Result};

use crate::base::mistake::in_words;

/// Writes to standard output and flushes. Fails if that is impossible although there is a reader.
pub fn say(text: &str) -> Result<()> {
    let mut output = io::stdout().lock();
    unless_closed(output.write_all(text.as_bytes()).and_then(|()| output.flush()))
}

/// Turns the result of writing to standard output into an error, except if the reader has gone.
pub fn unless_closed(written: io::Result<()>) -> Result<()> {
    match written {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(error).context("standard output cannot be written")
        }
        _ => Ok(()),
    }
}

/// Prints on standard error why something failed, in one write, behind the name by which the program was called. If that
/// fails, there is no other place to report it.
pub fn complain(error: &anyhow::Error) {
    say_as_program(&in_words(error));
}

/// Prints a warning on standard error, as [`complain`] does.
pub fn warn(text: &str) {
    say_as_program(&format!("warning: {text}"));
}

fn say_as_program(text: &str) {
    let _ = io::stderr().write_all(format!("{}: {text}\n", program_name()).as_bytes());
}

/// The name by which the program was called: `thunderherd` becomes this program for some of its commands.
pub fn program_name() -> String {
    let program = std::env::args_os().next().unwrap_or_else(|| OsString::from(env!("CARGO_PKG_NAME")));
    Path::new(&program).file_name().unwrap_or_default().to_string_lossy().into_owned()
}

/// Prints a remark about a result on standard error.
pub fn remark(text: &str) {
    let _ = io::stderr().write_all(text.as_bytes());
}
