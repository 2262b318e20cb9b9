//! The line on a terminal that shows a load while it runs.
//!
//! Its cost: the line has a thread, which wakes four times a second and reads the tally and the buckets of [`LiveLatencies`],
//! as many relaxed loads as they have counters. Clients take no lock for it, and count each latency once more; a counter's cache
//! line that was read comes back at the next increment, about 100 ns, four times a second for each client thread. Reading and
//! printing take some 50 µs of a CPU that the load may use, so about 0.02 % of it, which the load's CPU time and counters
//! include. If a reading takes longer, as with very many client threads, the thread sleeps longer: it never takes more than a
//! thousandth of a CPU.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread::JoinHandle;
use std::time::Duration;

use crate::base::output::remark;
use crate::base::quantity::{bits_per_second, bytes, grouped, rate, time};
use crate::client::live::latencies::{LiveLatencies, percentile_between};
use crate::client::load::LoadRun;
use crate::count::tally::Counts;
use crate::protocol::workload::MeasuredBy;
use crate::sys::clock::now;
use crate::sys::thread::without_signals;

/// Time between two states of the line.
const PERIOD: Duration = Duration::from_millis(250);

/// The rate and the percentiles are those of this many periods.
const PERIODS: usize = 4;

/// Sleeps this many times as long as a reading took.
const REST: u32 = 1000;

/// Returns the cursor to the line's start and erases the line (ECMA-48: CR, EL).
const ERASE: &str = "\r\x1b[K";

/// Cuts off what does not fit into the terminal's line, and wraps again (DECAWM).
const CUT: [&str; 2] = ["\x1b[?7l", "\x1b[?7h"];

/// The line of a running load. Erased on drop.
pub struct LiveLine {
    ended: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl LiveLine {
    /// Starts the line if the load has one. A load whose clients are processes forks them before, because processes that fork
    /// have one thread. Without a thread there is no line.
    pub fn start(run: &'static LoadRun) -> Option<Self> {
        let latencies = run.live.as_ref()?;
        let ended = Arc::new(AtomicBool::new(false));
        let seen = Arc::clone(&ended);
        let spawn = || std::thread::Builder::new().spawn(move || show(run, latencies, &seen));
        // An interrupt must reach a thread that waits for clients, so that its call returns.
        let thread = without_signals(spawn).ok()?.ok()?;
        Some(LiveLine { ended, thread: Some(thread) })
    }
}

impl Drop for LiveLine {
    fn drop(&mut self) {
        self.ended.store(true, Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            // A panic of the thread has been printed, and the load goes on without the line.
            let _ = thread.join();
        }
    }
}

/// What the line needs of one moment.
struct Reading {
    at: u64,
    amount: u64,
    latencies: Vec<u32>,
}

fn show(run: &LoadRun, latencies: &LiveLatencies, ended: &AtomicBool) {
    let reading = |at, counts: &Counts| Reading { at, amount: amount(run, counts), latencies: latencies.counts() };
    let mut seen = VecDeque::from([reading(now(), &run.tally.counts())]);
    let (mut rest, mut is_drawn) = (PERIOD, false);
    loop {
        std::thread::park_timeout(rest);
        if ended.load(Relaxed) {
            break;
        }
        let began = now();
        let counts = run.tally.counts();
        seen.push_back(reading(began, &counts));
        if seen.len() > PERIODS + 1 {
            seen.pop_front();
        }
        remark(&format!("{ERASE}{}{}{}", CUT[0], line(run, &counts, &seen), CUT[1]));
        is_drawn = true;
        rest = PERIOD.max(REST * Duration::from_nanos(now() - began));
    }
    if is_drawn {
        remark(ERASE);
    }
}

/// The quantity whose rate is shown: requests, or bytes of streams.
fn amount(run: &LoadRun, counts: &Counts) -> u64 {
    match run.client.measured_by() {
        MeasuredBy::Requests => counts.requests,
        MeasuredBy::BytesToServer => counts.bytes_sent,
        MeasuredBy::BytesToClients => counts.bytes_received,
    }
}

fn line(run: &LoadRun, counts: &Counts, seen: &VecDeque<Reading>) -> String {
    let (first, last) = (&seen[0], &seen[seen.len() - 1]);
    let per_second = (last.amount - first.amount) as f64 * 1e9 / (last.at - first.at).max(1) as f64;
    let percentile = |name: &str, quantile| {
        let seen = percentile_between(&first.latencies, &last.latencies, quantile);
        format!("{name} {}", seen.map_or("-".to_owned(), time))
    };
    let mut parts = match run.client.measured_by() {
        MeasuredBy::Requests => vec![rate(per_second), percentile("p50", 0.5), percentile("p99", 0.99)],
        _ => vec![bits_per_second(per_second), bytes(last.amount as f64)],
    };
    let requests = grouped(counts.requests);
    match (run.expected_requests, run.client.measured_by()) {
        (Some(expected), _) => parts.push(format!("{requests} of {} requests", grouped(expected))),
        (None, MeasuredBy::Requests) => parts.push(format!("{requests} requests")),
        (None, _) => {}
    }
    let failed: u64 = counts.errors.values().sum();
    parts.push(if failed == 1 { "1 error".to_owned() } else { format!("{} errors", grouped(failed)) });
    parts.extend(left(run, last.at));
    parts.join("  ")
}

/// The time that is left; `None` for a load that ends by count.
fn left(run: &LoadRun, at: u64) -> Option<String> {
    run.window_ns()?;
    let window = run.window.edges();
    let seconds = |until: u64| format!("{:.1} s left", until.saturating_sub(at) as f64 / 1e9);
    Some(match () {
        () if window.start == u64::MAX => "connecting".to_owned(),
        () if at < window.start => format!("warm-up, {}", seconds(window.end)),
        () if at < window.end => seconds(window.end),
        () => "waiting for replies".to_owned(),
    })
}
