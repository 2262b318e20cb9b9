//! io_uring's send without copying: the kernel sends from where the bytes are, unless it copies them after all, and says by
//! a second completion when it is done with them, and whether it has copied.

use std::io;
use std::os::fd::BorrowedFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};

use crate::about::About;
use crate::outbox::Outbox;
use crate::primitive::{Completions, Moves, Opener, Primitive, Sender, Sent, send_all};
use crate::setting::Settings;
use crate::sys::sends::{self, Patience, SendRing};

pub static ENTRY: Primitive = Primitive {
    tcp_only: Some("IORING_OP_SEND_ZC is refused on Unix sockets"),
    unavailable: || sends::refusal(true).map(|refusal| refusal.to_string()),
    ..Primitive::moving(
        About {
            summary: "A piece an operation, not copied: io_uring's send_zc",
            source: "io_uring_enter(2), IORING_OP_SEND_ZC",
        },
        Moves::Out(prepare),
    )
};

fn prepare(_settings: &Settings) -> io::Result<Box<dyn Opener<dyn Sender>>> {
    Ok(Box::new(OneRing { ring: Arc::new(Mutex::new(SendRing::new()?)), opened: 0 }))
}

/// The ring is the worker's, and knows its connections by number.
struct OneRing {
    ring: Arc<Mutex<SendRing>>,
    opened: u64,
}

impl Opener<dyn Sender> for OneRing {
    fn open(&mut self, socket: BorrowedFd<'_>) -> io::Result<Box<dyn Sender>> {
        self.opened += 1;
        let patience = Patience::of(socket)?;
        let (ring, owner) = (Arc::clone(&self.ring), self.opened);
        Ok(Box::new(UringSendZc { ring, owner, patience, copied: 0 }))
    }
}

struct UringSendZc {
    ring: Arc<Mutex<SendRing>>,
    owner: u64,
    patience: Patience,
    /// Sends that this program had to have copied, of which nobody has been told.
    copied: u64,
}

impl UringSendZc {
    /// The ring, unless its worker uses it just now: that may wait for another peer, and for as long as that peer likes.
    fn ring_if_free(&self) -> Option<MutexGuard<'_, SendRing>> {
        match self.ring.try_lock() {
            Ok(ring) => Some(ring),
            Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }
}

impl Sender for UringSendZc {
    fn send(&mut self, socket: BorrowedFd<'_>, outbox: &mut Outbox) -> io::Result<Sent> {
        let mut ring = self.ring.lock().unwrap_or_else(PoisonError::into_inner);
        let UringSendZc { owner, patience, copied, .. } = self;
        send_all(outbox, |outbox| {
            let (bytes, range) = outbox.first().in_memory()?;
            match ring.send_zc(*owner, socket, &bytes, range.clone(), *patience) {
                Err(error) if matches!(error.raw_os_error(), Some(libc::ENOMEM | libc::ENOBUFS)) => {
                    // No more memory may be pinned. Waiting could wait for the peer, so this one is copied, and counts as
                    // such.
                    outbox.count_call();
                    let sent = ring.send(socket, &[&bytes[range]], *patience)?;
                    *copied += 1;
                    Ok(sent)
                }
                result => result,
            }
        })
    }

    fn take_completions(&mut self) -> Completions {
        let here = std::mem::take(&mut self.copied);
        let (completed, copied) = self.ring_if_free().map_or((0, 0), |mut ring| ring.notifications(self.owner));
        Completions { completed: completed + here, copied: copied + here }
    }

    fn holds(&self) -> bool {
        self.ring_if_free().is_none_or(|ring| ring.holds(self.owner))
    }
}

impl Drop for UringSendZc {
    fn drop(&mut self) {
        if let Some(mut ring) = self.ring_if_free() {
            ring.forget(self.owner);
        }
    }
}
