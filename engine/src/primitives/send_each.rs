//! One send(2) a piece: what most programs do.

use std::io;
use std::os::fd::BorrowedFd;

use crate::about::About;
use crate::outbox::Outbox;
use crate::primitive::{Moves, Primitive, Sender, Sent, Waits, send_all};
use crate::sys::socket;

pub static ENTRY: Primitive = Primitive {
    about: About { summary: "One send a piece", source: "send(2)" },
    settings: &[],
    waits: &[Waits::InTheCall, Waits::ForReadiness, Waits::ForCompletion],
    moves: Moves::Out(|_settings| Ok(Box::new(|| Box::new(SendEach) as Box<dyn Sender>))),
};

struct SendEach;

impl Sender for SendEach {
    fn send(&mut self, socket: BorrowedFd<'_>, outbox: &mut Outbox) -> io::Result<Sent> {
        send_all(outbox, |outbox| outbox.first().with_bytes(|bytes| socket::send(socket, bytes, 0)))
    }
}
