//! Every receive primitive under difficult conditions: peers that send a byte at a time, pause, end or disappear;
//! signals; and limits on what is wanted.

use std::io::{ErrorKind, Write};
use std::net::{Shutdown, TcpStream};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use super::fixtures::{Buffers, PATIENCE, TINY, channel, compare, connection, has, noise, primitives, put, send_all};
use crate::sys::descriptor::{self, PollFlags};
use crate::sys::signal;
use crate::transfer::channel::Channel;
use crate::transfer::outbox::Piece;
use crate::transfer::primitive::{Direction, Received, Want};

/// Runs a test with every primitive, over a blocking socket, and over a non-blocking one if the primitive supports it.
fn with_every_primitive(test: impl Fn(&str, bool)) {
    for entry in primitives(Direction::In) {
        test(entry.name, true);
        if entry.item.waits.contains(&crate::transfer::primitive::Waits::ForReadiness) {
            test(entry.name, false);
        }
    }
}

/// Returns what arrived until the peer's end, with zeroes for bytes that are not stored. Checks that no receive
/// returned more than was wanted.
fn receive_all(name: &str, channel: &mut Channel, wants: &[Want]) -> Vec<u8> {
    let mut received = Vec::new();
    for &want in wants.iter().cycle() {
        let bytes = match channel.receive(want).unwrap() {
            Received::End => break,
            Received::Blocked => {
                descriptor::poll(&[(channel.socket(), PollFlags::POLLIN)], Some(PATIENCE)).unwrap();
                continue;
            }
            Received::Bytes(bytes) => {
                let stored = channel.inbox.unread().to_vec();
                assert_eq!(stored.len(), bytes, "{name}");
                channel.inbox.taken(bytes);
                received.extend_from_slice(&stored);
                bytes
            }
            Received::Discarded(bytes) | Received::Mapped(bytes) => {
                received.extend(std::iter::repeat_n(0, bytes));
                bytes
            }
        };
        assert!(bytes <= want.most(), "{name}: {bytes} bytes, and {want:?}");
    }
    // Repeated while the caller wants more.
    assert_eq!(channel.receive(Want::AtMost(10)).unwrap(), Received::End, "{name}");
    received
}

/// Sends in parts of these sizes, with pauses, and ends.
fn writer(mut peer: TcpStream, bytes: Vec<u8>, sizes: &'static [usize]) -> JoinHandle<TcpStream> {
    thread::spawn(move || {
        let mut rest = &bytes[..];
        for &size in sizes.iter().cycle() {
            let (part, left) = rest.split_at(size.min(rest.len()));
            peer.write_all(part).unwrap();
            rest = left;
            if rest.is_empty() {
                break;
            }
            thread::sleep(Duration::from_micros(100));
        }
        peer.shutdown(Shutdown::Write).unwrap();
        peer
    })
}

#[test]
fn every_byte_comes_and_no_more_than_is_wanted() {
    let bytes = noise(1, 300_000);
    with_every_primitive(|name, blocking| {
        let (peer, own) = connection(Buffers::default());
        peer.set_nodelay(true).unwrap();
        own.set_nonblocking(!blocking).unwrap();
        let writer = writer(peer, bytes.clone(), &[1, 3, 10_000, 4096, 65_000]);
        let (mut channel, tally) = channel(own, "send_each", name);
        let wants =
            [Want::AtMost(16_384), Want::Exactly(1500), Want::AtMost(1), Want::Exactly(16_000), Want::AtMost(4097)];
        let received = receive_all(name, &mut channel, &wants);
        let counts = tally.counts();
        assert_eq!(counts.bytes_received, bytes.len() as u64, "{name}");
        assert_eq!(counts.bytes_received, received.len() as u64, "{name}");
        if counts.bytes_not_copied == 0 {
            compare(name, &received, &bytes);
        }
        let stores = primitives(Direction::In).iter().any(|entry| entry.name == name && entry.item.stores);
        assert!(!stores || counts.bytes_not_copied == 0, "{name}");
        writer.join().unwrap();
    });
}

/// Tiny buffers, and a peer that sends a byte at a time: never more than a part of the wanted bytes has arrived, even
/// for primitives that wait for all of it.
#[test]
fn every_byte_comes_through_tiny_buffers_and_one_at_a_time() {
    let bytes = noise(1, 20_000);
    with_every_primitive(|name, blocking| {
        // Our end is the one that connects.
        let (own, peer) = connection(TINY);
        peer.set_nodelay(true).unwrap();
        own.set_nonblocking(!blocking).unwrap();
        let sent = bytes.clone();
        let writer = thread::spawn(move || {
            let (singly, together) = sent.split_at(500);
            singly.iter().for_each(|byte| (&peer).write_all(&[*byte]).unwrap());
            (&peer).write_all(together).unwrap();
            peer.shutdown(Shutdown::Write).unwrap();
        });
        let (mut channel, tally) = channel(own, "send_each", name);
        let received = receive_all(name, &mut channel, &[Want::Exactly(9000), Want::AtMost(7000), Want::AtMost(1)]);
        let counts = tally.counts();
        assert_eq!((received.len(), counts.bytes_received), (bytes.len(), bytes.len() as u64), "{name}");
        if counts.bytes_not_copied == 0 {
            compare(name, &received, &bytes);
        }
        // The kernel's own wait for everything (MSG_WAITALL) returns 9000 bytes from one call.
        let few = if (name, blocking) == ("recv_exact", true) { 1 } else { 5 };
        assert!(counts.receive_calls > few, "{name}: nothing came in parts: {counts:?}");
        writer.join().unwrap();
    });
}

#[test]
fn all_that_is_wanted_comes_in_one_call() {
    let (peer, own) = connection(Buffers::default());
    let writer = writer(peer, noise(1, 30_000), &[100, 1, 2000]);
    let (mut channel, tally) = channel(own, "send_each", "recv_exact");
    for _ in 0..3 {
        assert_eq!(channel.receive(Want::Exactly(9000)).unwrap(), Received::Bytes(9000));
        channel.inbox.taken(9000);
    }
    assert_eq!(tally.counts().receive_calls, 3);
    // The peer ends before this much has arrived.
    assert_eq!(channel.receive(Want::Exactly(9000)).unwrap(), Received::Bytes(3000));
    writer.join().unwrap();
}

#[test]
fn signals_interrupt_no_message() {
    signal::allow_interruption().unwrap();
    for entry in primitives(Direction::In) {
        let name = entry.name;
        let (peer, own) = connection(Buffers::default());
        let bytes = noise(1, 50_000);
        let receiver = thread::spawn(move || {
            let (mut channel, tally) = channel(own, "send_each", name);
            let received = receive_all(name, &mut channel, &[Want::Exactly(1500)]);
            (received, tally.counts())
        });
        let interrupt = || {
            signal::interrupt_thread(&receiver).unwrap();
            thread::sleep(Duration::from_micros(100));
        };
        // Nothing has arrived yet.
        (0..20).for_each(|_| interrupt());
        let writer = writer(peer, bytes.clone(), &[700, 3000, 1]);
        while !receiver.is_finished() {
            interrupt();
        }
        writer.join().unwrap();
        let (received, counts) = receiver.join().unwrap();
        assert_eq!(counts.bytes_received, bytes.len() as u64, "{name}");
        if counts.bytes_not_copied == 0 {
            compare(name, &received, &bytes);
        }
    }
}

#[test]
fn a_call_waits_no_longer_than_the_socket() {
    with_every_primitive(|name, blocking| {
        let (_peer, own) = connection(Buffers::default());
        own.set_nonblocking(!blocking).unwrap();
        own.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
        let (mut channel, _) = channel(own, "send_each", name);
        for want in [Want::Exactly(100), Want::AtMost(5000)] {
            let mut took = Duration::ZERO;
            let allowed = if blocking { 90..2000 } else { 0..50 };
            // The machine may be busy, but not each time.
            let is_allowed = (0..5).any(|_| {
                let began = Instant::now();
                assert_eq!(channel.receive(want).unwrap(), Received::Blocked, "{name}");
                took = began.elapsed();
                allowed.contains(&took.as_millis())
            });
            assert!(is_allowed, "{name}, blocking: {blocking}: {took:?}");
        }
    });
}

#[test]
fn a_peer_that_resets_is_an_error() {
    with_every_primitive(|name, blocking| {
        let (mut peer, own) = connection(Buffers::default());
        own.set_nonblocking(!blocking).unwrap();
        let (mut channel, _) = channel(own, "send_each", name);
        peer.write_all(&[7; 100]).unwrap();
        descriptor::poll(&[(channel.socket(), PollFlags::POLLIN)], Some(PATIENCE)).unwrap();
        assert!(matches!(channel.receive(Want::AtMost(100)).unwrap(), Received::Bytes(100) | Received::Discarded(100)));
        socket2::SockRef::from(&peer).set_linger(Some(Duration::ZERO)).unwrap();
        drop(peer);
        descriptor::poll(&[(channel.socket(), PollFlags::POLLIN)], Some(PATIENCE)).unwrap();
        let error = channel.receive(Want::AtMost(100)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::ConnectionReset, "{name}");
    });
}

/// Pages that the kernel allocated for a pipe can be mapped, so data sent from there by splice(2) over loopback is not
/// copied. Data that send(2) has copied into socket buffers cannot be mapped, and is received by copying: the count
/// shows it.
#[test]
fn whole_pages_are_mapped_if_possible_and_the_rest_is_copied() {
    if !has("recv_zerocopy") {
        return;
    }
    for (out, mapped) in [("splice", true), ("send_each", false)] {
        let (own, theirs) = connection(Buffers::default());
        let sender = thread::spawn(move || {
            let (mut channel, _) = channel(theirs, out, "recv");
            let bytes = std::sync::Arc::from(noise(1, 1 << 20));
            put(&mut channel, &[Piece::Bytes(bytes, 0..(1 << 20) - 5)]);
            send_all(&mut channel).unwrap();
            channel.finish(PATIENCE);
        });
        let (mut channel, tally) = channel(own, "send_each", "recv_zerocopy");
        let received = receive_all(out, &mut channel, &[Want::AtMost(64 << 10)]);
        sender.join().unwrap();
        let counts = tally.counts();
        assert_eq!(received.len(), (1 << 20) - 5);
        println!("{out}: {} of {} bytes were not copied", counts.bytes_not_copied, counts.bytes_received);
        assert_eq!(counts.bytes_not_copied > 0, mapped, "{out}");
        // The copied bytes are less than a page, and correct.
        let sent = noise(1, 1 << 20);
        let copied = received.iter().zip(&sent).filter(|&(&received, _)| received != 0);
        assert!(copied.clone().all(|(received, sent)| received == sent), "{out}");
    }
}
