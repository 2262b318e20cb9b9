//! Types of loads: which clients send requests, and how often.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError};

use anyhow::{Context, Result, bail};

use crate::base::about::About;
use crate::base::mistake::{Blame, mistake_with_hint, raise_to};
use crate::base::output::warn;
use crate::base::setting::{Kind, SEVERAL_LOADS, Setting, Settings};
use crate::base::unit::{HOUR, MICROSECOND, MILLISECOND, SECOND, Unit};
use crate::base::window::Window;
use crate::client::gave_up::GivingUp;
use crate::client::histograms::SharedHistogram;
use crate::client::live::latencies::LiveLatencies;
use crate::client::measure::Measured;
use crate::client::requirement::Requirement;
use crate::client::show::Show;
use crate::count::own_memory::{self, Connected};
use crate::count::tally::Tally;
use crate::net::address::Address;
use crate::net::source_addresses::{self, SOURCE_ADDRESSES};
use crate::net::target::Target;
use crate::protocol::workload::Client;
use crate::requests::schedule::Schedule;
use crate::sys::memory::shared::SharedArray;
use crate::sys::process;
use crate::transfer::channel::Way;
use crate::transfer::primitive::Waits;
use crate::transfer::waiting::{BACK_END, COMPLETIONS};

/// A registered load. Its name is that of its file.
pub struct Load {
    /// Its summary and source.
    pub about: About,
    /// Way in which its clients wait for their sockets.
    pub waits: Waits,
    /// Its own settings.
    pub settings: &'static [Setting],
    /// Number of workers that are counted separately.
    pub workers: fn(&Settings) -> usize,
    /// Settings whose product is the number of requests without failures; the last of them is the number per client.
    /// None if the load always ends by time.
    pub requests: &'static [Setting],
    /// Setting that ends the load by time if it is not 0: then the last of [`Load::requests`] has no effect, and the
    /// number of requests is not known in advance.
    pub duration: Option<&'static Setting>,
    /// A setting and its value with which primitives have no effect.
    pub without_primitives: Option<(&'static Setting, &'static str)>,
    /// Requirements of its settings.
    pub requirements: &'static [Requirement],
    /// Runs the load. Only a problem that prevents the load from running is an error; failed requests are tallied.
    pub run: fn(&'static LoadRun) -> Result<()>,
}

/// Defaults shared by most loads: an entry ends with `..COMMON`.
pub const COMMON: Load = Load {
    about: About { summary: "", source: "" },
    waits: Waits::InTheCall,
    settings: &[],
    workers: |_| 1,
    requests: &[],
    duration: None,
    without_primitives: None,
    requirements: &[],
    run: |_| bail!("every load has its own way to run"),
};

impl Load {
    /// Number of requests without failures; `None` if the load ends by time.
    pub fn expected_requests(&self, settings: &Settings) -> Option<u64> {
        let timed = self.duration.is_some_and(|duration| settings.integer(duration.name) > 0);
        (!timed).then(|| self.requests.iter().map(|setting| settings.integer(setting.name)).product())
    }

    /// Returns whether its clients are threads, or connections, of the process itself; if not, they are separate
    /// processes.
    pub fn is_one_process(&self) -> bool {
        self.settings.iter().any(|setting| setting.name == CLIENTS.name)
    }

    /// Number of clients.
    pub fn clients(&self, settings: &Settings) -> usize {
        if self.is_one_process() {
            return clients(settings);
        }
        let others = self.requests.split_last().map_or(&[][..], |(_, others)| others);
        others.iter().map(|setting| settings.integer(setting.name) as usize).product()
    }

    /// Setting for the number of clients.
    pub fn clients_setting(&self) -> Option<&'static Setting> {
        let own = self.settings.iter().find(|setting| setting.name == CLIENTS.name);
        own.or_else(|| self.requests.split_last()?.1.first())
    }

    /// Setting for the warm-up before the window.
    pub fn warm_up(&self) -> Option<&'static Setting> {
        self.settings.iter().find(|setting| setting.name == WARM_UP.name)
    }

    /// Refuses settings without effect: both an end by time and a number of requests, a warm-up without a window, or a
    /// primitive if none moves the bytes. Also refuses settings that break [`Load::requirements`].
    pub fn check(&self, settings: &Settings, given: impl Fn(&str) -> bool) -> Result<()> {
        if let Some((setting, word)) = self.without_primitives
            && settings.word(setting.name) == word
            && let Some(option) = ["primitive", "receive"].into_iter().find(|option| given(option))
        {
            let other = setting.option();
            return Err(mistake_with_hint(
                "load.primitive_without_part",
                format!("--{option} has no effect with --{other} {word}: the ring moves the bytes itself"),
                format!("leave out --{option} or --{other}"),
            )
            .blaming(&[option, setting.name]));
        }
        self.requirements.iter().try_for_each(|requirement| requirement.check(settings))?;
        let (Some(duration), Some(each)) = (self.duration, self.requests.last()) else { return Ok(()) };
        let is_timed = settings.integer(duration.name) > 0;
        if is_timed && given(each.name) {
            let (loops, time) = (each.option(), duration.option());
            return Err(mistake_with_hint(
                "load.two_ends",
                format!("--{loops} and --{time} contradict each other: a load ends by count or by time"),
                format!("leave out --{loops} or --{time}"),
            )
            .blaming(&[each.name, duration.name]));
        }
        if !is_timed && self.warm_up().is_some() && settings.integer(WARM_UP.name) > 0 {
            let own = WARM_UP.option();
            return Err(mistake_with_hint(
                "load.warm_up_without_window",
                format!("--{own} needs a load that ends by time"),
                format!("add --{}, or leave out --{own}", duration.option()),
            )
            .blaming(&[WARM_UP.name, duration.name]));
        }
        Ok(())
    }
}

/// Maximum time for which a load waits for progress.
pub const TIMEOUT: Setting = Setting {
    name: "timeout",
    help: "Time without progress after which a connection has failed; a reply that arrives in pieces fails after ten \
           times this time",
    unit: Unit::Time { resolution: MILLISECOND },
    kind: Kind::Integer { minimum: MILLISECOND, maximum: HOUR, default: 10 * SECOND },
    for_more: Some("for slower replies, use a server that sends part of each reply at least once an hour"),
};

/// Failures in a row after which a client ends.
pub const GIVE_UP: Setting = Setting {
    name: "give_up",
    help: "Failures in a row after which a client gives up; by default, 3 are enough before the load's first reply. Between two \
           failures it pauses, for 10 ms at first and up to 1 s",
    unit: Unit::After("failures"),
    kind: Kind::Integer { minimum: 0, maximum: 1_000_000, default: 10 },
    for_more: Some("for more, use never: the client goes on until the load ends"),
};

/// Number of clients, in loads whose clients are not processes.
pub const CLIENTS: Setting = Setting {
    name: "clients",
    help: "Number of concurrent clients, each with its own connection",
    unit: Unit::Of("clients"),
    kind: Kind::Integer { minimum: 1, maximum: 100_000, default: 4 },
    for_more: Some(SEVERAL_LOADS),
};

/// Use of persistent connections.
pub const CONNECTIONS: Setting = Setting {
    name: "connections",
    help: "One connection per request, or one persistent connection per client (as far as the protocol allows)",
    unit: Unit::None,
    kind: Kind::Choice { choices: &["per_request", KEPT], default: "per_request" },
    for_more: Some("-c N is the number of clients, each with a connection"),
};

/// Value of [`CONNECTIONS`] for persistent connections.
pub const KEPT: &str = "kept";

/// Requests per client.
pub const LOOPS: Setting = Setting {
    name: "loops",
    help: "Requests per client, unless the load ends by time",
    unit: Unit::Of("requests"),
    kind: Kind::Integer { minimum: 1, maximum: 10_000_000, default: 500 },
    for_more: Some(
        "for more, use a load that ends by time (--duration; not --load closed), or several loads in sequence",
    ),
};

/// Length of the measured window.
pub const DURATION: Setting = Setting {
    name: "duration",
    help: "Length of the measured window, after which the load ends; 0, if allowed: the load ends after --loops \
           requests per client",
    unit: Unit::Time { resolution: MILLISECOND },
    kind: Kind::Integer { minimum: 0, maximum: 24 * HOUR, default: 0 },
    for_more: Some("for more than a day, run several loads in sequence"),
};

/// Warm-up before the window.
pub const WARM_UP: Setting = Setting {
    name: "warm_up",
    help: "Warm-up: time from the first request to the start of the measured window; persistent connections are \
           opened before",
    unit: Unit::Time { resolution: MILLISECOND },
    kind: Kind::Integer { minimum: 0, maximum: HOUR, default: 0 },
    for_more: Some("for more than an hour, run a separate load first and ignore its result"),
};

/// Ramp-up of the load.
pub const RAMP_UP: Setting = Setting {
    name: "ramp_up",
    help: "Ramp-up: time before the warm-up in which clients start one after another, or the rate rises; persistent \
           connections are opened before",
    unit: Unit::Time { resolution: MILLISECOND },
    kind: Kind::Integer { minimum: 0, maximum: HOUR, default: 0 },
    for_more: Some("for more than an hour, run several loads in sequence, each larger than the one before"),
};

/// Think time between two requests.
pub const THINK: Setting = Setting {
    name: "think",
    help: "Think time: pause of a client between a reply and its next request",
    unit: Unit::Time { resolution: MICROSECOND },
    kind: Kind::Integer { minimum: 0, maximum: HOUR, default: 0 },
    for_more: Some("for more than an hour, start a new load for every request"),
};

/// For [`Load::workers`] of a load with the setting [`CLIENTS`], and for the load itself.
pub fn clients(settings: &Settings) -> usize {
    settings.integer(CLIENTS.name) as usize
}

/// Returns whether a load with these settings, which may lack that one, uses io_uring.
pub fn uses_a_ring(settings: &Settings) -> bool {
    settings.values().contains_key(BACK_END.name) && settings.word(BACK_END.name) == COMPLETIONS
}

/// With io_uring: maximum connections that may still be open after their clients are done with them, whatever the
/// number of clients.
const CLOSING_AT_A_TIME: usize = 1024;

/// Maximum open connections beyond one per client: a ring closes connections with operations in flight a little later.
/// At this number, no new connection is opened.
pub fn closing(clients: usize, settings: &Settings) -> usize {
    if uses_a_ring(settings) { clients.min(CLOSING_AT_A_TIME) } else { 0 }
}

/// Ramp-up in nanoseconds; 0 if the load has no such setting.
pub fn ramp(settings: &Settings) -> u64 {
    settings.values().get(RAMP_UP.name).map_or(0, |_| settings.integer(RAMP_UP.name))
}

/// One life of a load.
pub struct LoadRun {
    /// The server's address.
    pub target: Target,
    /// The complete settings.
    pub settings: Settings,
    /// Times at which its requests are due; none for a closed loop.
    pub schedule: Option<Schedule>,
    /// Its counters.
    pub tally: &'static Tally,
    /// Client side of the workload.
    pub client: Box<dyn Client>,
    /// Primitives that move the bytes.
    pub way: Way,
    /// The first error.
    pub first_error: FirstError,
    /// Clients that give up.
    pub giving_up: GivingUp,
    /// Counted requests of each client.
    pub by_client: ByClient,
    /// The window.
    pub window: Window,
    /// Measurements in the window; each thread of the load adds its own as it ends.
    pub measured: Mutex<Measured>,
    /// Times to connect of clients that are processes; `None` in other loads, which measure them with the rest.
    pub connecting: Option<SharedHistogram>,
    /// Called when all clients are about to send. Returns when they start (CLOCK_MONOTONIC, nanoseconds); `None`: at once.
    pub agree: fn() -> Option<u64>,
    /// Time at which clients started by agreement; 0: nothing was agreed.
    pub agreed_start: AtomicU64,
    /// Called at each edge of the window, with that moment (CLOCK_MONOTONIC, nanoseconds).
    pub mark: Box<dyn Fn(Edge, u64) + Send + Sync>,
    /// Output of `--show`, if given.
    pub show: Option<Show>,
    /// Number of requests without failures; `None` if the load ends by time.
    pub expected_requests: Option<u64>,
    /// Latencies for the line that shows the load on the terminal while it runs ([`crate::client::live::line`]); `None` without
    /// that line.
    pub live: Option<LiveLatencies>,
}

/// An edge of the window, or a moment close to one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Edge {
    /// Its start.
    Started,
    /// The start of its last tenth, when connections are still open for inspection; at the end they are being closed.
    Nearing,
    /// Its end.
    Ended,
}

/// Descriptors of a load besides those of its connections and threads: the standard ones, and files to read.
const OTHER_DESCRIPTORS: u64 = 24;

impl LoadRun {
    /// The measurements so far.
    pub fn measured(&self) -> MutexGuard<'_, Measured> {
        self.measured.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns whether connections are persistent; panics if the load has no such setting.
    pub fn keeps(&self) -> bool {
        self.settings.word(CONNECTIONS.name) == KEPT
    }

    /// Returns whether the load ends by time; panics if the load has no such setting.
    pub fn is_timed(&self) -> bool {
        self.settings.integer(DURATION.name) > 0
    }

    /// Length of its window, if the load ends by time.
    pub fn window_ns(&self) -> Option<u64> {
        self.settings.values().get(DURATION.name)?;
        self.is_timed().then(|| self.settings.integer(DURATION.name))
    }

    /// Ramp-up in nanoseconds; 0 if the load has no such setting.
    pub fn ramp(&self) -> u64 {
        ramp(&self.settings)
    }

    /// Makes room in this process for one connection per client, and for `besides` more descriptors: connections being
    /// closed, and those that threads wait with. Returns an error if that is impossible, before the first connection,
    /// since a load with fewer clients would be a different load.
    pub fn make_room(&self, clients: usize, beside: usize) -> Result<()> {
        let needed = (clients + beside) as u64 + OTHER_DESCRIPTORS;
        let allowed = process::raise_descriptor_limit().context("cannot raise the limit on descriptors")?;
        if allowed < needed {
            let (least, raise) = (self.least_descriptors(), raise_to(needed));
            let hint = if allowed < least {
                format!("{raise} (a load with a single client needs {least} descriptors)")
            } else {
                format!(
                    "use fewer --clients, or {raise}; or run several smaller loads and combine their --json results \
                     with `thunderherd merge`"
                )
            };
            return Err(mistake_with_hint(
                "load.too_few_descriptors",
                format!("--clients {clients} needs {needed} descriptors, but this process may have {allowed}"),
                hint,
            ));
        }
        let range = std::fs::read_to_string(PORT_RANGE).ok().and_then(|text| port_range(&text));
        match (range, self.target.addresses.first()) {
            // If the range cannot be read, exhausted ports are counted as errors later.
            (Some((first, last)), Some(Address::Tcp(address))) => {
                let (ports, sources) = ((last - first) as usize + 1, self.target.sources.count());
                if clients <= ports * sources {
                    if clients > ports * sources / 2 {
                        warn(&format!(
                            "--clients {clients} uses more than half of the {ports} local ports of each address, so \
                             the kernel searches long for a free port\nhint: use fewer --clients, {}or more ports \
                             (sysctl net.ipv4.ip_local_port_range)",
                            more_addresses(*address, clients, ports)
                        ));
                    }
                    return Ok(());
                }
                let at_each = if sources > 1 { format!(" at each of {sources} addresses") } else { String::new() };
                Err(mistake_with_hint(
                    "load.too_few_ports",
                    format!(
                        "--clients {clients} needs as many local ports towards {address}, but the kernel has {ports} \
                         ({first} to {last}){at_each}"
                    ),
                    format!(
                        "use fewer --clients, {}or more ports: sysctl -w net.ipv4.ip_local_port_range='1024 65535'",
                        more_addresses(*address, clients, ports)
                    ),
                ))
            }
            _ => Ok(()),
        }
    }

    /// Descriptors of the smallest load of this kind: the connection of one client and its primitives, and what an
    /// event loop waits with.
    fn least_descriptors(&self) -> u64 {
        let loops = usize::from(self.settings.values().contains_key(BACK_END.name));
        OTHER_DESCRIPTORS + (1 + self.way.descriptors() + loops + closing(1, &self.settings)) as u64
    }

    /// Notes the memory of all persistent connections, before the first request. `before` is the process's memory
    /// before the first connection.
    pub fn note_connected(&self, before: Option<u64>) {
        let Some((before, after)) = before.zip(own_memory::private_bytes()) else { return };
        let counted = self.tally.counts();
        let (connections, bytes) = (counted.connections - counted.closed, after.saturating_sub(before));
        self.measured().connected = Some(Connected { connections, bytes });
    }
}

/// Suggests more local addresses, if there are any: so many that half of the ports suffice.
fn more_addresses(target: SocketAddr, clients: usize, ports: usize) -> String {
    let (option, needed) = (SOURCE_ADDRESSES.option(), clients.div_ceil((ports / 2).max(1)));
    match source_addresses::most(target) {
        1 => format!("more local addresses (--{option} {needed}, if the machine has as many), "),
        most if needed <= most => format!("more local addresses (--{option} {needed}), "),
        _ => String::new(),
    }
}

/// The ports that connect(2) chooses from, also for IPv6 (ip(7)).
const PORT_RANGE: &str = "/proc/sys/net/ipv4/ip_local_port_range";

fn port_range(text: &str) -> Option<(u32, u32)> {
    let (first, last) = text.trim().split_once(char::is_whitespace)?;
    Some((first.parse().ok()?, last.trim().parse().ok()?)).filter(|(first, last)| first <= last)
}

/// The first error of a load as text, in memory that its processes share.
pub struct FirstError {
    claimed: SharedArray<AtomicBool>,
    text: SharedArray<AtomicU8>,
}

impl FirstError {
    /// Room for one error.
    pub fn new() -> std::io::Result<Self> {
        Ok(FirstError { claimed: SharedArray::new(1)?, text: SharedArray::new(240)? })
    }

    /// Keeps the error if it is the first.
    pub fn note(&self, error: &str) {
        if !self.claimed[0].swap(true, Relaxed) {
            for (place, byte) in self.text.iter().zip(error.bytes()) {
                place.store(byte, Relaxed);
            }
        }
    }

    /// The error, if any.
    pub fn get(&self) -> Option<String> {
        let bytes: Vec<u8> = self.text.iter().map(|byte| byte.load(Relaxed)).take_while(|&byte| byte != 0).collect();
        (!bytes.is_empty()).then(|| String::from_utf8_lossy(&bytes).into_owned())
    }
}

/// A number for each client of a load, in memory that its processes share.
pub struct ByClient(SharedArray<AtomicU64>);

impl ByClient {
    /// Maximum number of clients counted separately.
    const MOST: usize = 1024;

    /// Zero for every client.
    pub fn new(clients: usize) -> std::io::Result<Self> {
        Ok(ByClient(SharedArray::new(if clients > Self::MOST { 1 } else { clients })?))
    }

    /// Counter of the client with this number, counted from 1.
    pub fn set(&self, number: usize, value: u64) {
        if let Some(place) = self.0.get(number - 1) {
            place.store(value, Relaxed);
        }
    }

    /// All counters; `None` if there are more clients than are counted separately.
    pub fn get(&self, clients: usize) -> Option<Vec<u64>> {
        (clients == self.0.len()).then(|| self.0.iter().map(|value| value.load(Relaxed)).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_of_ports_is_read() {
        assert_eq!(port_range("32768\t60999\n"), Some((32768, 60999)));
        for text in ["", "32768", "a b", "60999 32768"] {
            assert_eq!(port_range(text), None, "{text}");
        }
    }
}
