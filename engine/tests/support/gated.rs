//! A command that the engine runs behind a gate, as `count` and `profile` do, with its lines and its standard input.

use std::io::{BufRead, BufReader};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};

use serde_json::Value;

use super::{PATIENCE, engine, eventually};

/// Such a command, killed on drop.
pub struct Gated {
    child: Child,
    /// The command's standard input.
    pub input: Option<ChildStdin>,
    lines: Receiver<Value>,
}

impl Gated {
    /// Starts a command whose standard output is lines for programs.
    pub fn start(command: &mut Command) -> Gated {
        Gated::start_with_input(command, Stdio::piped())
    }

    /// The same with this standard input.
    pub fn start_with_input(command: &mut Command, input: Stdio) -> Gated {
        let mut child = command.stdin(input).stdout(Stdio::piped()).spawn().expect("the engine can be started");
        // The command has our copy of its input.
        command.stdin(Stdio::null());
        let (sender, lines) = channel();
        let output = BufReader::new(child.stdout.take().unwrap());
        std::thread::spawn(move || {
            output.lines().map_while(Result::ok).try_for_each(|line| {
                sender.send(serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line}")))
            })
        });
        Gated { input: child.stdin.take(), child, lines }
    }

    /// Starts a server with `count` or `profile` and its options.
    pub fn serve(by: &[&str], design: &str) -> Gated {
        let options = ["--", "serve", design, "--control", "--listen", "127.0.0.1:0"];
        Gated::start(engine().args(by).args(options))
    }

    /// Returns the process that made the gate.
    pub fn id(&self) -> i32 {
        self.child.id() as i32
    }

    /// Returns the next line, which must be of this kind.
    #[track_caller]
    pub fn line(&self, kind: &str) -> Value {
        let line = self.lines.recv_timeout(PATIENCE).unwrap_or_else(|error| panic!("no line {kind}: {error}"));
        assert_eq!(line["line"], kind, "{line}");
        line
    }

    /// Returns the line of this kind, which must be the next and the last, and the exit status.
    #[track_caller]
    pub fn end(mut self, kind: &str) -> (Value, Option<i32>) {
        let last = self.line(kind);
        assert!(self.lines.recv_timeout(PATIENCE).is_err(), "the line {kind} is the last one");
        let status = eventually("it ends", || self.child.try_wait().unwrap());
        (last, status.code())
    }
}

impl Drop for Gated {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
