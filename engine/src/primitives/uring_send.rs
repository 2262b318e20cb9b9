//! io_uring instead of send(2): the pieces of a message are linked operations, submitted by one io_uring_enter.

use std::io;
use std::os::fd::BorrowedFd;
use std::sync::{Arc, Mutex, PoisonError};

use crate::base::about::About;
use crate::base::feature::{Feature, IO_URING};
use crate::base::setting::Settings;
use crate::sys::ring::sends::{self, Patience, SENDS_AT_A_TIME, SendRing};
use crate::transfer::outbox::Outbox;
use crate::transfer::primitive::{Moves, Opener, Primitive, Sender, Sent, send_all};

pub static ENTRY: Primitive = Primitive {
    descriptors: 1,
    gathers: true,
    ..Primitive::moving(
        About {
            summary: "Linked send operations; one io_uring_enter per message",
            source: "io_uring_enter(2), IORING_OP_SEND",
        },
        &[&IO_URING, &RING_SEND],
        Moves::Out(prepare),
    )
};

/// Sending, and cancelling a send.
const RING_SEND: Feature = Feature {
    name: "io_uring, IORING_OP_SEND with IORING_ASYNC_CANCEL_FD",
    since: Some("5.19"),
    refusal: || sends::refusal(false).map(|refusal| refusal.to_string()),
};

fn prepare(_settings: &Settings) -> io::Result<Box<dyn Opener<dyn Sender>>> {
    Ok(Box::new(OneRing(Arc::new(Mutex::new(SendRing::new()?)))))
}

/// The worker's ring.
struct OneRing(Arc<Mutex<SendRing>>);

impl Opener<dyn Sender> for OneRing {
    fn open(&mut self, socket: BorrowedFd<'_>) -> io::Result<Box<dyn Sender>> {
        let patience = Patience::of(socket)?;
        Ok(Box::new(UringSend { ring: Arc::clone(&self.0), patience }))
    }
}

struct UringSend {
    ring: Arc<Mutex<SendRing>>,
    patience: Patience,
}

impl Sender for UringSend {
    fn send(&mut self, socket: BorrowedFd<'_>, outbox: &mut Outbox) -> io::Result<Sent> {
        let mut ring = self.ring.lock().unwrap_or_else(PoisonError::into_inner);
        send_all(outbox, |outbox| {
            outbox.gather(|pieces| {
                let pieces: Vec<&[u8]> = pieces.iter().take(SENDS_AT_A_TIME).map(|piece| &**piece).collect();
                ring.send(socket, &pieces, self.patience)
            })
        })
    }
}
