//! Proves that the suite notices a server that does not drain: an edge-triggered one in this test program, which stops after
//! one read. Its twin, which drains, passes the same check.

use std::collections::{BTreeMap, HashMap};
use std::os::fd::{AsRawFd, RawFd};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::{Command, ExitCode};
use std::time::Duration;

use anyhow::Result;
use libtest_mimic::Trial;
use thunderherd_engine::base::about::Entry;
use thunderherd_engine::base::setting::Settings;
use thunderherd_engine::net::address::Family;
use thunderherd_engine::registry::catalogue;
use thunderherd_engine::runs::serve::{self, Plan};
use thunderherd_engine::server::connection::{Connection, Turn};
use thunderherd_engine::server::design::{Accepted, COMMON, Design, Run};
use thunderherd_engine::sys::descriptor::set_nonblocking;
use thunderherd_engine::sys::readiness::epoll::{self, Epoll, EpollFlags};
use thunderherd_engine::transfer::primitive::Waits;
use thunderherd_engine::workloads::WORKLOADS;

use crate::requests;
use crate::rig::{Case, Kind, Rig, Workers};
use crate::support::protocol::PROTOCOLS;
use crate::support::server::Server;

/// For a reply that does not come. One that comes may take longer on a busy machine.
const PATIENCE: Duration = Duration::from_millis(500);

static STOPS_AFTER_ONE_READ: Design =
    Design { waits: Waits::ForReadiness, serve: |run| edge_triggered(run, false), ..COMMON };

static DRAINS: Design = Design { waits: Waits::ForReadiness, serve: |run| edge_triggered(run, true), ..COMMON };

static DESIGNS: [Entry<Design>; 2] =
    [Entry { name: "stops_after_one_read", item: &STOPS_AFTER_ONE_READ }, Entry { name: "drains", item: &DRAINS }];

pub fn trials() -> Vec<Trial> {
    let trial = |name: &'static str, served: bool| {
        Trial::test(format!("this_suite_notices::{name}"), move || {
            let patience = if served { crate::support::PATIENCE } else { PATIENCE };
            let result = catch_unwind(AssertUnwindSafe(|| check(name, patience)));
            match result.is_ok() == served {
                true => Ok(()),
                false => Err(format!("a server that {name}: the check passed: {}", result.is_ok()).into()),
            }
        })
    };
    vec![trial("stops_after_one_read", false), trial("drains", true)]
}

/// Runs the suite's check, as for every design.
fn check(design: &str, patience: Duration) {
    let entry = serde_json::json!({"name": design, "settings": []});
    let kind = Kind { workers: Workers::None, many: true };
    let case = Case { design: entry, kind, protocol: &PROTOCOLS[0] };
    let mut itself = Command::new(std::env::current_exe().expect("this program has a path"));
    let server = Server::launch(&mut itself, design, case.protocol.name, &[]);
    let mut rig = Rig::of(&case, server);
    requests::arrive_before_the_first_read(&mut rig, &case.exchange(), 1, patience);
    rig.finish();
}

/// Makes this program a server: `serve DESIGN --workload WORKLOAD`, as [`Server::launch`] needs it.
pub fn serve() -> Option<ExitCode> {
    let arguments: Vec<String> = std::env::args().collect();
    let [_, command, design, _, workload, ..] = &arguments[..] else { return None };
    let design = DESIGNS.iter().find(|entry| command == "serve" && entry.name == design)?;
    let (way, workload) = (catalogue::way("send_each", "recv"), catalogue::find(WORKLOADS, workload));
    let declared = catalogue::server_settings(design.item, way, workload.item, Family::Tcp);
    let plan = Plan {
        design,
        way,
        workload,
        listen: "127.0.0.1:0".to_owned(),
        settings: Settings::new(&declared, &BTreeMap::new()),
        cpus: None,
        user: None,
        cpu_source: "whole_life".to_owned(),
        counters: Vec::new(),
        control: true,
    };
    Some(serve::serve(&plan).unwrap_or(ExitCode::FAILURE))
}

/// The design `epoll_edge`, simplified, with an optional fault.
fn edge_triggered(run: &'static Run, drains: bool) -> Result<()> {
    let mut worker = run.worker()?;
    let listener = worker.listener().as_raw_fd();
    set_nonblocking(worker.listener())?;
    let epoll = Epoll::create()?;
    epoll.add(worker.listener(), EpollFlags::EPOLLIN)?;
    let mut events = epoll::no_events();
    let mut connections: HashMap<RawFd, Connection> = HashMap::new();
    loop {
        for (descriptor, ready) in epoll.wait(&mut events, true)? {
            if descriptor == listener {
                match worker.try_accept(libc::SOCK_NONBLOCK) {
                    Accepted::Connection(socket) => {
                        epoll.add(&socket, EpollFlags::EPOLLIN | EpollFlags::EPOLLOUT | EpollFlags::EPOLLET)?;
                        connections.extend(worker.open(socket).map(|new| (new.socket().as_raw_fd(), new)));
                    }
                    Accepted::Nothing | Accepted::Refused => {}
                    Accepted::ShutDown => return Ok(()),
                }
            } else if let Some(connection) = connections.get_mut(&descriptor) {
                let mut turn = connection.turn(ready);
                while drains && matches!(turn, Turn::Yields(_)) {
                    turn = connection.turn(ready);
                }
                if turn == Turn::Over {
                    connections.remove(&descriptor).expect("it was there").finish();
                }
            }
        }
    }
}
