//! Ports of loopback where no server is, and where none comes as long as the socket is held.

use std::net::SocketAddr;

use socket2::{Domain, Socket, Type};

/// Nobody listens: whoever connects is refused.
pub fn listens() -> (u16, Socket) {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).expect("a socket");
    socket.bind(&SocketAddr::from(([127, 0, 0, 1], 0)).into()).expect("a port");
    let port = socket.local_addr().expect("an address").as_socket().expect("of the Internet").port();
    (port, socket)
}

/// A listener whose queue is full and is never emptied.
pub fn accepts() -> (u16, Socket) {
    let (port, socket) = listens();
    socket.listen(0).expect("a listener");
    (port, socket)
}
