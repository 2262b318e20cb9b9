//! State of live TCP connections in the kernel (sock_diag(7), as `ss -ti` shows). It is queried from outside, so it costs
//! neither the server nor its clients anything.

use std::net::SocketAddr;

use anyhow::{Context, Result};
use netlink_packet_sock_diag::SockDiagMessage;
use netlink_packet_sock_diag::constants::{AF_INET, AF_INET6, IPPROTO_TCP, TCP_LISTEN};
use netlink_packet_sock_diag::inet::nlas::Nla;
use netlink_packet_sock_diag::inet::{ExtensionFlags, InetRequest, InetResponse, SocketId, StateFlags};
use netlink_sys::protocols::NETLINK_SOCK_DIAG;

use crate::net::netlink::Netlink;

/// Selects ends of connections by their own port and their peer's port. 0 is any.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Ends {
    own: u16,
    peer: u16,
}

impl Ends {
    /// Selects the ends of a server at a port.
    pub fn of_server(port: u16) -> Self {
        Ends { own: port, peer: 0 }
    }

    /// Selects the ends of clients of a server at a port.
    pub fn of_clients(port: u16) -> Self {
        Ends { own: 0, peer: port }
    }
}

/// State of one end of a connection (tcp(7), TCP_INFO; `struct tcp_info` in linux/tcp.h).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TcpInfo {
    /// Smoothed round-trip time.
    pub rtt_microseconds: u32,
    /// Congestion window in segments.
    pub congestion_window: u32,
    /// Segments retransmitted over its whole life.
    pub retransmits: u32,
    /// Delivery rate of the last bytes, in bytes per second.
    pub delivery_rate: u64,
}

/// Cookie that selects no single socket (linux/inet_diag.h, INET_DIAG_NOCOOKIE).
const ANY_COOKIE: [u8; 8] = [0xff; 8];

/// Queries connections of one network namespace.
pub struct SocketDiagnosis(Netlink<SockDiagMessage>);

impl SocketDiagnosis {
    /// Opens a query for this process's network namespace.
    pub fn open() -> Result<Self> {
        let netlink = Netlink::of_family(NETLINK_SOCK_DIAG);
        Ok(SocketDiagnosis(netlink.context("the kernel does not report sockets (sock_diag, CONFIG_INET_DIAG)")?))
    }

    /// Lists established connections, and those that only one end has closed. The kernel forgets an end's state once both ends
    /// have closed.
    pub fn connections(&mut self, ends: Ends) -> Result<Vec<TcpInfo>> {
        let states = StateFlags::ESTABLISHED | StateFlags::CLOSE_WAIT | StateFlags::FIN_WAIT1 | StateFlags::FIN_WAIT2;
        Ok(self.sockets(ends, states)?.iter().filter_map(TcpInfo::of_socket).collect())
    }

    /// Lists the inodes of the sockets that accept connections to an address.
    pub fn listeners(&mut self, address: SocketAddr) -> Result<Vec<u32>> {
        let found = self.sockets(Ends::of_server(address.port()), StateFlags::LISTEN)?;
        let accepts = |each: &&InetResponse| {
            let own = each.header.socket_id.source_address;
            own.is_unspecified() || own.to_canonical() == address.ip().to_canonical()
        };
        Ok(found.iter().filter(accepts).map(|each| each.header.inode).collect())
    }

    /// Lists the addresses at which sockets accept connections, each with the inode of its socket.
    pub fn every_listener(&mut self) -> Result<Vec<(SocketAddr, u32)>> {
        let found = self.sockets(Ends::default(), StateFlags::LISTEN)?;
        let address = |each: &InetResponse| {
            let own = &each.header.socket_id;
            (SocketAddr::new(own.source_address.to_canonical(), own.source_port), each.header.inode)
        };
        Ok(found.iter().map(address).collect())
    }

    /// Whether a socket of this network namespace certainly accepts connections to an address. If not, one of another network
    /// namespace may, behind a translation of addresses.
    pub fn accepts(&mut self, address: SocketAddr) -> bool {
        let accepts = |each: &InetResponse| {
            let own = each.header.socket_id.source_address;
            let is_dual = || each.nlas.iter().any(|each| matches!(each, Nla::SkV6Only(false)));
            own.to_canonical() == address.ip().to_canonical()
                || own.is_unspecified() && (own.is_ipv4() == address.is_ipv4() || own.is_ipv6() && is_dual())
        };
        let found = self.sockets(Ends::of_server(address.port()), StateFlags::LISTEN);
        found.is_ok_and(|found| found.iter().any(accepts))
    }

    /// Returns how many received bytes wait at an end of a connection until its process takes them; `None` if this network
    /// namespace does not have that end.
    pub fn waiting(&mut self, own: SocketAddr, peer: SocketAddr) -> Option<u32> {
        let ipv4 = own.is_ipv4();
        let (family, mut id) = if ipv4 { (AF_INET, SocketId::new_v4()) } else { (AF_INET6, SocketId::new_v6()) };
        (id.source_address, id.source_port) = (own.ip(), own.port());
        (id.destination_address, id.destination_port) = (peer.ip(), peer.port());
        id.cookie = ANY_COOKIE;
        let found = self.0.get(SockDiagMessage::InetRequest(InetRequest {
            family,
            protocol: IPPROTO_TCP,
            extensions: ExtensionFlags::empty(),
            states: StateFlags::all(),
            socket_id: id,
        }));
        found.ok()?.into_iter().find_map(|answer| match answer {
            // The kernel answers with the listener if there is no such connection.
            SockDiagMessage::InetResponse(answer) if answer.header.state != TCP_LISTEN => {
                Some(answer.header.recv_queue)
            }
            _ => None,
        })
    }

    fn sockets(&mut self, ends: Ends, states: StateFlags) -> Result<Vec<InetResponse>> {
        let mut found = Vec::new();
        for (family, mut id) in [(AF_INET, SocketId::new_v4()), (AF_INET6, SocketId::new_v6())] {
            (id.source_port, id.destination_port) = (ends.own, ends.peer);
            id.cookie = ANY_COOKIE;
            let answers = self.0.list(SockDiagMessage::InetRequest(InetRequest {
                family,
                protocol: IPPROTO_TCP,
                extensions: ExtensionFlags::INFO,
                states: states.clone(),
                socket_id: id,
            }))?;
            found.extend(answers.into_iter().filter_map(socket));
        }
        Ok(found)
    }
}

/// The socket that an answer of the kernel is about.
pub fn socket(answer: SockDiagMessage) -> Option<InetResponse> {
    match answer {
        SockDiagMessage::InetResponse(answer) => Some(*answer),
        _ => None,
    }
}

impl TcpInfo {
    /// Reads the state of a socket; `None` if the kernel does not say it.
    pub fn of_socket(answer: &InetResponse) -> Option<Self> {
        answer.nlas.iter().find_map(|each| match each {
            Nla::TcpInfo(bytes) => Self::of(bytes),
            _ => None,
        })
    }

    /// Reads `struct tcp_info`, which only grows at its end. `None` before Linux 4.9, which has no delivery rate.
    fn of(bytes: &[u8]) -> Option<Self> {
        let number = |at: usize| Some(u32::from_ne_bytes(bytes.get(at..at + 4)?.try_into().ok()?));
        Some(TcpInfo {
            rtt_microseconds: number(68)?,
            congestion_window: number(80)?,
            retransmits: number(100)?,
            delivery_rate: u64::from_ne_bytes(bytes.get(160..168)?.try_into().ok()?),
        })
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::net::{TcpListener, TcpStream};

    use super::*;

    /// Both ends of connections over both families, distinguished by the owner of the port.
    #[test]
    fn both_ends_of_a_connection_are_found_and_forgotten() {
        for address in ["127.0.0.1:0", "[::1]:0"] {
            let Ok(listener) = TcpListener::bind(address) else {
                println!("skipped: nobody listens at {address} here");
                continue;
            };
            let port = listener.local_addr().unwrap().port();
            let clients: Vec<_> = (0..3).map(|_| TcpStream::connect(listener.local_addr().unwrap()).unwrap()).collect();
            let mut accepted: Vec<_> = (0..3).map(|_| listener.accept().unwrap().0).collect();
            accepted.iter_mut().for_each(|each| each.write_all(&[7; 100_000]).unwrap());
            let mut kernel = SocketDiagnosis::open().unwrap();
            for ends in [Ends::of_server(port), Ends::of_clients(port)] {
                let found = kernel.connections(ends).unwrap();
                assert_eq!(found.len(), 3, "{address}, {ends:?}: {found:?}");
                assert!(found.iter().all(|each| each.congestion_window > 0 && each.rtt_microseconds > 0), "{found:?}");
            }
            let senders = kernel.connections(Ends::of_server(port)).unwrap();
            assert!(senders.iter().all(|each| each.delivery_rate > 0), "what was sent has a rate: {senders:?}");
            drop((clients, accepted));
            assert_eq!(kernel.connections(Ends::of_server(port)).unwrap(), []);
        }
    }

    #[test]
    fn a_listener_accepts_its_own_addresses_and_no_connection_is_made() {
        let mut kernel = SocketDiagnosis::open().unwrap();
        let listener = |address: &str, only_v6: bool| {
            let address: SocketAddr = address.parse().unwrap();
            let socket =
                socket2::Socket::new(socket2::Domain::for_address(address), socket2::Type::STREAM, None).ok()?;
            if address.is_ipv6() {
                socket.set_only_v6(only_v6).ok()?;
            }
            socket.bind(&address.into()).ok()?;
            socket.listen(1).ok()?;
            Some(TcpListener::from(socket))
        };
        for (address, only_v6, v4, v6) in [
            ("127.0.0.1:0", false, true, false),
            ("0.0.0.0:0", false, true, false),
            ("[::]:0", false, true, true),
            ("[::]:0", true, false, true),
            ("[::1]:0", true, false, true),
        ] {
            let Some(listener) = listener(address, only_v6) else {
                println!("skipped: nobody listens at {address} here");
                continue;
            };
            let port = listener.local_addr().unwrap().port();
            let mut accepts = |host: &str| kernel.accepts(format!("{host}:{port}").parse().unwrap());
            assert_eq!((accepts("127.0.0.1"), accepts("[::1]")), (v4, v6), "{address}, {only_v6}");
            listener.set_nonblocking(true).unwrap();
            assert!(listener.accept().is_err());
        }
    }

    #[test]
    fn bytes_wait_until_they_are_taken() {
        use std::io::Read;
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (own, peer) = (client.peer_addr().unwrap(), client.local_addr().unwrap());
        let mut kernel = SocketDiagnosis::open().unwrap();
        client.write_all(b"abc").unwrap();
        let mut accepted = listener.accept().unwrap().0;
        assert_eq!(kernel.waiting(own, peer), Some(3));
        accepted.read_exact(&mut [0; 3]).unwrap();
        assert_eq!(kernel.waiting(own, peer), Some(0));
        assert_eq!(kernel.waiting(own, "127.0.0.1:1".parse().unwrap()), None);
    }

    #[test]
    fn an_older_kernels_shorter_record_is_read_or_ignored() {
        assert_eq!(TcpInfo::of(&[0; 160]), None);
        let mut bytes = [0; 240];
        bytes[68] = 1;
        bytes[80] = 2;
        bytes[100] = 3;
        bytes[160] = 4;
        let info = TcpInfo { rtt_microseconds: 1, congestion_window: 2, retransmits: 3, delivery_rate: 4 };
        assert_eq!(TcpInfo::of(&bytes), cfg!(target_endian = "little").then_some(info));
    }
}
