//! Programs as a person starts them: a server with text on standard output, until Ctrl-C, and a program on a terminal
//! (pty(7)).

use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::net::SocketAddr;
use std::os::fd::{FromRawFd, OwnedFd};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::ptr::{null, null_mut};

use nix::fcntl::{FcntlArg, FdFlag, fcntl};
use nix::sys::signal::Signal;

use super::{Ran, engine, process};

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

/// Runs a program to its end whose standard error is a terminal. Its standard output is a pipe.
pub fn run_on_a_terminal(command: &mut Command) -> Ran {
    let (ours, theirs) = terminal();
    let child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(theirs).spawn().expect("it can be started");
    // The command has our copy of the other side, without which reading could not end.
    command.stderr(Stdio::null());
    let reader = std::thread::spawn(move || {
        let (mut terminal, mut seen) = (File::from(ours), Vec::new());
        let mut part = [0; 4096];
        // When the last process has closed the other side, reading fails with EIO.
        while let Ok(bytes @ 1..) = terminal.read(&mut part) {
            seen.extend_from_slice(&part[..bytes]);
        }
        String::from_utf8_lossy(&seen).into_owned()
    });
    let output = child.wait_with_output().expect("a child can be waited for");
    Ran {
        status: output.status.code(),
        output: String::from_utf8_lossy(&output.stdout).into_owned(),
        errors: reader.join().expect("it reads"),
    }
}

/// Makes a terminal. Returns its two sides: the one of a window or a network connection, and the one of programs.
pub fn terminal() -> (OwnedFd, OwnedFd) {
    let (mut ours, mut theirs) = (0, 0);
    // SAFETY: both pointers are to integers; name, attributes and size are optional.
    let opened = unsafe { libc::openpty(&mut ours, &mut theirs, null_mut(), null(), null()) };
    assert_eq!(opened, 0, "{}", std::io::Error::last_os_error());
    // SAFETY: the two descriptors are new.
    let (ours, theirs) = unsafe { (OwnedFd::from_raw_fd(ours), OwnedFd::from_raw_fd(theirs)) };
    // With a copy in another program, the terminal would not hang up.
    fcntl(&ours, FcntlArg::F_SETFD(FdFlag::FD_CLOEXEC)).expect("a flag can be set");
    (ours, theirs)
}
