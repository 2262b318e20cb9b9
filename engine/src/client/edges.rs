//! The edges of a load's window as they come: who waits for them, and who is told.

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use crate::client::load::{Edge, LoadRun, MILLISECONDS, WARM_UP};
use crate::sys::clock::now;
use crate::sys::signal;

/// How long a sleeping client or load may not notice an interrupt.
const NAP: Duration = Duration::from_millis(50);

/// Sleeps until a moment, or until there is no more reason to.
pub fn sleep_until(moment: u64, mut goes_on: impl FnMut() -> bool) {
    while goes_on() {
        let left = moment.saturating_sub(now());
        if left == 0 {
            return;
        }
        std::thread::sleep(Duration::from_nanos(left).min(NAP));
    }
}

/// The edges of a load's window as they come.
pub struct Edges<'run> {
    run: &'run LoadRun,
    began: u64,
    to_come: Vec<Edge>,
}

impl<'run> Edges<'run> {
    /// To be called when every client is about to ask: the warm-up begins, and then the window of a load that ends by
    /// time. The edges are fixed here, so a request is in the window or not however late a thread comes to its CPU.
    pub fn begin(run: &'run LoadRun) -> Self {
        let began = now();
        if !run.is_timed() {
            return Edges { run, began, to_come: Vec::new() };
        }
        let milliseconds = |setting: &str| run.settings.integer(setting) * 1_000_000;
        let started = began + run.ramp() + milliseconds(WARM_UP.name);
        run.window.set(started..started + milliseconds(MILLISECONDS.name));
        Edges { run, began, to_come: vec![Edge::Ended, Edge::Nearing, Edge::Started] }
    }

    /// When clients begin to ask.
    pub fn began(&self) -> u64 {
        self.began
    }

    /// When the next edge comes, if one does.
    pub fn next(&self) -> Option<u64> {
        let window = self.run.window.edges();
        self.to_come.last().map(|edge| match edge {
            Edge::Started => window.start,
            Edge::Nearing => window.end - (window.end - window.start) / 10,
            Edge::Ended => window.end,
        })
    }

    /// Marks the edges that have come by now.
    pub fn look(&mut self, at: u64) {
        while let Some(moment) = self.next()
            && moment <= at
            && let Some(edge) = self.to_come.pop()
        {
            self.mark(edge, moment);
        }
    }

    /// No more comes: nobody asks any more, or an interrupt has come. A window that had begun ends now.
    pub fn cut(&mut self) {
        let at = now();
        self.look(at);
        if !self.to_come.is_empty() {
            // Also of one that has not begun: requests that go on until its end are over then.
            self.run.window.cut(at);
        }
        if !self.to_come.contains(&Edge::Started) {
            self.look(at);
        }
        self.to_come.clear();
    }

    /// Sleeps and marks until the last edge, or until nobody is left.
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

    fn mark(&self, edge: Edge, moment: u64) {
        if edge == Edge::Nearing {
            return (self.run.mark)(edge, moment);
        }
        let mut measured = self.run.measured();
        measured.at_edges.push((now(), self.run.tally.counts()));
        if edge == Edge::Ended {
            measured.window = Some(self.run.window.edges());
        }
        drop(measured);
        (self.run.mark)(edge, moment);
    }
}
