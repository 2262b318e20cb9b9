//! What this program says: results on standard output, why it failed on standard error.
//!
//! Whoever reads may go away, as the `head` of a pipe does. That is no failure, and never a panic, which `println!` and
//! `eprintln!` would make of it: the rest is said to nobody.

use std::ffi::OsString;
use std::io::{self, Write};
use std::path::Path;

use anyhow::{Context, Result};

use crate::base::mistake::in_words;

/// Writes to standard output, at once. An error when that cannot be done although somebody reads.
pub fn say(text: &str) -> Result<()> {
    let mut output = io::stdout().lock();
    unless_closed(output.write_all(text.as_bytes()).and_then(|()| output.flush()))
}

/// What came of writing to standard output, by whatever means.
pub fn unless_closed(written: io::Result<()>) -> Result<()> {
    match written {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(error).context("standard output cannot be written")
        }
        _ => Ok(()),
    }
}

/// Says on standard error why something failed, in one line and one write, under the name by which the program was called.
/// Where that cannot be written there is nobody to be told.
pub fn complain(error: &anyhow::Error) {
    say_as_program(&in_words(error));
}

/// Says on standard error, in the same way, what the user has to know although all goes on.
pub fn warn(text: &str) {
    say_as_program(&format!("warning: {text}"));
}

fn say_as_program(text: &str) {
    let program = std::env::args_os().next().unwrap_or_else(|| OsString::from(env!("CARGO_PKG_NAME")));
    let name = Path::new(&program).file_name().unwrap_or_default().to_string_lossy();
    let _ = io::stderr().write_all(format!("{name}: {text}\n").as_bytes());
}

/// Says on standard error what has to be known of a result that stands on standard output, if anything.
pub fn remark(text: &str) {
    let _ = io::stderr().write_all(text.as_bytes());
}
