//! Times at which requests of an open load are due: moments that are independent of replies.
//!
//! A schedule counts in expected requests, not in time. Each step is 1 for even arrivals, exponential with mean 1 for a
//! Poisson process, or a recorded gap divided by the mean gap. The p-th request is due when p requests are expected,
//! that is, when the integral of the rate reaches p. So a rate that rises over a ramp gives exactly the right process
//! (time change of a Poisson process: Çinlar, Introduction to Stochastic Processes, 1975, section 4.7).

use rand_distr::{Distribution, Exp1};
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::SeedableRng;

use crate::requests::schedule::{Process, Schedule};

impl Schedule {
    /// Makes the moments of one of several threads, counted from 0, of a load that starts at this moment (nanoseconds).
    /// Together the threads have the schedule: Poisson processes add up to one, and even arrivals interleave.
    pub fn of_thread(&self, thread: usize, threads: usize, began: u64) -> Arrivals {
        let mut random = Xoshiro256PlusPlus::seed_from_u64(self.seed);
        // Each thread has its own sequence of 2^128 numbers.
        (0..thread).for_each(|_| random.jump());
        let (rate, ramp) = (self.rate / 1e9, self.ramp as f64);
        let (number, threads) = (thread as u64, threads as u64);
        let mut arrivals =
            Arrivals { process: self.process, random, threads, rate, ramp, began, number, expected: 0.0 };
        arrivals.expected = arrivals.first();
        arrivals
    }
}

/// An endless sequence of moments (nanoseconds).
#[derive(Debug, Clone)]
pub struct Arrivals {
    process: Process,
    random: Xoshiro256PlusPlus,
    threads: u64,
    /// Requests per nanosecond, over all threads.
    rate: f64,
    ramp: f64,
    began: u64,
    /// Number of this thread's next request, over all threads.
    number: u64,
    /// Expected requests, over all threads, until this thread's next one.
    expected: f64,
}

impl Arrivals {
    fn first(&mut self) -> f64 {
        match self.process {
            Process::Poisson => self.random_step(),
            Process::Constant => self.number as f64,
            Process::Recorded(gaps) => gaps.moment(self.number) / gaps.mean(),
        }
    }

    fn following(&mut self) -> f64 {
        self.number += self.threads;
        match self.process {
            Process::Poisson => self.expected + self.random_step(),
            Process::Constant => self.expected + self.threads as f64,
            Process::Recorded(gaps) => gaps.moment(self.number) / gaps.mean(),
        }
    }

    fn random_step(&mut self) -> f64 {
        self.threads as f64 * Distribution::<f64>::sample(&Exp1, &mut self.random)
    }

    /// Nanoseconds from the start until this many requests are expected.
    fn time(&self, expected: f64) -> f64 {
        let on_the_ramp = self.rate * self.ramp / 2.0;
        if expected < on_the_ramp {
            (2.0 * self.ramp * expected / self.rate).sqrt()
        } else {
            expected / self.rate + self.ramp / 2.0
        }
    }
}

impl Iterator for Arrivals {
    type Item = u64;

    fn next(&mut self) -> Option<u64> {
        let moment = self.began.saturating_add(self.time(self.expected).round() as u64);
        self.expected = self.following();
        Some(moment)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::requests::recording::RecordedGaps;

    const SECOND: u64 = 1_000_000_000;

    fn schedule(process: Process, rate: u64, ramp: u64) -> Schedule {
        Schedule { process, rate: rate as f64, seed: 7, ramp }
    }

    fn moments(schedule: Schedule, threads: usize, until: u64) -> Vec<u64> {
        let of = |thread| schedule.of_thread(thread, threads, 0).take_while(move |&moment| moment < until);
        let mut moments: Vec<u64> = (0..threads).flat_map(of).collect();
        moments.sort_unstable();
        moments
    }

    #[test]
    fn constant_arrivals_are_exact_however_many_threads_share_them() {
        for rate in [1, 3, 1000, 7919, 10_000_000] {
            let schedule = schedule(Process::Constant, rate, 0);
            for threads in [1, 2, 3, 8] {
                let seen = moments(schedule, threads, SECOND / 50 + 1);
                let exact = |number: u64| (u128::from(number * 2 * SECOND) / u128::from(rate)).div_ceil(2) as u64;
                let expected: Vec<u64> = (0..).map(exact).take_while(|&moment| moment < SECOND / 50 + 1).collect();
                assert_eq!(seen, expected, "{rate} a second, {threads} threads");
            }
        }
    }

    #[test]
    fn an_hour_of_the_highest_rate_is_still_exact_to_a_nanosecond() {
        let mut arrivals = schedule(Process::Constant, 10_000_000, 0).of_thread(0, 1, 0);
        (arrivals.expected, arrivals.number) = (36e9, 36_000_000_000);
        assert_eq!(arrivals.next(), Some(3600 * SECOND));
        assert_eq!(arrivals.next(), Some(3600 * SECOND + 100));
    }

    #[test]
    fn a_seed_gives_the_same_moments_and_another_others() {
        let poisson = schedule(Process::Poisson, 1000, 0);
        assert_eq!(moments(poisson, 2, SECOND), moments(poisson, 2, SECOND));
        assert_ne!(moments(poisson, 2, SECOND), moments(Schedule { seed: 8, ..poisson }, 2, SECOND));
        let of = |thread| poisson.of_thread(thread, 2, 0).take(100).collect::<Vec<u64>>();
        assert_ne!(of(0), of(1));
    }

    /// Gaps have mean 1 / rate and coefficient of variation 1; counts in disjoint intervals have a variance equal to
    /// their mean; successive gaps are uncorrelated. Each holds within four standard errors.
    #[test]
    fn poisson_arrivals_are_poisson() {
        for threads in [1, 3] {
            let (rate, seconds) = (10_000, 40);
            let moments = moments(schedule(Process::Poisson, rate, 0), threads, seconds * SECOND);
            let count = moments.len() as f64;
            let expected = (rate * seconds) as f64;
            assert!((count - expected).abs() < 4.0 * expected.sqrt(), "{count}");
            let gaps: Vec<f64> = moments.windows(2).map(|pair| (pair[1] - pair[0]) as f64).collect();
            let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
            let variance = gaps.iter().map(|gap| (gap - mean).powi(2)).sum::<f64>() / gaps.len() as f64;
            let variation = variance.sqrt() / mean;
            assert!((variation - 1.0).abs() < 4.0 / count.sqrt(), "{variation}");
            let together = gaps.windows(2).map(|pair| (pair[0] - mean) * (pair[1] - mean)).sum::<f64>();
            let correlation = together / gaps.len() as f64 / variance;
            assert!(correlation.abs() < 4.0 / count.sqrt(), "{correlation}");
            let mut counts = vec![0.0; 4000];
            moments.iter().for_each(|moment| counts[(moment / (SECOND / 100)) as usize] += 1.0);
            let mean = counts.iter().sum::<f64>() / counts.len() as f64;
            let variance = counts.iter().map(|count| (count - mean).powi(2)).sum::<f64>() / counts.len() as f64;
            // The variance of n Poisson counts has a standard error of the mean times the root of 2 / n, and a little
            // more.
            assert!((variance / mean - 1.0).abs() < 4.0 * (2.01_f64 / 4000.0).sqrt(), "{variance} {mean}");
        }
    }

    #[test]
    fn recorded_arrivals_are_those_of_the_record_again_and_again_however_many_threads_share_them() {
        let microseconds = [10.0, 0.0, 0.0, 25.5, 1000.0, 3.25];
        let gaps: &'static RecordedGaps = Box::leak(Box::new(RecordedGaps::new(&microseconds)));
        let mut due = 0.0;
        let again = (0..50).flat_map(|_| microseconds);
        let exact: Vec<u64> = again
            .map(|gap| {
                due += gap * 1000.0;
                due as u64
            })
            .collect();
        let as_recorded = Schedule { rate: 1e9 / gaps.mean(), ..schedule(Process::Recorded(gaps), 1, 0) };
        for threads in [1, 2, 3, 8] {
            let seen = moments(as_recorded, threads, exact[exact.len() - 1] + 1);
            assert_eq!(seen, exact, "{threads} threads");
        }
        // At another rate, every gap scales by the same factor.
        let rate = 1000;
        let factor = 1e9 / rate as f64 / gaps.mean();
        let scaled: Vec<u64> = exact.iter().map(|&moment| (moment as f64 * factor).round() as u64).collect();
        assert_eq!(moments(schedule(Process::Recorded(gaps), rate, 0), 3, scaled[scaled.len() - 1] + 1), scaled);
    }

    #[test]
    fn over_a_ramp_the_rate_rises_in_a_straight_line() {
        let even: &'static RecordedGaps = Box::leak(Box::new(RecordedGaps::new(&[7.0, 7.0])));
        for process in [Process::Constant, Process::Poisson, Process::Recorded(even)] {
            let moments = moments(schedule(process, 100_000, 2 * SECOND), 2, 3 * SECOND);
            let before =
                |seconds: f64| moments.iter().filter(|&&moment| (moment as f64) < seconds * 1e9).count() as f64;
            // The integral of the rate: half of it over the ramp, a quarter of that over its first half.
            for (seconds, expected) in [(1.0, 25_000.0), (2.0, 100_000.0), (3.0, 200_000.0_f64)] {
                let allowed = if process != Process::Poisson { 2.0 } else { 4.0 * expected.sqrt() };
                assert!((before(seconds) - expected).abs() <= allowed, "{process:?} {}", before(seconds));
            }
        }
    }
}
