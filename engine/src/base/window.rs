//! The window of a load: the part of its life that is counted.
//!
//! Times are nanoseconds of CLOCK_MONOTONIC.

use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

/// The part of a load's life that is counted. What happens is in it by the moment at which it is complete.
pub struct Window {
    started: AtomicU64,
    ended: AtomicU64,
    left: AtomicBool,
}

impl Window {
    /// The whole life, of a load that ends by count.
    pub fn whole_life() -> Self {
        Window { started: AtomicU64::new(0), ended: AtomicU64::new(u64::MAX), left: AtomicBool::new(false) }
    }

    /// One whose beginning is not known yet: nothing counts until it is set.
    pub fn to_come() -> Self {
        Window { started: AtomicU64::new(u64::MAX), ..Window::whole_life() }
    }

    /// Sets beginning and end, before the first request.
    pub fn set(&self, window: Range<u64>) {
        self.started.store(window.start, Relaxed);
        self.ended.store(window.end, Relaxed);
    }

    /// Ends it at this moment.
    pub fn cut(&self, at: u64) {
        self.ended.store(at, Relaxed);
    }

    /// Its beginning and its end.
    pub fn edges(&self) -> Range<u64> {
        self.started.load(Relaxed)..self.ended.load(Relaxed)
    }

    /// Whether what is complete at this moment is in it.
    pub fn contains(&self, at: u64) -> bool {
        self.edges().contains(&at)
    }

    /// Whether it has ended.
    pub fn is_over(&self, at: u64) -> bool {
        at >= self.ended.load(Relaxed)
    }

    /// Until when replies are waited for that are still to come at its end, given for how many nanoseconds: without that, a
    /// server that answers drop by drop would decide when a load ends.
    pub fn awaits_until(&self, patience: u64) -> u64 {
        self.edges().end.saturating_add(patience)
    }

    /// That moment has come. Said for threads that wait in their calls and read no clock between them.
    pub fn leave(&self) {
        self.left.store(true, Relaxed);
    }

    /// Whether that was said.
    pub fn is_left(&self) -> bool {
        self.left.load(Relaxed)
    }
}
