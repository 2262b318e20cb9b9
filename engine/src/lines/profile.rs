//! The lines of a profile: its header, its stacks, and the check beforehand.

use schemars::JsonSchema;
use serde::Serialize;

use crate::lines::usage::Used;
use crate::stacks::sampling::{Event, Scope};
use crate::stacks::symbols::Frame;

/// Header of a profile: where a server or a load spent its time from exec to exit, including its supervisor and all child
/// processes.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct Profile {
    /// Version of the lines.
    pub schema: u32,
    /// Event at which the kernel takes samples.
    pub event: Event,
    /// Reason why the event is not cycles; null if it is.
    pub why_not_cycles: Option<String>,
    /// Scope of sampling. Only one of the ways catches short-lived processes.
    pub scope: Scope,
    /// Reason why the kernel does not sample whole CPUs; null if it does.
    pub why_not_cpus: Option<String>,
    /// Requested samples per second of CPU time. For cycles, at the CPU's speed before the command began.
    pub frequency_hertz: u64,
    /// Number of samples.
    pub samples: u64,
    /// Records, mostly samples, that did not fit into the kernel's ring buffers.
    pub lost: u64,
    /// Number of times that the kernel paused sampling because it took too much time.
    pub throttled: u64,
    /// CLOCK_MONOTONIC at exec.
    pub from_ns: u64,
    /// CLOCK_MONOTONIC after its last process had ended.
    pub to_ns: u64,
    /// True if functions of the kernel have names, otherwise the reason. They are then shown as `[kernel]`.
    pub kernel_symbols: Has,
    /// True if the engine was built with frame pointers, otherwise the reason. Without them, stacks of user mode have few
    /// frames.
    pub frame_pointers: Has,
    /// Resources that all its processes used.
    #[serde(flatten)]
    pub used: Used,
    /// Exit status; 128 plus the signal's number if a signal ended it.
    pub status: i32,
}

/// Properties of a profile that this machine would record. Nothing is sampled.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct ProfileCheck {
    /// Version of the lines.
    pub schema: u32,
    /// Reason why no profile is possible, with a remedy; null if one is.
    pub reason: Option<String>,
    /// Event at which the kernel would take samples; null if there is none.
    pub event: Option<Event>,
    /// Reason why the event would not be cycles; null if it would, or if there is none.
    pub why_not_cycles: Option<String>,
    /// Scope of sampling; null if the kernel would sample nothing.
    pub scope: Option<Scope>,
    /// Reason why the kernel would not sample whole CPUs; null if it would, or if there is no event.
    pub why_not_cpus: Option<String>,
    /// Requested samples per second of CPU time.
    pub frequency_hertz: u64,
    /// True if functions of the kernel would have names, otherwise the reason.
    pub kernel_symbols: Has,
    /// True if the engine was built with frame pointers, otherwise the reason.
    pub frame_pointers: Has,
}

/// True, or the reason why not.
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

/// A stack of functions, with its samples.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
pub struct Stack {
    /// Functions, outermost first, including those that the compiler has inlined.
    pub frames: Vec<Frame>,
    /// Name of the thread, as the kernel has it.
    pub command: String,
    /// CLOCK_MONOTONIC of each sample.
    pub at_ns: Vec<u64>,
}
