//! The scoreboard of a dynamic pool, in memory that all its workers share: which workers exist, and which are free. It
//! implements the rule of Apache's prefork MPM, which bounds the number of spare workers from below and above.
//!
//! A place is one byte, and every change is one atomic step. So a killed worker leaves the board consistent: its place
//! is vacated, and the counts stay right.

use std::io;
use std::sync::atomic::{AtomicU8, Ordering::SeqCst};
use std::time::Duration;

use anyhow::Result;

use crate::base::mistake::{Blame, mistake_with_hint};
use crate::base::setting::{Kind, Setting, Settings};
use crate::base::unit::{MILLISECOND, MINUTE, SECOND, Unit};
use crate::server::design::MOST_WORKERS;
use crate::sys::descriptor::EventDescriptor;
use crate::sys::memory::shared::SharedArray;

/// Settings of a dynamic pool, with Apache's defaults.
pub const SETTINGS: &[Setting] = &[START_WORKERS, MINIMUM_SPARE, MAXIMUM_SPARE, MAXIMUM_WORKERS, MAINTENANCE];

const START_WORKERS: Setting = workers("start_workers", "Workers created at the start", 5);
const MINIMUM_SPARE: Setting = workers(
    "minimum_spare",
    "Minimum number of free workers; below it, more are created at once, so there are never \
                              fewer workers",
    5,
);
const MAXIMUM_SPARE: Setting = workers("maximum_spare", "Maximum number of free workers; the excess is ended", 10);
/// Maximum size of a dynamic pool.
pub const MAXIMUM_WORKERS: Setting =
    workers("maximum_workers", "Maximum number of workers, free and busy together", 256);
const MAINTENANCE: Setting = Setting {
    name: "maintenance",
    help: "Interval at which excess free workers are ended and failed creations are retried",
    unit: Unit::Time { resolution: MILLISECOND },
    kind: Kind::Integer { minimum: 10 * MILLISECOND, maximum: 10 * MINUTE, default: SECOND },
    for_more: None,
};

const fn workers(name: &'static str, help: &'static str, default: u64) -> Setting {
    Setting {
        name,
        help,
        unit: Unit::Of("workers"),
        kind: Kind::Integer { minimum: 1, maximum: MOST_WORKERS, default },
        for_more: None,
    }
}

/// For `Design::workers`: the maximum number of workers at a time.
pub fn maximum_workers(settings: &Settings) -> usize {
    settings.integer(MAXIMUM_WORKERS.name) as usize
}

/// For `Design::check`: refuses contradictory limits.
pub fn check(settings: &Settings) -> Result<()> {
    for (low, high) in
        [(MINIMUM_SPARE, MAXIMUM_SPARE), (MINIMUM_SPARE, MAXIMUM_WORKERS), (START_WORKERS, MAXIMUM_WORKERS)]
    {
        let (least, most) = (settings.integer(low.name), settings.integer(high.name));
        if least > most {
            let names = [low.name, high.name];
            let (low, high) = (low.option(), high.option());
            return Err(mistake_with_hint(
                "pool.bounds_reversed",
                format!("--{low} {least} is larger than --{high} {most}"),
                format!("use --{low} {most} or less, or --{high} {least} or more"),
            )
            .blaming(&names));
        }
    }
    Ok(())
}

// States of a place. The first is the initial value of shared memory.
const VACANT: u8 = 0;
const FREE: u8 = 1;
const BUSY: u8 = 2;
/// Free, and told to leave instead of waiting for a connection.
const TOLD: u8 = 3;
/// The worker, a thread, has finished.
const LEFT: u8 = 4;

/// Places of a pool's workers.
pub struct Scoreboard {
    /// Contiguous, so that counting them touches few cache lines.
    places: SharedArray<AtomicU8>,
    /// Notified when a worker has become busy and too few are free, and when a thread has left.
    pub event: EventDescriptor,
    /// Number of workers at the start.
    pub start: usize,
    /// Interval at which the excess is ended.
    pub interval: Duration,
    minimum_spare: usize,
    maximum_spare: usize,
}

impl Scoreboard {
    /// Makes a scoreboard without workers.
    pub fn new(settings: &Settings) -> io::Result<Self> {
        let number = |setting: Setting| settings.integer(setting.name) as usize;
        Ok(Scoreboard {
            places: SharedArray::new(maximum_workers(settings))?,
            event: EventDescriptor::new()?,
            start: number(START_WORKERS),
            interval: settings.time(MAINTENANCE.name),
            minimum_spare: number(MINIMUM_SPARE),
            maximum_spare: number(MAXIMUM_SPARE),
        })
    }

    /// Returns whether a worker has been told to leave; checked before it waits for a connection.
    pub fn is_told(&self, place: usize) -> bool {
        self.places[place].load(SeqCst) == TOLD
    }

    /// Marks a worker busy. If it had been told to leave it stays, because it is no longer in excess.
    pub fn busy(&self, place: usize) {
        self.places[place].store(BUSY, SeqCst);
        // Most often, the first few places show that enough workers are free.
        let few = self.with(FREE).take(self.minimum_spare).count() < self.minimum_spare;
        if few && self.with(VACANT).next().is_some() {
            self.event.notify();
        }
    }

    /// Marks a worker free after its connection.
    pub fn free(&self, place: usize) {
        self.places[place].store(FREE, SeqCst);
    }

    /// Marks a worker, a thread, as about to end.
    pub fn leave(&self, place: usize) {
        self.places[place].store(LEFT, SeqCst);
        self.event.notify();
    }

    /// Returns the places of the threads that have left.
    pub fn left(&self) -> Vec<usize> {
        self.with(LEFT).collect()
    }

    /// Vacates the place of a worker that is gone, whatever it was doing.
    pub fn vacate(&self, place: usize) {
        self.places[place].store(VACANT, SeqCst);
    }

    /// Takes places for this many new workers, up to the maximum; they count as free from now on.
    pub fn take(&self, workers: usize) -> Vec<usize> {
        let places: Vec<usize> = self.with(VACANT).take(workers).collect();
        places.iter().for_each(|&place| self.free(place));
        places
    }

    /// Takes a place for one more worker, if fewer than the minimum are free and a place is vacant.
    pub fn take_missing(&self) -> Option<usize> {
        let few = self.with(FREE).take(self.minimum_spare).count() < self.minimum_spare;
        if few { self.take(1).pop() } else { None }
    }

    /// Tells the excess of free workers to leave. Returns the places of all workers that have been told and are still
    /// there, so that the caller interrupts their waits. An interruption just before the wait has no effect, and is
    /// repeated next time.
    pub fn tell_excess(&self) -> Vec<usize> {
        let excess = self.with(FREE).count().saturating_sub(self.maximum_spare);
        let free = (0..self.places.len()).rev();
        // A worker that has become busy meanwhile does not count: only a free worker can be told.
        free.filter(|&place| self.places[place].compare_exchange(FREE, TOLD, SeqCst, SeqCst).is_ok())
            .take(excess)
            .for_each(drop);
        self.with(TOLD).collect()
    }

    fn with(&self, state: u8) -> impl Iterator<Item = usize> {
        (0..self.places.len()).filter(move |&place| self.places[place].load(SeqCst) == state)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::base::setting::Value;

    fn settings(start: u64, minimum: u64, maximum: u64, workers: u64) -> Settings {
        let names = [START_WORKERS, MINIMUM_SPARE, MAXIMUM_SPARE, MAXIMUM_WORKERS].map(|setting| setting.name);
        let values = [start, minimum, maximum, workers].map(Value::Integer);
        Settings::new(SETTINGS, &BTreeMap::from_iter(names.into_iter().zip(values)))
    }

    fn board(start: u64, minimum: u64, maximum: u64, workers: u64) -> Scoreboard {
        let board = Scoreboard::new(&settings(start, minimum, maximum, workers)).unwrap();
        board.take(board.start);
        board
    }

    fn states(board: &Scoreboard) -> Vec<u8> {
        board.places.iter().map(|place| place.load(SeqCst)).collect()
    }

    #[test]
    fn the_least_and_the_most_of_everything_fit() {
        let all = |value| settings(value, value, value, value);
        assert!(check(&all(1)).is_ok() && check(&all(MOST_WORKERS)).is_ok());
        assert!(check(&Settings::new(SETTINGS, &BTreeMap::new())).is_ok());
        // The spare limit may exceed the maximum: then no worker is ever in excess.
        assert!(check(&settings(1, 1, 10, 2)).is_ok());
    }

    #[test]
    fn new_workers_take_the_lowest_places_and_never_more_than_there_are() {
        let board = board(2, 3, 3, 4);
        assert_eq!([board.take_missing(), board.take_missing()], [Some(2), None]);
        board.busy(0);
        board.busy(1);
        assert_eq!([board.take_missing(), board.take_missing()], [Some(3), None]);
        board.vacate(1);
        assert_eq!([board.take_missing(), board.take_missing()], [Some(1), None]);
        assert_eq!(states(&board), [BUSY, FREE, FREE, FREE]);
    }

    #[test]
    fn excess_workers_are_told_to_leave_once_and_interrupted_until_they_do() {
        let board = board(5, 1, 2, 5);
        board.busy(4);
        assert_eq!(board.tell_excess(), [2, 3]);
        assert_eq!(board.tell_excess(), [2, 3]);
        assert_eq!(states(&board), [FREE, FREE, TOLD, TOLD, BUSY]);
        // One worker gets a connection before it has checked: it stays, and is free again afterwards.
        board.busy(3);
        board.free(3);
        board.vacate(2);
        assert!(!board.is_told(3));
        assert_eq!(states(&board), [FREE, FREE, VACANT, FREE, BUSY]);
        assert_eq!(board.tell_excess(), [3]);
    }

    #[test]
    fn a_worker_that_becomes_busy_rings_if_too_few_are_free() {
        use crate::sys::descriptor::{PollFlags, poll};
        use std::os::fd::AsFd;
        let rings = |board: &Scoreboard, place| {
            board.busy(place);
            let ready = poll(&[(board.event.as_fd(), PollFlags::POLLIN)], Some(Duration::ZERO)).unwrap();
            board.event.clear();
            !ready[0].is_empty()
        };
        let board = board(3, 2, 3, 4);
        assert!(!rings(&board, 0));
        assert!(rings(&board, 1));
        assert_eq!(board.take_missing(), Some(3));
        assert!(!rings(&board, 2), "there is no place left");
    }
}
