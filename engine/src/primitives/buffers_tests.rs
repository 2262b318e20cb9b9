//! Zero-copy sends: the program must not change the bytes before their completion, and every send has one completion.

use std::io::{self, Read};
use std::net::TcpStream;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use super::fixtures::{
    Buffers, PATIENCE, TINY, channel, compare, connection, has, in_a_network_of_its_own, in_memory, noise, openers,
    primitives, put, reader, send_all,
};
use crate::count::tally::Tally;
use crate::sys::descriptor::{self, PollFlags};
use crate::sys::{socket, zero_copy};
use crate::transfer::channel::Channel;
use crate::transfer::outbox::{Outbox, Piece};
use crate::transfer::primitive::{Direction, Received, Receiver, Sender, Sent, Want, send_all as send_by};

/// New content of a buffer, written as soon as it may be reused.
const REUSED: u8 = 0xee;

/// Overwrites all buffers that have no other owner; returns their number.
fn reuse(buffers: &mut [Arc<[u8]>]) -> usize {
    let free = buffers.iter_mut().filter_map(Arc::get_mut);
    free.map(|buffer| buffer.fill(REUSED)).count()
}

/// Returns how many bytes the peer receives that differ from those sent, while every buffer is reused as soon as it is
/// free.
fn altered(mut channel: Channel, peer: TcpStream) -> usize {
    let mut buffers: Vec<Arc<[u8]>> = (0..40).map(|index| noise(index, 20_000).into()).collect();
    let sent = buffers.concat();
    let message: Vec<Piece> = buffers.iter().map(in_memory).collect();
    put(&mut channel, &message);
    drop(message);
    // A part goes to a peer that does not read, and waits in our socket.
    assert_eq!(channel.send().unwrap(), Sent::Blocked);
    reuse(&mut buffers);
    let reader = reader(peer, &[30_000]);
    loop {
        let sent = channel.send().unwrap();
        reuse(&mut buffers);
        if sent == Sent::Done {
            break;
        }
        let ready = descriptor::poll(&[(channel.socket(), PollFlags::POLLOUT)], Some(PATIENCE)).unwrap();
        assert!(!ready[0].is_empty());
        channel.reap().unwrap();
    }
    channel.finish(PATIENCE);
    let deadline = Instant::now() + PATIENCE;
    while reuse(&mut buffers) < buffers.len() {
        assert!(Instant::now() < deadline, "buffers are held for ever");
        thread::sleep(Duration::from_millis(1));
    }
    let received = reader.join().unwrap();
    assert_eq!(received.len(), sent.len());
    received.iter().zip(&sent).filter(|(received, sent)| received != sent).count()
}

fn stream() -> (TcpStream, TcpStream) {
    let (peer, own) = connection(Buffers { send: Some(400_000), receive: Some(16 << 10) });
    own.set_nonblocking(true).unwrap();
    (peer, own)
}

#[test]
fn a_buffer_may_be_reused_as_soon_as_nobody_holds_it() {
    for entry in primitives(Direction::Out).iter().filter(|entry| !entry.item.lends) {
        let (peer, own) = stream();
        let (channel, _) = channel(own, entry.name, "recv");
        assert_eq!(altered(channel, peer), 0, "{}", entry.name);
    }
}

/// Sends without copying, and wrongly treats the bytes as free when the call returns.
struct Careless;

impl Sender for Careless {
    fn send(&mut self, socket: BorrowedFd<'_>, outbox: &mut Outbox) -> io::Result<Sent> {
        send_by(outbox, |outbox| outbox.gather(|pieces| socket::sendmsg(socket, pieces, libc::MSG_ZEROCOPY)))
    }

    fn reap(&mut self, socket: BorrowedFd<'_>) -> io::Result<()> {
        while zero_copy::completion(socket)?.is_some() {}
        Ok(())
    }
}

struct Deaf;

impl Receiver for Deaf {
    fn receive(
        &mut self,
        _socket: BorrowedFd<'_>,
        _want: Want,
        _inbox: &mut crate::transfer::inbox::Inbox,
    ) -> io::Result<Received> {
        Ok(Received::Blocked)
    }
}

#[test]
fn reusing_a_buffer_before_its_completion_is_detected() {
    let (peer, own) = stream();
    zero_copy::allow_zero_copy(own.as_fd()).unwrap();
    let slot = Tally::new(0).unwrap().shared();
    let channel = Channel::new(OwnedFd::from(own), Box::new(Careless), Box::new(Deaf), slot);
    let altered = altered(channel, peer);
    assert!(altered > 20_000, "{altered} bytes were altered on their way");
}

/// Everything has reached the peer's socket and is acknowledged, and the sender holds nothing: if changes still reach
/// the peer, the memory was lent. On loopback the pages of vmsplice(2) are the same on both sides until they are read.
#[test]
fn the_primitives_that_lend_memory_say_so() {
    for entry in primitives(Direction::Out) {
        let (mut peer, own) = connection(Buffers::default());
        let (mut channel, _) = channel(own, entry.name, "recv");
        let mut buffer: Arc<[u8]> = noise(1, 4000).into();
        let sent = buffer.to_vec();
        put(&mut channel, &[in_memory(&buffer)]);
        send_all(&mut channel).unwrap();
        let deadline = Instant::now() + PATIENCE;
        while peer.peek(&mut [0; 5000]).unwrap() < sent.len() || reuse(std::slice::from_mut(&mut buffer)) == 0 {
            assert!(Instant::now() < deadline, "{}", entry.name);
            channel.reap().unwrap();
        }
        let mut received = vec![0; sent.len()];
        peer.read_exact(&mut received).unwrap();
        assert_eq!(received != sent, entry.item.lends, "{}: bytes altered, and whether it lends them", entry.name);
    }
}

/// Available primitives whose sends end in a completion.
fn that_complete() -> impl Iterator<Item = &'static str> {
    primitives(Direction::Out).into_iter().filter(|entry| entry.item.completes).map(|entry| entry.name)
}

/// Attempts that found no room count neither as sends nor as completions.
#[test]
fn every_send_without_copying_has_one_completion() {
    for name in that_complete() {
        let (peer, own) = connection(Buffers { send: Some(1), receive: Some(16 << 10) });
        own.set_nonblocking(true).unwrap();
        let (mut peer, mut reading) = (Some(peer), None);
        let (mut channel, tally) = channel(own, name, "recv");
        let buffers: Vec<Arc<[u8]>> = (0..60).map(|index| noise(index, 5000 + 100 * index as usize).into()).collect();
        let mut blocked = 0;
        for buffer in &buffers {
            put(&mut channel, &[in_memory(buffer)]);
            while channel.send().unwrap() == Sent::Blocked {
                blocked += 1;
                // The peer does not read before the socket is full.
                reading = reading.or_else(|| Some(reader(peer.take()?, &[3000, 50_000])));
                let ready = descriptor::poll(&[(channel.socket(), PollFlags::POLLOUT)], Some(PATIENCE)).unwrap();
                if ready[0].contains(PollFlags::POLLERR) {
                    channel.reap().unwrap();
                }
            }
        }
        channel.finish(PATIENCE);
        let reader = reading.expect("the buffers of the sockets do not hold it all");
        compare(name, &reader.join().unwrap(), &buffers.concat());
        let deadline = Instant::now() + PATIENCE;
        let sends = tally.counts().send_calls - blocked;
        while tally.counts().completions < sends && Instant::now() < deadline {
            thread::sleep(Duration::from_millis(1));
        }
        let counts = tally.counts();
        assert!(sends >= 60, "{name}: {blocked} of {} sends found no room", counts.send_calls);
        assert_eq!(counts.completions, sends, "{name}: {blocked} attempts found no room");
        // On loopback the kernel copies all of them (skb_orphan_frags_rx), and reports it.
        assert_eq!(counts.completions_copied, sends, "{name}");
    }
}

/// Our ring has room for 4,096 unread notifications.
#[test]
fn more_notifications_than_a_ring_has_room_for() {
    const CONNECTIONS: usize = 4;
    const SENDS: usize = 2000;
    for name in that_complete() {
        let tally = Tally::new(0).unwrap();
        let mut openers = openers(name, "recv");
        let buffers: Vec<Arc<[u8]>> = (0..SENDS).map(|index| noise(index as u64, 11).into()).collect();
        let mut under_way = 0;
        let mut connections = Vec::new();
        for _ in 0..CONNECTIONS {
            let (peer, own) = connection(Buffers { receive: TINY.receive, send: Some(4 << 20) });
            own.set_nonblocking(true).unwrap();
            let mut channel = openers.open(own.into(), tally.shared()).unwrap();
            buffers.iter().for_each(|buffer| put(&mut channel, &[in_memory(buffer)]));
            channel.send().unwrap();
            under_way += SENDS as u64 - channel.outbox.bytes() / 11;
            connections.push((peer, channel));
        }
        assert!(under_way > 5000, "{name}: {under_way} sends are under way");
        let (peers, channels): (Vec<_>, Vec<_>) = connections.into_iter().unzip();
        let readers: Vec<_> = peers.into_iter().map(|peer| reader(peer, &[50_000])).collect();
        for mut channel in channels {
            send_all(&mut channel).unwrap();
            channel.finish(PATIENCE);
        }
        readers.into_iter().for_each(|reader| compare(name, &reader.join().unwrap(), &buffers.concat()));
        let sends = (CONNECTIONS * SENDS) as u64;
        let deadline = Instant::now() + PATIENCE;
        while tally.counts().completions < sends && Instant::now() < deadline {
            thread::sleep(Duration::from_millis(1));
        }
        let counts = tally.counts();
        assert_eq!((counts.completions, counts.completions_copied), (sends, sends), "{name}");
    }
}

/// The kernel keeps a notification for every send in flight, in limited memory (net.core.optmem_max), of which there is
/// hardly any here. Sends that the kernel then refuses (ENOBUFS) are copied, and counted as copied.
#[test]
fn sends_of_which_no_note_can_be_made_are_copied() {
    for optmem in [1, 3000] {
        let test = move || {
            let (peer, own) = connection(Buffers { receive: Some(16 << 10), ..Buffers::default() });
            let (mut channel, tally) = channel(own, "zerocopy", "recv");
            let mut buffers: Vec<Arc<[u8]>> = (0..20).map(|index| noise(index, 100_000).into()).collect();
            let sent = buffers.concat();
            buffers.iter().for_each(|buffer| put(&mut channel, &[in_memory(buffer)]));
            let reader = reader(peer, &[50_000]);
            send_all(&mut channel).unwrap();
            let deadline = Instant::now() + PATIENCE;
            while reuse(&mut buffers) < buffers.len() && Instant::now() < deadline {
                channel.reap().unwrap();
            }
            channel.finish(PATIENCE);
            compare("zerocopy", &reader.join().unwrap(), &sent);
            let counts = tally.counts();
            // A refused call and one that copied count as one send.
            let refused = counts.send_calls - counts.completions;
            assert!(refused > 0 && refused <= counts.completions_copied, "{optmem}: {counts:?}");
            assert!(optmem > 1 || refused == counts.completions, "{optmem}: {counts:?}");
        };
        in_a_network_of_its_own(&[("net/core/optmem_max", optmem)], test);
    }
}

/// One connection of a ring lingers while its worker waits in a send by the same ring, for a peer that does not read:
/// other lingering connections must not wait with it.
#[test]
fn a_worker_that_waits_keeps_nobody_from_his_end() {
    if !has("uring_send_zc") {
        return;
    }
    let tally = Tally::new(0).unwrap();
    let bytes: Arc<[u8]> = noise(1, 1_000_000).into();
    let mut ring = openers("uring_send_zc", "recv");
    let (deaf, own) = connection(TINY);
    own.set_nonblocking(true).unwrap();
    let mut lingering = ring.open(own.into(), tally.shared()).unwrap();
    put(&mut lingering, &[in_memory(&bytes)]);
    assert_eq!(lingering.send().unwrap(), Sent::Blocked);
    lingering.finish(Duration::from_millis(300));
    let (silent, own) = connection(TINY);
    let mut waiting = ring.open(own.into(), tally.shared()).unwrap();
    put(&mut waiting, &[in_memory(&bytes)]);
    let worker = thread::spawn(move || waiting.send().is_err());
    thread::sleep(Duration::from_millis(50));
    let (mut peer, own) = connection(Buffers { receive: Some(16 << 10), ..Buffers::default() });
    own.set_nonblocking(true).unwrap();
    let (mut other, _) = channel(own, "zerocopy", "recv");
    put(&mut other, &[in_memory(&bytes)]);
    let done = other.send().unwrap() == Sent::Done;
    other.finish(PATIENCE);
    let began = Instant::now();
    let mut received = Vec::new();
    peer.read_to_end(&mut received).unwrap();
    assert!(began.elapsed() < Duration::from_secs(20));
    assert_eq!(&received, &bytes[..received.len()]);
    assert!(!done || received.len() == bytes.len());
    assert!(!worker.is_finished());
    drop((silent, deaf));
    assert!(worker.join().unwrap(), "the peer is gone");
}

/// Longer in total than the peer may take no data, but never that long at a time.
#[test]
fn a_peer_that_is_slow_is_not_deaf() {
    for name in that_complete() {
        let (mut peer, own) = connection(Buffers { receive: Some(4096), ..Buffers::default() });
        own.set_nonblocking(true).unwrap();
        let (mut channel, _) = channel(own, name, "recv");
        let bytes: Arc<[u8]> = noise(1, 60_000).into();
        put(&mut channel, &[in_memory(&bytes)]);
        assert_eq!(channel.send().unwrap(), Sent::Done);
        let began = Instant::now();
        // On a busy machine this thread may be later than it wants to.
        channel.finish(Duration::from_millis(1500));
        let mut received = Vec::new();
        while received.len() < bytes.len() {
            thread::sleep(Duration::from_millis(200));
            let mut part = [0; 6000];
            let bytes = peer.read(&mut part).unwrap();
            received.extend_from_slice(&part[..bytes]);
        }
        compare(name, &received, &bytes);
        assert!(began.elapsed() > Duration::from_millis(1900), "{name}");
    }
}

/// If no completion will ever come, the peer still gets all that was sent before, and the end, at once.
#[test]
fn the_peer_sees_the_end_before_the_last_completion() {
    for name in that_complete() {
        let (mut peer, own) = connection(Buffers { receive: Some(16 << 10), ..Buffers::default() });
        own.set_nonblocking(true).unwrap();
        let (mut channel, _) = channel(own, name, "recv");
        let bytes: Arc<[u8]> = noise(1, 100_000).into();
        put(&mut channel, &[in_memory(&bytes)]);
        assert_eq!(channel.send().unwrap(), Sent::Done);
        let began = Instant::now();
        channel.finish(Duration::from_secs(30));
        assert!(began.elapsed() < Duration::from_secs(10), "{name}: finishing does not wait");
        let mut received = Vec::new();
        peer.read_to_end(&mut received).unwrap();
        compare(name, &received, &bytes);
        assert!(began.elapsed() < Duration::from_secs(20), "{name}");
    }
}
