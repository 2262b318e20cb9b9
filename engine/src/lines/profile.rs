//! The lines of a profile: about all of it, and of each stack; and what one would be.

use schemars::JsonSchema;
use serde::Serialize;

use crate::lines::usage::Used;
use crate::stacks::sampling::{Event, Scope};
use crate::stacks::symbols::Frame;

/// Where a server or a load spent its time, its supervisor and all that it forked included: from exec to exit.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct Profile {
    /// Version of the lines.
    pub schema: u32,
    /// What made the kernel take samples.
    pub event: Event,
    /// Why it was not cycles; null where it was.
    pub why_not_cycles: Option<String>,
    /// Whom the kernel samples: who lives but for a moment is met in one of the ways alone.
    pub scope: Scope,
    /// Why it was not the CPUs; null where it was.
    pub why_not_cpus: Option<String>,
    /// Samples asked for, for each second of CPU time; of cycles, of a CPU that is as fast as it was before the command began.
    pub frequency_hertz: u64,
    /// Samples taken.
    pub samples: u64,
    /// Records that the kernel's ring buffers had no room for, samples mostly.
    pub lost: u64,
    /// Times that the kernel paused sampling, since it took too much time.
    pub throttled: u64,
    /// CLOCK_MONOTONIC at its exec.
    pub from_ns: u64,
    /// CLOCK_MONOTONIC once nothing was left of it.
    pub to_ns: u64,
    /// True where the functions of the kernel have names, else the reason: then they stand as `[kernel]`.
    pub kernel_symbols: Has,
    /// True where the engine was built so that the kernel can tell who called a function of it, else the reason: then stacks
    /// of user mode have few frames.
    pub frame_pointers: Has,
    /// What all of it used.
    #[serde(flatten)]
    pub used: Used,
    /// The exit status; 128 and the signal's number where a signal ended it.
    pub status: i32,
}

/// What a profile would be here, of which nothing is taken.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct ProfileCheck {
    /// Version of the lines.
    pub schema: u32,
    /// Why there can be none, and what helps; null where there can.
    pub reason: Option<String>,
    /// What would make the kernel take samples; null where nothing would.
    pub event: Option<Event>,
    /// Why it would not be cycles; null where it would, or where there is no event.
    pub why_not_cycles: Option<String>,
    /// Whom the kernel would sample; null where it would nobody.
    pub scope: Option<Scope>,
    /// Why it would not be the CPUs; null where it would, or where there is no event.
    pub why_not_cpus: Option<String>,
    /// Samples asked for, for each second of CPU time.
    pub frequency_hertz: u64,
    /// True where the functions of the kernel would have names, else the reason.
    pub kernel_symbols: Has,
    /// True where the engine was built so that the kernel can tell who called a function of it, else the reason.
    pub frame_pointers: Has,
}

/// Whether there is something: true, or the reason why not.
#[derive(Debug, Clone, Serialize, JsonSchema)]
#[serde(untagged)]
pub enum Has {
    /// True.
    Yes(bool),
    /// The reason.
    No(String),
}

impl From<Option<String>> for Has {
    fn from(reason: Option<String>) -> Self {
        reason.map_or(Has::Yes(true), Has::No)
    }
}

/// A stack of functions that samples were taken in.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
pub struct Stack {
    /// The functions, outermost first; with what the compiler has inlined.
    pub frames: Vec<Frame>,
    /// The name of the thread, as the kernel has it.
    pub command: String,
    /// CLOCK_MONOTONIC of each sample.
    pub at_ns: Vec<u64>,
}
