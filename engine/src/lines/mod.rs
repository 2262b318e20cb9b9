//! The lines that the engine prints for a program to read: JSON, one object a line, `line` saying which.
//!
//! `thunderherd-engine schema` prints their schema. A change that a reader could stumble over raises [`SCHEMA`].

pub mod cpu_source;
pub mod load;
pub mod profile;
pub mod usage;

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;

use crate::base::limit::Place;
use crate::base::mistake::Mistake;
use crate::base::setting::Value;
use crate::count::counter::Readout;
use crate::count::own_memory::Memory;
use crate::count::tally::Counts;
use crate::lines::cpu_source::CpuSource;
use crate::lines::load::{Latency, Scheduled, Traffic, Validity};
use crate::lines::profile::{Profile, ProfileCheck, Stack};
use crate::lines::usage::{Split, Used};
use crate::net::closings::Closed;
use crate::net::tcp::ConnectionOptions;
use crate::protocol::workload::{Account, Figures, MeasuredBy};

/// Version of the lines.
pub const SCHEMA: u32 = 4;

/// The effective settings, by name.
pub type SettingValues = BTreeMap<&'static str, Value>;

/// Everything that is printed for programs.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(tag = "line", rename_all = "snake_case")]
pub enum Line {
    /// The server listens.
    Ready(Ready),
    /// The answer to `snapshot`.
    Snapshot(Snapshot),
    /// The server has ended.
    Summary(Summary),
    /// A timed load begins or ends to count.
    Mark(Mark),
    /// The load has ended.
    Load(Box<LoadResult>),
    /// A server or load that `count` ran has ended.
    Life(Life),
    /// A server or load that `profile` ran has ended; the first line of its file as well.
    Profile(Profile),
    /// What `profile` would do here.
    ProfileCheck(ProfileCheck),
    /// A stack, in the file of `profile`.
    Stack(Stack),
    /// Two namespaces are there.
    Namespaces(Namespaces),
    /// The limits of the machine are being measured.
    Limits(Limits),
    /// A limit was measured once more.
    LimitRound(LimitRound),
    /// A limit cannot be measured here, or no more.
    LimitUnavailable(LimitUnavailable),
    /// The command was refused, and printed no other line.
    Refused(Refused),
}

/// A server that listens, and all that it was told.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Ready {
    /// Version of the lines.
    pub schema: u32,
    /// Address and port, or `unix:@` and a name.
    pub address: String,
    /// The port, the kernel's choice where 0 was asked for; null over Unix sockets.
    pub port: Option<u16>,
    /// The process that supervises, prints this line and is not part of what is measured.
    pub supervisor_pid: i32,
    /// The first process of the server.
    pub server_pid: i32,
    /// Name of the design.
    pub design: &'static str,
    /// Name of the primitive that sends.
    pub primitive: &'static str,
    /// Name of the primitive that receives.
    pub receive: &'static str,
    /// Name of the workload.
    pub workload: &'static str,
    /// All effective settings.
    pub settings: SettingValues,
    /// Its loops never sleep, even when nobody asks for anything: by its design, or as it was told (`--wait spin`). Not said of a
    /// primitive that spins, which does so only in a call that awaits a client's bytes, and not for long.
    pub spins: bool,
    /// Where the CPU time of snapshots comes from.
    pub cpu_source: CpuSource,
    /// Why it does not come from a better source.
    pub cpu_source_reason: Option<String>,
    /// What the kernel made of the socket's options.
    pub socket: SocketOptions,
    /// CPUs the server is pinned to.
    pub cpus: Option<Vec<usize>>,
    /// Descriptors that each process of the server may have open: the hard limit, which the soft one was raised to.
    pub descriptor_limit: u64,
    /// The counters asked for: null, or why this machine does not offer it.
    pub counters: BTreeMap<String, Option<String>>,
}

/// The listener's options as the kernel reports them; connections inherit them.
#[derive(Debug, Serialize, JsonSchema)]
pub struct SocketOptions {
    /// For instance `cubic`; null over Unix sockets.
    pub congestion_control: Option<String>,
    /// TCP_NODELAY; null over Unix sockets.
    pub nodelay: Option<bool>,
    /// The backlog asked for.
    pub backlog: u64,
    /// The backlog in force: net.core.somaxconn bounds it. Null over Unix sockets, of which the kernel does not say it.
    pub backlog_effective: Option<u32>,
    /// SO_SNDBUF in bytes.
    pub send_buffer: usize,
    /// SO_RCVBUF in bytes.
    pub receive_buffer: usize,
}

/// A server at one moment; everything counts from its start.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Snapshot {
    /// CLOCK_MONOTONIC.
    pub monotonic_ns: u64,
    /// CPU time of the whole process tree; none where only that of the whole life is known.
    pub cpu_ns: Option<u64>,
    /// What was counted.
    pub tally: Counts,
    /// Connections of each worker of the pool.
    pub workers: Option<Vec<u64>>,
    /// Connections that the listener dropped.
    pub listen_drops: u32,
    /// Connections that wait to be accepted; null over Unix sockets, of which the kernel does not say it.
    pub listen_queue: Option<u32>,
    /// What was counted of the whole process tree.
    #[serde(flatten)]
    pub readout: Readout,
    /// CLOCK_MONOTONIC once all of this had been read: what was counted by then came no later.
    pub read_ns: u64,
}

/// A server's whole life, every process of it ended and waited for.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct Summary {
    /// CPU time of all processes and threads: from the control group where there is one, else from getrusage, which
    /// misses the last steps of a thread.
    pub cpu_ns: u64,
    /// What all processes and threads used.
    #[serde(flatten)]
    pub used: Used,
    /// Of the CPU time, the server's first process; none when it was killed and could not say.
    pub server_process: Option<Split>,
    /// Of the CPU time, all other processes.
    pub dead_children: Option<Split>,
    /// The largest resident set of any one process, in KiB.
    pub max_resident_kib: u64,
    /// What was counted.
    pub tally: Counts,
    /// Connections of each worker of the pool.
    pub workers: Option<Vec<u64>>,
    /// Connections that the listener dropped.
    pub listen_drops: u32,
    /// What was counted over the whole life.
    #[serde(flatten)]
    pub readout: Readout,
    /// Sums that the workload keeps; a load must come to the same where it has one of the same name.
    pub account: Account,
    /// How the workload's own books do not balance.
    pub account_fault: Option<String>,
    /// What the kernel made of its first connection's options; null without a connection, and over Unix sockets.
    pub connection: Option<ConnectionOptions>,
    /// How the server ended, when nobody had stopped it.
    pub died: Option<String>,
}

/// A load that has ended.
#[derive(Debug, Serialize, JsonSchema)]
pub struct LoadResult {
    /// Version of the lines.
    pub schema: u32,
    /// Name of the workload.
    pub workload: &'static str,
    /// Name of the load.
    pub load: &'static str,
    /// Name of the primitive that sends.
    pub primitive: &'static str,
    /// Name of the primitive that receives.
    pub receive: &'static str,
    /// All effective settings.
    pub settings: SettingValues,
    /// What is counted in the window of a load that ends by time.
    pub measured_by: MeasuredBy,
    /// Requests that were to be made; null where the load ends by time.
    pub expected_requests: Option<u64>,
    /// What was counted.
    pub tally: Counts,
    /// From before the first connection to after the last reply.
    pub elapsed_ns: u64,
    /// CLOCK_MONOTONIC before the first connection.
    pub started_monotonic_ns: u64,
    /// CLOCK_MONOTONIC after the last reply.
    pub ended_monotonic_ns: u64,
    /// Which start of which machine these moments are of: the kernel's boot id. Those of loads of one can be compared. Null where
    /// it cannot be read.
    pub boot_id: Option<String>,
    /// CLOCK_MONOTONIC before the first reading of what it uses and counts: no later than its beginning.
    pub counted_from_ns: u64,
    /// CLOCK_MONOTONIC after the last such reading. What comes after the last reply (connections that are closed, notices that
    /// are waited for, processes that end) is in the figures, so it has to be in their time too.
    pub counted_to_ns: u64,
    /// The measured part of a load that ends by time.
    pub window: Option<Window>,
    /// How long replies took, of the window where there is one. In a closed loop from the sending of a request, each client
    /// waiting for its reply before it asks again: what a stall keeps from being asked is not in it. In an open loop from
    /// when a request was due.
    pub latency: Option<Latency>,
    /// What became of the schedule of an open loop.
    pub scheduled: Option<Scheduled>,
    /// What its requests were that are not all alike; null where they are.
    pub traffic: Option<Traffic>,
    /// Whether the load measured its server; null where it has no event loop or does not end by time, and nothing failed.
    pub validity: Option<Validity>,
    /// Memory of the load's process; null where its clients are processes of their own, and where the kernel does not tell.
    pub memory: Option<Memory>,
    /// What the load used, children included.
    #[serde(flatten)]
    pub used: Used,
    /// What was counted of it, children and threads included; states are those in the last tenth of its window, where
    /// it has one.
    #[serde(flatten)]
    pub readout: Readout,
    /// Sums that the workload keeps, to be held against the server's.
    pub account: Account,
    /// What the workload has measured itself, summed over the requests that count: those of the window, where there is one.
    pub figures: Figures,
    /// The requests of each client that count; null where there are more than 1024 clients. A client process that was lost
    /// has none.
    pub requests_by_client: Option<Vec<u64>>,
    /// What the kernel made of its first connection's options; null without a connection, and over Unix sockets.
    pub connection: Option<ConnectionOptions>,
    /// How its connections ended, as far as the kernel was asked; null where none did, and over Unix sockets.
    pub closings: Option<Closed>,
    /// The first error in words.
    pub first_error: Option<String>,
    /// Stopped by an interrupt before its end.
    pub interrupted: bool,
}

/// The moment at which a timed load begins or ends to count: its server is to be read now.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Mark {
    /// Which.
    pub mark: MarkKind,
    /// CLOCK_MONOTONIC.
    pub monotonic_ns: u64,
}

/// Which moment of a timed load.
#[derive(Debug, Clone, Copy, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum MarkKind {
    /// The warm-up is over.
    WindowStarted,
    /// What is in flight is waited for, and counted no more.
    WindowEnded,
}

/// The measured part of a timed load.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct Window {
    /// CLOCK_MONOTONIC at its beginning.
    pub started_monotonic_ns: u64,
    /// CLOCK_MONOTONIC at its end.
    pub ended_monotonic_ns: u64,
    /// Requests whose reply came within it and was right.
    pub requests: u64,
    /// Connections made within it.
    pub connections: u64,
    /// What the load's own end moved in it.
    pub counted: Counted,
}

/// Bytes and calls of a load between two readings of its tally, at the edges of its window. A load that had to wait for its
/// CPU reads late, so the time between the readings is told too.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct Counted {
    /// Time between the readings.
    pub elapsed_ns: u64,
    /// Bytes handed to the kernel.
    pub bytes_sent: u64,
    /// Bytes received.
    pub bytes_received: u64,
    /// Send calls.
    pub send_calls: u64,
    /// Receive calls.
    pub receive_calls: u64,
}

/// The whole life of a server or a load, its supervisor and all that it forked included: from exec to exit.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Life {
    /// What was counted.
    #[serde(flatten)]
    pub readout: Readout,
    /// From exec to exit.
    pub elapsed_ns: u64,
    /// CLOCK_MONOTONIC right before exec.
    pub started_monotonic_ns: u64,
    /// What all of it used.
    #[serde(flatten)]
    pub used: Used,
    /// The exit status; 128 and the signal's number where a signal ended it.
    pub status: i32,
}

/// Two network namespaces, joined by a pair of interfaces, that live until the process has ended which printed this, and
/// whatever has entered them.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Namespaces {
    /// Version of the lines.
    pub schema: u32,
    /// The process that has made them; it is in the clients', and /proc/PID/net is theirs.
    pub pid: i32,
    /// They are a user namespace's, which was made for them: the user who made them is not root here.
    pub user_namespace: bool,
    /// What the pair was told.
    pub settings: SettingValues,
    /// For the server.
    pub server: NamespaceEnd,
    /// For its clients.
    pub client: NamespaceEnd,
    /// Why the ends have no IPv6 addresses.
    pub without_ipv6: Option<String>,
}

/// One of two namespaces, with its end of the pair.
#[derive(Debug, Serialize, JsonSchema)]
pub struct NamespaceEnd {
    /// What `--network-namespace` takes.
    pub path: String,
    /// Name of the interface, the only one beside the loopback interface.
    pub interface: &'static str,
    /// Its MTU as the kernel says it, in bytes.
    pub mtu: u32,
    /// IPv4 address.
    pub address: String,
    /// IPv6 address.
    pub address6: Option<String>,
    /// Kernel settings that were asked for, and those that were set; null: the namespace has none of its own.
    pub sysctls: BTreeMap<String, Option<String>>,
}

/// Where and how the limits of the machine are measured.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Limits {
    /// Version of the lines.
    pub schema: u32,
    /// The CPU of this process, and that of the other ends which have one of their own.
    pub cpus: Vec<usize>,
    /// All effective settings.
    pub settings: SettingValues,
}

/// A limit at a size and a place.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct LimitPoint {
    /// Name of the limit.
    pub limit: &'static str,
    /// Where its ends are.
    pub place: Place,
    /// Its size; null where it has none.
    pub bytes: Option<usize>,
}

/// What one round of a limit came to: so many times, one after another.
#[derive(Debug, Serialize, JsonSchema)]
pub struct LimitRound {
    /// Of which limit.
    #[serde(flatten)]
    pub point: LimitPoint,
    /// Number of the round, counted from 1: each has every limit once, in an order of its own.
    pub round: u64,
    /// How often it was done.
    pub times: u64,
    /// How long all of them took together.
    pub elapsed_ns: u64,
    /// Page faults meanwhile, of this process and of those that it has waited for: a price that has some in it.
    pub page_faults: u64,
}

/// A limit that there is no further round of.
#[derive(Debug, Serialize, JsonSchema)]
pub struct LimitUnavailable {
    /// Which limit.
    #[serde(flatten)]
    pub point: LimitPoint,
    /// Why.
    pub reason: String,
}

/// A command that was refused because of what the user typed or wrote; printed with `--json`.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Refused {
    /// Version of the lines.
    pub schema: u32,
    /// The area, a dot, and what is wrong, such as `listen.in_use`. It stays when the words change.
    pub code: &'static str,
    /// What is wrong, with the value seen.
    pub message: String,
    /// What to type instead, or what is allowed.
    pub hint: Option<String>,
}

impl Refused {
    /// The line for a mistake.
    pub fn of(mistake: &Mistake) -> Self {
        Refused { schema: SCHEMA, code: mistake.code, message: mistake.message.clone(), hint: mistake.hint.clone() }
    }
}

/// The schema of the lines (JSON Schema).
pub fn schema() -> serde_json::Value {
    schemars::schema_for!(Line).to_value()
}
