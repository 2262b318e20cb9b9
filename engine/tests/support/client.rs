//! A client over a real socket, which can also misbehave.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::time::Duration;

use socket2::{Domain, Socket, Type};

use super::PATIENCE;
use super::protocol::Exchange;

/// One connection. Anything that takes longer than [`PATIENCE`] is an error.
pub struct Client {
    stream: TcpStream,
    /// Whether a received reply is as correct as the expected one.
    alike: fn(&[u8], &[u8], bool) -> bool,
    /// Whether the server busy-polls, on which that may depend.
    spins: bool,
}

impl Client {
    /// Connects to a port of 127.0.0.1.
    pub fn connect(port: u16) -> Client {
        Client::connect_with(port, None)
    }

    /// Connects with a small receive buffer, so that a server soon notices that the client does not read.
    pub fn connect_slow(port: u16) -> Client {
        Client::connect_with(port, Some(128 << 10))
    }

    fn connect_with(port: u16, receive_buffer: Option<usize>) -> Client {
        let socket = Socket::new(Domain::IPV4, Type::STREAM, None).expect("a socket can be made");
        if let Some(bytes) = receive_buffer {
            socket.set_recv_buffer_size(bytes).expect("a small buffer is allowed");
        }
        let address = SocketAddr::from(([127, 0, 0, 1], port));
        socket
            .connect_timeout(&address.into(), PATIENCE)
            .unwrap_or_else(|error| panic!("connecting to {port}: {error}"));
        let stream = TcpStream::from(socket);
        stream.set_nodelay(true).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.set_write_timeout(Some(PATIENCE)).unwrap();
        Client { stream, alike: |seen, right, _spins| seen == right, spins: false }
    }

    /// Also accepts replies that are equivalent to the expected ones, from a server that busy-polls or not.
    pub fn judging(self, alike: fn(&[u8], &[u8], bool) -> bool, spins: bool) -> Client {
        Client { alike, spins, ..self }
    }

    /// Returns the same connection for another thread.
    pub fn also(&self) -> Client {
        Client { stream: self.stream.try_clone().expect("a descriptor can be copied"), ..*self }
    }

    /// Sets the maximum time of each wait.
    pub fn has_patience(&self, patience: Duration) {
        self.stream.set_read_timeout(Some(patience)).unwrap();
    }

    /// Shuts down both directions, also for threads that are sending or receiving.
    pub fn shut_down(&self) {
        let _ = self.stream.shutdown(Shutdown::Both);
    }

    /// Takes some data if any has arrived. Does not wait.
    pub fn take_what_came(&mut self) {
        self.stream.set_nonblocking(true).unwrap();
        let _ = self.stream.read(&mut [0; 20_000]);
        self.stream.set_nonblocking(false).unwrap();
    }

    /// Takes all data until the connection is over.
    pub fn take_everything(&mut self) {
        let mut buffer = [0; 65536];
        while self.stream.read(&mut buffer).is_ok_and(|bytes| bytes > 0) {}
    }

    /// Returns the client's own port.
    pub fn port(&self) -> u16 {
        self.stream.local_addr().unwrap().port()
    }

    /// Sends all of the bytes.
    pub fn send(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).unwrap_or_else(|error| panic!("sending {} bytes: {error}", bytes.len()));
    }

    /// Sends as much as the server takes before it closes.
    pub fn send_in_vain(&mut self, bytes: &[u8]) {
        if let Err(error) = self.stream.write_all(bytes) {
            assert!(is_end(error.kind()), "the server took too long to close: {error}");
        }
    }

    /// Receives exactly these bytes.
    pub fn receive(&mut self, expected: &[u8]) {
        let mut received = vec![0; expected.len()];
        self.stream
            .read_exact(&mut received)
            .unwrap_or_else(|error| panic!("receiving a reply of {} bytes: {error}", expected.len()));
        self.compare(&received, expected);
    }

    /// Whether data has arrived. Does not wait.
    pub fn has_received(&self) -> bool {
        self.stream.set_nonblocking(true).unwrap();
        let result = self.stream.peek(&mut [0]);
        self.stream.set_nonblocking(false).unwrap();
        result.is_ok_and(|bytes| bytes > 0)
    }

    /// Sends a request and receives its reply.
    pub fn exchange(&mut self, exchange: &Exchange) {
        self.send(&exchange.request);
        self.receive(&exchange.reply);
    }

    /// Tells the server that no more will be sent. Replies can still be received.
    pub fn half_close(&mut self) {
        self.stream.shutdown(Shutdown::Write).expect("the connection is there");
    }

    /// Receives exactly these bytes and then the end.
    pub fn receive_to_end(&mut self, expected: &[u8]) {
        let mut received = Vec::new();
        self.stream
            .read_to_end(&mut received)
            .unwrap_or_else(|error| panic!("after {} of {} bytes: {error}", received.len(), expected.len()));
        assert_eq!(received.len(), expected.len(), "bytes before the end");
        self.compare(&received, expected);
    }

    /// Receives until the connection is over, cleanly or not. The received bytes must be a prefix of `expected`.
    pub fn receive_until_cut(&mut self, expected: &[u8]) -> usize {
        let mut received = Vec::new();
        if let Err(error) = self.stream.read_to_end(&mut received) {
            assert!(is_end(error.kind()), "the connection was not ended: {error}");
        }
        assert!(received.len() <= expected.len(), "{} bytes came, {} were right", received.len(), expected.len());
        self.compare(&received, &expected[..received.len()]);
        received.len()
    }

    /// Receives the expected number of bytes, or fewer if the connection is cut; returns how many.
    pub fn receive_at_most(&mut self, expected: &[u8]) -> usize {
        let mut received = vec![0; expected.len()];
        let mut count = 0;
        while count < received.len() {
            match self.stream.read(&mut received[count..]) {
                Ok(0) => break,
                Ok(bytes) => count += bytes,
                Err(error) if is_end(error.kind()) => break,
                Err(error) => panic!("the connection was not ended: {error}"),
            }
        }
        self.compare(&received[..count], &expected[..count]);
        count
    }

    fn compare(&self, received: &[u8], expected: &[u8]) {
        if !(self.alike)(received, expected, self.spins) {
            let place = received.iter().zip(expected).position(|(seen, right)| seen != right).unwrap_or(0);
            panic!("byte {place} of the reply is {}, not {}", received[place], expected[place]);
        }
    }

    /// Checks that nothing arrives for this long.
    pub fn receive_nothing_for(&mut self, time: Duration) {
        self.stream.set_read_timeout(Some(time)).unwrap();
        let result = self.stream.read(&mut [0]);
        self.stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let kind = result.as_ref().map_err(std::io::Error::kind);
        assert!(matches!(kind, Err(ErrorKind::WouldBlock | ErrorKind::TimedOut)), "something came: {result:?}");
    }

    /// Resets the connection: the kernel sends RST instead of FIN (SO_LINGER with 0 seconds, socket(7)).
    pub fn reset(self) {
        let socket = Socket::from(self.stream);
        socket.set_linger(Some(Duration::ZERO)).expect("the option is allowed");
    }
}

/// Whether the peer has closed or reset the connection.
fn is_end(kind: ErrorKind) -> bool {
    matches!(kind, ErrorKind::ConnectionReset | ErrorKind::BrokenPipe | ErrorKind::ConnectionAborted)
}
