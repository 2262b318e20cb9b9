//! Shortages of descriptors, processes and threads. None of them may end a server.

use libtest_mimic::{Completion, Failed};
use nix::sys::signal::Signal;

use crate::faults;
use crate::rig::{Case, Listed, Rig, Workers};
use crate::support::client::Client;
use crate::support::lines::resource_limits;
use crate::support::server::Server;
use crate::support::{Unprivileged, engine_with_descriptors, eventually, process};

pub const FAULTS: &[Listed] = faults![descriptors_run_out, descriptors_run_out_as_the_server_starts];

/// Tests that need a separate user, and are ignored if there can be none.
pub const AS_A_USER: &[Listed] = &[("processes_run_out", processes_run_out)];

/// Designs in which one process has all connections.
pub const OF_ONE_PROCESS_FOR_ALL: &[Listed] = faults![descriptors_run_out_and_that_is_tallied];

pub const OF_POOLS: &[Listed] = &[("a_pool_that_cannot_be_made", a_pool_that_cannot_be_made)];

pub const OF_PROCESS_POOLS: &[Listed] = &[("a_worker_that_cannot_be_replaced", a_worker_that_cannot_be_replaced)];

const DESCRIPTORS: u32 = 40;

/// More clients than the server may have descriptors. Meanwhile it does not retry accept all the time, and continues to
/// serve its connections. When they have closed, it accepts the others, and serves as before.
fn descriptors_run_out(case: &Case) {
    let (mut rig, mut silent) = with_descriptors_run_out(case);
    wait_until_nothing_changes(&mut rig.server);
    rig.does_not_spin();
    if !case.protocol.opens_files {
        (0..5).for_each(|_| rig.asks(&mut silent[0], &case.exchange()));
    }
    drop(silent);
    the_pool_shrinks(case, &rig.server);
    rig.expected.errors_allowed = &["resource_limit"];
    rig.finish();
}

/// A thread that waits in accept(2) already holds a descriptor. If the rush has made many threads, and a reply needs
/// descriptors too, there are none until the next maintenance has ended the excess.
fn the_pool_shrinks(case: &Case, server: &Server) {
    let Some(spare) = server.setting("maximum_spare").filter(|_| case.protocol.opens_files) else { return };
    let main_thread = 1;
    eventually("the excess of free workers has ended", || {
        (process::thread_states(server.first).len() as u64 <= spare + main_thread).then_some(())
    });
}

/// Clients that connect at the first moment, and take descriptors that the server may need for itself.
fn descriptors_run_out_as_the_server_starts(case: &Case) {
    let mut server = case.launch(&mut engine_with_descriptors(DESCRIPTORS), &[]);
    let clients: Vec<Client> = (0..2 * DESCRIPTORS).map(|_| Client::connect(server.port)).collect();
    wait_until_nothing_changes(&mut server);
    drop(clients);
    let all = u64::from(2 * DESCRIPTORS);
    server.snapshot_when("all of them served and closed", |snapshot| snapshot["tally"]["closed"] == all);
    the_pool_shrinks(case, &server);
    case.client(&server).exchange(&case.exchange());
    server.stop().is_good();
}

/// The process that meets the limit reports it.
fn descriptors_run_out_and_that_is_tallied(case: &Case) {
    let (mut rig, silent) = with_descriptors_run_out(case);
    rig.server.snapshot_when("a tally that says so", |snapshot| resource_limits(snapshot) > 0);
    drop(silent);
    rig.expected.errors_allowed = &["resource_limit"];
    rig.finish();
}

fn with_descriptors_run_out(case: &Case) -> (Rig<'_>, Vec<Client>) {
    let server = case.launch(&mut engine_with_descriptors(DESCRIPTORS), &[]);
    let mut rig = Rig::of(case, server);
    let silent = (0..2 * DESCRIPTORS).map(|_| rig.connect()).collect();
    (rig, silent)
}

fn wait_until_nothing_changes(server: &mut Server) {
    let (mut last, mut times) = (None, 0);
    server.snapshot_when("the number of connections stays", |snapshot| {
        let connections = snapshot["tally"]["connections"].as_u64();
        times = if connections == last { times + 1 } else { 0 };
        last = connections;
        times > 30
    });
}

/// A limit on the user's processes and threads, and more clients than it allows. A design that needs none per client does
/// not notice. Others drop the connection, count it, and continue.
fn processes_run_out(case: &Case) -> Result<Completion, Failed> {
    let user = match Unprivileged::new() {
        Ok(user) => user,
        Err(reason) => return Ok(Completion::ignored_with(reason)),
    };
    let server = case.launch(&mut user.command(Some(16)), &case.pool("3"));
    let mut rig = Rig::of(case, server);
    let tasks =
        |server: &Server| -> usize { server.processes().into_iter().map(|id| process::thread_states(id).len()).sum() };
    let before = tasks(&rig.server);
    let silent: Vec<Client> = (0..40).map(|_| rig.connect()).collect();
    if matches!(case.kind.workers, Workers::ProcessPerClient | Workers::ThreadPerClient) {
        let clients = rig.expected.connections;
        let snapshot = rig.server.snapshot_when("every client a connection or a resource_limit", |snapshot| {
            let tally = &snapshot["tally"];
            tally["connections"].as_u64().expect("a count") + resource_limits(snapshot) == clients
        });
        let refused = resource_limits(&snapshot);
        assert!(refused > 20, "40 clients, 16 processes, but: {snapshot}");
        rig.expected.connections -= refused;
        rig.expected.error(&["resource_limit"], refused);
    }
    if case.has_setting("maximum_workers") {
        // It reports that it cannot grow; its clients wait for existing workers.
        rig.expected.errors_allowed = &["resource_limit"];
    }
    drop(silent);
    if !case.has_setting("maximum_workers") {
        // A process counts towards the limit until it is gone, so the next client may be refused because of it.
        eventually("the clients' processes and threads have ended", || (tasks(&rig.server) <= before).then_some(()));
    }
    rig.finish();
    Ok(Completion::Completed)
}

/// A pool larger than the limit: the server ends with a message, instead of serving with fewer workers.
fn a_pool_that_cannot_be_made(case: &Case) -> Result<Completion, Failed> {
    let user = match Unprivileged::new() {
        Ok(user) => user,
        Err(reason) => return Ok(Completion::ignored_with(reason)),
    };
    let server = case.launch(&mut user.command(Some(8)), &["--pool", "15"]);
    let ending = server.wait();
    ending.is_reported(&["cannot ", "--pool", "ulimit -u"]);
    Ok(Completion::Completed)
}

/// If no process can be made, a lost worker stays lost, and the others continue.
fn a_worker_that_cannot_be_replaced(case: &Case) -> Result<Completion, Failed> {
    let user = match Unprivileged::new() {
        Ok(user) => user,
        Err(reason) => return Ok(Completion::ignored_with(reason)),
    };
    let options = ["--pool", "3", "--respawn", "true"];
    let server = case.launch(&mut user.command(None), &options);
    let mut rig = Rig::of(case, server);
    user.limit_processes(rig.server.first, 1);
    process::signal(rig.server.workers()[0], Signal::SIGKILL);
    rig.until("workers_lost", 1);
    rig.expected.workers_lost = 1;
    rig.expected.errors_allowed = &["resource_limit"];
    for _ in 0..10 {
        rig.serves();
    }
    rig.finish();
    Ok(Completion::Completed)
}
