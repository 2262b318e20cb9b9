//! Local addresses of connections. Two addresses and a server's port allow one connection per local port, so more connections
//! than ports need several local addresses.

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};

use anyhow::{Context, Result};
use nix::ifaddrs::{InterfaceAddress, getifaddrs};
use nix::sys::socket::setsockopt;
use nix::sys::socket::sockopt::IpBindAddressNoPort;
use socket2::Socket;

use crate::base::mistake::{Blame, mistake_with_hint};
use crate::base::setting::{Kind, Setting, Settings};
use crate::base::unit::Unit;
use crate::net::address::Address;

/// Number of local addresses.
pub const SOURCE_ADDRESSES: Setting = Setting {
    name: "source_addresses",
    help: "Local addresses that clients connect from by turns, each with all local ports: 127.0.0.1, 127.0.0.2 and so on, or \
           those that the machine has on the way to the server; 1: the kernel's choice",
    unit: Unit::Of("addresses"),
    kind: Kind::Integer { minimum: 1, maximum: LOOPBACK as u64, default: 1 },
    for_more: Some("for more connections than these have ports, a server at several ports, and a load for each"),
};

/// Addresses of 127.0.0.0/8 that differ in the last byte.
const LOOPBACK: u8 = 254;

/// Local addresses of a load's connections.
#[derive(Debug, Default)]
pub struct Sources {
    /// Local addresses for each address of the target, in its order. Empty if the kernel chooses.
    towards: Vec<Vec<IpAddr>>,
}

impl Sources {
    /// Finds the configured number of local addresses towards each target address. Refuses if there are fewer.
    pub fn find(target: &[Address], settings: &Settings) -> Result<Self> {
        let wanted = settings.values().get(SOURCE_ADDRESSES.name).map(|_| settings.integer(SOURCE_ADDRESSES.name));
        // Unix sockets have no such setting.
        let Some(wanted @ 2..) = wanted else { return Ok(Self::default()) };
        let towards = target.iter().map(|address| match address {
            Address::Tcp(address) => towards(*address, wanted as usize),
            Address::Unix(_) | Address::UnixPath(_) => Ok(Vec::new()),
        });
        Ok(Sources { towards: towards.collect::<Result<_>>()? })
    }

    /// Returns the number of local addresses towards the target's first address.
    pub fn count(&self) -> usize {
        self.towards.first().map_or(1, Vec::len)
    }

    /// Binds a socket to its local address. connect(2) chooses the port, and may reuse it towards other addresses
    /// (IP_BIND_ADDRESS_NO_PORT, ip(7)). `index` is the position of the address to connect to among the target's addresses;
    /// clients are counted from 1.
    pub fn bind(&self, socket: &Socket, index: usize, client: usize) -> io::Result<()> {
        let Some(sources @ [_, ..]) = self.towards.get(index).map(Vec::as_slice) else { return Ok(()) };
        setsockopt(socket, IpBindAddressNoPort, &true)?;
        socket.bind(&SocketAddr::new(sources[(client - 1) % sources.len()], 0).into())
    }
}

/// Returns the maximum number of local addresses towards an address, without reading interfaces.
pub fn most(target: SocketAddr) -> usize {
    if is_loopback(target) { LOOPBACK.into() } else { 1 }
}

fn is_loopback(target: SocketAddr) -> bool {
    matches!(target.ip().to_canonical(), IpAddr::V4(host) if host.is_loopback())
}

fn towards(target: SocketAddr, wanted: usize) -> Result<Vec<IpAddr>> {
    let found: Vec<IpAddr> = if is_loopback(target) {
        (1..=LOOPBACK).map(|last| Ipv4Addr::new(127, 0, 0, last).into()).collect()
    } else {
        of_the_interface(target).with_context(|| {
            format!("the local addresses on the way to {target} cannot be read (only --source-addresses needs them)")
        })?
    };
    if found.len() < wanted {
        let listed: Vec<String> = found.iter().map(IpAddr::to_string).collect();
        return Err(mistake_with_hint(
            "source_addresses.too_few",
            format!(
                "--{} {wanted}: towards {target} this machine has {} ({})",
                SOURCE_ADDRESSES.option(),
                found.len(),
                listed.join(", ")
            ),
            format!(
                "use fewer, add addresses (ip address add), or load a server at 127.0.0.1, which allows {LOOPBACK}"
            ),
        )
        .blaming(&[SOURCE_ADDRESSES.name])
        .only_here());
    }
    let mapped = |address| match (address, target) {
        (IpAddr::V4(address), SocketAddr::V6(_)) => address.to_ipv6_mapped().into(),
        _ => address,
    };
    Ok(found.into_iter().take(wanted).map(mapped).collect())
}

/// Lists the addresses of the interface that leads to the target, the kernel's choice first.
fn of_the_interface(target: SocketAddr) -> Result<Vec<IpAddr>> {
    let unspecified = if target.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" };
    // Connecting a UDP socket only looks up the route and sends nothing (udp(7)).
    let socket = UdpSocket::bind(unspecified)?;
    socket.connect(target)?;
    let chosen = socket.local_addr()?.ip().to_canonical();
    let all: Vec<InterfaceAddress> = getifaddrs()?.collect();
    let name = all.iter().find(|each| address(each) == Some(chosen)).map(|each| &each.interface_name);
    let others = all.iter().filter(|each| Some(&each.interface_name) == name).filter_map(address);
    let fits = |other: &IpAddr| *other != chosen && other.is_ipv4() == chosen.is_ipv4() && !is_link_local(*other);
    Ok([chosen].into_iter().chain(others.filter(fits)).collect())
}

fn address(of: &InterfaceAddress) -> Option<IpAddr> {
    let storage = of.address.as_ref()?;
    let four = || storage.as_sockaddr_in().map(|address| IpAddr::V4(address.ip()));
    four().or_else(|| storage.as_sockaddr_in6().map(|address| IpAddr::V6(address.ip())))
}

/// Such an address is valid only together with an interface.
fn is_link_local(address: IpAddr) -> bool {
    matches!(address, IpAddr::V6(address) if address.is_unicast_link_local())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::setting::Value;
    use socket2::{Domain, Type};
    use std::collections::BTreeMap;
    use std::net::TcpListener;

    fn find(target: &str, count: u64) -> Result<Sources> {
        let given = BTreeMap::from([(SOURCE_ADDRESSES.name, Value::Integer(count))]);
        Sources::find(&[Address::Tcp(target.parse()?)], &Settings::new([&SOURCE_ADDRESSES], &given))
    }

    #[test]
    fn clients_connect_from_them_by_turns() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let target = listener.local_addr().unwrap();
        let mapped = SocketAddr::new(Ipv4Addr::LOCALHOST.to_ipv6_mapped().into(), target.port());
        for target in [target, mapped] {
            let sources = find(&target.to_string(), 3).unwrap();
            for (client, last) in [(1, 1), (2, 2), (3, 3), (4, 1)] {
                let socket = Socket::new(Domain::for_address(target), Type::STREAM, None).unwrap();
                sources.bind(&socket, 0, client).unwrap();
                socket.connect(&target.into()).unwrap();
                let (_, from) = listener.accept().unwrap();
                assert_eq!(from.ip(), IpAddr::V4(Ipv4Addr::new(127, 0, 0, last)), "client {client} to {target}");
            }
        }
    }

    #[test]
    fn without_several_the_kernel_chooses() {
        let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
        let sources = find("127.0.0.1:1", 1).unwrap();
        sources.bind(&socket, 0, 1).unwrap();
        assert_eq!((sources.count(), socket.local_addr().unwrap().as_socket()), (1, "0.0.0.0:0".parse().ok()));
        assert_eq!(Sources::find(&[], &Settings::new([], &BTreeMap::new())).unwrap().count(), 1);
    }

    #[test]
    fn too_many_are_refused_with_the_existing_ones() {
        match find("[::1]:80", 200) {
            Ok(sources) => panic!("so many addresses of loopback: {sources:?}"),
            // Without IPv6 there is no route.
            Err(error) if error.to_string().contains("cannot be read") => println!("skipped: {error:#}"),
            Err(error) => {
                let message = error.to_string();
                for word in ["--source-addresses 200", "[::1]:80", "::1", "127.0.0.1", "254"] {
                    assert!(message.contains(word), "'{word}' is not in {message}");
                }
            }
        }
    }
}
