//! A pair of virtual Ethernet interfaces between two network namespaces (veth(4)): how it is made, and how it is distinguished
//! from others.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::fd::{AsRawFd, BorrowedFd};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use netlink_packet_core::{NLM_F_CREATE, NLM_F_EXCL};
use netlink_packet_route::address::{AddressAttribute, AddressFlags, AddressHeaderFlags, AddressMessage};
use netlink_packet_route::link::{
    InfoData, InfoKind, InfoVeth, LinkAttribute, LinkFlags, LinkInfo, LinkMessage, State,
};
use netlink_packet_route::{AddressFamily, RouteNetlinkMessage};

use crate::net::netlink::Netlink;

/// Name of the interface at either end, the only one in its namespace besides loopback.
pub const INTERFACE: &str = "veth0";

/// Alias of the interface (as `ip link` shows), which marks namespaces of this program.
const MARK: &str = "thunderherd: nothing but the other end of this pair can be reached";

const LOOPBACK: &str = "lo";

/// Minimum MTU of IPv6 (RFC 8200, section 5). Linux has no IPv6 on links below it.
const LEAST_IPV6_MTU: u32 = 1280;

/// Time for an interface that was set up to send and receive.
const PATIENCE: Duration = Duration::from_secs(5);

/// One end of the pair. Its addresses are private (RFC 1918, RFC 4193), and their networks have only the two ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct End {
    /// Its IPv4 address.
    pub address: Ipv4Addr,
    /// Its IPv6 address.
    pub address6: Ipv6Addr,
}

/// Prefix length of the networks.
const PREFIX: u8 = 30;
const PREFIX6: u8 = 126;

/// The server's end.
pub const SERVER: End = end(1);

/// The clients' end.
pub const CLIENT: End = end(2);

const fn end(number: u8) -> End {
    // fd and the letters of `thund`.
    let address6 = Ipv6Addr::new(0xfd74, 0x6875, 0x6e64, 0, 0, 0, 0, number as u16);
    End { address: Ipv4Addr::new(10, 0, 0, number), address6 }
}

/// An interface, as the kernel reports it.
#[derive(Debug, Clone)]
pub struct Interface {
    /// Its number in its namespace.
    pub number: u32,
    /// Maximum size of a packet in bytes.
    pub mtu: u32,
    /// Its name there.
    pub name: String,
    alias: Option<String>,
    is_veth: bool,
    is_up: bool,
    is_running: bool,
}

/// Makes the pair: one end in the namespace of `netlink`, the other in the given one. Both are down.
pub fn create(netlink: &mut Netlink, other: BorrowedFd<'_>, mtu: u32) -> io::Result<()> {
    let named = || vec![LinkAttribute::IfName(INTERFACE.to_owned()), LinkAttribute::Mtu(mtu)];
    let mut peer = LinkMessage::default();
    peer.attributes = named();
    peer.attributes.push(LinkAttribute::NetNsFd(other.as_raw_fd()));
    let mut pair = LinkMessage::default();
    pair.attributes = named();
    pair.attributes.push(LinkAttribute::LinkInfo(vec![
        LinkInfo::Kind(InfoKind::Veth),
        LinkInfo::Data(InfoData::Veth(InfoVeth::Peer(peer))),
    ]));
    netlink.change(RouteNetlinkMessage::NewLink(pair), NLM_F_CREATE | NLM_F_EXCL)
}

/// Sets the loopback interface up.
pub fn raise_loopback(netlink: &mut Netlink) -> Result<()> {
    let loopback = interface(netlink, LOOPBACK)?;
    raise(netlink, loopback.number, vec![]).context("the loopback interface cannot be set up")
}

/// Sets the addresses and the alias of an end, and sets it up. Returns why it has no IPv6 address, if it has none.
pub fn raise_end(netlink: &mut Netlink, end: End) -> Result<Option<String>> {
    let Interface { number, mtu, .. } = interface(netlink, INTERFACE)?;
    let without_ipv6 = without_ipv6(mtu);
    let mut addresses = vec![(IpAddr::V4(end.address), PREFIX)];
    addresses.extend(without_ipv6.is_none().then_some((IpAddr::V6(end.address6), PREFIX6)));
    for (address, prefix) in addresses {
        add_address(netlink, number, address, prefix)
            .with_context(|| format!("{INTERFACE} cannot have the address {address}/{prefix}"))?;
    }
    let mark = vec![LinkAttribute::IfAlias(MARK.to_owned())];
    raise(netlink, number, mark).with_context(|| format!("{INTERFACE} cannot be set up"))?;
    Ok(without_ipv6)
}

fn without_ipv6(mtu: u32) -> Option<String> {
    if mtu < LEAST_IPV6_MTU {
        return Some(format!("IPv6 needs an MTU of at least {LEAST_IPV6_MTU}"));
    }
    match std::fs::read_to_string(format!("/proc/sys/net/ipv6/conf/{INTERFACE}/disable_ipv6")) {
        Ok(text) if text.trim() == "0" => None,
        Ok(_) => Some("net.ipv6.conf.default.disable_ipv6 is set".to_owned()),
        Err(_) => Some("this kernel has no IPv6".to_owned()),
    }
}

/// Waits until an end sends and receives, and returns its state.
pub fn await_running(netlink: &mut Netlink) -> Result<Interface> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let found = interface(netlink, INTERFACE)?;
        if found.is_running {
            return Ok(found);
        }
        if Instant::now() > deadline {
            bail!("{INTERFACE} was set up, but is not running after {PATIENCE:?}");
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Returns whether an address, from this process's namespace, leads only to an end of a pair made by this program: it
/// is the address of an end, and the only interface that is up besides loopback has the alias.
pub fn leads_to_an_end(address: IpAddr) -> Result<bool> {
    let of_an_end = |end: End| [IpAddr::V4(end.address), IpAddr::V6(end.address6)].contains(&address);
    Ok([SERVER, CLIENT].into_iter().any(of_an_end) && in_namespace_of_ours()?)
}

/// Returns whether this process's namespace has an end of a pair made by this program, and nothing else.
pub fn in_namespace_of_ours() -> Result<bool> {
    Ok(matches!(&besides_loopback()?[..], [pair] if is_ours(pair)))
}

/// Returns whether no other machine can reach this process's namespace: it has nothing but loopback and ends of ours.
pub fn is_cut_off() -> Result<bool> {
    Ok(besides_loopback()?.iter().all(is_ours))
}

fn is_ours(interface: &Interface) -> bool {
    interface.is_veth && interface.alias.as_deref() == Some(MARK)
}

/// Returns the interfaces that are up. If the kernel has tunnels, every namespace has an interface of each, which is down.
fn besides_loopback() -> Result<Vec<Interface>> {
    let all = interfaces(&mut Netlink::open()?)?;
    Ok(all.into_iter().filter(|each| each.is_up && each.name != LOOPBACK).collect())
}

/// Lists all interfaces of a namespace.
pub fn interfaces(netlink: &mut Netlink) -> Result<Vec<Interface>> {
    let answers = netlink.list(RouteNetlinkMessage::GetLink(LinkMessage::default()))?;
    Ok(answers.into_iter().filter_map(Interface::of).collect())
}

/// Lists all addresses of a namespace to which a socket can be bound without naming an interface. Link-local addresses are
/// omitted (ipv6(7), sin6_scope_id).
pub fn addresses(netlink: &mut Netlink) -> Result<Vec<IpAddr>> {
    let answers = netlink.list(RouteNetlinkMessage::GetAddress(AddressMessage::default()))?;
    let of_a_link = |address: &IpAddr| matches!(address, IpAddr::V6(address) if address.is_unicast_link_local());
    Ok(answers.iter().filter_map(own_address).filter(|address| !of_a_link(address)).collect())
}

/// Reads an address of this machine from what the kernel says of it; `None` if it says something else.
pub fn own_address(answer: &RouteNetlinkMessage) -> Option<IpAddr> {
    let RouteNetlinkMessage::NewAddress(message) = answer else { return None };
    // If there is a local address, the other is the peer's (rtnetlink(7), IFA_LOCAL).
    let ranked = message.attributes.iter().filter_map(|attribute| match attribute {
        AddressAttribute::Local(address) => Some((0, *address)),
        AddressAttribute::Address(address) => Some((1, *address)),
        _ => None,
    });
    ranked.min().map(|(_, address)| address)
}

fn interface(netlink: &mut Netlink, name: &str) -> Result<Interface> {
    let found = interfaces(netlink)?.into_iter().find(|interface| interface.name == name);
    found.with_context(|| format!("the namespace has no interface {name}"))
}

impl Interface {
    /// Reads what the kernel says of an interface; `None` if it says something else.
    pub fn of(message: RouteNetlinkMessage) -> Option<Self> {
        let RouteNetlinkMessage::NewLink(link) = message else { return None };
        let running = LinkFlags::Up | LinkFlags::LowerUp | LinkFlags::Running;
        let mut found = Interface {
            number: link.header.index,
            mtu: 0,
            name: String::new(),
            alias: None,
            is_veth: false,
            is_up: link.header.flags.contains(LinkFlags::Up),
            is_running: link.header.flags.contains(running),
        };
        for attribute in link.attributes {
            match attribute {
                LinkAttribute::IfName(name) => found.name = name,
                LinkAttribute::IfAlias(alias) => found.alias = Some(alias),
                LinkAttribute::Mtu(mtu) => found.mtu = mtu,
                LinkAttribute::OperState(state) => found.is_running &= matches!(state, State::Up | State::Unknown),
                LinkAttribute::LinkInfo(about) => found.is_veth = about.contains(&LinkInfo::Kind(InfoKind::Veth)),
                _ => {}
            }
        }
        Some(found)
    }
}

fn raise(netlink: &mut Netlink, interface: u32, attributes: Vec<LinkAttribute>) -> io::Result<()> {
    let mut message = LinkMessage::default();
    message.header.index = interface;
    message.header.flags = LinkFlags::Up;
    message.header.change_mask = LinkFlags::Up;
    message.attributes = attributes;
    netlink.change(RouteNetlinkMessage::SetLink(message), 0)
}

fn add_address(netlink: &mut Netlink, interface: u32, address: IpAddr, prefix: u8) -> io::Result<()> {
    let mut message = AddressMessage::default();
    message.header.family = if address.is_ipv4() { AddressFamily::Inet } else { AddressFamily::Inet6 };
    message.header.prefix_len = prefix;
    message.header.index = interface;
    message.attributes = vec![AddressAttribute::Local(address), AddressAttribute::Address(address)];
    if address.is_ipv6() {
        // No other interface can have it, so duplicate detection, which takes a second, is skipped.
        message.header.flags = AddressHeaderFlags::Nodad;
        message.attributes.push(AddressAttribute::Flags(AddressFlags::Nodad));
    }
    netlink.change(RouteNetlinkMessage::NewAddress(message), NLM_F_CREATE | NLM_F_EXCL)
}
