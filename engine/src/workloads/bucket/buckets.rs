//! The buckets, in memory that all processes of a server share, and the sums that check them.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::sys::lock::SharedMutexes;
use crate::sys::memory::shared::SharedArray;

/// A number on its own cache line, so that independent buckets do not share one.
#[derive(Default)]
#[repr(align(64))]
struct Number(AtomicU64);

/// Buckets, and the lock or atomic operation that serializes changes of each.
pub struct Buckets {
    values: SharedArray<Number>,
    lock: Lock,
    books: SharedArray<Books>,
}

enum Lock {
    One(SharedMutexes),
    PerBucket(SharedMutexes),
    Atomic,
}

/// Sums kept separately from the buckets, to detect lost updates.
///
/// A process that is killed while a bucket grows may or may not have changed it. So each addition is recorded before it
/// begins and again when it is done. The buckets' total lies between the two sums; if no process was killed in between,
/// the sums are equal.
#[derive(Default)]
#[repr(align(64))]
struct Books {
    begun: AtomicU64,
    done: Number,
}

impl Buckets {
    /// Makes this many empty buckets, protected as the setting `lock` says.
    pub fn new(count: usize, lock: &str) -> io::Result<Self> {
        Ok(Buckets {
            values: SharedArray::new(count)?,
            lock: match lock {
                "one" => Lock::One(SharedMutexes::new(1)?),
                "per_bucket" => Lock::PerBucket(SharedMutexes::new(count)?),
                _ => Lock::Atomic,
            },
            books: SharedArray::new(1)?,
        })
    }

    /// Number of buckets.
    pub fn count(&self) -> usize {
        self.values.len()
    }

    /// Adds to a bucket and returns its new value.
    pub fn grow(&self, bucket: usize, delay: u64) -> io::Result<u64> {
        self.books[0].begun.fetch_add(delay, Relaxed);
        let value = self.add(bucket, delay)?;
        self.books[0].done.0.fetch_add(delay, Relaxed);
        Ok(value)
    }

    fn add(&self, bucket: usize, delay: u64) -> io::Result<u64> {
        let number = &self.values[bucket].0;
        let _guard = match &self.lock {
            Lock::One(mutex) => mutex.lock(0)?,
            Lock::PerBucket(mutexes) => mutexes.lock(bucket)?,
            Lock::Atomic => return Ok(number.fetch_add(delay, Relaxed) + delay),
        };
        // Two steps on purpose: only the lock makes them one.
        let value = number.load(Relaxed) + delay;
        number.store(value, Relaxed);
        Ok(value)
    }

    /// Returns the total of all buckets; the error describes how it differs from the additions.
    ///
    /// No sum overflows: at the highest limit on delays that takes 18 million million requests.
    pub fn sum(&self) -> Result<u64, String> {
        let sum = self.values.iter().map(|number| number.0.load(Relaxed)).sum();
        let (begun, done) = (self.books[0].begun.load(Relaxed), self.books[0].done.0.load(Relaxed));
        if (done..=begun).contains(&sum) {
            return Ok(sum);
        }
        let due = if begun == done { done.to_string() } else { format!("{done} to {begun}") };
        Err(format!("the buckets hold {sum}, but delays of {due} were served"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOCKS: [&str; 3] = ["one", "per_bucket", "atomic"];

    #[test]
    fn nothing_is_lost_between_threads() {
        for lock in LOCKS {
            let buckets = Buckets::new(3, lock).unwrap();
            std::thread::scope(|scope| {
                for _ in 0..4 {
                    scope.spawn(|| assert!((0..20_000).all(|index| buckets.grow(index % 3, 2).is_ok())));
                }
            });
            assert_eq!(buckets.sum(), Ok(160_000), "{lock}");
        }
    }

    #[test]
    fn a_lost_update_is_detected() {
        let buckets = Buckets::new(2, "atomic").unwrap();
        buckets.grow(1, 5).unwrap();
        buckets.values[1].0.store(4, Relaxed);
        assert_eq!(buckets.sum().unwrap_err(), "the buckets hold 4, but delays of 5 were served");
        buckets.values[1].0.store(6, Relaxed);
        assert!(buckets.sum().is_err());
        // A worker that was killed halfway.
        buckets.books[0].begun.fetch_add(3, Relaxed);
        assert_eq!(buckets.sum(), Ok(6));
        buckets.values[1].0.store(9, Relaxed);
        assert_eq!(buckets.sum().unwrap_err(), "the buckets hold 9, but delays of 5 to 8 were served");
    }

    #[test]
    fn the_maximum_number_of_buckets_has_locks() {
        let buckets = Buckets::new(65_536, "per_bucket").unwrap();
        for bucket in 0..buckets.count() {
            assert_eq!(buckets.grow(bucket, 1).unwrap(), 1);
        }
        assert_eq!(buckets.sum(), Ok(65_536));
    }
}
