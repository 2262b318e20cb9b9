//! Shared by the tests of primitives: connections with buffers of a chosen size, messages of awkward pieces, peers that
//! read in patterns.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::process::Command;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use nix::sched::{CloneFlags, unshare};
use socket2::{Domain, Socket, Type};

use super::PRIMITIVES;
use crate::base::about::Entry;
use crate::base::setting::{Settings, Value};
use crate::count::tally::Tally;
use crate::sys::descriptor::{self, PollFlags};
use crate::transfer::channel::{Channel, Openers, Way};
use crate::transfer::outbox::Piece;
use crate::transfer::primitive::{Direction, Primitive, Sent};

/// Maximum duration of any step.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// Available primitives of a direction; prints why others are unavailable.
pub fn primitives(direction: Direction) -> Vec<&'static Entry<Primitive>> {
    let of_direction = PRIMITIVES.iter().filter(|entry| entry.item.moves.direction() == direction);
    of_direction.filter(|entry| is_available(entry)).collect()
}

fn is_available(entry: &Entry<Primitive>) -> bool {
    let reason = entry.item.unavailable();
    if let Some(reason) = &reason {
        println!("{} is left out: {reason}", entry.name);
    }
    reason.is_none()
}

/// Returns whether a primitive is available on this machine; prints if not.
pub fn has(name: &str) -> bool {
    is_available(PRIMITIVES.iter().find(|entry| entry.name == name).unwrap())
}

/// A worker's state for these primitives.
pub fn openers(out: &str, into: &str) -> Openers {
    openers_with(out, into, &BTreeMap::new())
}

/// As [`openers`], with settings; those that a primitive does not have are ignored.
pub fn openers_with(out: &str, into: &str, given: &BTreeMap<&str, Value>) -> Openers {
    let find = |name| PRIMITIVES.iter().find(|entry| entry.name == name).unwrap();
    let (out, into) = (find(out), find(into));
    let way = Way { out, into };
    way.prepare(&Settings::new(&way.settings(), given)).unwrap()
}

/// Requested sizes of the kernel's buffers in bytes (socket(7)); `None` leaves the choice to the system.
#[derive(Debug, Clone, Copy, Default)]
pub struct Buffers {
    /// SO_SNDBUF of our end.
    pub send: Option<usize>,
    /// SO_RCVBUF of the peer's.
    pub receive: Option<usize>,
}

/// The minimum that the kernel allows.
pub const TINY: Buffers = Buffers { send: Some(1), receive: Some(1) };

/// The two ends of a connection: the peer's and ours, without Nagle's delays.
pub fn connection(buffers: Buffers) -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let peer = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    // Before the connection is established, since the window scale depends on it (tcp(7)).
    buffers.receive.iter().for_each(|&bytes| peer.set_recv_buffer_size(bytes).unwrap());
    peer.connect(&listener.local_addr().unwrap().into()).unwrap();
    let (own, _) = listener.accept().unwrap();
    buffers.send.iter().for_each(|&bytes| socket2::SockRef::from(&own).set_send_buffer_size(bytes).unwrap());
    own.set_nodelay(true).unwrap();
    let peer = TcpStream::from(peer);
    peer.set_read_timeout(Some(PATIENCE)).unwrap();
    (peer, own)
}

/// Our end of a connection, with these primitives.
pub fn channel(own: TcpStream, out: &str, into: &str) -> (Channel, &'static Tally) {
    let tally = Tally::new(0).unwrap();
    (openers(out, into).open(OwnedFd::from(own), tally.shared()).unwrap(), tally)
}

/// Bytes that differ from those of every other seed.
pub fn noise(seed: u64, length: usize) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state as u8
    };
    std::iter::repeat_with(next).take(length).collect()
}

/// A piece in memory, whole.
pub fn in_memory(bytes: &Arc<[u8]>) -> Piece {
    Piece::Bytes(Arc::clone(bytes), 0..bytes.len())
}

/// An unnamed file.
pub fn file(bytes: &[u8]) -> Arc<File> {
    static NUMBER: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(0);
    let number = NUMBER.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    let path = std::env::temp_dir().join(format!("thunderherd-test-{}-{number}", std::process::id()));
    let mut file = File::options().read(true).write(true).create_new(true).open(&path).unwrap();
    std::fs::remove_file(&path).unwrap();
    file.write_all(bytes).unwrap();
    Arc::new(file)
}

/// Messages with all kinds of awkward pieces, and their contiguous bytes. Lent memory stays unchanged for as long as
/// the pieces last.
pub fn awkward_messages() -> (Vec<Vec<Piece>>, Vec<u8>) {
    let mut bytes = Vec::new();
    let mut piece = |seed: usize, length: usize| {
        let part: Arc<[u8]> = noise(seed as u64, length).into();
        bytes.extend_from_slice(&part);
        in_memory(&part)
    };
    // More pieces than a call, a pipe or a ring takes.
    let many = (0..2500).map(|index| piece(index, index % 8)).collect();
    // More than a pipe holds.
    let large = vec![piece(3000, 3), piece(3001, 200_000), piece(3002, 1)];
    let nothing = vec![piece(0, 0), piece(0, 0)];
    let one = vec![piece(3003, 1)];
    let head = piece(3004, 77);
    let on_disk = noise(3005, 150_000);
    bytes.extend_from_slice(&on_disk[5000..140_000]);
    let tail: Arc<[u8]> = noise(3006, 9).into();
    bytes.extend_from_slice(&tail);
    bytes.extend_from_slice(&on_disk[..5]);
    let on_disk = file(&on_disk);
    let part = |range| Piece::File(Arc::clone(&on_disk), range);
    // A file in the middle of a message, and one at its end.
    let with_files = vec![head, part(5000..140_000), in_memory(&tail), part(7..7), part(0..5)];
    (vec![many, large, nothing, one, with_files], bytes)
}

/// Puts a message into the outbox.
pub fn put(channel: &mut Channel, message: &[Piece]) {
    message.iter().for_each(|piece| channel.outbox.push(piece.clone()));
    channel.outbox.end_message();
}

/// Sends the whole outbox, like a worker with a blocking socket, or like an event loop.
pub fn send_all(channel: &mut Channel) -> std::io::Result<()> {
    let deadline = Instant::now() + PATIENCE;
    while channel.send()? == Sent::Blocked {
        assert!(Instant::now() < deadline, "{} bytes are not sent", channel.outbox.bytes());
        let ready = descriptor::poll(&[(channel.socket(), PollFlags::POLLOUT)], Some(PATIENCE))?;
        if ready[0].contains(PollFlags::POLLERR) {
            channel.reap()?;
        }
    }
    Ok(())
}

/// A peer that reads until the end: first a byte at a time, then in these sizes in turn, with a pause now and then.
pub fn reader(mut peer: TcpStream, sizes: &'static [usize]) -> JoinHandle<Vec<u8>> {
    thread::spawn(move || {
        let mut received = Vec::new();
        let mut buffer = vec![0; sizes.iter().copied().max().unwrap()];
        for turn in 0.. {
            let size = if received.len() < 500 { 1 } else { sizes[turn % sizes.len()] };
            match peer.read(&mut buffer[..size]).unwrap() {
                0 => break,
                bytes => received.extend_from_slice(&buffer[..bytes]),
            }
            if turn % 64 == 0 {
                thread::sleep(Duration::from_micros(200));
            }
        }
        received
    })
}

/// Asserts that these are the same bytes; reports where they differ.
pub fn compare(name: &str, received: &[u8], expected: &[u8]) {
    let place = received.iter().zip(expected).position(|(one, other)| one != other);
    assert_eq!(place, None, "{name}: a byte is wrong of {} received, {} sent", received.len(), expected.len());
    assert_eq!(received.len(), expected.len(), "{name}: bytes received");
}

/// Runs a test in a thread with a new network namespace, with these settings (sysctl(8), below /proc/sys). Prints if
/// this user may not create one.
pub fn in_a_network_of_its_own(settings: &[(&str, u64)], test: impl FnOnce() + Send) {
    let own = || {
        if let Err(error) = unshare(CloneFlags::CLONE_NEWNET) {
            return println!("left out: a network namespace: {error}");
        }
        let up = Command::new("ip").args(["link", "set", "lo", "up"]).status().expect("ip(8) is there");
        assert!(up.success());
        for (name, value) in settings {
            std::fs::write(format!("/proc/sys/{name}"), value.to_string()).unwrap();
        }
        test();
    };
    thread::scope(|scope| scope.spawn(own).join()).unwrap_or_else(|panic| std::panic::resume_unwind(panic));
}
