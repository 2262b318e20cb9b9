//! One write(2) a piece.

use std::io;
use std::os::fd::BorrowedFd;

use crate::about::About;
use crate::outbox::Outbox;
use crate::primitive::{Moves, Primitive, Sender, Sent, Waits, send_all};
use crate::sys::descriptor;

pub static ENTRY: Primitive = Primitive {
    about: About { summary: "One write a piece", source: "write(2)" },
    settings: &[],
    waits: &[Waits::InTheCall, Waits::ForReadiness],
    moves: Moves::Out(|_settings| Ok(Box::new(|| Box::new(WriteEach) as Box<dyn Sender>))),
};

struct WriteEach;

impl Sender for WriteEach {
    fn send(&mut self, socket: BorrowedFd<'_>, outbox: &mut Outbox) -> io::Result<Sent> {
        send_all(outbox, |outbox| outbox.first().with_bytes(|bytes| descriptor::write(socket, bytes)))
    }
}
