//! Runs a load from beginning to end and accounts for it: what the supervisor is to a server.

use std::net::SocketAddr;
use std::sync::atomic::Ordering::Relaxed;

use anyhow::{Context, Result};

use crate::about::Entry;
use crate::counters::{self, Counter, Counting};
use crate::lines::{LoadResult, SCHEMA};
use crate::load::{FirstError, Load, LoadRun};
use crate::primitive::Primitive;
use crate::process_tree::Tree;
use crate::setting::Settings;
use crate::sys::{process, signal};
use crate::tally::Tally;
use crate::workload::Workload;

/// Whom to ask, and how.
pub struct Plan {
    /// The load.
    pub load: &'static Entry<Load>,
    /// The primitive.
    pub primitive: &'static Entry<Primitive>,
    /// The workload.
    pub workload: &'static Entry<Workload>,
    /// The addresses of the server's name.
    pub target: Vec<SocketAddr>,
    /// The complete settings.
    pub settings: Settings,
    /// What is to be counted.
    pub counters: Vec<&'static Entry<Counter>>,
}

/// Runs the load. An error when it could not be run at all; what failed in it is in the result.
pub fn ask(plan: &Plan) -> Result<LoadResult> {
    let run: &'static LoadRun = Box::leak(Box::new(LoadRun {
        target: plan.target.clone(),
        settings: plan.settings.clone(),
        tally: Tally::new((plan.load.item.workers)(&plan.settings))?,
        client: (plan.workload.item.client)(&plan.settings)?,
        primitive: plan.primitive.item,
        first_error: FirstError::new().context("shared memory could not be mapped")?,
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
    let usage = [process::usage_of_self()?.since(&before), reaped.usage()];
    let counters = counters::between(&counted_before, &counting.read()?);
    let counts = run.tally.counts();
    Ok(LoadResult {
        schema: SCHEMA,
        workload: plan.workload.name,
        load: plan.load.name,
        primitive: plan.primitive.name,
        settings: plan.settings.values().clone(),
        expected_requests: plan.load.item.expected_requests(&plan.settings),
        requests: counts.requests,
        connections: counts.connections,
        bytes_received: counts.bytes_received,
        elapsed_ns: ended - started,
        started_monotonic_ns: started,
        ended_monotonic_ns: ended,
        user_ns: usage.iter().map(|usage| usage.user.as_nanos() as u64).sum(),
        system_ns: usage.iter().map(|usage| usage.system.as_nanos() as u64).sum(),
        window: None,
        latency: None,
        voluntary_switches: usage.iter().map(|usage| usage.voluntary_switches).sum(),
        involuntary_switches: usage.iter().map(|usage| usage.involuntary_switches).sum(),
        minor_faults: usage.iter().map(|usage| usage.minor_faults).sum(),
        major_faults: usage.iter().map(|usage| usage.major_faults).sum(),
        counters,
        unavailable: counting.unavailable(),
        account: run.client.account(),
        errors: counts.errors,
        children_lost: run.tally.general().workers_lost.load(Relaxed),
        first_error: run.first_error.get(),
        interrupted: signal::interrupted(),
    })
}

/// The result for a person.
pub fn in_words(result: &LoadResult) -> String {
    let seconds = result.elapsed_ns as f64 / 1e9;
    let expected = result.expected_requests.map(|expected| format!(" of {expected}")).unwrap_or_default();
    let mut text = format!(
        "{}{expected} replies came and were right, {} bytes, in {seconds:.3} s ({:.0} a second)\n",
        result.requests,
        result.bytes_received,
        result.requests as f64 / seconds
    );
    text += &format!(
        "client CPU: user {:.6} s, system {:.6} s\n",
        result.user_ns as f64 / 1e9,
        result.system_ns as f64 / 1e9
    );
    text += &counters::in_words(&result.counters, &result.unavailable);
    if !result.errors.is_empty() {
        let errors: Vec<String> = result.errors.iter().map(|(kind, count)| format!("{kind} {count}")).collect();
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
