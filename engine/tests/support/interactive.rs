//! A server as a person starts it: text on standard output, until Ctrl-C.

use std::io::{BufRead, BufReader, Read};
use std::net::SocketAddr;
use std::process::{Child, ChildStdout, Stdio};

use nix::sys::signal::Signal;

use super::{engine, process};

/// A running server, killed on drop.
pub struct Interactive {
    child: Child,
    output: BufReader<ChildStdout>,
    /// Address at which it listens.
    pub address: SocketAddr,
}

impl Interactive {
    /// Starts it, and waits until it listens.
    pub fn start(arguments: &[&str]) -> Interactive {
        let mut command = engine();
        let command = command.arg("serve").args(arguments);
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().expect("the engine can be started");
        let mut output = BufReader::new(child.stdout.take().expect("it is piped"));
        let mut line = String::new();
        output.read_line(&mut line).expect("a line comes");
        let address = line.trim().strip_prefix("listening on ").unwrap_or_else(|| panic!("{line}"));
        let address = address.parse().unwrap_or_else(|error| panic!("{error}: {line}"));
        Interactive { child, output, address }
    }

    /// Interrupts it as Ctrl-C does; returns its output after that.
    pub fn interrupt(mut self) -> String {
        process::signal(self.child.id() as i32, Signal::SIGINT);
        let mut text = String::new();
        self.output.read_to_string(&mut text).expect("it prints text");
        let status = self.child.wait().expect("a child can be waited for");
        assert_eq!(status.code(), Some(0), "{text}");
        text
    }
}

impl Drop for Interactive {
    fn drop(&mut self) {
        if self.child.try_wait().ok().flatten().is_none() {
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}
