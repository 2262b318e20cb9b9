//! A barrier for the threads of a load: first all persistent connections are opened, then all threads send.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// The barrier.
pub struct Start {
    state: Mutex<State>,
    changed: Condvar,
    /// A thread has failed, and the load ends with it.
    lost: AtomicBool,
    /// Threads with clients that have not ended.
    going: AtomicUsize,
}

struct State {
    /// Threads that have not arrived.
    missing: usize,
    /// Since when threads may send, once all have arrived.
    began: Option<u64>,
    /// The end of the window is final.
    is_closed: bool,
}

impl Start {
    /// Makes it for this many threads.
    pub fn new(threads: usize) -> Self {
        Start {
            state: Mutex::new(State { missing: threads, began: None, is_closed: false }),
            changed: Condvar::new(),
            lost: AtomicBool::new(false),
            going: AtomicUsize::new(threads),
        }
    }

    /// Waits until all threads have arrived; this thread then decides when they start (CLOCK_MONOTONIC, nanoseconds).
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

    /// Waits until all threads have arrived. Returns when they start; `None` if they never do.
    pub fn follow(&self) -> Option<u64> {
        self.state().missing -= 1;
        self.changed.notify_all();
        self.wait_while(|state| state.began.is_none()).began
    }

    /// Notes that no thread sends beyond the window, whose end is final.
    pub fn close(&self) {
        self.state().is_closed = true;
        self.changed.notify_all();
    }

    /// Waits until the window's end is final.
    pub fn wait_until_closed(&self) {
        drop(self.wait_while(|state| !state.is_closed));
    }

    /// Ends the load, because one of its threads has failed.
    pub fn lose(&self) {
        let _state = self.state();
        self.lost.store(true, SeqCst);
        self.changed.notify_all();
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits, unless a thread has failed.
    fn wait_while(&self, condition: impl Fn(&State) -> bool) -> MutexGuard<'_, State> {
        let condition = |state: &mut State| condition(state) && !self.is_lost();
        self.changed.wait_while(self.state(), condition).unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns whether the load is to end.
    pub fn is_lost(&self) -> bool {
        self.lost.load(SeqCst)
    }

    /// Notes that all clients of a thread have ended.
    pub fn finished(&self) {
        self.going.fetch_sub(1, SeqCst);
    }

    /// Returns whether a thread still has clients.
    pub fn goes_on(&self) -> bool {
        self.going.load(SeqCst) > 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_thread_starts_before_all_have_arrived() {
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
    fn no_thread_waits_for_a_lost_one() {
        let start = Start::new(3);
        std::thread::scope(|scope| {
            let follower = scope.spawn(|| start.follow());
            scope.spawn(|| start.lose());
            assert_eq!(start.lead(|| (7, ())), None);
            assert_eq!(follower.join().unwrap(), None);
        });
    }
}
