//! Measurements of a load with a schedule, whether or not a client was free for each request.
//!
//! Requests due within the window are counted. Times are nanoseconds of CLOCK_MONOTONIC.

use hdrhistogram::Histogram;
use schemars::JsonSchema;
use serde::Serialize;

use crate::client::histograms::{histogram, record};

/// Moments of one request.
#[derive(Debug, Clone, Copy)]
pub struct Moments {
    /// Time at which it was due.
    pub due: u64,
    /// Time at which a connection was free for it.
    pub free: u64,
    /// Time at which it was sent, or its own connection was begun.
    pub begun: u64,
}

/// Numbers of requests that were due, by what became of them.
#[derive(Debug, Default, Clone, Serialize, JsonSchema)]
pub struct Outcomes {
    /// Requests that were due.
    pub due: u64,
    /// Requests that were sent, or for which a connection was begun.
    pub sent: u64,
    /// Requests with a correct reply, in the window or after it.
    pub answered: u64,
    /// Requests that failed.
    pub failed: u64,
    /// Requests for which no connection was free in time.
    pub never_sent: u64,
    /// Sent requests that first had to wait for a free connection.
    pub waited: u64,
}

/// Outcomes and times of the requests of one or several threads.
pub struct Scheduled {
    /// Outcomes of the requests.
    pub outcomes: Outcomes,
    /// Latency from when a request was due to the end of its reply.
    pub latency: Histogram<u64>,
    /// Time from the sending of a request to the end of its reply.
    pub service_time: Histogram<u64>,
    /// Delay of sending due requests that had a free connection: the load's own lateness.
    pub send_lag: Histogram<u64>,
    /// Time for which requests waited for a free connection.
    pub connection_wait: Histogram<u64>,
    /// All gaps between successive sends of the same thread.
    pub gap: Histogram<u64>,
    /// The same gaps, summed.
    pub gaps: GapSums,
    /// Gaps between the moments at which requests were due.
    pub gaps_due: GapSums,
}

/// Sums over gaps between successive moments.
#[derive(Debug, Default)]
pub struct GapSums {
    count: u64,
    sum: f64,
    squares: f64,
    /// The last moment.
    last: Option<u64>,
}

impl GapSums {
    /// Adds the next moment; returns the gap before it, if there is one.
    fn add(&mut self, at: u64) -> Option<u64> {
        let gap = at.saturating_sub(self.last.replace(at)?);
        self.count += 1;
        self.sum += gap as f64;
        self.squares += (gap as f64).powi(2);
        Some(gap)
    }

    fn add_all(&mut self, other: &GapSums) {
        self.count += other.count;
        self.sum += other.sum;
        self.squares += other.squares;
    }

    /// Mean in nanoseconds, and standard deviation relative to it; `None` with fewer than two gaps.
    pub fn mean_and_variation(&self) -> Option<(f64, f64)> {
        let count = self.count as f64;
        let mean = self.sum / count;
        let variance = (self.squares / count - mean * mean).max(0.0);
        (self.count >= 2 && mean > 0.0).then(|| (mean, variance.sqrt() / mean))
    }
}

impl Default for Scheduled {
    fn default() -> Self {
        Scheduled {
            outcomes: Outcomes::default(),
            latency: histogram(),
            service_time: histogram(),
            send_lag: histogram(),
            connection_wait: histogram(),
            gap: histogram(),
            gaps: GapSums::default(),
            gaps_due: GapSums::default(),
        }
    }
}

impl Scheduled {
    /// Counts a due request of the window, in order, sent or not.
    pub fn due(&mut self, at: u64) {
        self.outcomes.due += 1;
        self.gaps_due.add(at);
    }

    /// Counts a sent request of the window, or one whose own connection was begun.
    pub fn sent(&mut self, moments: Moments) {
        let Moments { due, free, begun } = moments;
        self.outcomes.sent += 1;
        if free > due {
            self.outcomes.waited += 1;
            record(&mut self.connection_wait, free - due);
        }
        record(&mut self.send_lag, begun.saturating_sub(due.max(free)));
        if let Some(gap) = self.gaps.add(begun) {
            record(&mut self.gap, gap);
        }
    }

    /// Counts a correct reply.
    pub fn answered(&mut self, moments: Moments, at: u64) {
        self.outcomes.answered += 1;
        record(&mut self.latency, at.saturating_sub(moments.due));
        record(&mut self.service_time, at.saturating_sub(moments.begun));
    }

    /// Adds those of another thread.
    pub fn add(&mut self, other: &Scheduled) {
        for (sum, part) in [
            (&mut self.outcomes.due, other.outcomes.due),
            (&mut self.outcomes.sent, other.outcomes.sent),
            (&mut self.outcomes.answered, other.outcomes.answered),
            (&mut self.outcomes.failed, other.outcomes.failed),
            (&mut self.outcomes.never_sent, other.outcomes.never_sent),
            (&mut self.outcomes.waited, other.outcomes.waited),
        ] {
            *sum += part;
        }
        for (sum, part) in [
            (&mut self.latency, &other.latency),
            (&mut self.service_time, &other.service_time),
            (&mut self.send_lag, &other.send_lag),
            (&mut self.connection_wait, &other.connection_wait),
            (&mut self.gap, &other.gap),
        ] {
            sum.add(part).expect("a histogram that grows takes every value");
        }
        self.gaps.add_all(&other.gaps);
        self.gaps_due.add_all(&other.gaps_due);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lateness_is_the_servers_where_no_connection_was_free_and_else_the_loads() {
        let mut scheduled = Scheduled::default();
        for (due, free, begun, answered) in [(100, 50, 107, 200), (200, 260, 265, 300)] {
            let moments = Moments { due, free, begun };
            scheduled.sent(moments);
            scheduled.answered(moments, answered);
        }
        let of = |histogram: &Histogram<u64>| (histogram.len(), histogram.min(), histogram.max());
        assert_eq!(of(&scheduled.latency), (2, 100, 100));
        assert_eq!(of(&scheduled.service_time), (2, 35, 93));
        assert_eq!(of(&scheduled.send_lag), (2, 5, 7));
        assert_eq!((scheduled.outcomes.waited, of(&scheduled.connection_wait)), (1, (1, 60, 60)));
    }

    #[test]
    fn gaps_of_threads_are_added_and_none_lies_between_two_threads() {
        let mut sums = Scheduled::default();
        for first in [0, 1_000_000] {
            let mut thread = Scheduled::default();
            for begun in [first, first + 10, first + 40] {
                thread.due(begun / 10);
            }
            // The order in which due requests are sent is a separate matter.
            for (due, begun) in [(first + 10, first), (first, first + 10), (first + 40, first + 40)] {
                thread.sent(Moments { due: due / 10, free: 0, begun });
            }
            sums.add(&thread);
        }
        assert_eq!((sums.outcomes.sent, sums.gap.len(), sums.gap.max()), (6, 4, 30));
        let (mean, variation) = sums.gaps.mean_and_variation().unwrap();
        assert!((mean - 20.0).abs() < 1e-9 && (variation - 0.5).abs() < 1e-9, "{mean} {variation}");
        let (mean, variation) = sums.gaps_due.mean_and_variation().unwrap();
        assert!((mean - 2.0).abs() < 1e-9 && (variation - 0.5).abs() < 1e-9, "{mean} {variation}");
        assert_eq!(GapSums::default().mean_and_variation(), None);
    }
}
