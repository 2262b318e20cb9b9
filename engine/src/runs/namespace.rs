//! `namespace`: two network namespaces joined by a pair of interfaces, one for a server and one for its clients. Also how a
//! server or a load enters one.
//!
//! They have no name. One is the namespace of the process that made them, the other a descriptor of that process. So they
//! disappear after that process and every process in them have ended, however they end ([decision
//! 6](../docs/decisions/0006-namespaces-are-held-by-a-process.md)).

use std::collections::BTreeMap;
use std::fs::OpenOptions;
use std::io;
use std::ops::RangeInclusive;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::time::Duration;

use anyhow::{Context, Result};
use serde_json::{Value, json};

use crate::base::mistake::{mistake, mistake_with_hint};
use crate::base::setting::{Kind, Setting, Settings};
use crate::base::unit::{MICROSECOND, SECOND, Unit};
use crate::lines::{NamespaceEnd, Namespaces, SCHEMA};
use crate::net::netlink::Netlink;
use crate::net::qdisc::{self, Shaping};
use crate::net::veth::{self, End};
use crate::sys::descriptor;
use crate::sys::namespace;
use crate::sys::process::{self, Pid};

/// Settings of a pair.
pub const SETTINGS: &[Setting] = &[MTU, RATE, DELAY, LOSS];

const MTU: Setting = Setting {
    name: "mtu",
    help: "Maximum size of a packet, including its IP header",
    unit: Unit::Bytes,
    kind: Kind::Integer { minimum: 68, maximum: 65_535, default: 1500 },
    for_more: None,
};

const RATE: Setting = Setting {
    name: "rate",
    help: "Maximum rate of each end (tbf), including Ethernet headers; 0 for no limit",
    unit: Unit::BitRate,
    kind: Kind::Integer { minimum: 0, maximum: 1_000_000_000_000, default: 0 },
    for_more: None,
};

/// Minimum rate: a byte per millisecond.
const LEAST_RATE: u64 = 8000;

const DELAY: Setting = Setting {
    name: "delay",
    help: "Delay of each packet at each end (netem); a round trip takes twice this longer",
    unit: Unit::Time { resolution: MICROSECOND },
    kind: Kind::Integer { minimum: 0, maximum: 10 * SECOND, default: 0 },
    for_more: None,
};

const LOSS: Setting = Setting {
    name: "loss",
    help: "Share of packets lost at each end (netem)",
    unit: Unit::Share,
    kind: Kind::Integer { minimum: 0, maximum: 1_000_000, default: 0 },
    for_more: None,
};

/// Local ports of clients in these namespaces, nearly all that need no privilege. Each ended connection keeps one for a minute.
const LOCAL_PORTS: RangeInclusive<u16> = 1024..=65_535;

/// Kernel settings for both namespaces, by name under /proc/sys (proc_sys(5), ip-sysctl in the kernel's documentation).
fn sysctls_set() -> [(&'static str, String); 2] {
    [
        ("net.ipv4.ip_local_port_range", format!("{} {}", LOCAL_PORTS.start(), LOCAL_PORTS.end())),
        // No peer outside can mistake a connection for an older one with the same ports.
        ("net.ipv4.tcp_tw_reuse", "1".to_owned()),
    ]
}

/// Two namespaces. They exist until this value and every process in them are gone.
pub struct Pair {
    /// The line to print.
    pub line: Namespaces,
    /// The server's namespace. This process is in the clients'.
    pub server: OwnedFd,
}

/// Refuses settings that contradict each other.
pub fn check(settings: &Settings) -> Result<()> {
    match settings.integer(RATE.name) {
        rate @ 1..LEAST_RATE => Err(mistake_with_hint(
            "namespace.rate_too_low",
            format!("--rate {} is too low", RATE.unit.format(rate)),
            format!("allowed: {} or more, or 0 for no limit", RATE.unit.format(LEAST_RATE)),
        )),
        _ => Ok(()),
    }
}

/// Makes both namespaces and the pair of interfaces. This process, which must have one thread, is in the clients' namespace
/// afterwards. `sysctls` are names of kernel settings to report for both.
pub fn make(settings: &Settings, sysctls: &[String]) -> Result<Pair> {
    let shaping = Shaping {
        rate: settings.integer(RATE.name),
        delay: settings.time(DELAY.name),
        loss: settings.integer(LOSS.name) as u32,
    };
    let user_namespace = unshare()?;
    let server = namespace::own_network()?;
    let mut of_server = Netlink::open()?;
    namespace::unshare_network().map_err(refused)?;
    let mut of_client = Netlink::open()?;
    let mtu = settings.integer(MTU.name) as u32;
    veth::create(&mut of_client, server.as_fd(), mtu).map_err(no_veth)?;
    let client = namespace::own_network()?;
    // A process reads the kernel settings of its own namespace.
    namespace::enter_network(server.as_fd())?;
    let for_server = furnish(&mut of_server, veth::SERVER, sysctls)?;
    namespace::enter_network(client.as_fd())?;
    let for_client = furnish(&mut of_client, veth::CLIENT, sysctls)?;
    let pid = Pid::this().as_raw();
    let end = |netlink: &mut Netlink, end: End, path: String, furnished: &Furnished| -> Result<NamespaceEnd> {
        let interface = veth::await_running(netlink)?;
        qdisc::shape(netlink, interface.number, interface.mtu, shaping).map_err(|error| no_qdisc(error, settings))?;
        Ok(NamespaceEnd {
            path,
            interface: veth::INTERFACE,
            mtu: interface.mtu,
            address: end.address.to_string(),
            address6: furnished.without_ipv6.is_none().then(|| end.address6.to_string()),
            sysctls: furnished.sysctls.clone(),
        })
    };
    let line = Namespaces {
        schema: SCHEMA,
        pid,
        user_namespace,
        settings: settings.values().clone(),
        server: end(&mut of_server, veth::SERVER, format!("/proc/{pid}/fd/{}", server.as_raw_fd()), &for_server)?,
        client: end(&mut of_client, veth::CLIENT, format!("/proc/{pid}/ns/net"), &for_client)?,
        without_ipv6: for_server.without_ipv6,
    };
    Ok(Pair { line, server })
}

/// Holds the server's namespace until standard input ends.
pub fn hold(_server: OwnedFd) -> Result<()> {
    let input = io::stdin();
    while descriptor::read(input.as_fd(), &mut [0; 64])? > 0 {}
    Ok(())
}

/// Describes namespaces for `list --json`. Makes a pair to find out whether that works on this machine.
pub fn described() -> Value {
    let (reason, without_netem) = unavailable();
    let netem = |setting: &Setting| [DELAY, LOSS].contains(setting).then(|| without_netem.clone()).flatten();
    let unavailable: BTreeMap<&str, String> =
        SETTINGS.iter().filter_map(|setting| Some((setting.name, netem(setting)?))).collect();
    json!({
        "settings": SETTINGS, "local_ports": [LOCAL_PORTS.start(), LOCAL_PORTS.end()],
        "available": reason.is_none(), "reason": reason, "unavailable_settings": unavailable,
        "least": {RATE.name: LEAST_RATE},
    })
}

/// Returns why no pair can be made on this machine, and why no pair with delay or loss.
fn unavailable() -> (Option<String>, Option<String>) {
    match tried_in_a_child() {
        Ok(reasons) => reasons,
        Err(error) => (Some(format!("{error:#}")), None),
    }
}

/// Makes a pair in a child process, whose end removes the pair.
fn tried_in_a_child() -> Result<(Option<String>, Option<String>)> {
    let (reader, writer) = descriptor::pipe()?;
    process::fork(move || {
        let said = serde_json::to_vec(&tried()).unwrap_or_default();
        i32::from(descriptor::write(writer.as_fd(), &said).is_err())
    })?;
    let mut said = Vec::new();
    let mut buffer = [0; 4096];
    loop {
        match descriptor::read(reader.as_fd(), &mut buffer)? {
            0 => break,
            bytes => said.extend_from_slice(&buffer[..bytes]),
        }
    }
    process::wait_for_all()?;
    serde_json::from_slice(&said).context("the child that tried it reported no result")
}

fn tried() -> (Option<String>, Option<String>) {
    let settings = Settings::new(SETTINGS, &BTreeMap::new());
    let delayed = |_pair: Pair| -> Result<()> {
        let mut netlink = Netlink::open()?;
        let interface = veth::await_running(&mut netlink)?;
        let shaping = Shaping { rate: 0, delay: Duration::from_micros(1), loss: 0 };
        qdisc::shape(&mut netlink, interface.number, interface.mtu, shaping).map_err(|error| without_netem("", error))
    };
    match make(&settings, &[]) {
        Ok(pair) => (None, delayed(pair).err().map(|error| format!("{error:#}"))),
        Err(error) => (Some(format!("{error:#}")), None),
    }
}

/// Enters a network namespace (`--network-namespace`), before this process makes any thread, socket or child.
pub fn enter(path: &str) -> Result<()> {
    let paths = "give a path that a running `thunderherd-engine namespace` has printed";
    // A path to a pipe must not wait for a writer.
    let opened = OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(path);
    let entered = opened.and_then(|file| {
        if namespace::is_network(file.as_fd()) {
            namespace::enter_network(file.as_fd())
        } else {
            Err(io::Error::other("not a network namespace"))
        }
    });
    entered.map_err(|error| match error.raw_os_error() {
        Some(libc::EPERM | libc::EACCES) => {
            let message = format!("--network-namespace {path} belongs to another user: {error}");
            mistake_with_hint("namespace.not_permitted", message, paths)
        }
        _ => mistake_with_hint("namespace.not_entered", format!("--network-namespace {path}: {error}"), paths),
    })
}

/// Makes a network namespace for this process, and first a user namespace if needed. Returns whether it was needed.
fn unshare() -> Result<bool> {
    match namespace::unshare_network() {
        Err(error) if error.raw_os_error() == Some(libc::EPERM) => {
            namespace::unshare_user().and_then(|()| namespace::unshare_network()).map_err(refused)?;
            Ok(true)
        }
        result => result.map(|()| false).map_err(refused),
    }
}

/// Properties of a namespace after its setup.
struct Furnished {
    without_ipv6: Option<String>,
    sysctls: BTreeMap<String, Option<String>>,
}

/// Sets up the namespace of this process, and reads the requested kernel settings.
fn furnish(netlink: &mut Netlink, end: End, sysctls: &[String]) -> Result<Furnished> {
    for (name, value) in sysctls_set() {
        std::fs::write(path_of(name), &value).map_err(|error| {
            let message = format!("{name} cannot be set to '{value}' in a new namespace: {error}");
            match error.raw_os_error() {
                Some(libc::EROFS) => {
                    mistake_with_hint("namespace.sysctl", message, "/proc/sys is mounted read-only, as in a container")
                }
                _ => mistake("namespace.sysctl", message),
            }
        })?;
    }
    veth::raise_loopback(netlink)?;
    let without_ipv6 = veth::raise_end(netlink, end)?;
    let read = |name: &str| Some(std::fs::read_to_string(path_of(name)).ok()?.trim().replace('\t', " "));
    let names = sysctls_set().into_iter().map(|(name, _)| name.to_owned()).chain(sysctls.iter().cloned());
    Ok(Furnished { without_ipv6, sysctls: names.map(|name| (name.clone(), read(&name))).collect() })
}

fn path_of(sysctl: &str) -> String {
    format!("/proc/sys/{}", sysctl.replace('.', "/"))
}

/// Parses the name of a kernel setting of a network.
pub fn sysctl_name(text: &str) -> std::result::Result<String, String> {
    let plain = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    match text.strip_prefix("net.") {
        Some(rest) if rest.split('.').all(plain) => Ok(text.to_owned()),
        _ => Err("allowed: the name of a kernel setting that begins with net., such as net.ipv4.tcp_wmem".to_owned()),
    }
}

fn no_veth(error: io::Error) -> anyhow::Error {
    match error.raw_os_error() {
        Some(libc::EOPNOTSUPP) => mistake_with_hint(
            "namespace.no_veth",
            "this kernel has no pairs of interfaces (CONFIG_VETH)",
            "modprobe veth",
        ),
        _ => anyhow::Error::new(error).context("the pair of interfaces could not be made"),
    }
}

fn no_qdisc(error: io::Error, settings: &Settings) -> anyhow::Error {
    let given = |setting: &Setting| settings.integer(setting.name) > 0;
    let options: Vec<String> = [RATE, DELAY, LOSS]
        .iter()
        .filter(|setting| given(setting))
        .map(|setting| format!("--{} {}", setting.option(), setting.unit.format(settings.integer(setting.name))))
        .collect();
    if given(&DELAY) || given(&LOSS) {
        return without_netem(&format!("{}: ", options.join(" ")), error);
    }
    missing("namespace.no_tbf", &format!("{}: ", options.join(" ")), error, "tbf", "SCH_TBF")
}

fn without_netem(options: &str, error: io::Error) -> anyhow::Error {
    missing("namespace.no_netem", options, error, "netem", "SCH_NETEM")
}

/// Makes the error for an unavailable queueing discipline. ENOENT: the kernel has none of this name, and no module of it.
fn missing(code: &'static str, options: &str, error: io::Error, discipline: &str, symbol: &str) -> anyhow::Error {
    match error.raw_os_error() {
        Some(libc::ENOENT) => mistake_with_hint(
            code,
            format!("{options}this kernel has no {discipline} (CONFIG_NET_{symbol})"),
            format!("modprobe {}", symbol.to_lowercase()),
        ),
        _ => mistake(code, format!("{options}{discipline} is unavailable: {error}")),
    }
}

/// Makes the error for refused namespaces, with the reason as far as the kernel reports it.
fn refused(error: io::Error) -> anyhow::Error {
    refused_by(&error, |name| Some(std::fs::read_to_string(path_of(name)).ok()?.trim().to_owned()))
}

fn refused_by(error: &io::Error, sysctl: impl Fn(&str) -> Option<String>) -> anyhow::Error {
    let refused = |why: String, hint: &str| {
        mistake_with_hint("namespace.refused", format!("no network namespaces can be made: {why}"), hint)
    };
    let is = |name: &str, value: &str| sysctl(name).is_some_and(|found| found == value);
    match error.raw_os_error() {
        Some(libc::ENOSPC | libc::EUSERS) => {
            let limits: Vec<String> = ["user.max_user_namespaces", "user.max_net_namespaces"]
                .iter()
                .filter_map(|name| Some(format!("{name} = {}", sysctl(name)?)))
                .collect();
            refused(format!("a limit is reached ({})", limits.join(", ")), "as root, raise it with sysctl -w")
        }
        Some(libc::EINVAL | libc::ENOSYS) => {
            refused(format!("{error}: this kernel has none"), "use a kernel with CONFIG_NET_NS and CONFIG_USER_NS")
        }
        Some(libc::EPERM | libc::EACCES) if is("kernel.unprivileged_userns_clone", "0") => refused(
            "kernel.unprivileged_userns_clone is 0, so only root may make them".to_owned(),
            "run this as root, or type sysctl -w kernel.unprivileged_userns_clone=1",
        ),
        Some(libc::EPERM | libc::EACCES) if is("kernel.apparmor_restrict_unprivileged_userns", "1") => refused(
            "AppArmor forbids user namespaces to ordinary users (kernel.apparmor_restrict_unprivileged_userns is 1)"
                .to_owned(),
            "run this as root, give the engine a profile with `userns,`, or type \
             sysctl -w kernel.apparmor_restrict_unprivileged_userns=0",
        ),
        Some(libc::EPERM | libc::EACCES) => refused(
            format!("{error}: this process may make no user namespace, as in a container with a seccomp filter"),
            "docker run --cap-add SYS_ADMIN allows network namespaces",
        ),
        _ => mistake("namespace.refused", format!("no network namespaces can be made: {error}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn why(number: i32, sysctls: &[(&str, &str)]) -> String {
        refused_by(&io::Error::from_raw_os_error(number), |name| {
            sysctls.iter().find(|(other, _)| *other == name).map(|(_, value)| (*value).to_owned())
        })
        .to_string()
    }

    #[test]
    fn the_reason_for_refused_namespaces_is_named() {
        let clone = ("kernel.unprivileged_userns_clone", "0");
        assert!(why(libc::EPERM, &[clone]).contains("unprivileged_userns_clone=1"));
        let restricted = ("kernel.apparmor_restrict_unprivileged_userns", "1");
        assert!(why(libc::EACCES, &[("kernel.unprivileged_userns_clone", "1"), restricted]).contains("AppArmor"));
        assert!(why(libc::EPERM, &[]).contains("seccomp"));
        let none = why(libc::ENOSPC, &[("user.max_user_namespaces", "0"), ("user.max_net_namespaces", "9")]);
        assert!(none.contains("user.max_user_namespaces = 0, user.max_net_namespaces = 9"), "{none}");
        assert!(why(libc::EINVAL, &[]).contains("CONFIG_USER_NS"));
    }

    #[test]
    fn a_sysctl_belongs_to_networks_and_is_no_path() {
        for right in ["net.ipv4.tcp_wmem", "net.core.somaxconn"] {
            assert_eq!(sysctl_name(right).as_deref(), Ok(right));
        }
        for wrong in ["", "net", "net.", "net..core", "vm.swappiness", "net.../../kernel/pid_max", "net/ipv4/tcp_wmem"]
        {
            assert!(sysctl_name(wrong).is_err(), "{wrong}");
        }
    }
}
