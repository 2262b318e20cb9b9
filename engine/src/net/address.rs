//! Addresses of servers: a host and a port of TCP, or the name of a Unix socket.

use std::fmt;
use std::io;
use std::net::{SocketAddr, ToSocketAddrs};

use anyhow::Result;
use socket2::{Domain, SockAddr};

use crate::base::mistake::{mistake, mistake_with_hint};

/// Prefix of the address of a Unix socket. Its name is abstract (unix(7)), so no file stays behind after its last socket. The
/// kernel chooses a name if none is given, like a port for port 0.
const UNIX: &str = "unix:@";

/// Maximum length of a name: what fits into sun_path after its zero byte.
const LONGEST: usize = 107;

/// One address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Address {
    /// A TCP address, over IPv4 or IPv6.
    Tcp(SocketAddr),
    /// An abstract name of a Unix stream socket.
    Unix(String),
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

/// Resolves `HOST:PORT` (a name, an IPv4 address, or an IPv6 address in brackets) to all its addresses, or `unix:@NAME` to one.
pub fn resolve(option: &str, text: &str) -> Result<Vec<Address>> {
    if family(text) == Family::Unix {
        let name = text.strip_prefix(UNIX).filter(|name| name.len() <= LONGEST);
        let name = name.filter(|name| name.bytes().all(|byte| byte.is_ascii_graphic()));
        return match name {
            Some(name) => Ok(vec![Address::Unix(name.to_owned())]),
            None => Err(mistake_with_hint(
                "address.invalid_name",
                format!("{option} '{text}' is no name of a Unix socket"),
                format!("allowed: {UNIX}NAME with at most {LONGEST} visible ASCII characters"),
            )),
        };
    }
    let addresses: Vec<_> = text
        .to_socket_addrs()
        .map_err(|error| {
            mistake_with_hint(
                "address.invalid",
                format!("{option} '{text}' is no address: {error}"),
                format!("allowed: HOST:PORT, for instance 127.0.0.1:8888, [::1]:8888 or localhost:8888, or {UNIX}NAME"),
            )
        })?
        .map(Address::Tcp)
        .collect();
    if addresses.is_empty() {
        Err(mistake("address.unresolved", format!("{option} '{text}': the name has no address")))
    } else {
        Ok(addresses)
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
            Address::Unix(_) => Domain::UNIX,
        }
    }

    /// Returns the address for bind(2) and connect(2). The kernel chooses the name of a Unix socket without one.
    pub fn for_the_kernel(&self) -> io::Result<SockAddr> {
        match self {
            Address::Tcp(address) => Ok((*address).into()),
            Address::Unix(name) if name.is_empty() => SockAddr::unix(""),
            Address::Unix(name) => SockAddr::unix(format!("\0{name}")),
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
            Address::Unix(_) => None,
        }
    }
}

impl fmt::Display for Address {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Address::Tcp(address) => address.fmt(formatter),
            Address::Unix(name) => write!(formatter, "{UNIX}{name}"),
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
    fn an_authority_has_the_port_and_no_zone() {
        for (text, right) in [
            ("127.0.0.1:8080", "127.0.0.1:8080"),
            ("localhost:80", "localhost:80"),
            ("[::1]:81", "[::1]:81"),
            ("[fe80::1%eth0]:80", "[fe80::1]:80"),
            ("unix:@a", "localhost"),
        ] {
            assert_eq!(authority(text), right);
        }
    }

    #[test]
    fn an_invalid_name_is_refused() {
        let long = format!("unix:@{}", "x".repeat(LONGEST + 1));
        for wrong in ["unix:", "unix:/tmp/socket", "unix:@a b", "unix:@\u{e9}", &long] {
            let message = resolve("--listen", wrong).unwrap_err().to_string();
            assert!(message.contains("--listen") && message.contains("unix:@NAME"), "{message}");
        }
        assert!(resolve("--listen", &long[..long.len() - 1]).is_ok());
        assert!(resolve("--connect", "localhost").unwrap_err().to_string().contains("HOST:PORT"));
    }
}
