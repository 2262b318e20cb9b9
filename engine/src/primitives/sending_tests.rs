//! Every send primitive under difficult conditions: tiny buffers, peers that hardly read or are gone, signals, messages
//! of more pieces than a call takes.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{ErrorKind, Read};
use std::net::{Shutdown, TcpStream};
use std::os::fd::AsFd;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};

use super::fixtures::{
    Buffers, PATIENCE, TINY, awkward_messages, channel, compare, connection, file, has, in_memory, noise, openers,
    openers_with, primitives, put, reader, send_all,
};
use crate::base::setting::Value;
use crate::count::tally::Tally;
use crate::sys::descriptor::{self, PollFlags};
use crate::sys::signal;
use crate::transfer::outbox::Piece;
use crate::transfer::primitive::{Direction, Sent};

/// Runs a test with every primitive, over a blocking and a non-blocking socket, all at the same time: they mostly wait.
fn with_every_primitive(test: impl Fn(&str, bool) + Sync) {
    thread::scope(|scope| {
        for entry in primitives(Direction::Out) {
            for blocking in [true, false] {
                let test = &test;
                scope.spawn(move || test(entry.name, blocking));
            }
        }
    });
}

const SIZES: &[usize] = &[7, 4096, 1, 100, 30_000, 1461];

fn sends_awkward_messages(name: &str, blocking: bool, buffers: Buffers) {
    let (peer, own) = connection(buffers);
    own.set_nonblocking(!blocking).unwrap();
    let reader = reader(peer, SIZES);
    let (messages, expected) = awkward_messages();
    let (mut channel, tally) = channel(own, name, "recv");
    messages.iter().for_each(|message| put(&mut channel, message));
    send_all(&mut channel).unwrap();
    channel.finish(PATIENCE);
    compare(name, &reader.join().unwrap(), &expected);
    assert_eq!(tally.counts().bytes_sent, expected.len() as u64, "{name}");
}

#[test]
fn every_byte_arrives_whatever_the_pieces() {
    with_every_primitive(|name, blocking| {
        sends_awkward_messages(name, blocking, Buffers::default());
    });
}

#[test]
fn every_byte_arrives_through_tiny_buffers() {
    with_every_primitive(|name, blocking| {
        sends_awkward_messages(name, blocking, Buffers { send: TINY.send, receive: Some(16 << 10) });
    });
}

#[test]
fn a_peer_that_takes_a_byte_at_a_time_gets_them_all() {
    with_every_primitive(|name, blocking| {
        let (peer, own) = connection(Buffers { send: Some(1), receive: Some(8192) });
        own.set_nonblocking(!blocking).unwrap();
        let pieces: Vec<Arc<[u8]>> = (0..21).map(|index| noise(index, 97).into()).collect();
        let message: Vec<Piece> = pieces.iter().map(in_memory).collect();
        let reader = reader(peer, &[1]);
        let (mut channel, _) = channel(own, name, "recv");
        put(&mut channel, &message);
        send_all(&mut channel).unwrap();
        channel.finish(PATIENCE);
        compare(name, &reader.join().unwrap(), &pieces.concat());
    });
}

/// Requested send buffers. Linux doubles each, and the smallest is its minimum, 4,608 bytes (socket(7)).
const SEND_BUFFERS: [usize; 3] = [1, 10_000, 40_000];

/// Bytes of a random case, more than the buffers of both ends.
const ALL: usize = 150_000;

/// Bytes of its first message. Linux derives the window from the largest segment so far (net/ipv4/tcp_input.c,
/// tcp_measure_rcv_mss). After tiny segments only, the window is smaller than the next segment, which waits for a timer.
const FIRST: usize = 10_000;

/// Returns a random number from 0 to below `end`.
fn below(random: &mut Xoshiro256PlusPlus, end: usize) -> usize {
    (random.next_u64() % end as u64) as usize
}

/// Cuts the bytes at random into messages of pieces, which lie in one buffer, in buffers of their own, and in a file.
fn cut_at_random(bytes: &Arc<[u8]>, random: &mut Xoshiro256PlusPlus) -> Vec<Vec<Piece>> {
    let on_disk = file(bytes);
    let mut messages = vec![vec![Piece::Bytes(Arc::clone(bytes), 0..FIRST)]];
    let mut start = FIRST;
    while start < bytes.len() {
        let (mut message, most) = (Vec::new(), [4, 100, 3000, 20_000][below(random, 4)]);
        for _ in 0..=below(random, 8) {
            let end = bytes.len().min(start + below(random, most));
            message.push(match below(random, 8) {
                0 => Piece::File(Arc::clone(&on_disk), start as u64..end as u64),
                1..4 => in_memory(&bytes[start..end].into()),
                _ => Piece::Bytes(Arc::clone(bytes), start..end),
            });
            start = end;
        }
        messages.push(message);
    }
    messages
}

/// Sends random messages to a peer that reads random sizes, and compares all bytes. Returns in how many places a call took
/// only a part of what it was given.
fn cut_by_the_socket(name: &str, blocking: bool, send_buffer: usize, seed: u64) -> usize {
    let title = format!("{name}, blocking: {blocking}, send buffer of {send_buffer}, seed {seed}");
    let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
    let bytes: Arc<[u8]> = noise(seed, ALL).into();
    let messages = cut_at_random(&bytes, &mut random);
    let (mut peer, own) = connection(Buffers { send: Some(send_buffer), receive: Some(16 << 10) });
    own.set_nonblocking(!blocking).unwrap();
    own.set_write_timeout(Some(Duration::from_millis(1))).unwrap();
    let settings = BTreeMap::from([("messages_at_once", Value::Integer([1, 3, 1024][below(&mut random, 3)]))]);
    let tally = Tally::new(0).unwrap();
    let mut channel = openers_with(name, "recv", &settings).open(own.into(), tally.shared()).unwrap();
    // A blocking call waits for its timeout whenever the buffers are full, so its peer reads much at a time.
    let most = if blocking { ALL } else { [100, 3000, ALL][below(&mut random, 3)] };
    let (mut messages_left, mut starts, mut cuts) = (messages.iter(), BTreeSet::new(), BTreeSet::new());
    let (mut given, mut received) = (0, Vec::new());
    let deadline = Instant::now() + PATIENCE;
    loop {
        for message in messages_left.by_ref().take(below(&mut random, 4)) {
            for piece in message {
                starts.insert(given);
                given += piece.length();
            }
            put(&mut channel, message);
        }
        let (left, calls) = (channel.outbox.bytes(), tally.counts().send_calls);
        match channel.send().unwrap() {
            Sent::Done if given == ALL as u64 => break,
            Sent::Done => continue,
            Sent::Blocked => {}
        }
        let sent = given - channel.outbox.bytes();
        let is_cut = match channel.outbox.front() {
            // From the pipe: the first of these calls took something, and something is left.
            _ if THROUGH_A_PIPE.contains(&name) => sent == given - left && tally.counts().send_calls > calls + 1,
            Some(Piece::Bytes(..)) => !starts.contains(&sent),
            // A piece of a file may be read in parts.
            _ => false,
        };
        if is_cut {
            cuts.insert(sent);
        }
        assert!(Instant::now() < deadline, "{title}: {} bytes are not sent", channel.outbox.bytes());
        let sockets = [(channel.socket(), PollFlags::POLLOUT), (peer.as_fd(), PollFlags::POLLIN)];
        let ready = descriptor::poll(&sockets, Some(PATIENCE)).unwrap();
        if ready[0].contains(PollFlags::POLLERR) {
            channel.reap().unwrap();
        }
        if ready[1].contains(PollFlags::POLLIN) {
            let mut some = vec![0; 1 + below(&mut random, most)];
            let read = peer.read(&mut some).unwrap();
            received.extend_from_slice(&some[..read]);
        }
    }
    channel.finish(PATIENCE);
    peer.read_to_end(&mut received).unwrap();
    compare(&title, &received, &bytes);
    assert_eq!(tally.counts().bytes_sent, ALL as u64, "{title}");
    cuts.len()
}

/// Primitives whose calls take bytes out of a pipe, not out of the outbox.
const THROUGH_A_PIPE: [&str; 2] = ["splice", "vmsplice"];

/// Whatever part of a message a call takes, the next call continues behind that part.
#[test]
fn partial_writes_of_any_size_lose_and_repeat_no_byte() {
    let cuts = Mutex::new(BTreeMap::new());
    with_every_primitive(|name, blocking| {
        for seed in if blocking { 0..2 } else { 2..6 } {
            for send_buffer in SEND_BUFFERS {
                let more = cut_by_the_socket(name, blocking, send_buffer, seed);
                *cuts.lock().unwrap().entry(name.to_owned()).or_insert(0) += more;
            }
        }
    });
    let cuts = cuts.into_inner().unwrap();
    assert!(cuts.values().all(|&cuts| cuts > 0), "places of partial writes: {cuts:?}");
}

/// Data left in a cork, or with MSG_MORE, would wait for 200 ms; data that waits for a delayed acknowledgement, 40 ms.
#[test]
fn nothing_stays_behind_at_the_end_of_a_message() {
    let bytes: Arc<[u8]> = noise(1, 100).into();
    let on_disk = file(&noise(2, 40_000));
    let part = |range| Piece::File(Arc::clone(&on_disk), range);
    let messages = [
        vec![in_memory(&bytes)],
        vec![in_memory(&bytes), in_memory(&bytes), in_memory(&bytes)],
        vec![in_memory(&bytes), part(0..40)],
        vec![in_memory(&bytes), part(100..39_000), in_memory(&bytes)],
        vec![part(1..39_999)],
    ];
    for entry in primitives(Direction::Out) {
        for (number, message) in messages.iter().enumerate() {
            for marked in [true, false] {
                let (mut peer, own) = connection(Buffers::default());
                let (mut channel, _) = channel(own, entry.name, "recv");
                let mut took = || {
                    put(&mut channel, message);
                    if !marked {
                        // Like a message whose end the session does not know yet.
                        channel.outbox.push(in_memory(&bytes));
                    }
                    let length = channel.outbox.bytes() as usize;
                    let began = Instant::now();
                    send_all(&mut channel).unwrap();
                    peer.read_exact(&mut vec![0; length]).unwrap();
                    began.elapsed()
                };
                let best = (0..5).map(|_| took()).min().unwrap();
                let title = format!("{}, message {number}, marked: {marked}", entry.name);
                assert!(best < Duration::from_millis(30), "{title}: {best:?}");
            }
        }
    }
}

#[test]
fn signals_interrupt_no_message() {
    signal::allow_interruption().unwrap();
    for entry in primitives(Direction::Out) {
        let name = entry.name;
        let (peer, own) = connection(Buffers { send: Some(1), receive: Some(16 << 10) });
        let (messages, expected) = awkward_messages();
        let sender = thread::spawn(move || {
            let (mut channel, _) = channel(own, name, "recv");
            messages.iter().for_each(|message| put(&mut channel, message));
            send_all(&mut channel).unwrap();
            channel.finish(PATIENCE);
            messages
        });
        let interrupt = || {
            signal::interrupt_thread(&sender).unwrap();
            thread::sleep(Duration::from_micros(100));
        };
        // The peer does not read yet, and not everything fits.
        (0..20).for_each(|_| interrupt());
        assert!(!sender.is_finished(), "{name}");
        let reader = reader(peer, SIZES);
        while !sender.is_finished() {
            interrupt();
        }
        let _lent = sender.join().unwrap();
        compare(name, &reader.join().unwrap(), &expected);
    }
}

/// Fills the socket of a peer that does not read.
fn stuck(name: &str, blocking: bool) -> (TcpStream, crate::transfer::channel::Channel, Vec<u8>, Vec<Piece>) {
    let (peer, own) = connection(Buffers { send: Some(1), receive: Some(16 << 10) });
    own.set_nonblocking(!blocking).unwrap();
    own.set_write_timeout(Some(Duration::from_millis(200))).unwrap();
    let bytes: Arc<[u8]> = noise(9, 1_000_000).into();
    let message: Vec<Piece> =
        (0..100).map(|index| Piece::Bytes(Arc::clone(&bytes), index * 10_000..(index + 1) * 10_000)).collect();
    let (mut channel, _) = channel(own, name, "recv");
    put(&mut channel, &message);
    let began = Instant::now();
    assert_eq!(channel.send().unwrap(), Sent::Blocked, "{name}");
    let took = began.elapsed();
    assert!(took < Duration::from_secs(5), "{name}: {took:?}");
    if blocking {
        assert!(took > Duration::from_millis(190), "{name}: {took:?}");
    }
    (peer, channel, bytes.to_vec(), message)
}

/// As long as its socket, and no longer, whatever interrupts it: the second send is into a full socket.
#[test]
fn a_call_waits_as_long_as_the_socket() {
    with_every_primitive(|name, blocking| {
        let (_peer, mut channel, _, _lent) = stuck(name, blocking);
        let took = || {
            let began = Instant::now();
            assert_eq!(channel.send().unwrap(), Sent::Blocked, "{name}");
            began.elapsed()
        };
        // The machine may be busy, but not each time.
        let took = std::iter::repeat_with(took).take(3).min().unwrap().as_millis();
        let allowed = if blocking { 190..380 } else { 0..100 };
        assert!(allowed.contains(&took), "{name}, blocking: {blocking}: {took} ms");
    });
}

/// A signal restarts the time limit of a system call: it returns, and is made again. A ring is waited for until the
/// same moment.
#[test]
fn signals_do_not_prolong_the_wait_for_a_ring() {
    signal::allow_interruption().unwrap();
    for name in ["uring_send", "uring_send_zc"].into_iter().filter(|name| has(name)) {
        let (_peer, mut channel, _, _lent) = stuck(name, true);
        let sender = thread::spawn(move || {
            let began = Instant::now();
            assert_eq!(channel.send().unwrap(), Sent::Blocked, "{name}");
            began.elapsed()
        });
        // Longer than it may take; but it ends, whatever the signals do.
        for _ in 0..100 {
            if sender.is_finished() {
                break;
            }
            signal::interrupt_thread(&sender).unwrap();
            thread::sleep(Duration::from_millis(20));
        }
        let took = sender.join().unwrap();
        // If each signal prolonged it, it would take two seconds.
        assert!(took < Duration::from_millis(1900), "{name}: {took:?}");
    }
}

#[test]
fn a_call_waits_no_longer_than_the_socket_and_nothing_is_lost() {
    with_every_primitive(|name, blocking| {
        let (peer, mut channel, expected, _lent) = stuck(name, blocking);
        let left = channel.outbox.bytes() as usize;
        assert!(left > 0 && left < expected.len(), "{}: {left}", name);
        let reader = reader(peer, &[50_000]);
        send_all(&mut channel).unwrap();
        channel.finish(PATIENCE);
        compare(name, &reader.join().unwrap(), &expected);
    });
}

#[test]
fn a_peer_that_resets_is_an_error_and_no_more() {
    with_every_primitive(|name, blocking| {
        let (mut peer, mut channel, expected, _lent) = stuck(name, blocking);
        let mut some = [0; 100];
        peer.read_exact(&mut some).unwrap();
        assert_eq!(some, expected[..100]);
        socket2::SockRef::from(&peer).set_linger(Some(Duration::ZERO)).unwrap();
        drop(peer);
        let error = send_all(&mut channel).unwrap_err();
        let kinds = [ErrorKind::ConnectionReset, ErrorKind::BrokenPipe];
        assert!(kinds.contains(&error.kind()), "{}: {error}", name);
        let began = Instant::now();
        channel.finish(PATIENCE);
        assert!(began.elapsed() < PATIENCE / 3, "{}", name);
    });
}

#[test]
fn a_peer_that_has_shut_down_sending_still_gets_its_reply() {
    for entry in primitives(Direction::Out) {
        let (peer, own) = connection(Buffers::default());
        peer.shutdown(Shutdown::Write).unwrap();
        let (messages, expected) = awkward_messages();
        let reader = reader(peer, SIZES);
        let (mut channel, _) = channel(own, entry.name, "recv");
        messages.iter().for_each(|message| put(&mut channel, message));
        send_all(&mut channel).unwrap();
        channel.finish(PATIENCE);
        compare(entry.name, &reader.join().unwrap(), &expected);
    }
}

/// Bytes in a pipe or a queue of a dropped connection must not reach another one.
#[test]
fn bytes_of_a_lost_connection_reach_no_other() {
    for entry in primitives(Direction::Out) {
        let tally = Tally::new(0).unwrap();
        let mut openers = openers(entry.name, "recv");
        let bytes: Arc<[u8]> = vec![b'x'; 2_000_000].into();
        for _ in 0..3 {
            let (peer, own) = connection(TINY);
            own.set_nonblocking(true).unwrap();
            let mut lost = openers.open(own.into(), tally.shared()).unwrap();
            put(&mut lost, &[in_memory(&bytes)]);
            assert_eq!(lost.send().unwrap(), Sent::Blocked);
            drop(peer);
            lost.finish(PATIENCE);
        }
        let (mut peer, own) = connection(Buffers::default());
        let mut next = openers.open(own.into(), tally.shared()).unwrap();
        let right: Arc<[u8]> = noise(5, 5000).into();
        put(&mut next, &[in_memory(&right)]);
        send_all(&mut next).unwrap();
        let mut received = vec![0; right.len()];
        peer.read_exact(&mut received).unwrap();
        compare(entry.name, &received, &right);
        next.finish(PATIENCE);
    }
}

/// For 2,500 pieces in memory: one call each, one per 1,024 pieces (UIO_MAXIOV), one per 64 (our ring), or one for all.
#[test]
fn a_message_takes_as_many_calls_as_its_primitive_promises() {
    let pieces: Vec<Arc<[u8]>> = (0..2500).map(|index| noise(index, 1).into()).collect();
    let one_buffer: Arc<[u8]> = pieces.concat().into();
    let known = [
        ("send_each", 2500),
        ("write_each", 2500),
        ("send_more", 2500),
        ("writev", 3),
        ("sendmsg", 3),
        ("zerocopy", 3),
        ("gather_write", 1),
        ("write_once", 1),
        // Two calls for the cork.
        ("cork", 2502),
        ("sendfile", 2500),
        ("uring_send", 40),
        ("uring_send_zc", 2500),
        // Into the pipe and out of it: one piece at a time, or as many as the pipe has slots, 16 (pipe(7)).
        ("splice", 5000),
        ("vmsplice", 2 * 157),
    ];
    for entry in primitives(Direction::Out) {
        let (peer, own) = connection(Buffers::default());
        let reader = reader(peer, &[1000]);
        let (mut channel, tally) = channel(own, entry.name, "recv");
        let message: Vec<Piece> = match entry.item.laid_out {
            true => (0..2500).map(|index| Piece::Bytes(Arc::clone(&one_buffer), index..index + 1)).collect(),
            false => pieces.iter().map(in_memory).collect(),
        };
        put(&mut channel, &message);
        send_all(&mut channel).unwrap();
        if let Some((_, promised)) = known.iter().find(|(name, _)| *name == entry.name) {
            assert_eq!(tally.counts().send_calls, *promised, "{}", entry.name);
        }
        channel.finish(PATIENCE);
        compare(entry.name, &reader.join().unwrap(), &pieces.concat());
    }
}

#[test]
fn a_file_that_has_become_shorter_is_an_error() {
    for entry in primitives(Direction::Out) {
        let (_peer, own) = connection(Buffers::default());
        let (mut channel, _) = channel(own, entry.name, "recv");
        let on_disk = file(&noise(1, 1000));
        put(&mut channel, &[Piece::File(Arc::clone(&on_disk), 0..2000)]);
        assert_eq!(send_all(&mut channel).unwrap_err().kind(), ErrorKind::UnexpectedEof, "{}", entry.name);
        channel.finish(PATIENCE);
    }
}
