//! Loopback ports without a server, as long as the socket is held, or that no client may connect to.

use std::net::{SocketAddr, TcpListener};

use socket2::{Domain, Socket, Type};

use super::{Ran, engine, refused, run};

/// Returns a port on which nobody listens, so that connections are refused.
pub fn nobody_listens() -> (u16, Socket) {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).expect("a socket");
    socket.bind(&SocketAddr::from(([127, 0, 0, 1], 0)).into()).expect("a port");
    let port = socket.local_addr().expect("an address").as_socket().expect("of the Internet").port();
    (port, socket)
}

/// Returns a listener whose queue is full and never emptied.
pub fn nobody_accepts() -> (u16, Socket) {
    let (port, socket) = nobody_listens();
    socket.listen(0).expect("a listener");
    (port, socket)
}

/// A listener that no client may reach.
pub struct Untouched(TcpListener);

impl Untouched {
    pub fn new() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        Untouched(listener)
    }

    /// Address at which it listens.
    pub fn address(&self) -> String {
        self.0.local_addr().unwrap().to_string()
    }

    /// Runs a load of it.
    pub fn load(&self, workload: &str, arguments: &[&str]) -> Ran {
        run(engine().args(["load", workload, "--connect", &self.address()]).args(arguments))
    }

    /// Checks that the load is refused with this code, that message and hint name these values, and that nobody has
    /// connected.
    #[track_caller]
    pub fn refuses(&self, code: &str, workload: &str, arguments: &[&str], words: &[&str]) {
        refused(&self.load(workload, arguments), code, words);
        self.is_untouched(&format!("{workload} {arguments:?}"));
    }

    /// Checks that nobody has connected.
    #[track_caller]
    pub fn is_untouched(&self, what: &str) {
        let accepted = self.0.accept();
        assert!(accepted.is_err(), "{what} was refused after it had connected");
    }
}
