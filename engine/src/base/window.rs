//! The window of a load: the part of its life that is counted.
//!
//! Times are nanoseconds of CLOCK_MONOTONIC.

use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

/// The part of a load's life that is counted. An event belongs to it if it is complete within it.
pub struct Window {
    started: AtomicU64,
    ended: AtomicU64,
    left: AtomicBool,
}

impl Window {
    /// Makes the window of a load that ends by count: its whole life.
    pub fn whole_life() -> Self {
        Window { started: AtomicU64::new(0), ended: AtomicU64::new(u64::MAX), left: AtomicBool::new(false) }
    }

    /// Makes a window whose beginning is not known yet. Nothing counts until it is set.
    pub fn to_come() -> Self {
        Window { started: AtomicU64::new(u64::MAX), ..Window::whole_life() }
    }

    /// Sets beginning and end, before the first request.
    pub fn set(&self, window: Range<u64>) {
        self.started.store(window.start, Relaxed);
        self.ended.store(window.end, Relaxed);
    }

    /// Ends the window at this moment.
    pub fn cut(&self, at: u64) {
        self.ended.store(at, Relaxed);
    }

    /// Returns its beginning and its end.
    pub fn edges(&self) -> Range<u64> {
        self.started.load(Relaxed)..self.ended.load(Relaxed)
    }

    /// Returns whether an event that is complete at this moment belongs to it.
    pub fn contains(&self, at: u64) -> bool {
        self.edges().contains(&at)
    }

    /// Returns whether the window has ended.
    pub fn is_over(&self, at: u64) -> bool {
        at >= self.ended.load(Relaxed)
    }

    /// Returns the time until which the load waits for outstanding replies, given how many nanoseconds it waits after the
    /// window. Without this limit, a slow server could delay the end of a load.
    pub fn awaits_until(&self, patience: u64) -> u64 {
        self.edges().end.saturating_add(patience)
    }

    /// Notes that this time has come, for threads that wait in calls and read no clock between them.
    pub fn leave(&self) {
        self.left.store(true, Relaxed);
    }

    /// Returns whether [`Window::leave`] was called.
    pub fn is_left(&self) -> bool {
        self.left.load(Relaxed)
    }
}
