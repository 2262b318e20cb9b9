//! Listening sockets and addresses.

use std::net::IpAddr;
use std::os::fd::AsFd;

use anyhow::{Context, Result, anyhow};
use socket2::{Socket, Type};

use crate::base::mistake::{mistake_with_hint, more_descriptors};
use crate::base::output::warn;
use crate::base::setting::{Kind, Setting, Settings};
use crate::base::unit::Unit;
use crate::lines::SocketOptions;
use crate::net::address::Address;
use crate::net::netlink::Netlink;
use crate::net::tcp::TcpOptions;
use crate::net::veth;
use crate::sys::ring::number;
use crate::sys::{named, socket};

/// Length of the queue of connections that wait for accept.
pub const BACKLOG: Setting = Setting {
    name: "backlog",
    help: "Maximum connections that wait for accept (listen(2)), bounded by net.core.somaxconn",
    unit: Unit::Of("connections"),
    kind: Kind::Integer { minimum: 0, maximum: 1 << 20, default: 1024 },
    for_more: None,
};

/// Listens on the first address that works, with the wanted number of sockets and the server's options.
pub fn listen(addresses: &[Address], wanted: usize, settings: &Settings) -> Result<Vec<Socket>> {
    socket::accept_exists().context("cannot accept connections (accept4)")?;
    let mut failure = None;
    for address in addresses {
        match listen_on(address.clone(), wanted, settings) {
            Ok(sockets) => return Ok(sockets),
            Err(error) => failure = Some(explain(error, address)),
        }
    }
    Err(failure.unwrap_or_else(|| anyhow!("no address to listen on")))
}

/// Warns if other machines may connect to a listener: its address is not loopback, nor is this namespace cut off.
pub fn warn_if_reachable(listener: &Socket) -> Result<()> {
    let Some(Address::Tcp(address)) = Address::of(&listener.local_addr()?) else { return Ok(()) };
    let host = address.ip().to_canonical();
    // Where the kernel does not list interfaces, nothing is known of them.
    if !host.is_loopback() && !veth::is_cut_off().unwrap_or(false) {
        let port = address.port();
        warn(&format!("other machines may connect to {address}; --listen 127.0.0.1:{port} lets only this one"));
    }
    Ok(())
}

fn listen_on(mut address: Address, wanted: usize, settings: &Settings) -> std::io::Result<Vec<Socket>> {
    let mut sockets = Vec::new();
    for _ in 0..wanted {
        let socket = listen_once(&address, wanted > 1, settings)?;
        // The kernel may have chosen the port of the first; the others share it.
        address = Address::of(&socket.local_addr()?).unwrap_or(address);
        sockets.push(socket);
    }
    Ok(sockets)
}

fn listen_once(address: &Address, shared: bool, settings: &Settings) -> std::io::Result<Socket> {
    let socket = named("socket", Socket::new(address.domain(), Type::STREAM, None))?;
    if let Address::Tcp(_) = address {
        named("setsockopt, SO_REUSEADDR", socket.set_reuse_address(true))?;
        named("setsockopt, SO_REUSEPORT", socket.set_reuse_port(shared))?;
    }
    // Accepted sockets inherit these options, which saves every design the same calls.
    if let Some(options) = TcpOptions::of(settings) {
        named("setsockopt", options.apply(&socket))?;
    }
    named("bind", socket.bind(&address.for_the_kernel()?))?;
    named("listen", socket.listen(settings.integer(BACKLOG.name) as i32))?;
    Ok(socket)
}

fn explain(error: std::io::Error, address: &Address) -> anyhow::Error {
    match (number(&error), address) {
        (Some(libc::EMFILE | libc::ENFILE), _) => {
            let message = format!("no descriptor is left for the listeners: {error}");
            mistake_with_hint("listen.no_descriptors", message, more_descriptors())
        }
        (Some(libc::EADDRINUSE), Address::Unix(_) | Address::UnixPath(_)) => {
            let hint = "choose another name; ss -lxp shows which process has this one";
            mistake_with_hint("listen.in_use", format!("{address} is in use"), hint)
        }
        (Some(libc::EADDRINUSE), Address::Tcp(address)) => {
            let port = address.port();
            mistake_with_hint(
                "listen.in_use",
                format!("port {port} of {} is in use", address.ip()),
                format!("choose another with --port; ss -ltnp 'sport = :{port}' shows which process has this one"),
            )
        }
        (Some(libc::EACCES), Address::Tcp(address)) => mistake_with_hint(
            "listen.not_permitted",
            format!("port {} needs a permission that this user lacks", address.port()),
            "choose a port above 1023 with --port",
        ),
        (Some(libc::EADDRNOTAVAIL), Address::Tcp(address)) => mistake_with_hint(
            "listen.no_such_address",
            format!("no interface has the address {}", address.ip()),
            format!("allowed for --listen: {}", existing_addresses(address.ip())),
        ),
        _ => anyhow::Error::new(error).context(format!("listening on {address} failed")),
    }
}

/// Returns the addresses in this process's network namespace, of the same family if there are any. The user may be in another
/// namespace, with other addresses.
fn existing_addresses(like: IpAddr) -> String {
    let all = Netlink::open().map_err(Into::into).and_then(|mut netlink| veth::addresses(&mut netlink));
    let of_family = |all: Vec<IpAddr>| {
        let (same, others): (Vec<_>, Vec<_>) = all.into_iter().partition(|each| each.is_ipv4() == like.is_ipv4());
        if same.is_empty() { others } else { same }
    };
    match all.map(of_family) {
        Ok(all) if !all.is_empty() => all.iter().map(IpAddr::to_string).collect::<Vec<_>>().join(", "),
        // No interface is up, or a filter forbids netlink.
        _ => "an address that `ip addr` shows".to_owned(),
    }
}

/// Reads the options of a listening socket, as the kernel reports them.
pub fn options(listener: &Socket, settings: &Settings) -> Result<SocketOptions> {
    let read = || -> std::io::Result<SocketOptions> {
        let is_tcp = TcpOptions::of(settings).is_some();
        Ok(SocketOptions {
            congestion_control: is_tcp.then(|| socket::congestion_control(listener.as_fd())).transpose()?,
            nodelay: is_tcp.then(|| listener.tcp_nodelay()).transpose()?,
            backlog: settings.integer(BACKLOG.name),
            backlog_effective: queue(listener)?.map(|(_, limit)| limit),
            send_buffer: listener.send_buffer_size()?,
            receive_buffer: listener.recv_buffer_size()?,
        })
    };
    read().context("the listener's options could not be read (getsockopt)")
}

/// Returns the length of the queue and its maximum. `None` if the kernel does not report it, as for Unix sockets.
pub fn queue(listener: &Socket) -> std::io::Result<Option<(u32, u32)>> {
    match socket::listen_queue(listener.as_fd()) {
        Err(error) if number(&error) == Some(libc::EOPNOTSUPP) => Ok(None),
        result => result.map(Some),
    }
}
