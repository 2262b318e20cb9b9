//! One sendmsg(2) a message: the kernel gathers its pieces.

use std::io;
use std::os::fd::BorrowedFd;

use crate::about::About;
use crate::outbox::Outbox;
use crate::primitive::{Primitive, Sender, Sent, send_all};
use crate::sys::socket;

pub static ENTRY: Primitive = Primitive::sending::<Sendmsg>(About {
    summary: "One sendmsg a message, gathered by the kernel",
    source: "sendmsg(2)",
})
.gathering();

#[derive(Default)]
struct Sendmsg;

impl Sender for Sendmsg {
    fn send(&mut self, socket: BorrowedFd<'_>, outbox: &mut Outbox) -> io::Result<Sent> {
        send_all(outbox, |outbox| outbox.gather(|pieces| socket::sendmsg(socket, pieces, 0)))
    }
}
