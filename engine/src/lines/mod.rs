//! Lines that the engine prints for programs: JSON, one object per line. `line` is the kind.
//!
//! `thunderherd-engine schema` prints their schema. A change that can break a reader raises [`SCHEMA`].

pub mod conform;
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
use crate::client::gave_up::GaveUp;
use crate::count::counter::Readout;
use crate::count::own_memory::Memory;
use crate::count::tally::Counts;
use crate::lines::conform::{ConformCase, ConformStop, Conformed};
use crate::lines::cpu_source::CpuSource;
use crate::lines::load::{Latency, Scheduled, Times, Traffic, Validity};
use crate::lines::profile::{Profile, ProfileCheck, Stack};
use crate::lines::usage::{Split, Used};
use crate::net::closings::Closed;
use crate::net::tcp::ConnectionOptions;
use crate::protocol::workload::{Account, Figures, MeasuredBy};

/// Version of the lines.
pub const SCHEMA: u32 = 4;

/// The effective settings, by name.
pub type SettingValues = BTreeMap<&'static str, Value>;

/// Every line that the engine prints for programs.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(tag = "line", rename_all = "snake_case")]
pub enum Line {
    /// The server listens.
    Ready(Ready),
    /// The reply to the command `snapshot`.
    Snapshot(Snapshot),
    /// The server has ended.
    Summary(Box<Summary>),
    /// All clients of a load under control are about to send.
    Connected(Connected),
    /// The window of a timed load begins or ends.
    Mark(Mark),
    /// The load has ended.
    Load(Box<LoadResult>),
    /// A server or load that `count` ran has ended.
    Life(Life),
    /// A server or load that `profile` ran has ended. This is also the first line of the profile's file.
    Profile(Profile),
    /// Properties of a profile that `profile` would record on this machine.
    ProfileCheck(ProfileCheck),
    /// A stack in the file that `profile` writes.
    Stack(Stack),
    /// Two network namespaces exist.
    Namespaces(Namespaces),
    /// The measurement of machine limits begins.
    Limits(Limits),
    /// One round of a machine limit.
    LimitRound(LimitRound),
    /// A machine limit that cannot be measured, or has no further round.
    LimitUnavailable(LimitUnavailable),
    /// A case that `conform` can run.
    ConformCase(ConformCase),
    /// A case that was run against a server.
    Conformed(Conformed),
    /// A case needs the server to be stopped.
    ConformStop(ConformStop),
    /// A dry run found nothing wrong.
    Accepted(Accepted),
    /// The command was refused, and printed no other line.
    Refused(Refused),
}

/// A server that listens, with its configuration.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Ready {
    /// Version of the lines.
    pub schema: u32,
    /// Address and port, or `unix:@` and a name.
    pub address: String,
    /// Port, chosen by the kernel if 0 was given. Null over Unix sockets.
    pub port: Option<u16>,
    /// Process that supervises the server and prints this line. It is not measured.
    pub supervisor_pid: i32,
    /// First process of the server. Null if the server was running before, and its processes are unknown.
    pub server_pid: Option<i32>,
    /// Name of the design. Null for a server that is not ours, as are the next three.
    pub design: Option<&'static str>,
    /// Name of the primitive that sends.
    pub primitive: Option<&'static str>,
    /// Name of the primitive that receives.
    pub receive: Option<&'static str>,
    /// Name of the workload.
    pub workload: Option<&'static str>,
    /// All effective settings.
    pub settings: SettingValues,
    /// True if the server busy-polls, even without clients: by its design, or because of `--wait spin`. False for a
    /// primitive that only busy-polls for a moment in a receive call.
    pub spins: bool,
    /// Source of the CPU time of snapshots.
    pub cpu_source: CpuSource,
    /// Reason why no better CPU source is used; null if this is the best.
    pub cpu_source_reason: Option<String>,
    /// Options of the listening socket, as the kernel reports them. Null for a server that is not ours.
    pub socket: Option<SocketOptions>,
    /// CPUs the server is pinned to.
    pub cpus: Option<Vec<usize>>,
    /// Descriptors that each process of the server may open. The soft limit was raised to the hard limit.
    pub descriptor_limit: u64,
    /// Requested counters: null, or the reason why the counter is unavailable on this machine.
    pub counters: BTreeMap<String, Option<String>>,
}

/// Options of the listening socket, as the kernel reports them. Connections inherit them.
#[derive(Debug, Serialize, JsonSchema)]
pub struct SocketOptions {
    /// Congestion control, for instance `cubic`. Null over Unix sockets.
    pub congestion_control: Option<String>,
    /// TCP_NODELAY; null over Unix sockets.
    pub nodelay: Option<bool>,
    /// Requested backlog.
    pub backlog: u64,
    /// Effective backlog, bounded by net.core.somaxconn. Null over Unix sockets, for which the kernel does not report it.
    pub backlog_effective: Option<u32>,
    /// SO_SNDBUF in bytes.
    pub send_buffer: usize,
    /// SO_RCVBUF in bytes.
    pub receive_buffer: usize,
}

/// State of a server at one moment. All counts begin at its start.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Snapshot {
    /// CLOCK_MONOTONIC.
    pub monotonic_ns: u64,
    /// CPU time of the whole process tree. Null if only the CPU time of the whole life is known, or none.
    pub cpu_ns: Option<u64>,
    /// Tally of connections, requests, bytes and errors. Null for a server that is not ours.
    pub tally: Option<Counts>,
    /// Connections served by each worker of the pool. Null without a pool.
    pub workers: Option<Vec<u64>>,
    /// Connections that the listening socket dropped. Null for a server that is not ours.
    pub listen_drops: Option<u32>,
    /// Connections that wait for accept. Null over Unix sockets, for which the kernel does not report it.
    pub listen_queue: Option<u32>,
    /// Counters of the whole process tree.
    #[serde(flatten)]
    pub readout: Readout,
    /// CLOCK_MONOTONIC after the last of these readings. Everything counted here happened before it.
    pub read_ns: u64,
}

/// Whole life of a server whose processes have all ended.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct Summary {
    /// CPU time of all processes and threads. It is read from the control group if there is one, otherwise from getrusage,
    /// which misses the last steps of a thread.
    pub cpu_ns: u64,
    /// Resources that all processes and threads used.
    #[serde(flatten)]
    pub used: Used,
    /// CPU time of the server's first process. Null if it was killed before it could report.
    pub server_process: Option<Split>,
    /// CPU time of all other processes.
    pub dead_children: Option<Split>,
    /// Largest resident set of a single process, in KiB.
    pub max_resident_kib: u64,
    /// Tally of connections, requests, bytes and errors. Null for a server that is not ours.
    pub tally: Option<Counts>,
    /// Counts by name that a server that is not ours wrote to its descriptor COUNTS_FD. Null for our servers, and if it wrote none.
    pub counts: Option<BTreeMap<String, u64>>,
    /// Connections served by each worker of the pool. Null without a pool.
    pub workers: Option<Vec<u64>>,
    /// Connections that the listening socket dropped. Null for a server that is not ours.
    pub listen_drops: Option<u32>,
    /// Time for which CPU quotas stopped the control groups of this process while the server ran, added up over CPUs. Null
    /// without a quota.
    pub throttled_ns: Option<u64>,
    /// Counters over the whole life.
    #[serde(flatten)]
    pub readout: Readout,
    /// Sums that the workload keeps. A load that has a sum of the same name must have the same value.
    pub account: Account,
    /// Which of the workload's own sums contradict each other; null if none do.
    pub account_fault: Option<String>,
    /// Options of the first connection, as the kernel reports them. Null without a connection, and over Unix sockets.
    pub connection: Option<ConnectionOptions>,
    /// Ending of the server, if it ended without being stopped.
    pub died: Option<String>,
}

/// A load that has ended.
#[derive(Debug, Serialize, JsonSchema)]
pub struct LoadResult {
    /// Version of the lines.
    pub schema: u32,
    /// Name of the workload.
    pub workload: &'static str,
    /// Address that answered. Null if none did.
    pub address: Option<String>,
    /// Other addresses of the server's name that were tried before, each with its error.
    pub unanswered: BTreeMap<String, String>,
    /// Name of the load.
    pub load: &'static str,
    /// Name of the primitive that sends.
    pub primitive: &'static str,
    /// Name of the primitive that receives.
    pub receive: &'static str,
    /// All effective settings.
    pub settings: SettingValues,
    /// Quantity that a load that ends by time counts in its window.
    pub measured_by: MeasuredBy,
    /// Number of requests to make. Null if the load ends by time.
    pub expected_requests: Option<u64>,
    /// Tally of connections, requests, bytes and errors.
    pub tally: Counts,
    /// Time from the start until after the last reply.
    pub elapsed_ns: u64,
    /// CLOCK_MONOTONIC at the start: before the first connection, or when the first request may be sent if several loads have
    /// agreed on that.
    pub started_monotonic_ns: u64,
    /// CLOCK_MONOTONIC after the last reply.
    pub ended_monotonic_ns: u64,
    /// The kernel's boot id. Times on CLOCK_MONOTONIC can be compared between loads with the same boot id. Null if it cannot be
    /// read.
    pub boot_id: Option<String>,
    /// CLOCK_MONOTONIC before the first reading of usage and counters, which is no later than the load's start.
    pub counted_from_ns: u64,
    /// CLOCK_MONOTONIC after the last reading of usage and counters. The figures include work after the last reply: connections
    /// that are closed, notifications that are awaited, processes that end. This time includes that work, too.
    pub counted_to_ns: u64,
    /// Measured part of a load that ends by time.
    pub window: Option<Window>,
    /// Latency of replies, in the window if there is one. A closed loop measures from the sending of the request. Each client
    /// waits for its reply before it sends again, so requests that a stall prevents are not in it. An open loop measures from
    /// when the request was due.
    pub latency: Option<Latency>,
    /// Time to connect, for the connections opened in the window if there is one. A closed loop counts it apart from the
    /// latency; an open loop with a connection for each request counts it in the latency, too. Null if no connection was
    /// opened.
    pub connecting: Option<Times>,
    /// Accuracy with which an open loop kept its schedule.
    pub scheduled: Option<Scheduled>,
    /// Replies by status. Empty if the protocol has no statuses.
    pub statuses: BTreeMap<String, load::StatusReplies>,
    /// Sizes and kinds of the requests. Null if all requests are alike.
    pub traffic: Option<Traffic>,
    /// Result of the checks that the load measured its server. Null if nothing failed and the load has no event loop or
    /// does not end by time.
    pub validity: Option<Validity>,
    /// Clients that gave up before the load's end. Null if none did.
    pub gave_up: Option<GaveUp>,
    /// Memory of the load's process. Null if each client is a separate process, or if the kernel does not report it.
    pub memory: Option<Memory>,
    /// Resources that the load used, including its children.
    #[serde(flatten)]
    pub used: Used,
    /// Counters of the load, including its children and threads. States are those in the last tenth of the window, if there is
    /// one.
    #[serde(flatten)]
    pub readout: Readout,
    /// Sums that the workload keeps, to be checked against the server's.
    pub account: Account,
    /// Figures that the workload measures itself, summed over the counted requests: those in the window if there is one.
    pub figures: Figures,
    /// Counted requests of each client. Null for more than 1024 clients. A client process that was lost has 0.
    pub requests_by_client: Option<Vec<u64>>,
    /// Options of the first connection, as the kernel reports them. Null without a connection, and over Unix sockets.
    pub connection: Option<ConnectionOptions>,
    /// Endings of connections, for the sample that was examined. Null if none was examined, and over Unix sockets.
    pub closings: Option<Closed>,
    /// Message of the first error.
    pub first_error: Option<String>,
    /// True if an interrupt stopped the load before its end.
    pub interrupted: bool,
    /// True if its replies were compared with those of our own servers.
    #[serde(skip)]
    pub expects_our_servers: bool,
    /// True if servers that are not ours speak its protocol.
    #[serde(skip)]
    pub is_public_protocol: bool,
}

impl LoadResult {
    /// Returns whether every request had its correct reply, and no client was lost.
    pub fn is_complete(&self) -> bool {
        self.expected_requests.is_none_or(|all| self.tally.requests == all)
            && self.tally.errors.is_empty()
            && self.tally.workers_lost == 0
    }

    /// Returns whether no check says that the load did not measure its server.
    pub fn is_valid(&self) -> bool {
        self.validity.as_ref().is_none_or(|validity| validity.valid != Some(false))
    }
}

/// All clients of a load under control are about to send, and wait for the command `start NANOSECONDS` (CLOCK_MONOTONIC) on
/// standard input. Persistent connections are open.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Connected {
    /// CLOCK_MONOTONIC.
    pub monotonic_ns: u64,
}

/// The moment at which the window of a timed load begins or ends. The reader of this line should take a snapshot of the server
/// now.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Mark {
    /// Kind of the mark.
    pub mark: MarkKind,
    /// CLOCK_MONOTONIC.
    pub monotonic_ns: u64,
}

/// Moments of a timed load.
#[derive(Debug, Clone, Copy, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum MarkKind {
    /// The warm-up is over.
    WindowStarted,
    /// The window is over. The load awaits the replies in flight without counting them.
    WindowEnded,
}

/// Measured part of a timed load.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct Window {
    /// CLOCK_MONOTONIC at its beginning.
    pub started_monotonic_ns: u64,
    /// CLOCK_MONOTONIC at its end.
    pub ended_monotonic_ns: u64,
    /// Requests whose correct reply arrived in the window.
    pub requests: u64,
    /// Connections made in the window.
    pub connections: u64,
    /// Bytes and calls of the load in the window.
    pub counted: Counted,
}

/// Bytes and calls of a load between two readings of its tally at the edges of its window. A load that waits for its CPU reads
/// late, so the time between the readings is reported, too.
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

/// Whole life of a server or a load, from exec to exit, including its supervisor and all child processes.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Life {
    /// Counters from exec to exit.
    #[serde(flatten)]
    pub readout: Readout,
    /// Time from exec to exit.
    pub elapsed_ns: u64,
    /// CLOCK_MONOTONIC right before exec.
    pub started_monotonic_ns: u64,
    /// Resources that all its processes used.
    #[serde(flatten)]
    pub used: Used,
    /// Exit status; 128 plus the signal's number if a signal ended it.
    pub status: i32,
}

/// Two network namespaces, joined by a pair of interfaces. They exist until the process that printed this line has ended, and
/// every process that has entered them.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Namespaces {
    /// Version of the lines.
    pub schema: u32,
    /// Process that made the namespaces. It is in the clients' namespace, so /proc/PID/net is the clients'.
    pub pid: i32,
    /// True if they belong to a user namespace made for them, because the user is not root.
    pub user_namespace: bool,
    /// Settings of the pair.
    pub settings: SettingValues,
    /// The server's namespace.
    pub server: NamespaceEnd,
    /// The clients' namespace.
    pub client: NamespaceEnd,
    /// Reason why the interfaces have no IPv6 addresses; null if they have.
    pub without_ipv6: Option<String>,
}

/// One of the two namespaces, with its interface.
#[derive(Debug, Serialize, JsonSchema)]
pub struct NamespaceEnd {
    /// Path for `--network-namespace`.
    pub path: String,
    /// Name of the interface, the only one besides loopback.
    pub interface: &'static str,
    /// MTU in bytes, as the kernel reports it.
    pub mtu: u32,
    /// IPv4 address.
    pub address: String,
    /// IPv6 address.
    pub address6: Option<String>,
    /// Kernel settings that were requested or set. Null if the setting is not per namespace.
    pub sysctls: BTreeMap<String, Option<String>>,
}

/// CPUs and settings with which the machine limits are measured.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Limits {
    /// Version of the lines.
    pub schema: u32,
    /// CPU of this process, then the CPU of peers on a second one.
    pub cpus: Vec<usize>,
    /// All effective settings.
    pub settings: SettingValues,
}

/// A machine limit at one size and placement.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct LimitPoint {
    /// Name of the limit.
    pub limit: &'static str,
    /// Placement of its two ends.
    pub place: Place,
    /// Size in bytes; null if the limit has none.
    pub bytes: Option<usize>,
}

/// Result of one round of a machine limit: the operation repeated `times` times in a row.
#[derive(Debug, Serialize, JsonSchema)]
pub struct LimitRound {
    /// The machine limit.
    #[serde(flatten)]
    pub point: LimitPoint,
    /// Number of the round, from 1. Each round measures every limit once, in random order.
    pub round: u64,
    /// Repetitions of the operation.
    pub times: u64,
    /// Time for all repetitions.
    pub elapsed_ns: u64,
    /// Page faults during the round, of this process and of its ended children. The time includes them.
    pub page_faults: u64,
}

/// A machine limit that has no further round.
#[derive(Debug, Serialize, JsonSchema)]
pub struct LimitUnavailable {
    /// The machine limit.
    #[serde(flatten)]
    pub point: LimitPoint,
    /// Reason why there is no further round.
    pub reason: String,
}

/// A server or a load that `--dry-run` found possible; printed with `--json`.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Accepted {
    /// Version of the lines.
    pub schema: u32,
    /// Settings that others replace, so that the load does not have them, such as `bytes` with `--sizes`.
    pub replaced: Vec<&'static str>,
    /// Maximum bytes that one request of a load requests; null if a setting fixes the size of all.
    pub largest: Option<u64>,
    /// Size of the file that streams are sent from: at least one message. Null if they are sent from memory, and for
    /// workloads without streams.
    pub source_bytes: Option<u64>,
}

impl Default for Accepted {
    /// The line without any fact.
    fn default() -> Self {
        Accepted { schema: SCHEMA, replaced: Vec::new(), largest: None, source_bytes: None }
    }
}

/// A command that was refused because of what the user typed or wrote; printed with `--json`.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Refused {
    /// Version of the lines.
    pub schema: u32,
    /// The area, a dot, and what is wrong, such as `listen.in_use`. It stays when the words change.
    pub code: &'static str,
    /// The problem, with the value seen.
    pub message: String,
    /// Replacement to type, or the allowed values.
    pub hint: Option<String>,
    /// Names of the settings and other options to blame, such as `pipeline` or `primitive`; the first is the likeliest.
    pub settings: Vec<String>,
    /// True if only this machine is in the way, so that another one may accept the same command.
    pub only_here: bool,
}

impl Refused {
    /// The line for a mistake.
    pub fn of(mistake: &Mistake) -> Self {
        Refused {
            schema: SCHEMA,
            code: mistake.code,
            message: mistake.message.clone(),
            hint: mistake.hint.clone(),
            settings: mistake.blamed.clone(),
            only_here: mistake.only_here,
        }
    }
}

/// The schema of the lines (JSON Schema).
pub fn schema() -> serde_json::Value {
    schemars::schema_for!(Line).to_value()
}
