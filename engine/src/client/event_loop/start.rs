//! Where the threads of a load wait for each other: all kept connections are made, then all ask.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// The place.
pub struct Start {
    state: Mutex<State>,
    changed: Condvar,
    /// A thread has failed, and the load ends with it.
    lost: AtomicBool,
    /// Threads whose clients have not all reached their end.
    going: AtomicUsize,
}

struct State {
    /// Threads that have not come yet.
    missing: usize,
    /// Since when those that have may ask.
    began: Option<u64>,
    /// The window's end is as it stays.
    is_closed: bool,
}

impl Start {
    /// For so many threads.
    pub fn new(threads: usize) -> Self {
        Start {
            state: Mutex::new(State { missing: threads, began: None, is_closed: false }),
            changed: Condvar::new(),
            lost: AtomicBool::new(false),
            going: AtomicUsize::new(threads),
        }
    }

    /// Waits until all threads are there, of which this is the one that then says when they begin (CLOCK_MONOTONIC,
    /// nanoseconds).
    pub fn lead<T>(&self, begin: impl FnOnce() -> (u64, T)) -> Option<(u64, T)> {
        self.state().missing -= 1;
        let mut state = self.wait_while(|state| state.missing > 0);
        if self.is_lost() {
            return None;
        }
        let (began, with) = begin();
        state.began = Some(began);
        self.changed.notify_all();
        Some((began, with))
    }

    /// Waits until all threads are there. Says when they begin; `None` where they never do.
    pub fn follow(&self) -> Option<u64> {
        self.state().missing -= 1;
        self.changed.notify_all();
        self.wait_while(|state| state.began.is_none()).began
    }

    /// No thread asks beyond the window any more, and its end will not be another.
    pub fn close(&self) {
        self.state().is_closed = true;
        self.changed.notify_all();
    }

    /// Waits until that is so.
    pub fn wait_until_closed(&self) {
        drop(self.wait_while(|state| !state.is_closed));
    }

    /// The load is to end: a thread of it has failed.
    pub fn lose(&self) {
        let _state = self.state();
        self.lost.store(true, SeqCst);
        self.changed.notify_all();
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits, but not for a thread that has failed.
    fn wait_while(&self, condition: impl Fn(&State) -> bool) -> MutexGuard<'_, State> {
        let condition = |state: &mut State| condition(state) && !self.is_lost();
        self.changed.wait_while(self.state(), condition).unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether it is to.
    pub fn is_lost(&self) -> bool {
        self.lost.load(SeqCst)
    }

    /// The clients of a thread have reached their end.
    pub fn finished(&self) {
        self.going.fetch_sub(1, SeqCst);
    }

    /// Whether a thread has clients that have not.
    pub fn goes_on(&self) -> bool {
        self.going.load(SeqCst) > 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_begins_before_all_are_there() {
        let (start, there) = (Start::new(3), AtomicUsize::new(0));
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    there.fetch_add(1, SeqCst);
                    assert_eq!(start.follow(), Some(7));
                    assert_eq!(there.load(SeqCst), 3);
                });
            }
            let led = start.lead(|| (7, there.fetch_add(1, SeqCst)));
            assert_eq!(led, Some((7, 2)));
        });
    }

    #[test]
    fn one_that_is_lost_is_waited_for_by_nobody() {
        let start = Start::new(3);
        std::thread::scope(|scope| {
            let follower = scope.spawn(|| start.follow());
            scope.spawn(|| start.lose());
            assert_eq!(start.lead(|| (7, ())), None);
            assert_eq!(follower.join().unwrap(), None);
        });
    }
}
