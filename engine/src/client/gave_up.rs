//! Clients that gave up before their load's end, because too many of their requests failed in a row.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use schemars::JsonSchema;
use serde::Serialize;

use crate::client::validity::Check;
use crate::sys::memory::shared::SharedArray;

/// Name of the check that no client gave up.
pub const GAVE_UP: &str = "gave_up";

/// Notes clients that give up, in memory that the load's processes share.
pub struct GivingUp(SharedArray<Moments>);

#[derive(Default)]
struct Moments {
    clients: AtomicU64,
    /// 0: nobody has.
    first: AtomicU64,
    last: AtomicU64,
}

/// Clients that gave up before the load's end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
pub struct GaveUp {
    /// Number of clients that gave up.
    pub clients: u64,
    /// Number of clients of the load.
    pub of: u64,
    /// CLOCK_MONOTONIC when the first of them gave up.
    pub first_monotonic_ns: u64,
    /// CLOCK_MONOTONIC when the last of them gave up.
    pub last_monotonic_ns: u64,
}

impl GivingUp {
    /// Nobody has given up yet.
    pub fn new() -> io::Result<Self> {
        Ok(GivingUp(SharedArray::new(1)?))
    }

    /// Notes that a client gives up at this moment (CLOCK_MONOTONIC, nanoseconds).
    pub fn note(&self, at: u64) {
        let Moments { clients, first, last } = &self.0[0];
        let _ = first.fetch_update(Relaxed, Relaxed, |first| (first == 0 || at < first).then_some(at));
        last.fetch_max(at, Relaxed);
        clients.fetch_add(1, Relaxed);
    }

    /// Returns who has given up, of this many clients; `None` if nobody has.
    pub fn among(&self, of: u64) -> Option<GaveUp> {
        let load = |value: &AtomicU64| value.load(Relaxed);
        let Moments { clients, first, last } = &self.0[0];
        let found =
            GaveUp { clients: load(clients), of, first_monotonic_ns: load(first), last_monotonic_ns: load(last) };
        (found.clients > 0).then_some(found)
    }
}

impl GaveUp {
    /// Makes the failed check: the load of fewer clients is another one. Times count from `since`.
    pub fn check(&self, since: u64) -> Check {
        let words = format!(
            "clients that gave up before the end: {}; the load of the others is another one; see the errors",
            self.in_words(since)
        );
        Check { name: GAVE_UP, value: Some(self.clients as f64), limit: 0.0, holds: Some(false), words }
    }

    /// Describes who gave up and when, counted from this moment, as "2 of 4 clients, the first after 0.250 s".
    pub fn in_words(&self, since: u64) -> String {
        let when = match self.first_monotonic_ns.checked_sub(since) {
            None => "before the window".to_owned(),
            Some(after) => format!("after {:.3} s", after as f64 / 1e9),
        };
        match self {
            GaveUp { clients: 1, of, .. } => format!("1 of {of} clients, {when}"),
            GaveUp { clients, of, .. } => format!("{clients} of {of} clients, the first {when}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_and_last_are_those_of_all_clients() {
        let giving_up = GivingUp::new().unwrap();
        assert_eq!(giving_up.among(4), None);
        [30, 10, 20].into_iter().for_each(|at| giving_up.note(at));
        let found = giving_up.among(4).unwrap();
        assert_eq!(found, GaveUp { clients: 3, of: 4, first_monotonic_ns: 10, last_monotonic_ns: 30 });
        assert!(found.in_words(11).ends_with("the first before the window"), "{}", found.in_words(11));
        assert!(found.in_words(10).ends_with("the first after 0.000 s"), "{}", found.in_words(10));
    }
}
