//! Addresses of servers: a host and a port of TCP, or the name of a Unix socket.

use std::fmt;
use std::io;
use std::net::{Ipv6Addr, SocketAddr, SocketAddrV6};

use anyhow::Result;
use nix::net::if_::if_nametoindex;
use socket2::{Domain, SockAddr};

use crate::base::mistake::{mistake, mistake_with_hint};
use crate::sys::names;

/// Prefix of the address of a Unix socket. Its name is abstract (unix(7)), so no file stays behind after its last socket. The
/// kernel chooses a name if none is given, like a port for port 0.
const UNIX: &str = "unix:@";

/// Prefix of the address of a Unix socket with a path.
const UNIX_PATH: &str = "unix:/";

/// Maximum length of a name: what fits into sun_path after its zero byte.
const LONGEST: usize = 107;

/// One address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Address {
    /// A TCP address, over IPv4 or IPv6.
    Tcp(SocketAddr),
    /// An abstract name of a Unix stream socket.
    Unix(String),
    /// The absolute path of a Unix stream socket, to which a load connects.
    UnixPath(String),
}

/// Families of sockets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Family {
    /// TCP, over IPv4 or IPv6.
    Tcp,
    /// Unix stream sockets.
    Unix,
}

/// Returns the family of an address by its prefix.
pub fn family(text: &str) -> Family {
    if text.starts_with("unix:") { Family::Unix } else { Family::Tcp }
}

/// Resolves `HOST:PORT` (a name, an IPv4 address, or an IPv6 address in brackets, with a zone or not) to all its addresses, or
/// `unix:@NAME` or `unix:/PATH` to one.
pub fn resolve(option: &str, text: &str) -> Result<Vec<Address>> {
    if family(text) == Family::Unix {
        let rest = &text["unix:".len()..];
        let is_path = text.starts_with(UNIX_PATH);
        // A path ends with a zero byte, an abstract name begins with one.
        let name = if is_path { Some(rest) } else { text.strip_prefix(UNIX) }.filter(|name| name.len() <= LONGEST);
        let name = name.filter(|name| name.bytes().all(|byte| byte.is_ascii_graphic()));
        return match name {
            Some(path) if is_path => Ok(vec![Address::UnixPath(path.to_owned())]),
            Some(name) => Ok(vec![Address::Unix(name.to_owned())]),
            None => Err(mistake_with_hint(
                "address.invalid_name",
                format!("{option} '{text}' is no name of a Unix socket"),
                format!("allowed: {UNIX}NAME or {UNIX_PATH}PATH with at most {LONGEST} visible ASCII characters"),
            )),
        };
    }
    if let Some(address) = with_zone(option, text)? {
        return Ok(vec![Address::Tcp(address)]);
    }
    let addresses: Vec<_> = names::resolve(text)
        .map_err(|error| match error.kind() {
            io::ErrorKind::InvalidInput => mistake_with_hint(
                "address.invalid",
                format!("{option} '{text}' is no address: {error}"),
                format!(
                    "allowed: HOST:PORT, for instance 127.0.0.1:8888, [::1]:8888 or localhost:8888, {UNIX}NAME or \
                     {UNIX_PATH}PATH"
                ),
            ),
            _ => mistake_with_hint(
                "address.unresolved",
                format!("{option} '{text}': the name has no address: {error}"),
                "check its spelling, or give an address",
            ),
        })?
        .into_iter()
        .map(Address::Tcp)
        .collect();
    if addresses.is_empty() {
        Err(mistake("address.unresolved", format!("{option} '{text}': the name has no address")))
    } else {
        Ok(addresses)
    }
}

/// Parses an IPv6 address with a zone, `[ADDRESS%ZONE]:PORT`; `None` for an address without one. A zone is the name of an
/// interface, or its number (RFC 4007, section 11.2). If it is neither, `25` before it is the code of the percent sign, as URLs
/// have it (RFC 6874, section 2).
fn with_zone(option: &str, text: &str) -> Result<Option<SocketAddr>> {
    let parts = || {
        let (host, port) = text.strip_prefix('[')?.split_once("]:")?;
        let (address, zone) = host.split_once('%')?;
        Some((address.parse::<Ipv6Addr>().ok()?, zone, port.parse::<u16>().ok()?))
    };
    let Some((address, zone, port)) = parts() else { return Ok(None) };
    let number = |zone: &str| zone.parse().ok().or_else(|| if_nametoindex(zone).ok()).filter(|number| *number > 0);
    match number(zone).or_else(|| number(zone.strip_prefix("25")?)) {
        Some(number) => Ok(Some(SocketAddrV6::new(address, port, 0, number).into())),
        None => Err(mistake_with_hint(
            "address.no_interface",
            format!("{option} '{text}': this machine has no interface '{zone}'"),
            "ip link lists the interfaces",
        )),
    }
}

/// Returns the authority of an address as typed, for the Host field of HTTP: without the zone of an IPv6 address (RFC 6874,
/// section 1), and localhost for a Unix socket.
pub fn authority(text: &str) -> String {
    if family(text) == Family::Unix {
        return "localhost".to_owned();
    }
    match (text.find('%'), text.find(']')) {
        (Some(zone), Some(end)) if zone < end => text[..zone].to_owned() + &text[end..],
        _ => text.to_owned(),
    }
}

impl Address {
    /// Returns the family for socket(2).
    pub fn domain(&self) -> Domain {
        match self {
            Address::Tcp(address) => Domain::for_address(*address),
            Address::Unix(_) | Address::UnixPath(_) => Domain::UNIX,
        }
    }

    /// Returns the address for bind(2) and connect(2). The kernel chooses the name of a Unix socket without one.
    pub fn for_the_kernel(&self) -> io::Result<SockAddr> {
        match self {
            Address::Tcp(address) => Ok((*address).into()),
            Address::Unix(name) if name.is_empty() => SockAddr::unix(""),
            Address::Unix(name) => SockAddr::unix(format!("\0{name}")),
            Address::UnixPath(path) => SockAddr::unix(path),
        }
    }

    /// Reads the address of a socket; `None` if it has none, such as an unbound Unix socket.
    pub fn of(address: &SockAddr) -> Option<Self> {
        let unix = || Some(Address::Unix(String::from_utf8_lossy(address.as_abstract_namespace()?).into_owned()));
        address.as_socket().map(Address::Tcp).or_else(unix)
    }

    /// Returns the TCP port.
    pub fn port(&self) -> Option<u16> {
        match self {
            Address::Tcp(address) => Some(address.port()),
            Address::Unix(_) | Address::UnixPath(_) => None,
        }
    }
}

impl fmt::Display for Address {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Address::Tcp(address) => address.fmt(formatter),
            Address::Unix(name) => write!(formatter, "{UNIX}{name}"),
            Address::UnixPath(path) => write!(formatter, "unix:{path}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_reads_as_it_is_written() {
        for text in ["127.0.0.1:80", "[::1]:8888", "unix:@", "unix:@a/b.c"] {
            let found = resolve("--listen", text).unwrap();
            assert_eq!(found.iter().map(Address::to_string).collect::<Vec<_>>(), [text]);
            let kernel = found[0].for_the_kernel().unwrap();
            assert_eq!(Address::of(&kernel), found.into_iter().next().filter(|_| text != "unix:@"));
        }
    }

    #[test]
    fn a_zone_is_an_interface() {
        let lo = if_nametoindex("lo").unwrap();
        for text in ["[::1%lo]:80".to_owned(), format!("[::1%{lo}]:80"), "[::1%25lo]:80".to_owned()] {
            let [Address::Tcp(SocketAddr::V6(found))] = resolve("--connect", &text).unwrap()[..] else {
                panic!("{text}")
            };
            assert_eq!((found.scope_id(), found.port(), found.ip().is_loopback()), (lo, 80, true));
        }
        let error = resolve("--connect", "[fe80::1%none]:80").unwrap_err();
        assert_eq!(error.downcast_ref::<crate::base::mistake::Mistake>().unwrap().code, "address.no_interface");
    }

    #[test]
    fn a_path_reads_as_it_is_written() {
        let found = resolve("--connect", "unix:/tmp/a.sock").unwrap();
        assert_eq!(
            (found[0].to_string().as_str(), authority("unix:/tmp/a.sock").as_str()),
            ("unix:/tmp/a.sock", "localhost")
        );
    }

    #[test]
    fn an_authority_has_the_port_and_no_zone() {
        for (text, right) in [
            ("127.0.0.1:8080", "127.0.0.1:8080"),
            ("localhost:80", "localhost:80"),
            ("[::1]:81", "[::1]:81"),
            ("[fe80::1%eth0]:80", "[fe80::1]:80"),
            ("[fe80::1%25eth0]:80", "[fe80::1]:80"),
            ("unix:@a", "localhost"),
        ] {
            assert_eq!(authority(text), right);
        }
    }

    #[test]
    fn an_invalid_name_is_refused() {
        let long = format!("unix:@{}", "x".repeat(LONGEST + 1));
        for wrong in ["unix:", "unix:tmp/socket", "unix:@a b", "unix:@\u{e9}", &long] {
            let message = resolve("--listen", wrong).unwrap_err().to_string();
            assert!(message.contains("--listen") && message.contains("unix:@NAME"), "{message}");
        }
        assert!(resolve("--listen", &long[..long.len() - 1]).is_ok());
        assert!(resolve("--connect", "localhost").unwrap_err().to_string().contains("HOST:PORT"));
    }
}
