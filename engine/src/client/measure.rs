//! Measurements of a running load: how many replies arrived, and how long they took.
//!
//! Times are nanoseconds of CLOCK_MONOTONIC. A request costs two readings of that clock and one entry in a histogram.
//! That is some 100 ns in total if the clock is read without a system call (vdso(7)).

use std::collections::BTreeMap;
use std::ops::Range;

use hdrhistogram::Histogram;

use crate::base::window::Window;
use crate::client::due_requests::{Moments, Scheduled};
use crate::client::generator::Generator;
use crate::client::histograms::{histogram, record};
use crate::count::own_memory::Connected;
use crate::count::tally::Counts;
use crate::protocol::workload::Status;

/// Measurements of one thread of a load.
pub struct Measure<'run> {
    window: &'run Window,
    requests: u64,
    connections: u64,
    /// Times to connect.
    connecting: Histogram<u32>,
    // 32 bits, and no larger than its largest value needs: there may be thousands of threads.
    latency: Histogram<u32>,
    /// The same per status, for replies that have one; in a closed loop instead of the other.
    by_status: Vec<(Status, Histogram<u32>)>,
    /// The same per kind of request, if there are several.
    by_kind: Vec<Histogram<u32>>,
    population: Population,
    /// The longest latency of a reply that came before or after the window.
    longest_outside: u64,
    /// Of an open loop.
    scheduled: Option<Box<Scheduled>>,
    /// The thread's own usage in the window, once that is over.
    pub generator: Option<Generator>,
}

impl<'run> Measure<'run> {
    /// Makes empty measurements.
    pub fn new(window: &'run Window) -> Self {
        Measure {
            window,
            requests: 0,
            connections: 0,
            connecting: histogram(),
            latency: histogram(),
            by_status: Vec::new(),
            by_kind: Vec::new(),
            population: Population::default(),
            longest_outside: 0,
            scheduled: None,
            generator: None,
        }
    }

    /// Makes empty measurements of an open loop: its latencies are those of requests due in the window.
    pub fn of_schedule(window: &'run Window) -> Self {
        Measure { scheduled: Some(Box::default()), ..Measure::new(window) }
    }

    /// Counts a new connection, whose first attempt began at a moment.
    pub fn connected(&mut self, begun: u64, at: u64) {
        if self.window.contains(at) {
            self.connections += 1;
            record(&mut self.connecting, at.saturating_sub(begun));
        }
    }

    /// Counts a reply.
    pub fn answered(&mut self, status: Option<Status>, sent: u64, at: u64) {
        if !self.window.contains(at) {
            self.longest_outside = self.longest_outside.max(at.saturating_sub(sent));
        } else {
            self.requests += u64::from(!is_error(status));
            record(
                status.map_or(&mut self.latency, |status| of_status(&mut self.by_status, status)),
                at.saturating_sub(sent),
            );
        }
    }

    /// Counts a request of this kind, counted from 0, whose latency starts at this moment; in an open loop, when it was
    /// due.
    pub fn answered_of_kind(&mut self, kind: usize, from: u64, at: u64) {
        let counts_by = if self.scheduled.is_some() { from } else { at };
        if self.window.contains(counts_by) {
            if kind >= self.by_kind.len() {
                self.by_kind.resize_with(kind + 1, histogram);
            }
            record(&mut self.by_kind[kind], at.saturating_sub(from));
        }
    }

    /// Counts a request that enters the system.
    pub fn comes(&mut self, at: u64) {
        self.population.comes(&self.window.edges(), at);
    }

    /// Counts a request that leaves it, successful or not.
    pub fn goes(&mut self, at: u64) {
        self.population.goes(&self.window.edges(), at);
    }

    /// Measurements by the schedule, for a request due in the window.
    fn of_window(&mut self, due: u64) -> Option<&mut Scheduled> {
        self.scheduled.as_deref_mut().filter(|_| self.window.contains(due))
    }

    /// Counts a due request; it enters the system whether or not a connection is free.
    pub fn due(&mut self, due: u64) {
        self.comes(due);
        if let Some(scheduled) = self.of_window(due) {
            scheduled.due(due);
        }
    }

    /// Counts a scheduled request that was sent, or whose connection was begun.
    pub fn sent(&mut self, moments: Moments) {
        if let Some(scheduled) = self.of_window(moments.due) {
            scheduled.sent(moments);
        }
    }

    /// Counts the reply to a scheduled request.
    pub fn answered_by_schedule(&mut self, status: Option<Status>, moments: Moments, at: u64) {
        let is_error = is_error(status);
        if !self.window.contains(at) {
            self.longest_outside = self.longest_outside.max(at.saturating_sub(moments.begun));
        }
        self.requests += u64::from(self.window.contains(at) && !is_error);
        let Some(scheduled) = self.scheduled.as_deref_mut().filter(|_| self.window.contains(moments.due)) else {
            return;
        };
        if is_error {
            scheduled.outcomes.failed += 1;
        } else {
            scheduled.answered(moments, at);
        }
        if let Some(status) = status {
            record(of_status(&mut self.by_status, status), at.saturating_sub(moments.due));
        }
    }

    /// Counts a failed scheduled request.
    pub fn failed(&mut self, due: u64) {
        if let Some(scheduled) = self.of_window(due) {
            scheduled.outcomes.failed += 1;
        }
    }

    /// Counts a due request that is too late to send.
    pub fn never_sent(&mut self, due: u64) {
        self.goes(u64::MAX);
        if let Some(scheduled) = self.of_window(due) {
            scheduled.outcomes.never_sent += 1;
        }
    }
}

fn is_error(status: Option<Status>) -> bool {
    status.is_some_and(|status| status.is_error)
}

/// Latencies of replies with this status.
fn of_status(all: &mut Vec<(Status, Histogram<u32>)>, status: Status) -> &mut Histogram<u32> {
    let place = all.iter().position(|(other, _)| *other == status).unwrap_or_else(|| {
        all.push((status, histogram()));
        all.len() - 1
    });
    &mut all[place].1
}

/// Number of requests in the system, integrated over the window. Counted at each entry and exit, independent of
/// latencies, so that it can be checked against them.
#[derive(Debug, Default, Clone, Copy)]
pub struct Population {
    // Sum of the exit times minus sum of the entry times, in nanoseconds.
    area: i128,
}

impl Population {
    fn comes(&mut self, window: &Range<u64>, at: u64) {
        self.area -= i128::from(at.max(window.start).min(window.end));
    }

    fn goes(&mut self, window: &Range<u64>, at: u64) {
        self.area += i128::from(at.max(window.start).min(window.end));
    }

    /// The mean number over a window of this length, after all have left.
    pub fn mean(&self, nanoseconds: u64) -> f64 {
        self.area as f64 / nanoseconds as f64
    }
}

/// Sums over all threads of a load.
pub struct Measured {
    /// Start and end of the window, if the load ends by time and has come so far.
    pub window: Option<Range<u64>>,
    /// Requests with replies within the window.
    pub requests: u64,
    /// Connections opened within the window.
    pub connections: u64,
    /// Their times to connect. Empty if the load does not measure them.
    pub connecting: Histogram<u64>,
    /// Latencies from sending to reply. Empty if the load does not measure them, and for an open loop, whose latencies
    /// are in `scheduled`.
    pub latency: Histogram<u64>,
    /// The same per status, errors included; empty if replies have none.
    pub by_status: BTreeMap<u16, Histogram<u64>>,
    /// The same per kind of request; empty if there is only one.
    pub by_kind: Vec<Histogram<u64>>,
    /// Number of requests in the system; for loads with an event loop.
    pub population: Population,
    /// The longest latency of a reply that came before or after the window, in nanoseconds; 0 if none came.
    pub longest_outside: u64,
    /// Constant number of requests in the system, for a closed loop if known.
    pub always_under_way: Option<u64>,
    /// CPUs that its threads may use, one thread on each if pinned; for loads with an event loop.
    pub cpus: usize,
    /// Of an open loop.
    pub scheduled: Option<Box<Scheduled>>,
    /// Each client thread's own usage in the window.
    pub generators: Vec<Generator>,
    /// Memory of the persistent connections when all had been opened.
    pub connected: Option<Connected>,
    /// Counts of the load at the edges of the window, each with the time of its reading.
    pub at_edges: Vec<(u64, Counts)>,
}

impl Default for Measured {
    fn default() -> Self {
        Measured {
            window: None,
            requests: 0,
            connections: 0,
            connecting: histogram(),
            latency: histogram(),
            by_status: BTreeMap::new(),
            by_kind: Vec::new(),
            population: Population::default(),
            longest_outside: 0,
            always_under_way: None,
            cpus: 0,
            scheduled: None,
            generators: Vec::new(),
            connected: None,
            at_edges: Vec::new(),
        }
    }
}

impl Measured {
    /// Adds the measurements of a thread.
    pub fn add(&mut self, measure: &Measure<'_>) {
        self.requests += measure.requests;
        self.connections += measure.connections;
        self.population.area += measure.population.area;
        self.longest_outside = self.longest_outside.max(measure.longest_outside);
        self.generators.extend(measure.generator.clone());
        if let Some(scheduled) = &measure.scheduled {
            self.scheduled.get_or_insert_default().add(scheduled);
        }
        add(&mut self.connecting, &measure.connecting);
        add(&mut self.latency, &measure.latency);
        for (status, latency) in &measure.by_status {
            add(self.by_status.entry(status.code).or_insert_with(histogram), latency);
            if measure.scheduled.is_none() && !status.is_error {
                add(&mut self.latency, latency);
            }
        }
        let most = self.by_kind.len().max(measure.by_kind.len());
        self.by_kind.resize_with(most, histogram);
        for (sum, part) in self.by_kind.iter_mut().zip(&measure.by_kind) {
            add(sum, part);
        }
    }
}

fn add(sum: &mut Histogram<u64>, part: &Histogram<u32>) {
    for step in part.iter_recorded() {
        let (value, count) = (step.value_iterated_to(), step.count_since_last_iteration());
        sum.record_n(value, count).expect("there is a bucket for every number");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_complete_within_the_window_counts() {
        let window = Window::whole_life();
        window.set(100..200);
        let mut measure = Measure::new(&window);
        for (sent, at) in [(10, 99), (10, 100), (150, 199), (150, 200)] {
            measure.answered(None, sent, at);
            measure.connected(sent, at);
        }
        let mut sums = Measured::default();
        sums.add(&measure);
        sums.add(&measure);
        assert_eq!((sums.requests, sums.connections, sums.latency.len()), (4, 4, 4));
        assert_eq!((sums.latency.min(), sums.latency.max()), (49, 90));
        assert_eq!((sums.connecting.len(), sums.connecting.min(), sums.connecting.max()), (4, 49, 90));
    }

    #[test]
    fn the_number_in_the_system_is_that_of_the_window() {
        let window = Window::whole_life();
        window.set(100..200);
        let mut measure = Measure::new(&window);
        for (comes, goes) in [(50, 150), (120, 140), (90, 95), (190, 900), (300, 400)] {
            measure.comes(comes);
            measure.goes(goes);
        }
        let mut sums = Measured::default();
        sums.add(&measure);
        assert!((sums.population.mean(100) - (50.0 + 20.0 + 10.0) / 100.0).abs() < 1e-12);
    }

    #[test]
    fn a_reply_that_says_that_the_request_failed_has_its_latency_apart() {
        let (window, right) = (Window::whole_life(), Status { code: 200, is_error: false });
        window.set(100..200);
        let error = Status { code: 503, is_error: true };
        let moments = |due| Moments { due, free: 0, begun: due };
        let (mut closed, mut open) = (Measure::new(&window), Measure::of_schedule(&window));
        for (status, from, at) in [(right, 110, 120), (error, 110, 150), (error, 90, 99), (right, 120, 150)] {
            closed.answered(Some(status), from, at);
            open.answered_by_schedule(Some(status), moments(from), at);
        }
        for measure in [closed, open] {
            let mut sums = Measured::default();
            sums.add(&measure);
            let latency = sums.scheduled.as_ref().map_or(&sums.latency, |scheduled| &scheduled.latency);
            assert_eq!((sums.requests, latency.len(), latency.max()), (2, 2, 30));
            let by_status: Vec<_> = sums.by_status.iter().map(|(code, all)| (*code, all.len(), all.max())).collect();
            assert_eq!(by_status, [(200, 2, 30), (503, 1, 40)]);
            assert!(sums.scheduled.is_none_or(|scheduled| scheduled.outcomes.failed == 1));
        }
    }

    #[test]
    fn kinds_of_requests_are_separate_however_many_a_thread_has_met() {
        let window = Window::whole_life();
        window.set(100..200);
        let [mut one, mut other] = [Measure::new(&window), Measure::new(&window)];
        one.answered_of_kind(1, 90, 110);
        one.answered_of_kind(0, 90, 99);
        other.answered_of_kind(0, 90, 190);
        let mut sums = Measured::default();
        sums.add(&other);
        sums.add(&one);
        let seen: Vec<_> = sums.by_kind.iter().map(|kind| (kind.len(), kind.max())).collect();
        assert_eq!(seen, [(1, 100), (1, 20)]);
        let mut open = Measure::of_schedule(&window);
        open.answered_of_kind(0, 190, 300);
        open.answered_of_kind(0, 90, 150);
        assert_eq!((open.by_kind[0].len(), open.by_kind[0].max()), (1, 110));
    }

    #[test]
    fn requests_of_a_schedule_count_by_the_moment_at_which_they_were_due() {
        let window = Window::whole_life();
        window.set(100..200);
        let mut measure = Measure::of_schedule(&window);
        for (due, answered) in [(90, 150), (110, 160), (190, 250)] {
            let moments = Moments { due, free: 0, begun: due };
            measure.due(due);
            measure.sent(moments);
            measure.answered_by_schedule(None, moments, answered);
            measure.goes(answered);
        }
        for due in [195, 205] {
            measure.due(due);
            measure.never_sent(due);
        }
        measure.due(199);
        measure.failed(199);
        measure.goes(300);
        let mut sums = Measured::default();
        sums.add(&measure);
        let scheduled = sums.scheduled.unwrap();
        assert_eq!(
            (sums.requests, scheduled.outcomes.due, scheduled.outcomes.sent, scheduled.outcomes.answered),
            (2, 4, 2, 2)
        );
        assert_eq!((scheduled.outcomes.failed, scheduled.outcomes.never_sent), (1, 1));
        assert_eq!((scheduled.latency.min(), scheduled.latency.max()), (50, 60));
        assert!((sums.population.mean(100) - (50.0 + 50.0 + 10.0 + 5.0 + 1.0) / 100.0).abs() < 1e-12);
    }
}
