//! io_uring's send without copying: the kernel sends from where the bytes are, unless it copies them after all, and says by
//! a second completion when it is done with them, and whether it has copied.

use std::io;
use std::os::fd::BorrowedFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::about::About;
use crate::outbox::{Outbox, Piece};
use crate::primitive::{Completions, Moves, Opener, Primitive, Sender, Sent, send_all};
use crate::setting::Settings;
use crate::sys::sends::{self, SendRing};

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
    let ring = Arc::new(Mutex::new(SendRing::new()?));
    let mut opened = 0;
    Ok(Box::new(move || {
        opened += 1;
        Box::new(UringSendZc { ring: Arc::clone(&ring), owner: opened }) as Box<dyn Sender>
    }))
}

/// The ring is the worker's, and knows its connections by number.
struct UringSendZc {
    ring: Arc<Mutex<SendRing>>,
    owner: u64,
}

impl UringSendZc {
    fn ring(&self) -> MutexGuard<'_, SendRing> {
        self.ring.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Sender for UringSendZc {
    fn send(&mut self, socket: BorrowedFd<'_>, outbox: &mut Outbox) -> io::Result<Sent> {
        send_all(outbox, |outbox| match &outbox.in_memory()?[..] {
            [Piece::Bytes(bytes, range), ..] => self.ring().send_zc(self.owner, socket, bytes, range.clone()),
            _ => unreachable!("what is in memory are bytes"),
        })
    }

    fn take_completions(&mut self) -> Completions {
        let (completed, copied) = self.ring().notifications(self.owner);
        Completions { completed, copied }
    }

    fn holds(&self) -> bool {
        self.ring().holds(self.owner)
    }
}
