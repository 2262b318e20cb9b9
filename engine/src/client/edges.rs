//! The edges of a load's window: waits for them, and reports them.

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use crate::client::load::{DURATION, Edge, LoadRun, WARM_UP};
use crate::count::tally::Counts;
use crate::sys::clock::now;
use crate::sys::signal;

/// Maximum time for which a sleeping client or load may fail to notice an interrupt.
const NAP: Duration = Duration::from_millis(50);

/// Sleeps until a moment, or until `goes_on` returns false.
pub fn sleep_until(moment: u64, mut goes_on: impl FnMut() -> bool) {
    while goes_on() {
        let left = moment.saturating_sub(now());
        if left == 0 {
            return;
        }
        std::thread::sleep(Duration::from_nanos(left).min(NAP));
    }
}

/// Waits until clients may start. To be called when all of them are about to send.
pub fn wait_for_start(run: &LoadRun) {
    if let Some(start) = (run.agree)() {
        sleep_until(start, || !signal::interrupted());
        run.agreed_start.store(now(), Relaxed);
    }
}

/// The edges of a load's window, in order.
pub struct Edges<'run> {
    run: &'run LoadRun,
    began: u64,
    to_come: Vec<Edge>,
    /// Counts before the first request, and the time of their reading, if the window starts with it.
    first: Option<(u64, Counts)>,
}

impl<'run> Edges<'run> {
    /// To be called when all clients are about to send: starts the warm-up, and then the window of a load that ends by
    /// time. The edges are fixed at this point, so whether a request is in the window does not depend on when a thread
    /// gets its CPU.
    pub fn begin(run: &'run LoadRun) -> Self {
        wait_for_start(run);
        let before = run.ramp() + run.settings.integer(WARM_UP.name);
        // The first requests may have been sent when the start of the window is noticed.
        let first = (run.is_timed() && before == 0).then(|| (now(), run.tally.counts()));
        let began = now();
        if !run.is_timed() {
            return Edges { run, began, to_come: Vec::new(), first };
        }
        let started = began + before;
        run.window.set(started..started + run.settings.integer(DURATION.name));
        Edges { run, began, to_come: vec![Edge::Ended, Edge::Nearing, Edge::Started], first }
    }

    /// Returns the time at which clients start to send.
    pub fn began(&self) -> u64 {
        self.began
    }

    /// Returns the time of the next edge, if any.
    pub fn next(&self) -> Option<u64> {
        let window = self.run.window.edges();
        self.to_come.last().map(|edge| match edge {
            Edge::Started => window.start,
            Edge::Nearing => window.end - (window.end - window.start) / 10,
            Edge::Ended => window.end,
        })
    }

    /// Marks the edges that have passed.
    pub fn look(&mut self, at: u64) {
        while let Some(moment) = self.next()
            && moment <= at
            && let Some(edge) = self.to_come.pop()
        {
            self.mark(edge, moment);
        }
    }

    /// Ends the edges, because all clients have stopped or an interrupt has come. A window that had begun ends now.
    pub fn cut(&mut self) {
        let at = now();
        self.look(at);
        if !self.to_come.is_empty() {
            // Also if the window has not begun: requests that run until its end must stop then.
            self.run.window.cut(at);
        }
        if !self.to_come.contains(&Edge::Started) {
            self.look(at);
        }
        self.to_come.clear();
    }

    /// Sleeps and marks edges until the last edge, or until no client is left.
    pub fn sleep(&mut self, clients: &AtomicUsize) {
        while let Some(moment) = self.next() {
            sleep_until(moment, || clients.load(Relaxed) > 0 && !signal::interrupted());
            let at = now();
            if at < moment {
                return self.cut();
            }
            self.look(at);
        }
    }

    fn mark(&mut self, edge: Edge, moment: u64) {
        if edge == Edge::Nearing {
            return (self.run.mark)(edge, moment);
        }
        let mut measured = self.run.measured();
        let counts = self.first.take().unwrap_or_else(|| (now(), self.run.tally.counts()));
        measured.at_edges.push(counts);
        if edge == Edge::Ended {
            measured.window = Some(self.run.window.edges());
        }
        drop(measured);
        (self.run.mark)(edge, moment);
    }
}
