//! Watches over a server from outside: commands on standard input, signals, the server's end.

use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

use anyhow::{Result, bail};

use crate::base::output::say;
use crate::lines::{Line, Snapshot};
use crate::sys::descriptor::{self, PollFlags};
use crate::sys::process::{self, Ended, Pid};
use crate::sys::signal::{ECHO, Signal, SignalDescriptor};

/// A server under supervision.
pub trait Supervised {
    /// First process of the server; `None` if this process did not start it.
    fn first(&self) -> Option<Pid>;

    /// Reads its state.
    fn snapshot(&mut self) -> Result<Snapshot>;

    /// Asks it to end. Returns the time that it has for that.
    fn stop(&mut self) -> Result<Duration>;

    /// Kills it at once.
    fn kill(&mut self);
}

/// Ending of a watched server.
#[derive(Debug, Clone, Copy)]
pub struct Ending {
    /// How its first process ended; `None` if this process did not start it.
    pub first: Option<Ended>,
    /// True if it was asked to end.
    pub stopped: bool,
    /// True if it was killed, because it did not end in time.
    pub killed: bool,
}

/// Handles commands and signals until the server ends. `control`: read commands from standard input.
pub fn watch(server: &mut impl Supervised, signals: &SignalDescriptor, control: bool) -> Result<Ending> {
    let standard_input = std::io::stdin();
    let mut commands = Commands::default();
    let mut stopped: Option<Instant> = None;
    let mut deadline: Option<Instant> = None;
    let mut killed = false;
    loop {
        let mut stop = false;
        let mut descriptors = vec![(signals.as_fd(), PollFlags::POLLIN)];
        if control && deadline.is_none() {
            descriptors.push((standard_input.as_fd(), PollFlags::POLLIN));
        }
        let patience = deadline.filter(|_| !killed).map(|deadline| deadline.saturating_duration_since(Instant::now()));
        let ready = descriptor::poll(&descriptors, patience)?;
        if ready.get(1).is_some_and(|flags| !flags.is_empty()) {
            match commands.read(standard_input.as_fd())? {
                None => stop = true,
                Some(lines) => lines.iter().try_for_each(|line| answer(server, line))?,
            }
        }
        while let Some(signal) = signals.read()? {
            if signal == Signal::SIGCHLD {
                if let Some(ended) = reap(server.first())? {
                    return Ok(Ending { first: Some(ended), stopped: stopped.is_some(), killed });
                }
            } else {
                match stopped {
                    None => stop = true,
                    // A second signal ends the wait for open connections.
                    Some(stopped) if stopped.elapsed() > ECHO => deadline = Some(Instant::now()),
                    Some(_) => {}
                }
            }
        }
        if stop && stopped.is_none() {
            let time = server.stop()?;
            if server.first().is_none() {
                return Ok(Ending { first: None, stopped: true, killed });
            }
            stopped = Some(Instant::now());
            deadline = Some(Instant::now() + time);
        }
        if !killed && deadline.is_some_and(|deadline| deadline <= Instant::now()) {
            killed = true;
            server.kill();
        }
    }
}

/// Reaps ended processes. Returns how the server's first process ended.
pub fn reap(first: Option<Pid>) -> Result<Option<Ended>> {
    while let Some((process, ended)) = process::wait_without_hanging()? {
        if Some(process) == first {
            return Ok(Some(ended));
        }
    }
    Ok(None)
}

fn answer(server: &mut impl Supervised, command: &str) -> Result<()> {
    match command {
        "snapshot" => {
            let snapshot = server.snapshot()?;
            line(&Line::Snapshot(snapshot))
        }
        other => {
            bail!(
                "unknown command '{other}' on standard input; the only one is snapshot (end of file stops the server)"
            )
        }
    }
}

/// Prints a line for programs.
pub fn line(line: &Line) -> Result<()> {
    say(&(serde_json::to_string(line)? + "\n"))
}

/// Commands from standard input, read without waiting for whole lines.
#[derive(Default)]
struct Commands {
    text: Vec<u8>,
}

impl Commands {
    /// Returns the complete lines so far; `None` at the end of file.
    fn read(&mut self, input: BorrowedFd<'_>) -> Result<Option<Vec<String>>> {
        let mut buffer = [0; 4096];
        let bytes = descriptor::read(input, &mut buffer)?;
        if bytes == 0 {
            return Ok(None);
        }
        self.text.extend_from_slice(&buffer[..bytes]);
        let mut lines = Vec::new();
        while let Some(end) = self.text.iter().position(|&byte| byte == b'\n') {
            let line: Vec<u8> = self.text.drain(..=end).collect();
            lines.push(String::from_utf8_lossy(&line).trim().to_owned());
        }
        Ok(Some(lines))
    }
}
