//! io_uring's zero-copy send: the kernel sends from the program's memory, unless it copies after all. A second
//! completion reports when the kernel is done with the bytes, and whether it has copied them.

use std::io;
use std::os::fd::BorrowedFd;
use std::sync::{Arc, Mutex, PoisonError, TryLockError};

use crate::base::about::About;
use crate::base::feature::{Feature, IO_URING};
use crate::base::setting::Settings;
use crate::sys::ring::sends::{self, Owner, Patience, SendRing};
use crate::transfer::outbox::Outbox;
use crate::transfer::primitive::{Completions, Moves, Opener, Primitive, Sender, Sent, send_all};

pub static ENTRY: Primitive = Primitive {
    completes: true,
    descriptors: 1,
    tcp_only: Some("IORING_OP_SEND_ZC is refused on Unix sockets"),
    ..Primitive::moving(
        About {
            summary: "One zero-copy operation per piece: io_uring's send_zc",
            source: "io_uring_enter(2), IORING_OP_SEND_ZC",
        },
        &[&IO_URING, &RING_SEND_ZC],
        Moves::Out(prepare),
    )
};

/// Zero-copy send that reports whether the kernel copied after all.
const RING_SEND_ZC: Feature = Feature {
    name: "io_uring, IORING_OP_SEND_ZC with IORING_SEND_ZC_REPORT_USAGE",
    since: Some("6.2"),
    refusal: || sends::refusal(true).map(|refusal| refusal.to_string()),
};

fn prepare(_settings: &Settings) -> io::Result<Box<dyn Opener<dyn Sender>>> {
    Ok(Box::new(OneRing(Arc::new(Mutex::new(SendRing::new()?)))))
}

/// The worker's ring.
struct OneRing(Arc<Mutex<SendRing>>);

impl Opener<dyn Sender> for OneRing {
    fn open(&mut self, socket: BorrowedFd<'_>) -> io::Result<Box<dyn Sender>> {
        let patience = Patience::of(socket)?;
        Ok(Box::new(UringSendZc { ring: Arc::clone(&self.0), owner: Arc::default(), patience, copied: 0 }))
    }
}

struct UringSendZc {
    ring: Arc<Mutex<SendRing>>,
    owner: Arc<Owner>,
    patience: Patience,
    /// Sends that this program had to copy, and that have not been reported yet.
    copied: u64,
}

impl UringSendZc {
    /// Takes completions from the ring, unless its worker is using the ring now. Then the worker takes them, but it may
    /// be waiting for another peer, for as long as that peer likes.
    fn collect(&self) {
        match self.ring.try_lock() {
            Ok(mut ring) => ring.notify(),
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner().notify(),
            Err(TryLockError::WouldBlock) => {}
        }
    }
}

impl Sender for UringSendZc {
    fn send(&mut self, socket: BorrowedFd<'_>, outbox: &mut Outbox) -> io::Result<Sent> {
        let mut ring = self.ring.lock().unwrap_or_else(PoisonError::into_inner);
        let UringSendZc { owner, patience, copied, .. } = self;
        send_all(outbox, |outbox| {
            let (bytes, range) = outbox.first().in_memory()?;
            match ring.send_zc(owner, socket, &bytes, range.clone(), *patience) {
                Err(error) if matches!(error.raw_os_error(), Some(libc::ENOMEM | libc::ENOBUFS)) => {
                    // No more memory may be pinned. Waiting could mean waiting for the peer, so this send is copied,
                    // and counted as copied.
                    outbox.count_call();
                    let sent = ring.send(socket, &[&bytes[range]], *patience)?;
                    *copied += 1;
                    Ok(sent)
                }
                result => result,
            }
        })
    }

    fn reap(&mut self, _socket: BorrowedFd<'_>) -> io::Result<()> {
        self.collect();
        Ok(())
    }

    fn take_completions(&mut self) -> Completions {
        self.collect();
        let here = std::mem::take(&mut self.copied);
        let (completed, copied) = self.owner.take_notifications();
        Completions { completed: completed + here, copied: copied + here }
    }

    fn holds(&self) -> bool {
        self.owner.holds()
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::net::{TcpListener, TcpStream};
    use std::os::fd::AsFd;
    use std::time::{Duration, Instant};

    use super::*;
    use crate::transfer::outbox::Piece;

    /// A sender of this ring, its socket and the peer's.
    fn opened(ring: &mut OneRing) -> (Box<dyn Sender>, TcpStream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let peer = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let own = listener.accept().unwrap().0;
        (ring.open(own.as_fd()).unwrap(), own, peer)
    }

    fn sends(sender: &mut dyn Sender, own: &TcpStream) -> Arc<[u8]> {
        let (mut outbox, bytes) = (Outbox::default(), Arc::from([7; 4000]));
        outbox.push(Piece::Bytes(Arc::clone(&bytes), 0..4000));
        assert_eq!(sender.send(own.as_fd(), &mut outbox).unwrap(), Sent::Done);
        bytes
    }

    /// Like a worker that waits in a send of another connection: it holds the ring, and takes completions until the
    /// bytes are free.
    fn until_free(ring: &mut SendRing, bytes: &Arc<[u8]>) {
        let deadline = Instant::now() + Duration::from_secs(60);
        while Arc::strong_count(bytes) > 1 {
            assert!(Instant::now() < deadline, "bytes are held for ever");
            ring.notify();
        }
    }

    fn ring() -> Option<OneRing> {
        match sends::refusal(true) {
            None => Some(OneRing(Arc::new(Mutex::new(SendRing::new().unwrap())))),
            Some(refusal) => {
                println!("skipped: {refusal}");
                None
            }
        }
    }

    #[test]
    fn completions_are_reported_while_the_worker_uses_the_ring() {
        let Some(mut one) = ring() else { return };
        let (mut sender, own, mut peer) = opened(&mut one);
        let bytes = sends(sender.as_mut(), &own);
        peer.read_exact(&mut [0; 4000]).unwrap();
        let ring = Arc::clone(&one.0);
        let mut in_use = ring.lock().unwrap();
        until_free(&mut in_use, &bytes);
        assert!(!sender.holds());
        assert_eq!(sender.take_completions().completed, 1);
    }

    #[test]
    fn a_sender_that_goes_while_the_worker_uses_the_ring_leaves_nothing() {
        let Some(mut one) = ring() else { return };
        let (mut sender, own, mut peer) = opened(&mut one);
        let bytes = sends(sender.as_mut(), &own);
        let ring = Arc::clone(&one.0);
        let mut in_use = ring.lock().unwrap();
        let users = Arc::strong_count(&ring);
        drop(sender);
        assert_eq!(Arc::strong_count(&ring), users - 1);
        peer.read_exact(&mut [0; 4000]).unwrap();
        until_free(&mut in_use, &bytes);
        assert!(in_use.is_empty(), "what is known of a sender that has gone stays for good");
    }
}
