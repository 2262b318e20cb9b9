//! One sendmsg(2) a message: the kernel gathers its pieces.

use std::io;
use std::os::fd::BorrowedFd;

use crate::about::About;
use crate::outbox::Outbox;
use crate::primitive::{Moves, Primitive, Sender, Sent, Waits, send_all};
use crate::sys::socket;

pub static ENTRY: Primitive = Primitive {
    about: About { summary: "One sendmsg a message, gathered by the kernel", source: "sendmsg(2)" },
    settings: &[],
    waits: &[Waits::InTheCall, Waits::ForReadiness],
    moves: Moves::Out(|_settings| Ok(Box::new(|| Box::new(Sendmsg) as Box<dyn Sender>))),
};

struct Sendmsg;

impl Sender for Sendmsg {
    fn send(&mut self, socket: BorrowedFd<'_>, outbox: &mut Outbox) -> io::Result<Sent> {
        send_all(outbox, |outbox| outbox.gather(|pieces| socket::sendmsg(socket, pieces, 0)))
    }
}
