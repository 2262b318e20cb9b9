//! A client's connection. It never waits without end, and reports what came instead of what was expected.

use std::cell::RefCell;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::rc::Rc;
use std::time::{Duration, Instant};

use socket2::{Domain, Socket, Type};

use crate::conform::http::reply::{self, HttpReply};
use crate::conform::protocol::{Exchange, Progress};
use crate::conform::verdict::{Fault, bytes, first_line, quoted};
use crate::count::tally;
use crate::net::socket_diagnosis::SocketDiagnosis;
use crate::sys::named;
use crate::sys::ring::number;

/// Most bytes of a reply that a fault quotes.
const QUOTED: usize = 40;

/// Receive buffer of a client that reads slowly.
const SMALL_BUFFER: usize = 16 << 10;

/// Largest segment of a client that reads slowly: any host must take as many bytes (RFC 9293, section 3.7.1).
const SMALL_SEGMENT: u32 = 536;

/// Wait of a client that sends as much as the server takes.
const NO_MORE_TAKEN: Duration = Duration::from_millis(20);

/// Maximum bytes of a receive call.
const MOST: usize = 64 << 10;

/// Maximum bytes that a connection keeps: no case expects as many, and a server may send without end.
const LARGEST: usize = 16 << 20;

/// What is lacking without a thread.
const A_THREAD: &str = "make a thread (ulimit -u)";

/// Most bytes of a request that are kept for a fault.
const KEPT: usize = 200;

/// The beginning of the request that was sent last, on any connection of a case.
#[derive(Debug, Clone, Default)]
pub struct LastRequest(Rc<RefCell<Vec<u8>>>);

impl LastRequest {
    /// Returns its first line for a fault; `None` if there was none.
    pub fn in_words(&self) -> Option<String> {
        let bytes = self.0.borrow();
        (!bytes.is_empty()).then(|| first_line(&bytes))
    }

    /// Forgets it.
    pub fn forget(&self) {
        self.0.borrow_mut().clear();
    }
}

/// The first thing that this process itself could not do in a case, such as for lack of a descriptor. It is no fault of the server.
#[derive(Debug, Clone, Default)]
pub struct OwnTrouble(Rc<RefCell<Option<String>>>);

impl OwnTrouble {
    /// Notes an error of a call, unless a server or the way to it may cause such an error.
    pub fn note(&self, call: &str, error: &io::Error) {
        let is_own = match tally::ErrorKind::of(error) {
            tally::ErrorKind::ResourceLimit => true,
            _ => matches!(number(error), Some(libc::ENOSYS | libc::EPERM)),
        };
        if is_own {
            self.keep(call, error);
        }
    }

    /// Keeps an error of a call that has nothing to do with a server.
    fn keep(&self, call: &str, error: &io::Error) {
        self.0.borrow_mut().get_or_insert_with(|| format!("this command could not {call}: {error}"));
    }

    /// Returns it, and forgets it.
    pub fn take(&self) -> Option<String> {
        self.0.take()
    }
}

/// A connection to the server.
pub struct Connection {
    stream: TcpStream,
    /// What was sent since something came, or the beginning of it.
    request: Vec<u8>,
    /// Whether something came since, so that what is sent next is another request.
    replied: bool,
    last_request: LastRequest,
    trouble: OwnTrouble,
    patience: Duration,
    /// Bytes that arrived and belong to no reply yet.
    unread: Vec<u8>,
    /// How the server ended the connection, if it did.
    ended: Option<End>,
}

/// How a connection ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// The server sent more than [`LARGEST`] bytes, and the rest is not received.
    TooMuch,
    /// With FIN.
    Closed,
    /// With RST.
    Reset,
}

impl Connection {
    /// Connects. A client that is `slow` has a small receive buffer and small segments. The send buffer of the server's kernel
    /// grows with the segments, to some MiB with those of the loopback interface, so that it could hold every reply.
    pub fn open(
        address: SocketAddr,
        patience: Duration,
        slow: bool,
        last_request: LastRequest,
        trouble: OwnTrouble,
    ) -> io::Result<Self> {
        let domain = if address.is_ipv4() { Domain::IPV4 } else { Domain::IPV6 };
        let socket = named("socket", Socket::new(domain, Type::STREAM, None))?;
        if slow {
            named("setsockopt, SO_RCVBUF", socket.set_recv_buffer_size(SMALL_BUFFER))?;
            named("setsockopt, TCP_MAXSEG", socket.set_tcp_mss(SMALL_SEGMENT))?;
        }
        socket.connect_timeout(&address.into(), patience)?;
        let stream = TcpStream::from(socket);
        named("setsockopt, TCP_NODELAY", stream.set_nodelay(true))?;
        named("setsockopt, SO_RCVTIMEO", stream.set_read_timeout(Some(patience)))?;
        named("setsockopt, SO_SNDTIMEO", stream.set_write_timeout(Some(patience)))?;
        let (request, replied, unread, ended) = (Vec::new(), false, Vec::new(), None);
        Ok(Connection { stream, request, replied, last_request, trouble, patience, unread, ended })
    }

    /// Keeps what is sent, for a fault.
    fn keep(&mut self, bytes: &[u8]) {
        if std::mem::take(&mut self.replied) {
            self.request.clear();
        }
        let room = KEPT - self.request.len();
        self.request.extend(bytes.iter().take(room));
        self.last_request.0.borrow_mut().clone_from(&self.request);
    }

    /// Sends all of the bytes.
    pub fn send(&mut self, bytes: &[u8]) -> Result<(), Fault> {
        self.keep(bytes);
        let sent = self.write_all(bytes);
        sent.map_err(|error| {
            Fault::new(
                format!("a server that takes a request of {} bytes", bytes.len()),
                format!("{} while it was sent", in_words(&error, self.patience)),
            )
        })
    }

    fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.stream.write_all(bytes).inspect_err(|error| self.trouble.note("send", error))
    }

    /// Sends as much as the server takes.
    pub fn send_in_vain(&mut self, bytes: &[u8]) {
        self.keep(bytes);
        let _ = self.write_all(bytes);
    }

    /// Sends until the server has taken nothing for a moment, or all of the bytes.
    pub fn send_what_is_taken(&mut self, bytes: &[u8]) {
        self.keep(bytes);
        let _ = self.stream.set_write_timeout(Some(NO_MORE_TAKEN));
        let _ = self.write_all(bytes);
        let _ = self.stream.set_write_timeout(Some(self.patience));
    }

    /// Sends bytes in a thread while `receive` runs, and ends the connection after it.
    pub fn while_sending<T>(&mut self, bytes: &[u8], receive: impl FnOnce(&mut Self) -> T) -> io::Result<T> {
        self.keep(bytes);
        let mut sender = self.second_end()?;
        // The receiver may be slow on purpose. The end of the connection wakes the sender.
        sender.set_write_timeout(None)?;
        let trouble = self.trouble.clone();
        std::thread::scope(|scope| {
            let sending = std::thread::Builder::new().spawn_scoped(scope, move || sender.write_all(bytes));
            let sending = sending.inspect_err(|error| trouble.keep(A_THREAD, error))?;
            let result = receive(self);
            let _ = self.stream.shutdown(Shutdown::Both);
            if let Ok(Err(error)) = sending.join() {
                trouble.note("send", &error);
            }
            Ok(result)
        })
    }

    /// Returns the connection for another thread.
    fn second_end(&self) -> io::Result<TcpStream> {
        self.stream.try_clone().inspect_err(|error| self.trouble.keep("duplicate a descriptor (fcntl)", error))
    }

    /// Tells the server that no more will be sent. The server may have closed already.
    pub fn half_close(&mut self) {
        let _ = self.stream.shutdown(Shutdown::Write);
    }

    /// Resets the connection: the kernel sends RST instead of FIN (SO_LINGER with 0 seconds, socket(7)).
    pub fn reset(self) {
        let _ = Socket::from(self.stream).set_linger(Some(Duration::ZERO));
    }

    /// Receives the reply to an exchange.
    pub fn reply(&mut self, exchange: &Exchange) -> Result<Vec<u8>, Fault> {
        match self.reply_within(exchange, self.patience)? {
            Some(reply) => Ok(reply),
            None => Err(Fault::new(exchange.reply.in_words(), self.silence())),
        }
    }

    /// As [`Connection::reply`]; `None` if for `patience` nothing of it arrives.
    pub fn reply_within(&mut self, exchange: &Exchange, patience: Duration) -> Result<Option<Vec<u8>>, Fault> {
        loop {
            match exchange.reply.judge(&self.unread, self.has_ended()) {
                Progress::Complete(length) => return Ok(Some(self.unread.drain(..length).collect())),
                Progress::Wrong(actual) => return Err(Fault::new(exchange.reply.in_words(), actual)),
                Progress::More => {
                    if let Some(end) = self.ended {
                        return Err(Fault::new(exchange.reply.in_words(), self.early(end)));
                    }
                    if !self.take(MOST, patience) {
                        return Ok(None);
                    }
                }
            }
        }
    }

    /// Receives a reply of HTTP; `head_only`: the reply to HEAD.
    pub fn http(&mut self, head_only: bool) -> Result<HttpReply, Fault> {
        const EXPECTED: &str = "a reply of HTTP";
        loop {
            match reply::read(&self.unread, head_only, self.has_ended()) {
                Ok(Some(reply)) => {
                    self.unread.drain(..reply.length);
                    return Ok(reply);
                }
                Err(actual) => return Err(Fault::new(EXPECTED, actual)),
                Ok(None) => {
                    if let Some(end) = self.ended {
                        return Err(Fault::new(EXPECTED, self.early(end)));
                    }
                    if !self.take(MOST, self.patience) {
                        return Err(Fault::new(EXPECTED, self.silence()));
                    }
                }
            }
        }
    }

    /// Receives the end of the connection, and no further byte.
    pub fn ends(&mut self) -> Result<End, Fault> {
        const EXPECTED: &str = "the end of the connection, and no further byte";
        while self.unread.is_empty() {
            if let Some(end) = self.ended {
                return Ok(end);
            }
            if !self.take(MOST, self.patience) {
                return Err(Fault::new(EXPECTED, self.silence()));
            }
        }
        Err(Fault::new(EXPECTED, format!("{} more: {}", bytes(self.unread.len()), quoted(&self.unread))))
    }

    /// Receives the end of the connection, and no further byte; returns false if it does not come for `patience`.
    pub fn no_more(&mut self, patience: Duration) -> Result<bool, Fault> {
        while self.ended.is_none() && self.unread.is_empty() {
            if !self.take(MOST, patience) {
                return Ok(false);
            }
        }
        self.ends().map(|_| true)
    }

    /// Receives until the end or for so long that nothing comes; returns everything, and the end if it came.
    pub fn everything(&mut self) -> (Vec<u8>, Option<End>) {
        while self.ended.is_none() && self.take(MOST, self.patience) {}
        (std::mem::take(&mut self.unread), self.ended)
    }

    /// Sends bytes and then no more, while receiving. Returns everything that came, and the end if it came.
    pub fn send_all_and_receive(&mut self, bytes: &[u8]) -> (Vec<u8>, Option<End>) {
        self.keep(bytes);
        let Ok(mut sender) = self.second_end() else { return self.everything() };
        std::thread::scope(|scope| {
            let send = move || {
                let _ = sender.write_all(bytes);
                let _ = sender.shutdown(Shutdown::Write);
            };
            if let Err(error) = std::thread::Builder::new().spawn_scoped(scope, send) {
                self.trouble.keep(A_THREAD, &error);
                // Nothing is sent, so nothing would come.
                let _ = self.stream.shutdown(Shutdown::Both);
            }
            let everything = self.everything();
            // A server that neither takes nor ends would keep the sender for another while.
            let _ = self.stream.shutdown(Shutdown::Both);
            everything
        })
    }

    /// Waits until some bytes have come, at most `most` of them, or the end. False if nothing happens for `patience`.
    pub fn take(&mut self, most: usize, patience: Duration) -> bool {
        if self.unread.len() >= LARGEST {
            self.ended = Some(End::TooMuch);
            return true;
        }
        let mut buffer = vec![0; most];
        let deadline = Instant::now() + patience;
        loop {
            let left = deadline.saturating_duration_since(Instant::now()).max(Duration::from_millis(1));
            let _ = self.stream.set_read_timeout(Some(left));
            match self.stream.read(&mut buffer) {
                Ok(0) => self.ended = Some(End::Closed),
                Ok(count) => {
                    self.unread.extend_from_slice(&buffer[..count]);
                    self.replied = true;
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) if is_timeout(&error) => return false,
                Err(error) => {
                    self.trouble.note("receive", &error);
                    self.ended = Some(End::Reset);
                }
            }
            return true;
        }
    }

    /// Waits until the server has taken what was sent, so that the next bytes come in another call. The kernel says so of a
    /// server on this machine; of another one there is only a pause. Returns whether the kernel said so.
    pub fn await_taken(&self) -> bool {
        const PAUSE: Duration = Duration::from_micros(200);
        const PAUSES: usize = 1000;
        const UNSEEN: Duration = Duration::from_millis(1);
        let ends = || Some((self.stream.peer_addr().ok()?, self.stream.local_addr().ok()?));
        let (Ok(mut kernel), Some((own, peer))) = (SocketDiagnosis::open(), ends()) else {
            std::thread::sleep(UNSEEN);
            return false;
        };
        for _ in 0..PAUSES {
            std::thread::sleep(PAUSE);
            match kernel.waiting(own, peer) {
                None => return false,
                Some(0) => return true,
                Some(_) => {}
            }
        }
        false
    }

    /// Whether nothing has come that belongs to no reply.
    pub fn is_quiet(&self) -> bool {
        self.unread.is_empty()
    }

    /// Whether the server has ended the connection between two replies, or reset it.
    pub fn has_ended_early(&self) -> bool {
        self.ended == Some(End::Reset) || self.ended == Some(End::Closed) && self.is_quiet()
    }

    fn silence(&self) -> String {
        let after = if self.unread.is_empty() { "nothing".to_owned() } else { self.so_far() + ", then nothing" };
        format!("{after} for {}", seconds(self.patience))
    }

    /// Whether the server has ended the connection.
    fn has_ended(&self) -> bool {
        self.ended.is_some_and(|end| end != End::TooMuch)
    }

    fn early(&self, end: End) -> String {
        let how = match end {
            End::TooMuch => return format!("more than {}", bytes(LARGEST)),
            End::Closed => "the end",
            End::Reset => "a reset",
        };
        if self.unread.is_empty() { format!("{how} instead") } else { format!("{how} after {}", self.so_far()) }
    }

    fn so_far(&self) -> String {
        match self.unread.len() {
            count @ ..=QUOTED => format!("{} ({})", bytes(count), quoted(&self.unread)),
            count => bytes(count),
        }
    }
}

/// Describes why a call failed.
pub fn in_words(error: &io::Error, patience: Duration) -> String {
    match error.kind() {
        ErrorKind::ConnectionRefused => "connection refused".to_owned(),
        ErrorKind::ConnectionReset => "a reset".to_owned(),
        ErrorKind::BrokenPipe => "the end of the connection".to_owned(),
        _ if is_timeout(error) => format!("nothing for {}", seconds(patience)),
        _ => error.to_string(),
    }
}

fn is_timeout(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut)
}

fn seconds(time: Duration) -> String {
    format!("{} s", time.as_secs_f64())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_errors_that_no_server_causes_are_own_trouble() {
        let noted = |number| {
            let trouble = OwnTrouble::default();
            trouble.note("connect", &io::Error::from_raw_os_error(number));
            trouble.take()
        };
        for number in [libc::EMFILE, libc::ENOBUFS, libc::EADDRNOTAVAIL, libc::ENOSYS, libc::EPERM] {
            assert!(noted(number).is_some_and(|reason| reason.starts_with("this command could not connect: ")));
        }
        for number in [libc::ECONNREFUSED, libc::ECONNRESET, libc::EPIPE, libc::EAGAIN, libc::EHOSTUNREACH] {
            assert_eq!(noted(number), None, "{number}");
        }
    }
}
