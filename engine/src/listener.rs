//! Listening sockets and addresses.

use std::net::{SocketAddr, ToSocketAddrs};
use std::os::fd::AsFd;

use anyhow::{Context, Result, anyhow};
use socket2::{Domain, Socket, Type};

use crate::lines::SocketOptions;
use crate::mistake::{mistake, more_descriptors};
use crate::setting::{Kind, NODELAY, Setting, Settings};
use crate::sys::socket;

/// The queue of connections that wait to be accepted.
pub const BACKLOG: Setting = Setting {
    name: "backlog",
    help: "Connections that may wait to be accepted (listen(2)); net.core.somaxconn bounds it",
    unit: Some("connections"),
    kind: Kind::Integer { minimum: 0, maximum: 1 << 20, default: 1024 },
};

/// All addresses of `HOST:PORT`: a name, an IPv4 address, or an IPv6 address in brackets.
pub fn resolve(option: &str, text: &str) -> Result<Vec<SocketAddr>> {
    let addresses: Vec<_> = text
        .to_socket_addrs()
        .map_err(|error| mistake(format!("{option} is '{text}': {error}; it takes HOST:PORT, for instance 127.0.0.1:8888, [::1]:8888 or localhost:8888")))?
        .collect();
    if addresses.is_empty() {
        Err(mistake(format!("{option} is '{text}', which has no address")))
    } else {
        Ok(addresses)
    }
}

/// Listens on the first of the addresses that can be had, with as many sockets as wanted and the server's options.
pub fn listen(addresses: &[SocketAddr], wanted: usize, settings: &Settings) -> Result<Vec<Socket>> {
    let mut failure = anyhow!("no address to listen on");
    for &address in addresses {
        match listen_on(address, wanted, settings) {
            Ok(sockets) => return Ok(sockets),
            Err(error) => failure = explain(error, address),
        }
    }
    Err(failure)
}

fn listen_on(mut address: SocketAddr, wanted: usize, settings: &Settings) -> std::io::Result<Vec<Socket>> {
    let mut sockets = Vec::new();
    for _ in 0..wanted {
        let socket = listen_once(address, wanted > 1, settings)?;
        // The first may have left the choice of the port to the kernel; the others share it.
        address = socket.local_addr()?.as_socket().unwrap_or(address);
        sockets.push(socket);
    }
    Ok(sockets)
}

fn listen_once(address: SocketAddr, shared: bool, settings: &Settings) -> std::io::Result<Socket> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, None)?;
    socket.set_reuse_address(true)?;
    socket.set_reuse_port(shared)?;
    // Accepted sockets inherit the option, which saves every design the same call.
    socket.set_tcp_nodelay(settings.boolean(NODELAY.name))?;
    socket.bind(&address.into())?;
    socket.listen(settings.integer(BACKLOG.name) as i32)?;
    Ok(socket)
}

fn explain(error: std::io::Error, address: SocketAddr) -> anyhow::Error {
    let port = address.port();
    match error.raw_os_error() {
        Some(libc::EADDRINUSE) => mistake(format!(
            "port {port} of {} is in use; choose another with --port, or see who has it: ss -ltnp 'sport = :{port}'",
            address.ip()
        )),
        Some(libc::EACCES) => {
            mistake(format!("port {port} needs a permission that you do not have; choose one above 1023 with --port"))
        }
        Some(libc::EADDRNOTAVAIL) => mistake(format!(
            "{} is no address of this machine; --listen takes one of those that `ip addr` shows",
            address.ip()
        )),
        Some(libc::EMFILE | libc::ENFILE) => {
            mistake(format!("no descriptor is left for the listeners; {}", more_descriptors()))
        }
        _ => anyhow::Error::new(error).context(format!("listening on {address} failed")),
    }
}

/// What the kernel made of a listener's options.
pub fn options(listener: &Socket, settings: &Settings) -> Result<SocketOptions> {
    let read = || -> std::io::Result<SocketOptions> {
        Ok(SocketOptions {
            congestion_control: socket::congestion_control(listener.as_fd())?,
            nodelay: listener.tcp_nodelay()?,
            backlog: settings.integer(BACKLOG.name),
            backlog_effective: socket::listen_queue(listener.as_fd())?.1,
            send_buffer: listener.send_buffer_size()?,
            receive_buffer: listener.recv_buffer_size()?,
        })
    };
    read().context("the listener's options could not be read")
}
