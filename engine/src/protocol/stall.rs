//! Artificial stalls: the whole server pauses periodically, like a server with garbage collection or a hanging disk.
//! Requests that arrive meanwhile wait, and a correct measurement shows that.

use std::time::Duration;

use anyhow::Result;

use crate::base::mistake::{Blame, mistake_with_hint};
use crate::base::setting::{Kind, Setting, Settings};
use crate::base::unit::{HOUR, MILLISECOND, MINUTE, SECOND, Unit};
use crate::sys::clock::now;

/// Length of a stall.
pub const STALL: Setting = Setting {
    name: "stall",
    help: "Length of periodic stalls of the whole server; their effect on latency is computable, for testing the \
           measurement itself",
    unit: Unit::Time { resolution: MILLISECOND },
    kind: Kind::Integer { minimum: 0, maximum: MINUTE, default: 0 },
    for_more: None,
};

/// Period of the stalls.
pub const STALL_EVERY: Setting = Setting {
    name: "stall_every",
    help: "Time from the start of one stall to the start of the next",
    unit: Unit::Time { resolution: MILLISECOND },
    kind: Kind::Integer { minimum: MILLISECOND, maximum: HOUR, default: SECOND },
    for_more: None,
};

/// Times of the stalls, by the clock that all processes of a server share (CLOCK_MONOTONIC, nanoseconds). So all
/// workers stall together, whatever the design: none of them starts to answer a request during a stall. A reply begun
/// before is finished, and the kernel still establishes connections.
#[derive(Debug, Clone, Copy)]
pub struct Stalls {
    began: u64,
    length: u64,
    every: u64,
}

impl Stalls {
    /// Reads [`STALL`] and [`STALL_EVERY`], for a server that starts now. Each stall is at the end of its period.
    pub fn new(settings: &Settings, began: u64) -> Result<Self> {
        let (length, every) = (settings.integer(STALL.name), settings.integer(STALL_EVERY.name));
        if length >= every {
            let typed = STALL.unit.format(length);
            return Err(mistake_with_hint(
                "stall.too_long",
                format!("with --stall {typed} and --stall-every {} the server never replies", STALL.unit.format(every)),
                format!("stalls must be shorter than their period: use --stall-every above {typed}"),
            )
            .blaming(&[STALL.name, STALL_EVERY.name]));
        }
        Ok(Stalls { began, length, every })
    }

    /// Returns whether stalls are off.
    pub fn is_none(self) -> bool {
        self.length == 0
    }

    /// End of the current stall, if this moment is in one.
    fn end(self, at: u64) -> Option<u64> {
        let since = at.saturating_sub(self.began);
        let next = self.began + (since / self.every + 1) * self.every;
        (at + self.length >= next && !self.is_none()).then_some(next)
    }

    /// Sleeps to the end of the current stall, if any.
    pub fn wait(self) {
        let Some(end) = self.end(now()) else { return };
        loop {
            match end.saturating_sub(now()) {
                0 => return,
                left => std::thread::sleep(Duration::from_nanos(left)),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::base::setting::Value;

    fn stalls(length: u64, every: u64, began: u64) -> Result<Stalls> {
        let given = [(STALL.name, length * MILLISECOND), (STALL_EVERY.name, every * MILLISECOND)];
        let given: BTreeMap<_, _> = given.into_iter().map(|(name, value)| (name, Value::Integer(value))).collect();
        Stalls::new(&Settings::new([&STALL, &STALL_EVERY], &given), began)
    }

    #[test]
    fn a_stall_ends_every_period() {
        let stalls = stalls(50, 500, 7).unwrap();
        for (at, end) in [
            (0, None),
            (7, None),
            (7 + 450 * MILLISECOND - 1, None),
            (7 + 450 * MILLISECOND, Some(7 + 500 * MILLISECOND)),
            (7 + 500 * MILLISECOND - 1, Some(7 + 500 * MILLISECOND)),
            (7 + 500 * MILLISECOND, None),
            (7 + 975 * MILLISECOND, Some(7 + 1000 * MILLISECOND)),
        ] {
            assert_eq!(stalls.end(at), end, "{at}");
        }
    }

    #[test]
    fn a_waiting_worker_continues_at_the_end_of_the_stall() {
        let began = now();
        let stalls = stalls(49, 50, began).unwrap();
        std::thread::sleep(Duration::from_millis(2));
        stalls.wait();
        assert!(now() - began >= 50_000_000, "it came back {} ns after the beginning", now() - began);
    }

    #[test]
    fn without_a_length_there_is_none() {
        let none = stalls(0, 1, 0).unwrap();
        assert!(none.is_none());
        assert!((0..3_000_000).step_by(999).all(|at| none.end(at).is_none()));
    }

    #[test]
    fn a_stall_without_an_end_is_refused() {
        for (length, every, typed) in [(1, 1, "1ms"), (500, 500, "500ms"), (501, 500, "501ms"), (60_000, 1, "1min")] {
            let refusal = stalls(length, every, 0).unwrap_err().to_string();
            assert!(refusal.contains(&format!("--stall-every above {typed}")), "{refusal}");
        }
    }
}
