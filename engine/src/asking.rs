//! Runs a load from beginning to end and accounts for it: what the supervisor is to a server.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result};

use crate::about::Entry;
use crate::address::{Address, Target};
use crate::channel::Way;
use crate::counters::{self, Counter, Counting};
use crate::lines::{self, Latency, LoadResult, Mark, MarkKind, SCHEMA};
use crate::linger;
use crate::load::{Edge, FirstError, Load, LoadRun, TIMEOUT};
use crate::measure::{Measured, Window};
use crate::process_tree::Tree;
use crate::setting::Settings;
use crate::show::Show;
use crate::sys::{process, signal};
use crate::tally::Tally;
use crate::tcp::TcpOptions;
use crate::workload::Workload;

/// Whom to ask, and how.
pub struct Plan {
    /// The load.
    pub load: &'static Entry<Load>,
    /// How bytes are moved.
    pub way: Way,
    /// The workload.
    pub workload: &'static Entry<Workload>,
    /// The addresses of the server's name.
    pub target: Vec<Address>,
    /// The complete settings.
    pub settings: Settings,
    /// Called with the marks of a load that ends by time, as they come.
    pub mark: fn(Mark),
    /// Whether everything that goes over the connections is shown on standard output.
    pub show: bool,
    /// What is to be counted.
    pub counters: Vec<&'static Entry<Counter>>,
}

/// Runs the load. An error when it could not be run at all; what failed in it is in the result.
pub fn ask(plan: &Plan) -> Result<LoadResult> {
    let expected_requests = plan.load.item.expected_requests(&plan.settings);
    let run: &'static LoadRun = Box::leak(Box::new(LoadRun {
        target: Target {
            addresses: plan.target.clone(),
            tcp: TcpOptions::of(&plan.settings),
            patience: Duration::from_millis(plan.settings.integer(TIMEOUT.name)),
        },
        settings: plan.settings.clone(),
        tally: Tally::new((plan.load.item.workers)(&plan.settings))?,
        client: (plan.workload.item.client)(&plan.settings)?,
        way: plan.way,
        first_error: FirstError::new().context(UNMAPPED)?,
        window: if expected_requests.is_some() { Window::whole_life() } else { Window::to_come() },
        measured: Mutex::default(),
        mark: {
            let mark = plan.mark;
            Box::new(move |edge, monotonic_ns| mark(Mark { mark: edge.into(), monotonic_ns }))
        },
        show: plan.show.then(Show::new).transpose().context(UNMAPPED)?,
    }));
    let reaped = &run.tally.general().reaped;
    process::count_reaped(reaped);
    let mut counting = Counting::begin(&plan.counters, &Tree::of_this(reaped));
    // What this process had used before is not the load's: a launcher that became the engine brings its own past along.
    let counted_before = counting.read()?;
    let before = process::usage_of_self()?;
    let started = process::monotonic_nanoseconds();
    (plan.load.item.run)(run)?;
    let ended = process::monotonic_nanoseconds();
    linger::wait();
    let usage = process::usage_of_self()?.since(&before) + reaped.usage();
    let counters = counters::between(&counted_before, &counting.read()?);
    let measured = run.measured.lock().unwrap_or_else(PoisonError::into_inner);
    Ok(LoadResult {
        schema: SCHEMA,
        workload: plan.workload.name,
        load: plan.load.name,
        primitive: plan.way.out.name,
        receive: plan.way.into.name,
        settings: plan.settings.values().clone(),
        expected_requests,
        tally: run.tally.counts(),
        elapsed_ns: ended - started,
        started_monotonic_ns: started,
        ended_monotonic_ns: ended,
        window: measured.window.clone().map(|window| lines::Window {
            started_monotonic_ns: window.start,
            ended_monotonic_ns: window.end,
            requests: measured.requests,
            connections: measured.connections,
        }),
        latency: latency(&measured)?,
        used: (&usage).into(),
        counters,
        unavailable: counting.unavailable(),
        account: run.client.account(),
        connection: run.tally.general().first_connection.options(),
        first_error: run.first_error.get(),
        interrupted: signal::interrupted(),
    })
}

const UNMAPPED: &str = "shared memory could not be mapped";

/// How long replies took; `None` where the load did not measure it, or no reply came.
fn latency(measured: &Measured) -> Result<Option<Latency>> {
    let latency = &measured.latency;
    if latency.is_empty() {
        return Ok(None);
    }
    Ok(Some(Latency {
        requests: latency.len(),
        mean_ns: latency.mean(),
        p50_ns: measured.percentile(0.5),
        p90_ns: measured.percentile(0.9),
        p99_ns: measured.percentile(0.99),
        p999_ns: measured.percentile(0.999),
        maximum_ns: latency.max(),
        histogram: measured.encoded()?,
    }))
}

impl From<Edge> for MarkKind {
    fn from(edge: Edge) -> Self {
        match edge {
            Edge::Started => MarkKind::WindowStarted,
            Edge::Ended => MarkKind::WindowEnded,
        }
    }
}

/// The result for a person; `stores` says whether what came was received by a primitive that stores it.
pub fn in_words(result: &LoadResult, stores: bool) -> String {
    let seconds = result.elapsed_ns as f64 / 1e9;
    let expected = result.expected_requests.map(|expected| format!(" of {expected}")).unwrap_or_default();
    let mut text = format!(
        "{}{expected} replies came and were right, {} bytes, in {seconds:.3} s ({:.0} a second)\n",
        result.tally.requests,
        result.tally.bytes_received,
        result.tally.requests as f64 / seconds
    );
    if let Some(window) = &result.window {
        let seconds = (window.ended_monotonic_ns - window.started_monotonic_ns) as f64 / 1e9;
        text += &format!(
            "in the window of {seconds:.3} s: {} replies ({:.0} a second), {} connections\n",
            window.requests,
            window.requests as f64 / seconds,
            window.connections
        );
    }
    if let Some(latency) = &result.latency {
        text += &latency_in_words(latency);
    }
    text += &format!(
        "client CPU: user {:.6} s, system {:.6} s\n",
        result.used.user_ns as f64 / 1e9,
        result.used.system_ns as f64 / 1e9
    );
    text += &result.tally.copying_in_words(stores);
    text += &counters::in_words(&result.counters, &result.unavailable);
    if let Some(connection) = &result.connection {
        text += &format!("congestion control: {}", connection.congestion_control);
        text += &connection.remark.map(|remark| format!(" ({remark})")).unwrap_or_default();
        text += "\n";
    }
    if !result.tally.errors.is_empty() {
        let errors: Vec<String> = result.tally.errors.iter().map(|(kind, count)| format!("{kind} {count}")).collect();
        text += &format!("errors: {}\n", errors.join(", "));
    }
    if let Some(error) = &result.first_error {
        text += &format!("the first: {error}\n");
    }
    if result.interrupted {
        text += "stopped by an interrupt before its end\n";
    }
    text
}

fn latency_in_words(latency: &Latency) -> String {
    let milliseconds = |nanoseconds: u64| format!("{:.3} ms", nanoseconds as f64 / 1e6);
    let known = [
        ("half within", latency.p50_ns),
        ("90 % within", latency.p90_ns),
        ("99 % within", latency.p99_ns),
        ("99.9 % within", latency.p999_ns),
        ("all within", Some(latency.maximum_ns)),
    ];
    let known: Vec<String> =
        known.iter().filter_map(|(name, value)| Some(format!("{name} {}", milliseconds((*value)?)))).collect();
    format!("replies (closed loop): {}\n", known.join(", "))
}
