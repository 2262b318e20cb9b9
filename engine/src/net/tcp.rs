//! TCP options of both ends, and their effective values (tcp(7)).

use std::collections::BTreeMap;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering};

use anyhow::Result;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Value, json};
use socket2::{Domain, SockRef, Socket, Type};

use crate::base::mistake::{Blame, mistake, mistake_with_hint};
use crate::base::setting::{Form, Kind, Setting, Settings};
use crate::base::unit::Unit;
use crate::sys::socket;

/// Settings of both ends for TCP only.
pub const SETTINGS: &[Setting] = &[NODELAY, CONGESTION];

/// TCP_NODELAY, for both ends: Nagle's algorithm off or on.
pub const NODELAY: Setting = Setting {
    name: "nodelay",
    help: "Send small segments at once (TCP_NODELAY) instead of waiting for an acknowledgement",
    unit: Unit::None,
    kind: Kind::Boolean { default: true },
    for_more: None,
};

/// Congestion control of both ends.
pub const CONGESTION: Setting = Setting {
    name: "congestion",
    help: "Congestion control of every connection (TCP_CONGESTION), such as cubic; `default` is the system's",
    unit: Unit::None,
    kind: Kind::Text { longest: NAME - 1, default: "default", form: Form::Plain },
    for_more: None,
};

/// Maximum bytes of a name, with its zero byte (TCP_CA_NAME_MAX).
const NAME: usize = 16;

const DEFAULT: &str = "net.ipv4.tcp_congestion_control";
const AVAILABLE: &str = "net.ipv4.tcp_available_congestion_control";
const ALLOWED: &str = "net.ipv4.tcp_allowed_congestion_control";

/// Options to set before a socket listens or connects. Accepted connections inherit them.
#[derive(Debug, Clone)]
pub struct TcpOptions {
    nodelay: bool,
    congestion: Option<String>,
}

impl TcpOptions {
    /// Reads the options from the settings; `None` if the sockets are not TCP.
    pub fn of(settings: &Settings) -> Option<Self> {
        let given = settings.values().contains_key(NODELAY.name);
        given.then(|| TcpOptions {
            nodelay: settings.boolean(NODELAY.name),
            congestion: Some(settings.word(CONGESTION.name)).filter(|name| *name != "default").map(str::to_owned),
        })
    }

    /// Sets the options of a socket.
    pub fn apply(&self, socket: &Socket) -> io::Result<()> {
        if self.nodelay {
            socket.set_tcp_nodelay(true)?;
        }
        match &self.congestion {
            Some(name) => socket::set_congestion_control(socket.as_fd(), name),
            None => Ok(()),
        }
    }

    /// Refuses a congestion control that this process may not use. The hint lists the allowed ones.
    pub fn check(&self) -> Result<()> {
        let Some(name) = &self.congestion else { return Ok(()) };
        let socket = Socket::new(Domain::IPV4, Type::STREAM, None)?;
        socket::set_congestion_control(socket.as_fd(), name).map_err(|error| {
            let listed = |sysctl: &str| {
                let text = std::fs::read_to_string(format!("/proc/sys/{}", sysctl.replace('.', "/")));
                text.map_or("unreadable".to_owned(), |text| text.trim().to_owned())
            };
            let refused = match error.raw_os_error() {
                Some(libc::EPERM) => mistake_with_hint(
                    "congestion.not_permitted",
                    format!("--congestion {name} is not allowed to this user"),
                    format!(
                        "allowed: {} ({ALLOWED}); in a separate network namespace: {}",
                        listed(ALLOWED),
                        listed(AVAILABLE)
                    ),
                ),
                Some(libc::ENOENT) => mistake_with_hint(
                    "congestion.unknown",
                    format!("--congestion {name}: the kernel has no such congestion control"),
                    format!("allowed: {} ({AVAILABLE})", listed(AVAILABLE)),
                ),
                _ => mistake("congestion.refused", format!("--congestion {name}: {error}")),
            };
            refused.blaming(&[CONGESTION.name]).only_here()
        })
    }
}

/// Lists congestion controls for `list --json`: the default, those of the kernel, those that this user may use in this network
/// namespace, and remarks on some.
pub fn congestion_controls() -> Value {
    let read = |sysctl: &str| -> Vec<String> {
        let text = std::fs::read_to_string(format!("/proc/sys/{}", sysctl.replace('.', "/"))).unwrap_or_default();
        text.split_whitespace().map(str::to_owned).collect()
    };
    let available = read(AVAILABLE);
    let options = |name: &String| TcpOptions { nodelay: false, congestion: Some(name.clone()) };
    let allowed: Vec<&String> = available.iter().filter(|name| options(name).check().is_ok()).collect();
    let remarks: BTreeMap<&String, &str> = available.iter().filter_map(|name| Some((name, remark(name)?))).collect();
    json!({"default": read(DEFAULT).first(), "available": available, "allowed": allowed, "remarks": remarks})
}

/// Options of a connection, as the kernel reports them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ConnectionOptions {
    /// Effective congestion control (TCP_CONGESTION).
    pub congestion_control: String,
    /// Known effect of this congestion control on figures.
    pub remark: Option<&'static str>,
    /// TCP_NODELAY.
    pub nodelay: bool,
    /// Largest segment sent, in bytes (tcpi_snd_mss of TCP_INFO): the MTU without headers and timestamps.
    pub segment_bytes: u32,
}

impl ConnectionOptions {
    /// Formats the congestion control with its remark, in one line without a newline.
    pub fn in_words(&self) -> String {
        let remark = self.remark.map(|remark| format!(" ({remark})")).unwrap_or_default();
        format!("congestion control: {}{remark}", self.congestion_control)
    }
}

/// Returns a remark on a congestion control that affects figures.
pub fn remark(congestion_control: &str) -> Option<&'static str> {
    (congestion_control == "bbr").then_some(
        "bbr paces what it sends, which slows bulk streams over loopback and veth down: with cubic or reno they were 1.5 \
         to 3 times as fast",
    )
}

/// Options of the first connection of a server or a load, in shared memory.
#[derive(Default)]
pub struct FirstConnection {
    state: AtomicU8,
    congestion_control: [AtomicU64; NAME / 8],
    nodelay: AtomicU8,
    segment_bytes: AtomicU32,
}

const NONE: u8 = 0;
const BEING_NOTED: u8 = 1;
const NOTED: u8 = 2;

impl FirstConnection {
    /// Notes the options of this connection if it is the first and uses TCP. Otherwise it only reads a flag.
    pub fn note(&self, connection: BorrowedFd<'_>) {
        let first = |state| state == NONE;
        if !first(self.state.load(Ordering::Relaxed))
            || self.state.compare_exchange(NONE, BEING_NOTED, Ordering::Relaxed, Ordering::Relaxed).is_err()
        {
            return;
        }
        if let Ok((name, nodelay, segment)) = read(connection) {
            for (place, part) in self.congestion_control.iter().zip(name.chunks(8)) {
                place.store(u64::from_ne_bytes(part.try_into().expect("eight bytes")), Ordering::Relaxed);
            }
            self.nodelay.store(nodelay.into(), Ordering::Relaxed);
            self.segment_bytes.store(segment, Ordering::Relaxed);
            self.state.store(NOTED, Ordering::Release);
        }
    }

    /// Returns the noted options; `None` before the first connection, or if it does not use TCP.
    pub fn options(&self) -> Option<ConnectionOptions> {
        if self.state.load(Ordering::Acquire) != NOTED {
            return None;
        }
        let name: Vec<u8> =
            self.congestion_control.iter().flat_map(|part| part.load(Ordering::Relaxed).to_ne_bytes()).collect();
        let congestion_control = socket::until_zero(&name);
        Some(ConnectionOptions {
            remark: remark(&congestion_control),
            congestion_control,
            nodelay: self.nodelay.load(Ordering::Relaxed) != 0,
            segment_bytes: self.segment_bytes.load(Ordering::Relaxed),
        })
    }
}

fn read(connection: BorrowedFd<'_>) -> io::Result<([u8; NAME], bool, u32)> {
    let mut name = [0; NAME];
    let found = socket::congestion_control(connection)?;
    name[..found.len()].copy_from_slice(found.as_bytes());
    Ok((name, SockRef::from(&connection).tcp_nodelay()?, socket::segment_bytes(connection)?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::setting;
    use std::collections::BTreeMap;
    use std::net::{TcpListener, TcpStream};

    fn chosen(name: &str) -> TcpOptions {
        let given = BTreeMap::from([("congestion", setting::Value::Word(name.to_owned()))]);
        TcpOptions::of(&Settings::new(SETTINGS, &given)).unwrap()
    }

    #[test]
    fn the_first_connection_is_noted_and_no_other() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let connect = |options: &TcpOptions| {
            let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
            options.apply(&socket).unwrap();
            socket.connect(&listener.local_addr().unwrap().into()).unwrap();
            socket
        };
        let first = FirstConnection::default();
        assert_eq!(first.options(), None);
        first.note(connect(&chosen("reno")).as_fd());
        first.note(TcpStream::connect(listener.local_addr().unwrap()).unwrap().as_fd());
        let noted = first.options().unwrap();
        assert_eq!((noted.congestion_control.as_str(), noted.remark, noted.nodelay), ("reno", None, true));
        assert!(noted.segment_bytes > 500, "{noted:?}");
    }

    #[test]
    fn a_unix_socket_is_not_noted() {
        let (one, _other) = std::os::unix::net::UnixStream::pair().unwrap();
        let first = FirstConnection::default();
        first.note(one.as_fd());
        assert_eq!(first.options(), None);
        assert!(TcpOptions::of(&Settings::new(&[], &BTreeMap::new())).is_none());
    }

    #[test]
    fn an_unknown_congestion_control_is_refused_with_the_known_ones() {
        chosen("default").check().unwrap();
        chosen("reno").check().unwrap();
        let message = chosen("nosuch").check().unwrap_err().to_string();
        for word in ["--congestion nosuch", "reno", "net.ipv4.tcp_available_congestion_control"] {
            assert!(message.contains(word), "{message}");
        }
    }
}
