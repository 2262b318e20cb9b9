//! The cases that any server must pass (`thunderherd-engine conform`), against every design.

use std::path::PathBuf;
use std::time::Duration;

use nix::sys::signal::Signal;
use thunderherd_engine::conform;
use thunderherd_engine::conform::connection::Connection;
use thunderherd_engine::conform::protocol;
use thunderherd_engine::conform::subject::{Host, Subject};
use thunderherd_engine::conform::verdict::Verdict;

use crate::faults;
use crate::rig::{Case, Listed};
use crate::support::made_processes;
use crate::support::server::Server;

pub const FAULTS: &[Listed] = faults![
    #[has_no_cases]
    what_any_server_must_do,
];

/// Longest wait of a case.
const PATIENCE: Duration = Duration::from_secs(20);

/// Workloads whose exchanges in these cases are those of a server with default settings.
const WITHOUT_OPTIONS: [&str; 2] = ["fields", "blast"];

impl Case {
    fn has_no_cases(&self) -> Option<String> {
        let name = self.protocol.name;
        protocol::find(name).is_none().then(|| format!("engine/src/conform/protocol.rs has no exchanges of {name}"))
    }
}

fn what_any_server_must_do(case: &Case) {
    let needed = if WITHOUT_OPTIONS.contains(&case.protocol.name) { Vec::new() } else { (case.protocol.options)() };
    let brief = case.protocol.brief.server;
    let options: Vec<&str> =
        needed.iter().map(String::as_str).chain(brief.iter().copied()).chain(["--drain", "100ms"]).collect();
    let server = Server::start(case.name(), case.protocol.name, &options);
    let address = ([127, 0, 0, 1], server.port).into();
    let mut ours = Ours { server: Some(server), taken: 0 };
    let protocol = protocol::find(case.protocol.name).expect("the test is listed as one with cases");
    let mut subject = Subject::new(address, protocol, &mut ours);
    subject.patience = PATIENCE;
    for each in conform::of(protocol) {
        match each.judge(&mut subject) {
            Ok(Verdict::Passed | Verdict::Allowed(_)) => {}
            Ok(Verdict::NotJudged(reason)) => panic!("case {}, {}, was not judged: {reason}", each.number, each.name),
            Ok(Verdict::Warned(fault)) | Err(fault) => panic!("case {}, {}: {fault}", each.number, each.name),
        }
    }
}

/// A server of this program, which reports what it has received.
struct Ours {
    /// `None` after it was stopped.
    server: Option<Server>,
    /// Bytes that it had received when the case began.
    taken: u64,
}

impl Host for Ours {
    fn begin(&mut self) {
        self.taken = self.server.as_mut().map_or(0, bytes_received);
    }

    fn connected(&mut self) {}

    fn proc(&self) -> PathBuf {
        made_processes::path().into()
    }

    fn has_started(&self) -> bool {
        true
    }

    fn await_taken(&mut self, bytes: u64, _client: &Connection) {
        let due = self.taken + bytes;
        let server = self.server.as_mut().expect("the case that stops the server is the last");
        server.snapshot_when(&format!("{due} bytes received"), |snapshot| {
            snapshot["tally"]["bytes_received"].as_u64().is_some_and(|received| received >= due)
        });
    }

    fn stop(&mut self) -> Option<Result<(), String>> {
        let server = self.server.take()?;
        server.signal(Signal::SIGTERM);
        server.wait().is_good();
        Some(Ok(()))
    }
}

fn bytes_received(server: &mut Server) -> u64 {
    server.snapshot()["tally"]["bytes_received"].as_u64().expect("a count")
}
