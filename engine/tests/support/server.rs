//! A running server, driven as a program drives it: JSON lines on standard output, commands on standard input.

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread::JoinHandle;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;

use super::{PATIENCE, engine, eventually, process};

/// A supervisor and its server. Both are killed on drop.
pub struct Server {
    supervisor: Child,
    standard_input: Option<ChildStdin>,
    lines: Receiver<String>,
    errors: Option<JoinHandle<String>>,
    /// The line `ready`.
    pub ready: Value,
    /// The port it listens on; 0 over a Unix socket.
    pub port: u16,
    /// The server's first process, which is also the number of its process group.
    pub first: i32,
}

/// How a server ended.
pub struct Ending {
    /// The supervisor's exit status.
    pub status: ExitStatus,
    /// The line `summary`, if it came.
    pub summary: Option<Value>,
    /// Standard error, of the supervisor and of the server.
    pub errors: String,
    /// The server's process group.
    pub group: i32,
}

impl Server {
    /// Starts a server on a port of the kernel's choice. Options may follow the design's name.
    ///
    /// Without `--parent`: the parent-death signal is sent when the forking thread ends, and tests run in threads.
    pub fn start(design: &str, workload: &str, options: &[&str]) -> Server {
        Server::launch(&mut engine(), design, workload, options)
    }

    /// Starts a server with a command that runs the engine with the appended arguments.
    pub fn launch(command: &mut Command, design: &str, workload: &str, options: &[&str]) -> Server {
        Server::launch_at("127.0.0.1:0", command, design, workload, options)
    }

    /// As [`Server::launch`], at another address.
    pub fn launch_at(listen: &str, command: &mut Command, design: &str, workload: &str, options: &[&str]) -> Server {
        let command = command
            .arg("serve")
            .args(design.split(' '))
            .args(["--workload", workload, "--control", "--listen", listen])
            .args(options)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut supervisor = command.spawn().expect("the engine can be started");
        let standard_input = supervisor.stdin.take();
        let output = BufReader::new(supervisor.stdout.take().expect("the output is piped"));
        let mut stderr = supervisor.stderr.take().expect("the output is piped");
        let (sender, lines) = channel();
        std::thread::spawn(move || output.lines().map_while(Result::ok).try_for_each(|line| sender.send(line)));
        let errors = std::thread::spawn(move || {
            let mut text = Vec::new();
            let _ = stderr.read_to_end(&mut text);
            String::from_utf8_lossy(&text).into_owned()
        });
        let mut server =
            Server { supervisor, standard_input, lines, errors: Some(errors), ready: Value::Null, port: 0, first: 0 };
        server.ready = match server.line() {
            Some(line) => line,
            None => panic!("{command:?} did not start: {}", server.wait().errors),
        };
        assert_eq!(server.ready["line"], "ready", "{}", server.ready);
        let port = server.ready["port"].as_u64();
        assert_eq!(port.is_none(), listen.starts_with("unix:"), "{}", server.ready);
        server.port = port.unwrap_or_default() as u16;
        server.first = server.ready["server_pid"].as_i64().expect("a process") as i32;
        assert_eq!(server.ready["supervisor_pid"], server.supervisor(), "{}", server.ready);
        server
    }

    /// Address at which it listens, as `--connect` takes it.
    pub fn address(&self) -> &str {
        self.ready["address"].as_str().expect("an address")
    }

    /// Returns the supervisor's process.
    pub fn supervisor(&self) -> i32 {
        self.supervisor.id() as i32
    }

    /// Returns the next line; `None` at the end of the output.
    pub fn line(&self) -> Option<Value> {
        match self.lines.recv_timeout(PATIENCE) {
            Ok(line) => Some(serde_json::from_str(&line).unwrap_or_else(|error| panic!("no JSON: {error}: {line}"))),
            Err(RecvTimeoutError::Disconnected) => None,
            Err(RecvTimeoutError::Timeout) => panic!("the server printed nothing for {PATIENCE:?}"),
        }
    }

    /// Requests a snapshot.
    pub fn snapshot(&mut self) -> Value {
        let input = self.standard_input.as_mut().expect("the server has not been stopped");
        input.write_all(b"snapshot\n").expect("the supervisor reads its commands");
        let line = self.line().expect("a snapshot is answered");
        assert_eq!(line["line"], "snapshot", "{line}");
        line
    }

    /// Requests snapshots until one is as described, and returns it.
    pub fn snapshot_when(&mut self, what: &str, mut suits: impl FnMut(&Value) -> bool) -> Value {
        let mut last = Value::Null;
        let deadline = std::time::Instant::now() + PATIENCE;
        loop {
            if std::time::Instant::now() > deadline {
                panic!("not within {PATIENCE:?}: {what}; the last snapshot was {last}");
            }
            last = self.snapshot();
            if suits(&last) {
                return last;
            }
            std::thread::sleep(std::time::Duration::from_millis(2));
        }
    }

    /// Returns a setting's effective value.
    pub fn setting(&self, name: &str) -> Option<u64> {
        self.ready["settings"][name].as_u64()
    }

    /// Lists the living processes of the server, including the first.
    pub fn processes(&self) -> Vec<i32> {
        process::of_group(self.first).into_iter().map(|process| process.id).collect()
    }

    /// Lists the living processes of the server, without the first.
    pub fn workers(&self) -> Vec<i32> {
        self.processes().into_iter().filter(|&id| id != self.first).collect()
    }

    /// Waits until the pool, if the design has one, is complete, and until every thread of the server sleeps.
    pub fn settle(&self) {
        let pool = self.setting("pool").or(self.setting("start_workers")).unwrap_or(0) as usize;
        eventually("the server has made its pool", || {
            (self.processes().len() > pool || process::thread_states(self.first).len() > pool).then_some(())
        });
        self.sleeps();
    }

    /// Waits until every thread of the server sleeps; if the server busy-polls, until it has polled many times.
    pub fn sleeps(&self) {
        if self.spins() {
            // Each worker, since another one's CPU time does not show that this one has closed its connections.
            let mut before = HashMap::new();
            return eventually("the server has looked", || {
                // The first process polls only if it forks no workers, and it may not have forked them yet.
                let workers = self.workers();
                let polling = if workers.is_empty() { vec![self.first] } else { workers };
                let has_looked = |&id: &i32| {
                    let used = process::cpu_nanoseconds(id);
                    used > *before.entry(id).or_insert(used) + 3_000_000
                };
                polling.iter().filter(|&&id| process::lives(id)).all(has_looked).then_some(())
            });
        }
        let mut before = Vec::new();
        eventually("all threads of the server sleep", || {
            let states = |id| (id, process::thread_states(id));
            let now: Vec<_> = self.processes().into_iter().map(states).collect();
            let quiet = now == before && now.iter().all(|(_, states)| states.iter().all(|&state| state == 'S'));
            before = now;
            quiet.then_some(())
        });
    }

    /// Whether the server busy-polls, by design or by option.
    pub fn spins(&self) -> bool {
        self.ready["spins"] == true
    }

    /// Sends a signal to the supervisor.
    pub fn signal(&self, signal: Signal) {
        process::signal(self.supervisor(), signal);
    }

    /// Waits until the listener is gone, which is at once after a stop. Asks the kernel, since a connection made to find out
    /// would be counted.
    pub fn stops_listening(&self) {
        eventually("the server stops listening", || (!process::listens(self.port)).then_some(()));
    }

    /// Stops the server by the end of its standard input, without waiting.
    pub fn close_input(&mut self) {
        self.standard_input = None;
    }

    /// Stops the server, and waits for its end.
    pub fn stop(mut self) -> Ending {
        self.close_input();
        self.wait()
    }

    /// Whether the supervisor has ended.
    pub fn has_ended(&mut self) -> bool {
        self.supervisor.try_wait().expect("a child can be waited for").is_some()
    }

    /// Waits for the end of the server.
    pub fn wait(mut self) -> Ending {
        let mut summary = None;
        let deadline = std::time::Instant::now() + PATIENCE;
        loop {
            assert!(std::time::Instant::now() < deadline, "the server did not end within {PATIENCE:?}");
            match self.line() {
                Some(line) if line["line"] == "summary" => summary = Some(line),
                Some(_) => {}
                None => break,
            }
        }
        let supervisor = &mut self.supervisor;
        let status = eventually("the supervisor ends", || supervisor.try_wait().expect("a child can be waited for"));
        let errors = self.errors.take().expect("waited for once").join().expect("the reader does not panic");
        Ending { status, summary, errors, group: self.first }
    }
}

impl Drop for Server {
    /// Ends a server that a test left running: signals twice, which lets the supervisor remove its control group, and then
    /// kills.
    fn drop(&mut self) {
        self.standard_input = None;
        for _ in 0..50 {
            if self.supervisor.try_wait().ok().flatten().is_some() {
                return;
            }
            let _ = kill(Pid::from_raw(self.supervisor()), Signal::SIGINT);
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
        let _ = self.supervisor.kill();
        let _ = self.supervisor.wait();
    }
}

impl Ending {
    /// Returns the summary, which must exist.
    pub fn summary(&self) -> &Value {
        self.summary.as_ref().unwrap_or_else(|| panic!("there was no summary: {}", self.errors))
    }

    /// Checks that no process of the server is left.
    pub fn leaves_nothing(&self) {
        let left = process::of_group(self.group);
        assert!(left.is_empty(), "the supervisor has ended, but these processes have not: {left:?}");
    }

    /// Checks that the server ended because it was stopped: exit status 0, nothing on standard error, nothing left.
    pub fn is_good(&self) {
        assert!(self.errors.is_empty(), "on standard error: {}", self.errors);
        assert_eq!(self.status.code(), Some(0), "exit status");
        assert_eq!(self.summary()["died"], Value::Null);
        self.leaves_nothing();
    }

    /// Checks that the server ended without being stopped: exit status 1, a message, nothing left.
    pub fn is_reported(&self, words: &[&str]) {
        assert_eq!(self.status.code(), Some(1), "exit status; on standard error: {}", self.errors);
        for word in words {
            assert!(self.errors.contains(word), "'{word}' is not in: {}", self.errors);
        }
        assert!(self.errors.lines().all(|line| line.starts_with("thunderherd-engine: ")), "{}", self.errors);
        assert!(self.summary()["died"].is_string(), "{}", self.summary());
        self.leaves_nothing();
    }
}
