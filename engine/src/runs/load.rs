//! Runs a load from start to end and reports its result, as the supervisor does for a server.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use anyhow::{Context, Result};

use crate::base::about::Entry;
use crate::base::mistake::{Blame, mistake_with_hint};
use crate::base::output::remark;
use crate::base::setting::{Settings, Value};
use crate::base::window::Window;
use crate::client::gave_up::GivingUp;
use crate::client::histograms::SharedHistogram;
use crate::client::live::latencies::LiveLatencies;
use crate::client::load::{ByClient, Edge, FirstError, Load, LoadRun, TIMEOUT, ramp};
use crate::client::measure::Measured;
use crate::client::show::Show;
use crate::client::validity::throttled;
use crate::count::control_group::CpuQuotas;
use crate::count::counter::{Counter, Counting, Subject};
use crate::count::own_memory::Memory;
use crate::count::process_tree::Tree;
use crate::count::tally::Tally;
use crate::lines::load::{self, Latency, Times, Traffic};
use crate::lines::{self, LoadResult, Mark, MarkKind, SCHEMA};
use crate::net::address::Address;
use crate::net::socket_diagnosis::Ends;
use crate::net::source_addresses::Sources;
use crate::net::target::{Chosen, Target};
use crate::net::tcp::TcpOptions;
use crate::protocol::workload::{Client, MeasuredBy, Workload};
use crate::requests::schedule::Schedule;
use crate::requests::sizes::SIZES;
use crate::sys::user::User;
use crate::sys::{clock, process, signal};
use crate::transfer::channel::Way;
use crate::transfer::linger;
use crate::transfer::waiting;

/// The server to load, and how.
pub struct Plan {
    /// The load.
    pub load: &'static Entry<Load>,
    /// The send and the receive primitive.
    pub way: Way,
    /// The workload.
    pub workload: &'static Entry<Workload>,
    /// The server's address as typed.
    pub connect: String,
    /// Addresses of the server's name.
    pub target: Vec<Address>,
    /// All settings.
    pub settings: Settings,
    /// Called with each mark of a load that ends by time.
    pub mark: fn(Mark),
    /// Called when all clients are about to send. Returns when they start; `None`: at once.
    pub agree: fn() -> Option<u64>,
    /// True to print everything that passes over the connections.
    pub show: bool,
    /// True to show the load on standard error, a terminal, while it runs.
    pub is_live: bool,
    /// True to print only the lines that the source's own client prints at its end.
    pub original: bool,
    /// Requested counters.
    pub counters: Vec<&'static Entry<Counter>>,
    /// User that the load runs as once its counters are set up; `None`: this process's.
    pub user: Option<User>,
}

/// The requests of a load and when they are due. All files that the settings name are read before the first connection.
pub struct Requests {
    /// Times at which requests are due; `None` for a closed loop.
    pub schedule: Option<Schedule>,
    /// The workload's client.
    pub client: Box<dyn Client>,
}

impl Requests {
    /// Reads the requests from the settings. Refuses impossible ones.
    pub fn read(workload: &Workload, settings: &Settings) -> Result<Self> {
        let schedule = Schedule::of(settings, ramp(settings))?;
        let client = (workload.client)(settings)?;
        if schedule.is_some() && client.measured_by() != MeasuredBy::Requests {
            return Err(mistake_with_hint(
                "load.open_needs_replies",
                "this workload's only request lasts as long as the load, and an open load needs many",
                "use a closed load; `list loads` shows them",
            )
            .blaming(&["load", "workload"]));
        }
        Ok(Requests { schedule, client })
    }
}

/// Runs the load with these requests. Fails if the load could not run at all; failed requests are in the result.
pub fn run(plan: &Plan, requests: Requests) -> Result<LoadResult> {
    if plan.original && plan.workload.item.original.is_none() {
        let workload = plan.workload.name;
        return Err(mistake_with_hint(
            "load.no_original",
            format!("--original: the source of {workload} has no client whose output is known"),
            "leave --original out",
        ));
    }
    requests.client.prepare()?;
    let expected_requests = plan.load.item.expected_requests(&plan.settings);
    let clients = plan.load.item.clients(&plan.settings);
    let workers = (plan.load.item.workers)(&plan.settings);
    let tally = Tally::new(workers)?;
    let reaped = &tally.general().reaped;
    process::count_reaped(reaped);
    let ends = plan.target.first().and_then(Address::port).map(Ends::of_clients);
    let counting = Counting::begin(&plan.counters, Subject::new(Tree::of_this(reaped), ends));
    let counting = Arc::new(Mutex::new(counting));
    let quotas = Arc::new(CpuQuotas::of_this());
    let stopped = Arc::new(Mutex::new(Vec::new()));
    let run: &'static LoadRun = Box::leak(Box::new(LoadRun {
        target: Target {
            addresses: plan.target.clone(),
            chosen: Chosen::none(plan.target.len()).context(UNMAPPED)?,
            tcp: TcpOptions::of(&plan.settings),
            sources: Sources::find(&plan.target, &plan.settings)?,
            patience: plan.settings.time(TIMEOUT.name),
        },
        settings: plan.settings.clone(),
        schedule: requests.schedule,
        tally,
        client: requests.client,
        way: plan.way,
        first_error: FirstError::new().context(UNMAPPED)?,
        giving_up: GivingUp::new().context(UNMAPPED)?,
        by_client: ByClient::new(clients).context(UNMAPPED)?,
        window: if expected_requests.is_some() { Window::whole_life() } else { Window::to_come() },
        measured: Mutex::default(),
        connecting: (!plan.load.item.is_one_process()).then(SharedHistogram::new).transpose().context(UNMAPPED)?,
        agree: plan.agree,
        agreed_start: AtomicU64::new(0),
        mark: {
            let (mark, counting) = (plan.mark, Arc::clone(&counting));
            let (quotas, stopped) = (Arc::clone(&quotas), Arc::clone(&stopped));
            let at_edge = move |kind, monotonic_ns| {
                mark(Mark { mark: kind, monotonic_ns });
                locked(&stopped).push(quotas.stopped());
            };
            Box::new(move |edge, monotonic_ns| match edge {
                Edge::Started => at_edge(MarkKind::WindowStarted, monotonic_ns),
                Edge::Ended => at_edge(MarkKind::WindowEnded, monotonic_ns),
                // A counter that cannot be read now fails again at the end, and is reported then.
                Edge::Nearing => drop(locked(&counting).note_states()),
            })
        },
        show: plan.show.then(Show::new).transpose().context(UNMAPPED)?,
        expected_requests,
        live: plan.is_live.then(|| LiveLatencies::new(workers)).transpose().context(UNMAPPED)?,
    }));
    say_what_is_needed(plan, run);
    if let Some(user) = &plan.user {
        user.assume().context("the load cannot run as another user")?;
    }
    let counted_from = clock::now();
    // Subtracts what this process used before the load: a launcher that became the engine has its own usage.
    let counted_before = locked(&counting).read()?;
    let before = process::usage_of_self()?;
    let stopped_before = quotas.stopped();
    let before_connecting = clock::now();
    (plan.load.item.run)(run)?;
    // What several loads wait for each other is not part of any.
    let started = match run.agreed_start.load(Relaxed) {
        0 => before_connecting,
        agreed => agreed,
    };
    let ended = clock::now();
    linger::wait();
    let usage = process::usage_of_self()?.since(&before) + reaped.usage();
    let readout = locked(&counting).since(&counted_before)?;
    let counted_to = clock::now();
    let measured = run.measured();
    let (window, counted) = (window(&measured), run.tally.counts());
    let edges = measured.window.as_ref();
    let gave_up = run.giving_up.among(clients as u64);
    // A group that was removed meanwhile has no times, so the second reading may be smaller.
    let throttled = match (edges, &locked(&stopped)[..]) {
        (Some(edges), [before, after]) => throttled(after.saturating_sub(*before), edges.end - edges.start),
        _ => throttled(quotas.stopped().saturating_sub(stopped_before), ended - started),
    };
    Ok(LoadResult {
        schema: SCHEMA,
        workload: plan.workload.name,
        address: run.target.chosen.place().map(|place| plan.target[place].to_string()),
        unanswered: unanswered(&run.target),
        load: plan.load.name,
        primitive: plan.way.out.name,
        receive: plan.way.into.name,
        settings: plan.settings.values().clone(),
        measured_by: run.client.measured_by(),
        expected_requests,
        scheduled: load::scheduled(&measured, edges, run.schedule.as_ref(), gave_up.is_none())?,
        statuses: load::statuses(run.client.statuses(), &measured)?,
        traffic: run.client.traffic().map(|drawn| Traffic::of(drawn, &measured)).transpose()?,
        validity: load::validity(
            &measured,
            run.schedule.as_ref(),
            waiting::spins(&run.settings),
            run.window_ns().filter(|_| !signal::interrupted()),
            run.client.measured_by(),
            &counted,
            gave_up
                .map(|gave_up| gave_up.check(edges.map_or(started, |edges| edges.start)))
                .into_iter()
                .chain(throttled)
                .collect(),
        ),
        gave_up,
        tally: counted,
        elapsed_ns: ended - started,
        started_monotonic_ns: started,
        ended_monotonic_ns: ended,
        boot_id: load::boot_id(),
        counted_from_ns: counted_from,
        counted_to_ns: counted_to,
        window,
        latency: Latency::of(&measured)?,
        connecting: match &run.connecting {
            Some(of_processes) => Times::of(&of_processes.values())?,
            None => Times::of(&measured.connecting)?,
        },
        memory: plan.load.item.is_one_process().then(|| Memory::now(measured.connected)).flatten(),
        used: (&usage).into(),
        readout,
        account: run.client.account(),
        figures: run.client.figures(),
        requests_by_client: run.by_client.get(clients),
        connection: run.tally.general().first_connection.options(),
        closings: run.tally.closings(),
        first_error: run.first_error.get(),
        interrupted: signal::interrupted(),
        expects_our_servers: run.client.expects_our_servers(),
        is_public_protocol: run.client.reconnects(),
    })
}

/// Hints at the server's option if the largest size is more than a server takes by default. Sizes of a distribution are not
/// obvious.
fn say_what_is_needed(plan: &Plan, run: &LoadRun) {
    let Some(largest) = run.client.largest() else { return };
    let agreements = plan.workload.item.agreements.iter().filter(|agreement| agreement.client == SIZES);
    let is_enough = |usual: &Value| *usual >= Value::Integer(largest);
    if agreements.into_iter().any(|agreement| !is_enough(&agreement.service.default())) {
        let needed = plan.workload.item.needed(&plan.settings, Some(largest));
        remark(&format!("sizes of up to {largest} bytes need a server with {}\n", needed.join(" and ")));
    }
}

/// Returns the addresses of the server's name that were tried before the one that answered, each with its error.
fn unanswered(target: &Target) -> BTreeMap<String, String> {
    let failures = target.chosen.failures();
    failures.map(|(place, error)| (target.addresses[place].to_string(), error.to_string())).collect()
}

fn locked<T>(shared: &Mutex<T>) -> MutexGuard<'_, T> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns the window; `None` if the load has none, or did not reach it.
fn window(measured: &Measured) -> Option<lines::Window> {
    let edges = measured.window.clone()?;
    let [(first_read, before), (last_read, after)] = &measured.at_edges[..] else { return None };
    Some(lines::Window {
        started_monotonic_ns: edges.start,
        ended_monotonic_ns: edges.end,
        requests: measured.requests,
        connections: measured.connections,
        counted: lines::Counted {
            elapsed_ns: last_read - first_read,
            bytes_sent: after.bytes_sent - before.bytes_sent,
            bytes_received: after.bytes_received - before.bytes_received,
            send_calls: after.send_calls - before.send_calls,
            receive_calls: after.receive_calls - before.receive_calls,
        },
    })
}

const UNMAPPED: &str = "shared memory could not be mapped";
