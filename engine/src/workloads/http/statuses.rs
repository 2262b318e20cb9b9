//! Counts of replies by status.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::protocol::workload::{Replies, Status, StatusCounts};
use crate::sys::memory::shared::SharedArray;

/// Number of statuses: they have three digits.
const STATUSES: usize = 1000;

/// Counts of one connection. They are added to those of the load when the connection ends: clients would contend for
/// shared counters at every reply.
pub struct Statuses {
    own: Vec<(Status, u64)>,
    /// Of each status: correct replies, and errors.
    all: Arc<SharedArray<[AtomicU64; 2]>>,
}

impl Statuses {
    /// Zero for every status.
    pub fn new() -> io::Result<Self> {
        Ok(Statuses { own: Vec::new(), all: Arc::new(SharedArray::new(STATUSES)?) })
    }

    /// Counts a reply.
    pub fn note(&mut self, status: Status) {
        match self.own.iter_mut().find(|(other, _)| *other == status) {
            Some((_, count)) => *count += 1,
            None => self.own.push((status, 1)),
        }
    }

    /// Takes back the count of a reply.
    pub fn take_back(&mut self, status: Status) {
        if let Some((_, count)) = self.own.iter_mut().find(|(other, _)| *other == status) {
            *count -= 1;
        }
    }

    /// Returns the counts of all connections that have ended.
    pub fn counts(&self) -> StatusCounts {
        let of = |(status, [right, errors]): (usize, &[AtomicU64; 2])| {
            let errors = errors.load(Relaxed);
            let replies = right.load(Relaxed) + errors;
            (replies > 0).then_some((status as u16, Replies { replies, errors }))
        };
        self.all.iter().enumerate().filter_map(of).collect()
    }
}

impl Clone for Statuses {
    /// The counts of another connection.
    fn clone(&self) -> Self {
        Statuses { own: Vec::new(), all: Arc::clone(&self.all) }
    }
}

impl Drop for Statuses {
    fn drop(&mut self) {
        for (Status { code, is_error }, count) in &self.own {
            if let Some(place) = self.all.get(usize::from(*code)) {
                place[usize::from(*is_error)].fetch_add(*count, Relaxed);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replies_of_all_connections_are_counted_once() {
        let all = Statuses::new().unwrap();
        let of = |code, is_error| Status { code, is_error };
        for _ in 0..2 {
            let mut connection = all.clone();
            for status in [of(200, false), of(503, true), of(200, false), of(503, false)] {
                connection.note(status);
            }
            connection.note(of(408, true));
            connection.take_back(of(408, true));
        }
        let (right, both) = (Replies { replies: 4, errors: 0 }, Replies { replies: 4, errors: 2 });
        assert_eq!(all.counts(), StatusCounts::from([(200, right), (503, both)]));
    }
}
