//! Every server design, over real sockets, against clients that behave and clients that do not.
//!
//! The tests are made from what is registered: a new design is tested under all of them without a line here, and a new
//! workload once `tests/support/protocol.rs` says what its exchanges are. A test's name is
//! `design::workload::what_happens`.
//!
//! Whatever happens to it, a server goes on, answers the next request byte by byte, keeps a right tally, loses no
//! descriptor and no process, and ends with exit status 0 when it is told to: [`Bench::finish`] checks that at the end
//! of every test.

#[path = "../support/mod.rs"]
mod support;

mod bench;
mod clients;
mod requests;
mod shortages;
mod stopping;
mod workers;

use libtest_mimic::{Arguments, Completion, Trial};
use serde_json::Value;

use bench::{Case, Fault, Kind, Listed};
use support::protocol::{Exchange, PROTOCOLS, Protocol};
use support::server::Server;

fn main() {
    let mut arguments = Arguments::from_args();
    // Tests wait more than they compute, but several of them make some hundred processes.
    arguments.test_threads.get_or_insert(4);
    let conclusion = libtest_mimic::run(&arguments, trials());
    support::protocol::proc::remove();
    conclusion.exit();
}

fn trials() -> Vec<Trial> {
    let (designs, workloads) = (registered("designs"), registered("workloads"));
    let mut trials = Vec::new();
    for design in designs.iter().flat_map(variants) {
        let kind = kind(&name(&design));
        for workload in workloads.iter().map(name) {
            let Some(protocol) = PROTOCOLS.iter().find(|protocol| protocol.name == workload) else {
                trials.push(without_exchanges(&name(&design), &workload));
                continue;
            };
            for (fault, test) in faults(kind, protocol) {
                let case = Case { design: design.clone(), kind, protocol };
                let title = format!("{}::{workload}::{fault}", case.name());
                trials.push(Trial::ignorable_test(title, move || test(&case)));
            }
        }
    }
    trials
}

/// A design as it is by default, and once more for every other word that a setting of its may be: `NAME --option word`.
fn variants(design: &Value) -> Vec<Value> {
    let mut variants = vec![design.clone()];
    for setting in design["settings"].as_array().into_iter().flatten() {
        for word in setting["choices"].as_array().into_iter().flatten().filter(|&word| word != &setting["default"]) {
            let (option, word) = (name(setting).replace('_', "-"), word.as_str().expect("a word"));
            let mut variant = design.clone();
            variant["name"] = format!("{} --{option} {word}", name(design)).into();
            variants.push(variant);
        }
    }
    variants
}

/// What can happen to a server of this kind.
fn faults(kind: Kind, protocol: &'static Protocol) -> Vec<(String, Fault)> {
    let everywhere =
        [requests::FAULTS, clients::FAULTS, shortages::FAULTS, shortages::AS_A_USER, stopping::FAULTS, workers::FAULTS];
    let special: &[&[Listed]] = match kind {
        // What happens to the workers of a dynamic pool, tests/dynamic_pools.rs knows.
        Kind::OneAtATime | Kind::OneProcess | Kind::DynamicPool => &[],
        Kind::ThreadPerClient => &[shortages::OF_THREADS_PER_CLIENT],
        Kind::ProcessPerClient => &[workers::OF_PROCESSES_PER_CLIENT],
        Kind::ThreadPool => &[shortages::OF_POOLS],
        Kind::ProcessPool => &[shortages::OF_POOLS, shortages::OF_PROCESS_POOLS, workers::OF_PROCESS_POOLS],
    };
    let mut faults: Vec<(String, Fault)> = Vec::new();
    for &(name, test) in everywhere.iter().chain(special).copied().flatten() {
        faults.push((name.to_owned(), Box::new(test)));
    }
    for wrong in (protocol.wrong)() {
        let name = format!("a_wrong_request::{}", wrong.name);
        let test: Fault = Box::new(move |case| {
            requests::a_wrong_request(case, &wrong);
            Ok(Completion::Completed)
        });
        faults.push((name, test));
    }
    faults
}

/// What `list KIND --json` shows.
fn registered(kind: &str) -> Vec<Value> {
    let listed = support::run(support::engine().args(["list", kind, "--json"]));
    assert_eq!(listed.status, Some(0), "{listed:?}");
    serde_json::from_str(&listed.output).expect("list --json prints a list")
}

fn name(entry: &Value) -> String {
    entry["name"].as_str().expect("every entry has a name").to_owned()
}

/// Finds out how a design makes its processes and threads, and whom it makes wait, by looking at it before and while it
/// serves.
fn kind(design: &str) -> Kind {
    let protocol = &PROTOCOLS[0];
    let server = Server::start(design, protocol.name, &[]);
    server.settle();
    let look = || (server.workers().len(), support::process::thread_states(server.first).len());
    let (processes, threads) = look();
    let mut client = support::client::Client::connect(server.port);
    client.exchange(&(protocol.exchanges)()[0]);
    let (processes_serving, threads_serving) = look();
    match () {
        () if server.setting("maximum_workers").is_some() => Kind::DynamicPool,
        () if processes > 0 => Kind::ProcessPool,
        () if server.setting("pool").is_some() && threads > 1 => Kind::ThreadPool,
        () if processes_serving > processes => Kind::ProcessPerClient,
        () if threads_serving > threads => Kind::ThreadPerClient,
        // The first client is still connected, and silent.
        () if is_answered(&server, &(protocol.exchanges)()[0]) => Kind::OneProcess,
        () => Kind::OneAtATime,
    }
}

/// Whether a further client is answered before the server has nothing left to do but sleep.
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
