//! Types of machine limits: the costs of bare operations when nothing else is done.

use std::time::Duration;

use anyhow::Result;
use schemars::JsonSchema;
use serde::Serialize;

use crate::base::about::About;

/// A registered machine limit. The name of its file is its name.
pub struct Limit {
    /// Description of the measurement, and its source.
    pub about: About,
    /// Kind of its figure.
    pub figure: Figure,
    /// Sizes at which it is measured, in bytes. Empty if it has none.
    pub sizes: &'static [usize],
    /// Placements at which it is measured.
    pub places: &'static [Place],
    /// Prepares everything that is not timed. The error is the reason why the limit cannot be measured on this machine.
    pub prepare: fn(&Point) -> Result<Box<dyn Probe>>,
}

/// Kinds of figures, with their unit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Figure {
    /// Nanoseconds per operation.
    Nanoseconds,
    /// Bytes per second.
    BytesPerSecond,
}

/// Placement on CPUs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Place {
    /// Both ends on one CPU.
    OneCpu,
    /// One end on each of two CPUs.
    TwoCpus,
}

/// A machine limit at one size and placement.
pub struct Point {
    /// Placement.
    pub place: Place,
    /// Size in bytes; `None` if the limit has no sizes.
    pub bytes: Option<usize>,
    /// CPU of this process.
    pub near: usize,
    /// CPU of the other end, which is the same if both are on one CPU.
    pub far: usize,
}

impl Point {
    /// Returns the size in bytes.
    ///
    /// # Panics
    /// If the limit has declared no sizes, which is a fault of the program.
    pub fn size(&self) -> usize {
        self.bytes.expect("a limit that uses its size declares sizes")
    }
}

/// Repeats the operation of a limit.
pub trait Probe {
    /// Repeats the operation `times` times (at least once), and returns the total time.
    fn round(&mut self, times: u64) -> Result<Duration>;

    /// Returns the maximum repetitions of a round. Fewer if a round would exhaust a resource.
    fn most(&self) -> u64 {
        u64::MAX
    }
}

/// A probe that repeats a call.
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

/// Both ends on one CPU only.
pub const ONE_CPU: &[Place] = &[Place::OneCpu];

/// Both ends on one CPU, and one end on each of two CPUs.
pub const BOTH_PLACES: &[Place] = &[Place::OneCpu, Place::TwoCpus];
