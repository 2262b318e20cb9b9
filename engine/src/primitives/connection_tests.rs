//! Every primitive with the connections that all designs and loads share: partial writes, pieces that must not change
//! before their completion, completions that keep a socket ready, received bytes that are not stored, replies in parts.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use super::fixtures::{openers, openers_with, primitives};
use crate::base::setting::{Settings, Value};
use crate::base::window::Window;
use crate::client::exchange::Caller;
use crate::count::tally::{Counts, Tally};
use crate::protocol::workload::{Input, Job, More, Next, Session, Then, Workload};
use crate::server::connection::{Connection, Progress, Turn, has_computed};
use crate::sys::descriptor::{self, PollFlags};
use crate::transfer::channel::Channel;
use crate::transfer::outbox::{Outbox, Piece};
use crate::transfer::primitive::{Direction, Sent, Waits, Want};
use crate::workloads::WORKLOADS;

fn pair() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    (client, listener.accept().unwrap().0)
}

fn bytes_workload() -> &'static Workload {
    WORKLOADS.iter().find(|entry| entry.name == "bytes").unwrap().item
}

fn session(limit: u64) -> Box<dyn Session> {
    session_that_computes(limit, 0)
}

/// `compute`: microseconds for each request.
fn session_that_computes(limit: u64, compute: u64) -> Box<dyn Session> {
    let workload = bytes_workload();
    let given = [("limit", limit), ("compute", compute)].map(|(name, value)| (name, Value::Integer(value)));
    let given = BTreeMap::from(given);
    (workload.service)(&Settings::new(workload.service_settings, &given), Waits::InTheCall).unwrap().open()
}

/// Drives a connection as an event loop does, until it closes or a minute is over.
fn drive(connection: &mut Connection) {
    let deadline = Instant::now() + Duration::from_secs(60);
    let mut ready = PollFlags::empty();
    loop {
        assert!(Instant::now() < deadline, "the connection does not come to its end");
        let flags = match connection.turn(ready) {
            Turn::Over => return,
            Turn::Blocked(flags) | Turn::Yields(flags) => flags,
        };
        ready = descriptor::poll(&[(connection.socket(), flags)], Some(Duration::from_secs(10))).unwrap()[0];
    }
}

const LARGE: usize = 3_000_000;

/// Requests a large reply twice, reads slowly, and compares every byte.
fn two_large_replies(out: &str) -> Counts {
    let (mut client, server) = pair();
    server.set_nonblocking(true).unwrap();
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
    let channel = openers(out, "recv").open(server.into(), tally.shared()).unwrap();
    let mut connection = Connection::new(channel, session(LARGE as u64), None);
    drive(&mut connection);
    connection.finish();
    reader.join().unwrap();
    let counts = tally.counts();
    assert_eq!((counts.bytes_sent, counts.requests), (2 * LARGE as u64, 2));
    assert!(counts.errors.is_empty(), "{:?}", counts.errors);
    counts
}

#[test]
fn every_primitive_survives_partial_writes() {
    for primitive in primitives(Direction::Out) {
        let counts = two_large_replies(primitive.name);
        assert_eq!(counts.completions > 0, primitive.item.completes, "{}: {counts:?}", primitive.name);
        // On loopback the kernel copies all of them (skb_orphan_frags_rx).
        assert_eq!(counts.completions_copied, counts.completions, "{}", primitive.name);
    }
}

#[test]
fn an_unread_completion_keeps_the_socket_ready_until_it_is_reaped() {
    let (mut client, server) = pair();
    server.set_nonblocking(true).unwrap();
    let tally = Tally::new(0).unwrap();
    let channel = openers("zerocopy", "recv").open(server.into(), tally.shared()).unwrap();
    let mut connection = Connection::new(channel, session(LARGE as u64), None);
    client.write_all(b"4000\n").unwrap();
    std::thread::sleep(Duration::from_millis(20));
    assert!(matches!(connection.advance(), Progress::Blocked(_)));
    client.read_exact(&mut [0; 4000]).unwrap();
    let ready = |connection: &Connection| {
        let patience = Some(Duration::from_millis(200));
        descriptor::poll(&[(connection.socket(), PollFlags::empty())], patience).unwrap()[0]
    };
    assert!(ready(&connection).contains(PollFlags::POLLERR));
    assert_eq!(tally.counts().completions, 0);
    assert!(matches!(connection.turn(PollFlags::POLLERR), Turn::Blocked(_)));
    assert_eq!(tally.counts().completions, 1);
    assert!(ready(&connection).is_empty());
}

#[test]
fn half_turns_receive_first_and_then_send() {
    let (mut client, server) = pair();
    server.set_nonblocking(true).unwrap();
    let tally = Tally::new(0).unwrap();
    let channel = openers("send_each", "recv").open(server.into(), tally.shared()).unwrap();
    let mut connection = Connection::new(channel, session(LARGE as u64), None);
    let comes = |connection: &Connection| {
        let ready = descriptor::poll(&[(connection.socket(), PollFlags::POLLIN)], Some(Duration::from_secs(60)));
        assert!(!ready.unwrap()[0].is_empty());
    };
    let counted = || {
        let counts = tally.counts();
        (counts.receive_calls, counts.bytes_sent, counts.requests)
    };
    client.write_all(b"5\n7\n").unwrap();
    comes(&connection);
    assert_eq!((connection.receive_turn(PollFlags::empty()), counted()), (Turn::Yields(PollFlags::POLLOUT), (1, 0, 0)));
    assert_eq!((connection.send_turn(), counted()), (Turn::Yields(PollFlags::POLLIN), (1, 12, 2)));
    assert_eq!((connection.send_turn(), counted()), (Turn::Blocked(PollFlags::POLLIN), (1, 12, 2)));
    drop(client);
    comes(&connection);
    assert_eq!(connection.receive_turn(PollFlags::empty()), Turn::Over);
}

/// Three requests have arrived together, and each needs computing.
#[test]
fn a_turn_computes_one_request_and_sends_its_reply() {
    let (mut client, server) = pair();
    server.set_nonblocking(true).unwrap();
    let tally = Tally::new(0).unwrap();
    let channel = openers("send_each", "recv").open(server.into(), tally.shared()).unwrap();
    let mut connection = Connection::new(channel, session_that_computes(LARGE as u64, 1), None);
    client.write_all(b"5\n7\n9\n").unwrap();
    let ready = descriptor::poll(&[(connection.socket(), PollFlags::POLLIN)], Some(Duration::from_secs(60)));
    assert!(!ready.unwrap()[0].is_empty());
    let none = PollFlags::empty();
    let sent = || (tally.counts().requests, tally.counts().bytes_sent);
    let waits = Turn::Yields(PollFlags::POLLOUT);
    assert_eq!((connection.receive_turn(none), connection.has_work(), sent()), (waits, true, (0, 0)));
    assert_eq!((connection.send_turn(), sent()), (Turn::Blocked(PollFlags::POLLIN), (0, 0)));
    assert_eq!((connection.work_turn(), connection.has_work(), sent()), (waits, true, (1, 5)));
    assert!(has_computed() && !has_computed());
    assert_eq!((connection.another_turn(none), sent()), (waits, (1, 5)));
    assert!(!has_computed());
    assert_eq!((connection.turn(none), sent()), (waits, (2, 12)));
    assert_eq!((connection.turn(none), sent()), (Turn::Blocked(PollFlags::POLLIN), (3, 21)));
    assert!(!connection.has_work());
}

/// Sends 4,000 bytes without copying over a channel whose peer reads nothing yet.
fn sent(server: OwnedFd, tally: &'static Tally) -> (Channel, Arc<[u8]>) {
    let mut channel = openers("zerocopy", "recv").open(server, tally.shared()).unwrap();
    let bytes: Arc<[u8]> = vec![7; 4000].into();
    channel.outbox.push(Piece::Bytes(Arc::clone(&bytes), 0..4000));
    assert_eq!(channel.send().unwrap(), Sent::Done);
    assert!(channel.outbox.is_empty());
    (channel, bytes)
}

fn within_a_minute(mut done: impl FnMut() -> bool) -> bool {
    let deadline = Instant::now() + Duration::from_secs(60);
    while !done() && Instant::now() < deadline {
        std::thread::sleep(Duration::from_millis(1));
    }
    done()
}

#[test]
fn pieces_are_held_until_their_completion() {
    let (mut client, server) = pair();
    let tally = Tally::new(0).unwrap();
    let (channel, bytes) = sent(server.into(), tally);
    assert_eq!(Arc::strong_count(&bytes), 2);
    channel.finish(Duration::from_secs(60));
    client.read_to_end(&mut Vec::new()).unwrap();
    assert!(within_a_minute(|| Arc::strong_count(&bytes) == 1));
    assert_eq!((tally.counts().completions, tally.counts().closed), (1, 1));
}

#[test]
fn finishing_does_not_wait_and_a_peer_that_never_reads_is_reset() {
    let (mut client, server) = pair();
    let tally = Tally::new(0).unwrap();
    // So small that the peer's socket does not take all of it.
    socket2::SockRef::from(&client).set_recv_buffer_size(4096).unwrap();
    socket2::SockRef::from(&server).set_send_buffer_size(4096).unwrap();
    server.set_nonblocking(true).unwrap();
    let mut channel = openers("zerocopy", "recv").open(server.into(), tally.shared()).unwrap();
    let bytes: Arc<[u8]> = vec![7; LARGE].into();
    channel.outbox.push(Piece::Bytes(Arc::clone(&bytes), 0..LARGE));
    assert_eq!(channel.send().unwrap(), Sent::Blocked);
    let began = Instant::now();
    channel.finish(Duration::from_secs(3));
    assert!(began.elapsed() < Duration::from_secs(2));
    assert!(within_a_minute(|| Arc::strong_count(&bytes) == 1));
    let end = client.read_to_end(&mut Vec::new());
    assert_eq!(end.unwrap_err().kind(), std::io::ErrorKind::ConnectionReset);
}

#[test]
fn discarded_bytes_count_as_received_but_are_not_compared() {
    let (client, mut server) = pair();
    server.write_all(&[1; 4000]).unwrap();
    let workload = bytes_workload();
    let given = BTreeMap::from([("check", Value::Word("pattern".to_owned()))]);
    let asker = (workload.client)(&Settings::new(workload.client_settings, &given)).unwrap();
    let tally = Tally::new(0).unwrap();
    let channel = openers("send_each", "recv_truncate").open(client.into(), tally.shared()).unwrap();
    let window = Window::whole_life();
    let mut caller = Caller::new(channel, asker.as_ref(), None, &window, Duration::from_secs(10));
    assert!(caller.exchange().is_ok());
    assert_eq!(tally.shared().bytes_received.load(Relaxed), 4000);
}

/// Replies to any input with a long reply in parts, of small messages, and then ends.
struct InParts {
    message: usize,
    /// The parts to come, the last one first. The test keeps them too, because the peer may read from their memory at
    /// any later time.
    parts: Vec<Arc<[u8]>>,
}

const PART: usize = 64_000;

impl Session for InParts {
    fn first(&self) -> Want {
        Want::AtMost(1)
    }

    fn receive(&mut self, input: &mut Input<'_>, _outbox: &mut Outbox) -> Result<Next, crate::count::tally::ErrorKind> {
        if input.ended {
            return Ok(Next::Close);
        }
        input.take(input.bytes().len());
        Ok(Next::Begun(Then::Receive(Want::AtMost(1))))
    }

    fn more(&mut self, outbox: &mut Outbox) -> More {
        let Some(bytes) = self.parts.pop() else { return More::End };
        outbox.push_messages(Piece::Bytes(bytes, 0..PART), self.message as u64, self.message as u64);
        More::Part
    }
}

/// Every primitive sends a reply in parts, cut or gathered, to a peer that reads slowly, and then the end; the outbox
/// never holds more than a part.
#[test]
fn a_reply_in_parts_comes_whole_and_then_its_end() {
    const PARTS: usize = 40;
    let parts: Vec<Arc<[u8]>> = (0..PARTS as u8).map(|byte| vec![byte; PART].into()).collect();
    for primitive in primitives(Direction::Out) {
        for (message, at_once) in [(640, 1), (64, 1024), (PART, 1)] {
            let (mut client, server) = pair();
            server.set_nonblocking(true).unwrap();
            let tally = Tally::new(0).unwrap();
            let given = BTreeMap::from([("messages_at_once", Value::Integer(at_once))]);
            let channel = openers_with(primitive.name, "recv", &given).open(server.into(), tally.shared()).unwrap();
            let mut connection = Connection::new(channel, Box::new(InParts { message, parts: parts.clone() }), None);
            let reader = std::thread::spawn(move || {
                client.write_all(b"?").unwrap();
                let mut received = Vec::new();
                client.read_to_end(&mut received).unwrap();
                received
            });
            drive(&mut connection);
            connection.finish();
            let received = reader.join().unwrap();
            assert_eq!(received.len(), PARTS * PART, "{}", primitive.name);
            assert!(received.chunks(PART).eq(parts.iter().rev().map(|part| &part[..])), "{}", primitive.name);
            let counts = tally.counts();
            assert_eq!((counts.bytes_sent, counts.requests), ((PARTS * PART) as u64, 1), "{}", primitive.name);
            assert!(counts.errors.is_empty(), "{}: {:?}", primitive.name, counts.errors);
            let messages = (PARTS * PART / message) as u64;
            if at_once > 1 && primitive.item.gathers {
                // A pipe has room for 16 pieces, however small.
                assert!(counts.send_calls < messages / 4, "{} gathers nothing: {counts:?}", primitive.name);
            }
        }
    }
}

/// Replies to each line by a job, as a workload with computing does.
struct Computing;

impl Session for Computing {
    fn first(&self) -> Want {
        Want::Exactly(2)
    }

    fn receive(&mut self, input: &mut Input<'_>, _outbox: &mut Outbox) -> Result<Next, crate::count::tally::ErrorKind> {
        if input.ended {
            return Ok(Next::Close);
        }
        assert!(input.calls > 0 || !input.bytes().is_empty());
        let digit = input.bytes()[0];
        input.take(2.min(input.bytes().len()));
        let job: Job = Box::new(move |outbox| {
            outbox.push(Piece::Bytes(vec![digit].into(), 0..1));
            outbox.end_message();
            // As if a resource for the request was missing.
            if digit == b'!' { Err(crate::count::tally::ErrorKind::ResourceLimit) } else { Ok(()) }
        });
        Ok(Next::Work(job, Then::Receive(Want::Exactly(2))))
    }
}

#[test]
fn requests_that_compute_are_answered_in_their_order() {
    let (mut client, server) = pair();
    let tally = Tally::new(0).unwrap();
    let served = std::thread::spawn(move || {
        let channel = openers("send_each", "recv").open(server.into(), tally.shared()).unwrap();
        let mut connection = Connection::new(channel, Box::new(Computing), None);
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
fn the_error_reply_of_a_failed_request_is_sent_before_the_end() {
    let (mut client, server) = pair();
    let tally = Tally::new(0).unwrap();
    // No input after it: closing a connection with unread data resets it.
    client.write_all(b"1\n!\n").unwrap();
    let channel = openers("send_each", "recv").open(server.into(), tally.shared()).unwrap();
    let mut connection = Connection::new(channel, Box::new(Computing), None);
    connection.serve();
    connection.finish();
    let mut reply = String::new();
    client.read_to_string(&mut reply).unwrap();
    let counts = tally.counts();
    assert_eq!((reply.as_str(), counts.requests, counts.closed), ("1!", 1, 1));
    assert_eq!(counts.errors, BTreeMap::from([("resource_limit", 1)]));
}

/// A load makes room for its threads by this number (`Way::descriptors`).
#[test]
fn a_worker_holds_as_many_descriptors_as_its_primitives_say() {
    let looks = || {
        // Other tests open and close descriptors meanwhile, and must not have them held open here.
        descriptor::leave_descriptors_to_others();
        let held = || std::fs::read_dir("/proc/thread-self/fd").unwrap().count();
        let out = primitives(Direction::Out).into_iter().map(|entry| (entry, entry.name, "recv"));
        let into = primitives(Direction::In).into_iter().map(|entry| (entry, "send_each", entry.name));
        for (entry, out, into) in out.chain(into) {
            let (_peer, own) = pair();
            let before = held();
            let mut openers = openers(out, into);
            assert_eq!(held(), before + entry.item.descriptors, "{}", entry.name);
            let _channel = openers.open(OwnedFd::from(own), Tally::new(0).unwrap().shared()).unwrap();
            assert_eq!(held(), before + entry.item.descriptors, "{}, with a connection", entry.name);
        }
    };
    std::thread::spawn(looks).join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
}
