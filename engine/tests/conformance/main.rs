//! Every server design, over real sockets, against clients that behave and clients that do not.
//!
//! The tests are made from the registered entries: a new design gets all of them without a change here, and a new workload
//! once `tests/support/protocol.rs` has its exchanges. A test's name is `design::workload::what_happens`. Tests of
//! connections and processes are ignored with some workloads, unless requested (`--include-ignored`), and so are most tests of
//! a design with another value of a choice.
//!
//! In every test the server continues, answers the next request byte by byte, keeps a correct tally, leaks no descriptor and
//! no process, and stops with exit status 0 ([`Rig::finish`]). Tests of the other end are named `clients_of::workload::…`:
//! every load runs with each workload and every fitting primitive.

#[path = "../support/mod.rs"]
mod support;

mod client_primitives;
mod clients;
mod conversations;
mod draining;
mod fairness;
mod model;
mod mutated;
mod primitives;
mod requests;
mod rig;
mod shared;
mod shortages;
mod stopping;
mod workers;

use std::process::ExitCode;
use std::sync::atomic::Ordering::Relaxed;

use libtest_mimic::{Arguments, Completion, Trial};
use serde_json::Value;
use thunderherd_engine::net::netlink::Netlink;
use thunderherd_engine::net::veth;
use thunderherd_engine::sys::namespace;

use rig::{Case, Fault, Kind, Listed, Workers};
use support::made_processes::MadeProcesses;
use support::protocol::{Exchange, PROTOCOLS};
use support::server::Server;

fn main() -> ExitCode {
    if let Some(status) = draining::serve() {
        return status;
    }
    let mut arguments = Arguments::from_args();
    rig::EVERYTHING.store(arguments.include_ignored, Relaxed);
    fairness::SHOWS.store(arguments.nocapture, Relaxed);
    if !arguments.include_ignored {
        with_small_buffers();
    }
    // Tests wait more than they compute, but several of them make some hundred processes.
    arguments.test_threads.get_or_insert(4);
    let made = MadeProcesses::make();
    let conclusion = libtest_mimic::run(&arguments, trials());
    drop(made);
    conclusion.exit_code()
}

/// Enters a network namespace with small send buffers, so that a reply of a megabyte is larger than all buffers. Tests of other
/// users than root, and those with `--include-ignored`, use the system's buffers.
fn with_small_buffers() {
    if namespace::unshare_network().is_ok() {
        veth::raise_loopback(&mut Netlink::open().expect("netlink is there")).expect("the loopback interface is there");
        // Where that is forbidden, replies are as large as the machine's buffers need.
        let _ = std::fs::write("/proc/sys/net/ipv4/tcp_wmem", "4096 16384 524288");
    }
}

fn trials() -> Vec<Trial> {
    let catalogue = support::catalogue();
    let [designs, workloads] = ["designs", "workloads"].map(|kind| catalogue[kind].as_array().expect("a list"));
    for name in WITH_PROCESSES {
        assert!(PROTOCOLS.iter().any(|protocol| protocol.name == name), "there is no workload {name}");
    }
    for name in rig::THOROUGH {
        assert!(designs.iter().any(|design| design["name"] == name), "there is no design {name}");
    }
    let mut trials = draining::trials();
    trials.extend(model::trials());
    trials.extend(client_primitives::trials(&catalogue));
    for design in &designs.iter().flat_map(variants).collect::<Vec<_>>() {
        if design["available"] == false {
            trials.push(not_available(design));
            continue;
        }
        let kind = kind(design);
        if !name(design).contains(' ') {
            trials.extend(primitives::trials(&catalogue, design, kind));
        }
        trials.extend(fairness::trials(&catalogue, design, kind));
        for workload in workloads.iter().map(name) {
            let Some(protocol) = PROTOCOLS.iter().find(|protocol| protocol.name == workload) else {
                trials.push(without_exchanges(&name(design), &workload));
                continue;
            };
            // Other values of a design's choices do not change a protocol, except perhaps for where a reply is computed.
            let is_like_another =
                name(design).contains(' ') && !protocol.computes && protocol.name != PROTOCOLS[0].name;
            let case = || Case { design: design.clone(), kind, protocol };
            for (fault, test, concerns) in faults(&case()) {
                let case = case();
                let title = format!("{}::{workload}::{fault}", case.name());
                let left_out = match concerns {
                    _ if is_like_another => true,
                    Concerns::Requests => false,
                    Concerns::Connections | Concerns::Cases => {
                        !case.is_thorough() && protocol.name != PROTOCOLS[0].name
                    }
                    Concerns::Processes => {
                        !WITH_PROCESSES[..1 + usize::from(case.is_thorough())].contains(&protocol.name)
                    }
                };
                trials.push(Trial::ignorable_test(title, move || test(&case)).with_ignored_flag(left_out));
            }
        }
    }
    trials
}

/// A design with its defaults, and once more for every other value of a choice: `NAME --option word`.
fn variants(design: &Value) -> Vec<Value> {
    let mut variants = vec![design.clone()];
    for setting in design["settings"].as_array().into_iter().flatten() {
        for word in setting["choices"].as_array().into_iter().flatten().filter(|&word| word != &setting["default"]) {
            let (option, word) = (name(setting).replace('_', "-"), word.as_str().expect("a word"));
            let mut variant = design.clone();
            variant["name"] = format!("{} --{option} {word}", name(design)).into();
            follow_advice(&mut variant);
            variants.push(variant);
        }
    }
    variants
}

/// If a value contradicts another setting, the refusal ends with what to type instead. This is done, and the setting is no
/// longer free.
fn follow_advice(variant: &mut Value) {
    let mut command = support::engine();
    let command = command.arg("serve").args(name(variant).split(' ')).args(["--listen", "127.0.0.1:0"]);
    let refused = support::run(command.args(["--control"]));
    if refused.status == Some(0) || variant["available"] == false {
        return;
    }
    // The option and its value are the last ones that the refusal names, in its message or its hint.
    let (_, behind) = refused.errors.rsplit_once("--").expect("a refusal says what to type");
    let advice = behind.split_whitespace().take(2).collect::<Vec<_>>().join(" ");
    let setting = advice.split(' ').next().expect("an option").replace('-', "_");
    variant["name"] = format!("{} --{advice}", name(variant)).into();
    variant["settings"].as_array_mut().expect("a list").retain(|known| known["name"] != setting.as_str());
}

/// Subjects of faults.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Concerns {
    /// Requests that clients send, which concern each workload.
    Requests,
    /// Connections of clients that are silent, slow, gone or many, which concern the design.
    Connections,
    /// The cases that any server must pass, which concern the design and the workload.
    Cases,
    /// Deaths of server processes, which concern the design.
    Processes,
}

/// Workloads for tests of processes: immediate replies, and, with the designs of [`rig::THOROUGH`], replies in parts during
/// which either end may send. With all workloads these tests take some minutes more: `make test-thorough`.
const WITH_PROCESSES: [&str; 2] = ["bytes", "stream"];

/// Returns the faults that can happen to a server of this kind.
fn faults(case: &Case) -> Vec<(String, Fault, Concerns)> {
    let mut of_processes: Vec<&[Listed]> =
        vec![shortages::FAULTS, shortages::AS_A_USER, stopping::FAULTS, workers::FAULTS];
    match case.kind.workers {
        Workers::None if case.kind.many => of_processes.push(shortages::OF_ONE_PROCESS_FOR_ALL),
        Workers::ThreadPerClient => of_processes.push(shortages::OF_ONE_PROCESS_FOR_ALL),
        Workers::ProcessPerClient => of_processes.push(workers::OF_PROCESSES_PER_CLIENT),
        Workers::ThreadPool if case.has_setting("pool") => of_processes.push(shortages::OF_POOLS),
        Workers::ProcessPool if case.has_setting("pool") => {
            of_processes.extend([shortages::OF_POOLS, shortages::OF_PROCESS_POOLS, workers::OF_PROCESS_POOLS]);
        }
        // tests/engine/serve/dynamic_pools.rs tests the workers of dynamic pools.
        Workers::None | Workers::ThreadPool | Workers::ProcessPool => {}
    }
    let mut faults: Vec<(String, Fault, Concerns)> = Vec::new();
    for (lists, concerns) in [
        (&[requests::FAULTS, requests::UNLESS_SLOW][..], Concerns::Requests),
        (&[clients::FAULTS][..], Concerns::Connections),
        (&[shared::FAULTS][..], Concerns::Cases),
        (&of_processes[..], Concerns::Processes),
    ] {
        for &(name, test) in lists.iter().copied().flatten() {
            faults.push((name.to_owned(), Box::new(test), concerns));
        }
    }
    faults
}

fn name(entry: &Value) -> String {
    entry["name"].as_str().expect("every entry has a name").to_owned()
}

/// Finds out how a design uses processes and threads, and which clients have to wait, by observing it before and while it
/// serves.
fn kind(design: &Value) -> Kind {
    let exchange = &(PROTOCOLS[0].exchanges)()[0];
    // A pool of one shows whether a worker serves two connections at once.
    let (name, one) = (name(design), pool_of_one(design));
    let server = Server::start(&name, PROTOCOLS[0].name, one);
    server.settle();
    let look = || (server.workers().len(), support::process::thread_states(server.first).len());
    let (processes, threads) = look();
    let mut client = support::client::Client::connect(server.port);
    client.exchange(exchange);
    let (processes_serving, threads_serving) = look();
    let workers = match () {
        () if processes > 0 => Workers::ProcessPool,
        () if threads > 1 => Workers::ThreadPool,
        () if processes_serving > processes => Workers::ProcessPerClient,
        () if threads_serving > threads => Workers::ThreadPerClient,
        () => Workers::None,
    };
    // The first client is still connected, and silent.
    let answered = is_answered(&server, exchange);
    let alone = workers == Workers::None || !one.is_empty();
    Kind { workers, many: alone && answered }
}

fn pool_of_one(design: &Value) -> &'static [&'static str] {
    let pool = |setting: &Value| setting["name"] == "pool";
    if design["settings"].as_array().into_iter().flatten().any(pool) { &["--pool", "1"] } else { &[] }
}

fn not_available(design: &Value) -> Trial {
    let reason = design["reason"].as_str().unwrap_or_default().to_owned();
    Trial::ignorable_test(name(design), move || Ok(Completion::ignored_with(reason)))
}

/// Whether another client gets its reply before the server becomes idle.
fn is_answered(server: &Server, exchange: &Exchange) -> bool {
    let mut client = support::client::Client::connect(server.port);
    client.send(&exchange.request);
    server.sleeps();
    client.has_received()
}

fn without_exchanges(design: &str, workload: &str) -> Trial {
    let message = format!("tests/support/protocol.rs does not say what the exchanges of the workload {workload} are");
    Trial::test(format!("{design}::{workload}"), move || Err(message.into()))
}
