//! A start that several loads agree on, each in a process of its own, perhaps on several machines.

use std::io::{BufRead, stdin};
use std::os::fd::AsFd;
use std::time::Duration;

use crate::lines::{Connected, Line};
use crate::runs::serve::supervision::line;
use crate::sys::descriptor::{self, PollFlags};
use crate::sys::{clock, signal};

/// Maximum time for which an interrupt goes unnoticed.
const NAP: Duration = Duration::from_millis(50);

/// The command on standard input, which a time follows (CLOCK_MONOTONIC, nanoseconds).
const START: &str = "start ";

/// Says that all clients are about to send, and returns when they start; `None`: at once, since nobody says when.
pub fn agree() -> Option<u64> {
    line(&Line::Connected(Connected { monotonic_ns: clock::now() })).ok()?;
    let input = stdin();
    while !signal::interrupted() {
        let ready = descriptor::poll(&[(input.as_fd(), PollFlags::POLLIN)], Some(NAP)).ok()?;
        if ready.iter().all(PollFlags::is_empty) {
            continue;
        }
        let mut command = String::new();
        input.lock().read_line(&mut command).ok()?;
        return command.trim_end().strip_prefix(START)?.parse().ok();
    }
    None
}
