//! The vocabulary of the machine's limits: what one thing costs here when nothing else is done.

use std::time::Duration;

use anyhow::Result;
use schemars::JsonSchema;
use serde::Serialize;

use crate::base::about::About;

/// A registered limit. Its file's name is its name.
pub struct Limit {
    /// What is done and where that is described.
    pub about: About,
    /// What its figure tells.
    pub figure: Figure,
    /// The sizes at which it is measured, in bytes; empty where it has none.
    pub sizes: &'static [usize],
    /// Where it is measured.
    pub places: &'static [Place],
    /// Gets everything ready that is not to be timed. The error is the reason why it cannot be measured here.
    pub prepare: fn(&Point) -> Result<Box<dyn Probe>>,
}

/// What a figure tells, and so its unit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Figure {
    /// Nanoseconds that one takes.
    Nanoseconds,
    /// Bytes that pass in a second.
    BytesPerSecond,
}

/// On which CPUs it happens.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Place {
    /// All of it on one CPU.
    OneCpu,
    /// Between two CPUs, one end on each.
    TwoCpus,
}

/// One thing to be measured: a limit at a size and a place.
pub struct Point {
    /// Where.
    pub place: Place,
    /// How many bytes; none where the limit has no sizes.
    pub bytes: Option<usize>,
    /// The CPU of this process.
    pub near: usize,
    /// The CPU of the other end; the same where all of it is on one.
    pub far: usize,
}

impl Point {
    /// How many bytes.
    ///
    /// # Panics
    /// Where the limit has declared no sizes: a fault of the program.
    pub fn size(&self) -> usize {
        self.bytes.expect("a limit that asks for its size has declared some")
    }
}

/// What does it, as often as it is told.
pub trait Probe {
    /// Does it so many times, 1 or more; how long all of them took together.
    fn round(&mut self, times: u64) -> Result<Duration>;

    /// The most times that a round may have, where more would use up something.
    fn most(&self) -> u64 {
        u64::MAX
    }
}

/// A probe that needs nothing but a call: what is done once.
pub struct Call<F>(pub F);

impl<F: FnMut() -> Result<()>> Probe for Call<F> {
    fn round(&mut self, times: u64) -> Result<Duration> {
        let began = std::time::Instant::now();
        for _ in 0..times {
            (self.0)()?;
        }
        Ok(began.elapsed())
    }
}

/// Everything on one CPU.
pub const ONE_CPU: &[Place] = &[Place::OneCpu];

/// Both ends on one CPU, and on a CPU each.
pub const BOTH_PLACES: &[Place] = &[Place::OneCpu, Place::TwoCpus];
