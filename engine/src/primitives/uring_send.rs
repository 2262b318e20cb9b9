//! io_uring in the place of send(2): the pieces of a message are linked operations, submitted by one io_uring_enter.

use std::io;
use std::os::fd::BorrowedFd;
use std::sync::{Arc, Mutex, PoisonError};

use crate::about::About;
use crate::outbox::Outbox;
use crate::primitive::{Moves, Opener, Primitive, Sender, Sent, send_all};
use crate::setting::Settings;
use crate::sys::sends::{self, SENDS_AT_A_TIME, SendRing};

pub static ENTRY: Primitive = Primitive {
    unavailable: || sends::refusal(false).map(|refusal| refusal.to_string()),
    ..Primitive::moving(
        About {
            summary: "Linked operations, one io_uring_enter a message",
            source: "io_uring_enter(2), IORING_OP_SEND",
        },
        Moves::Out(prepare),
    )
    .gathering()
};

fn prepare(_settings: &Settings) -> io::Result<Box<dyn Opener<dyn Sender>>> {
    let ring = Arc::new(Mutex::new(SendRing::new()?));
    Ok(Box::new(move || Box::new(UringSend { ring: Arc::clone(&ring) }) as Box<dyn Sender>))
}

/// The ring is the worker's.
struct UringSend {
    ring: Arc<Mutex<SendRing>>,
}

impl Sender for UringSend {
    fn send(&mut self, socket: BorrowedFd<'_>, outbox: &mut Outbox) -> io::Result<Sent> {
        let mut ring = self.ring.lock().unwrap_or_else(PoisonError::into_inner);
        send_all(outbox, |outbox| {
            outbox.gather(|pieces| {
                let pieces: Vec<&[u8]> = pieces.iter().take(SENDS_AT_A_TIME).map(|piece| &**piece).collect();
                ring.send(socket, &pieces)
            })
        })
    }
}
