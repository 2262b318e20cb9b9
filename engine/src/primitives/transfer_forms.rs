//! Test-only transfers that move bytes without copying, under the same connection code as every primitive.
//!
//! They hold the form of [`Transfer`] to what zero-copy needs of it: bytes that are neither in the outbox nor with the
//! peer, pieces that must not be touched before their completion, completions that keep a socket ready, received bytes
//! that are stored nowhere.

use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use crate::connection::{Connection, Progress};
use crate::exchange::Caller;
use crate::inbox::Inbox;
use crate::outbox::{Outbox, Piece};
use crate::primitive::{Received, Sent, Transfer, Waits, Want};
use crate::setting::{Settings, Value};
use crate::sys::descriptor::{self, PollFlags};
use crate::sys::{socket, zero_copy};
use crate::tally::Tally;
use crate::workload::{Input, Job, Next, Session, Then, Workload};
use crate::workloads::WORKLOADS;

fn would_block(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::WouldBlock
}

fn plain() -> Box<dyn Transfer> {
    (super::send::ENTRY.prepare)(&Settings::new([], &BTreeMap::new())).unwrap().open().unwrap()
}

/// Bytes go through a pipe, which may hold some while the outbox is empty.
struct Splice {
    pipe: (OwnedFd, OwnedFd),
    held: usize,
}

impl Splice {
    fn new() -> Self {
        let pipe = descriptor::pipe().unwrap();
        Splice { pipe, held: 0 }
    }
}

impl Transfer for Splice {
    fn receive(&mut self, socket: BorrowedFd<'_>, want: Want, inbox: &mut Inbox) -> io::Result<Received> {
        plain().receive(socket, want, inbox)
    }

    fn send(&mut self, socket: BorrowedFd<'_>, outbox: &mut Outbox) -> io::Result<Sent> {
        loop {
            if self.held == 0 {
                let Some(Piece::Bytes(bytes, range)) = outbox.front() else { return Ok(Sent::Done) };
                // What one page holds always fits into an empty pipe.
                let most = range.len().min(4096);
                self.held = descriptor::write(self.pipe.1.as_fd(), &bytes[range.start..][..most])?;
                outbox.sent(self.held as u64);
            }
            match zero_copy::splice(self.pipe.0.as_fd(), socket, self.held) {
                Ok(bytes) => self.held -= bytes,
                Err(error) if would_block(&error) => return Ok(Sent::Blocked),
                Err(error) => return Err(error),
            }
            outbox.count_call();
        }
    }
}

/// Pieces are held until the error queue says that the kernel is done with them.
struct ZeroCopy {
    held: BTreeMap<u32, Piece>,
    calls: u32,
}

impl ZeroCopy {
    fn new(socket: BorrowedFd<'_>) -> Self {
        zero_copy::allow_zero_copy(socket).unwrap();
        ZeroCopy { held: BTreeMap::new(), calls: 0 }
    }
}

impl Transfer for ZeroCopy {
    fn receive(&mut self, socket: BorrowedFd<'_>, want: Want, inbox: &mut Inbox) -> io::Result<Received> {
        plain().receive(socket, want, inbox)
    }

    fn send(&mut self, socket: BorrowedFd<'_>, outbox: &mut Outbox) -> io::Result<Sent> {
        while let Some(piece @ Piece::Bytes(bytes, range)) = outbox.front() {
            match socket::send(socket, &bytes[range.clone()], libc::MSG_ZEROCOPY) {
                Ok(sent) => {
                    self.held.insert(self.calls, piece.clone());
                    self.calls += 1;
                    outbox.count_call();
                    outbox.sent(sent as u64);
                }
                Err(error) if would_block(&error) => return Ok(Sent::Blocked),
                // ENOBUFS: too many completions are due; the send buffer is the place to wait for them.
                Err(error) if error.raw_os_error() == Some(libc::ENOBUFS) => drop(self.reap(socket)?),
                Err(error) => return Err(error),
            }
        }
        Ok(Sent::Done)
    }

    fn reap(&mut self, socket: BorrowedFd<'_>) -> io::Result<usize> {
        let before = self.held.len();
        while let Some((first, last, _copied)) = zero_copy::completion(socket)? {
            self.held.retain(|call, _| !(first..=last).contains(call));
        }
        Ok(before - self.held.len())
    }

    fn finish(mut self: Box<Self>, socket: OwnedFd, deadline: Instant) {
        while !self.held.is_empty() && Instant::now() < deadline {
            let patience = deadline.saturating_duration_since(Instant::now()).min(Duration::from_millis(10));
            let _ = descriptor::poll(&[(socket.as_fd(), PollFlags::empty())], Some(patience));
            let _ = self.reap(socket.as_fd());
        }
        if !self.held.is_empty() {
            let _ = zero_copy::reset_on_close(socket.as_fd());
        }
        drop(socket);
        drop(self.held);
    }
}

/// Received bytes are thrown away by the kernel (MSG_TRUNC).
struct Discard;

impl Transfer for Discard {
    fn receive(&mut self, socket: BorrowedFd<'_>, want: Want, inbox: &mut Inbox) -> io::Result<Received> {
        inbox.count_call();
        match socket::recv(socket, inbox.room(want.most()), libc::MSG_TRUNC)? {
            0 => Ok(Received::End),
            bytes => Ok(Received::Discarded(bytes)),
        }
    }

    fn send(&mut self, socket: BorrowedFd<'_>, outbox: &mut Outbox) -> io::Result<Sent> {
        plain().send(socket, outbox)
    }
}

fn pair() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    (client, listener.accept().unwrap().0)
}

fn bytes_workload() -> &'static Workload {
    WORKLOADS.iter().find(|entry| entry.name == "bytes").unwrap().item
}

fn session(limit: u64) -> Box<dyn Session> {
    let workload = bytes_workload();
    let given = BTreeMap::from([("limit", Value::Integer(limit))]);
    (workload.service)(&Settings::new(workload.service_settings, &given), Waits::InTheCall).unwrap().open()
}

/// Drives a connection as an event loop does, until it closes or a minute is over.
fn drive(connection: &mut Connection) -> usize {
    let (mut reaped, deadline) = (0, Instant::now() + Duration::from_secs(60));
    loop {
        assert!(Instant::now() < deadline, "the connection does not come to its end");
        match connection.advance() {
            Progress::Closed => return reaped,
            Progress::Work(job) => connection.work(job),
            Progress::Blocked(flags) | Progress::Yields(flags) => {
                let ready = descriptor::poll(&[(connection.socket(), flags)], Some(Duration::from_secs(10))).unwrap();
                if ready[0].contains(PollFlags::POLLERR) {
                    reaped += connection.reap().unwrap();
                }
            }
        }
    }
}

const LARGE: usize = 3_000_000;

/// Asks twice for a large reply, reads slowly, and compares every byte.
fn two_large_replies(open: impl FnOnce(BorrowedFd<'_>) -> Box<dyn Transfer>) -> (u64, usize) {
    let (mut client, server) = pair();
    server.set_nonblocking(true).unwrap();
    let transfer = open(server.as_fd());
    let tally = Tally::new(0).unwrap();
    let reader = std::thread::spawn(move || {
        client.write_all(format!("{LARGE}\n{LARGE}\n").as_bytes()).unwrap();
        let mut received = Vec::new();
        let mut buffer = [0; 10_000];
        while received.len() < 2 * LARGE {
            std::thread::sleep(Duration::from_micros(50));
            let bytes = client.read(&mut buffer).unwrap();
            assert!(bytes > 0, "the replies ended early");
            received.extend_from_slice(&buffer[..bytes]);
        }
        for (index, byte) in received.iter().enumerate() {
            assert_eq!(*byte, (index % LARGE % 251) as u8, "byte {index}");
        }
    });
    let mut connection = Connection::new(server.into(), session(LARGE as u64), transfer, tally.shared());
    let reaped = drive(&mut connection);
    connection.finish();
    reader.join().unwrap();
    assert_eq!(tally.shared().bytes_sent.load(Relaxed), 2 * LARGE as u64);
    assert!(tally.counts().errors.is_empty(), "{:?}", tally.counts().errors);
    (tally.counts().requests, reaped)
}

#[test]
fn plain_sending_survives_partial_writes() {
    assert_eq!(two_large_replies(|_| plain()), (2, 0));
}

#[test]
fn bytes_in_a_pipe_are_not_forgotten_when_the_outbox_is_empty() {
    assert_eq!(two_large_replies(|_| Box::new(Splice::new())), (2, 0));
}

#[test]
fn completions_are_reaped_and_do_not_look_like_failures() {
    let (requests, reaped) = two_large_replies(|socket| Box::new(ZeroCopy::new(socket)));
    assert_eq!(requests, 2);
    assert!(reaped > 0);
}

#[test]
fn an_unread_completion_keeps_the_socket_ready_until_it_is_reaped() {
    let (mut client, server) = pair();
    server.set_nonblocking(true).unwrap();
    let transfer = Box::new(ZeroCopy::new(server.as_fd()));
    let tally = Tally::new(0).unwrap();
    let mut connection = Connection::new(server.into(), session(LARGE as u64), transfer, tally.shared());
    client.write_all(b"4000\n").unwrap();
    std::thread::sleep(Duration::from_millis(20));
    assert!(matches!(connection.advance(), Progress::Blocked(_)));
    client.read_exact(&mut [0; 4000]).unwrap();
    let ready = |connection: &Connection| {
        let patience = Some(Duration::from_millis(200));
        descriptor::poll(&[(connection.socket(), PollFlags::empty())], patience).unwrap()[0]
    };
    assert!(ready(&connection).contains(PollFlags::POLLERR));
    assert_eq!(connection.reap().unwrap(), 1);
    assert!(ready(&connection).is_empty());
}

#[test]
fn pieces_are_held_until_their_completion() {
    let (client, server) = pair();
    let mut transfer = ZeroCopy::new(server.as_fd());
    let bytes: std::sync::Arc<[u8]> = vec![7; 4000].into();
    let mut outbox = Outbox::default();
    outbox.push(Piece::Bytes(bytes.clone(), 0..4000));
    assert_eq!(transfer.send(server.as_fd(), &mut outbox).unwrap(), Sent::Done);
    assert!(outbox.is_empty());
    assert_eq!(std::sync::Arc::strong_count(&bytes), 2);
    drop(client);
    Box::new(transfer).finish(server.into(), Instant::now() + Duration::from_secs(1));
    assert_eq!(std::sync::Arc::strong_count(&bytes), 1);
}

#[test]
fn discarded_bytes_count_as_received_but_are_not_compared() {
    let (client, mut server) = pair();
    server.write_all(&[1; 4000]).unwrap();
    let workload = bytes_workload();
    let given = BTreeMap::from([("check", Value::Word("pattern".to_owned()))]);
    let conversation = (workload.client)(&Settings::new(workload.client_settings, &given)).unwrap().open();
    let tally = Tally::new(0).unwrap();
    let mut caller = Caller::new(client.into(), conversation, Box::new(Discard), tally.shared(), None);
    assert!(caller.exchange().is_ok());
    assert_eq!(tally.shared().bytes_received.load(Relaxed), 4000);
}

/// Answers each line by a job: what a workload does whose requests compute.
struct Computing;

impl Session for Computing {
    fn first(&self) -> Want {
        Want::Exactly(2)
    }

    fn receive(&mut self, input: &mut Input<'_>, _outbox: &mut Outbox) -> Result<Next, crate::tally::ErrorKind> {
        if input.ended {
            return Ok(Next::Close);
        }
        assert!(input.calls > 0 || !input.bytes().is_empty());
        let digit = input.bytes()[0];
        input.take(2.min(input.bytes().len()));
        let job: Job = Box::new(move |outbox| {
            outbox.push(Piece::Bytes(vec![digit].into(), 0..1));
            outbox.end_message();
            // As when something that the request needed was not to be had.
            if digit == b'!' { Err(crate::tally::ErrorKind::ResourceLimit) } else { Ok(()) }
        });
        Ok(Next::Work(job, Then::Receive(Want::Exactly(2))))
    }
}

#[test]
fn requests_that_compute_are_answered_in_their_order() {
    let (mut client, server) = pair();
    let tally = Tally::new(0).unwrap();
    let served = std::thread::spawn(move || {
        let mut connection = Connection::new(server.into(), Box::new(Computing), plain(), tally.shared());
        connection.serve();
        connection.finish();
    });
    client.write_all(b"1\n2\n3\n").unwrap();
    client.shutdown(std::net::Shutdown::Write).unwrap();
    let mut reply = String::new();
    client.read_to_string(&mut reply).unwrap();
    served.join().unwrap();
    assert_eq!((reply.as_str(), tally.counts().requests), ("123", 3));
}

#[test]
fn what_a_failed_request_has_to_say_is_sent_before_the_end() {
    let (mut client, server) = pair();
    let tally = Tally::new(0).unwrap();
    // Nothing behind it: what is left unread when a connection is closed resets it.
    client.write_all(b"1\n!\n").unwrap();
    let mut connection = Connection::new(server.into(), Box::new(Computing), plain(), tally.shared());
    connection.serve();
    connection.finish();
    let mut reply = String::new();
    client.read_to_string(&mut reply).unwrap();
    let counts = tally.counts();
    assert_eq!((reply.as_str(), counts.requests, counts.closed), ("1!", 1, 1));
    assert_eq!(counts.errors, BTreeMap::from([("resource_limit", 1)]));
}
