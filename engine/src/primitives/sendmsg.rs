//! One sendmsg(2) a message: the kernel gathers its pieces.
//!
//! The table of pieces (struct iovec) is filled anew for every call, on the stack where they are few: the pieces follow from
//! the outbox, where the next message may be of others, and what is left of one that was sent in part begins later. Nothing is
//! registered beforehand. The program of CSE 638 PA02 ("one-copy") fills its eight entries once for each connection; to fill
//! them again takes some stores to memory, beside a system call and the copy of every byte.

use std::io;
use std::os::fd::BorrowedFd;

use crate::about::About;
use crate::outbox::Outbox;
use crate::primitive::{Primitive, Sender, Sent, send_all};
use crate::sys::socket;

pub static ENTRY: Primitive = Primitive {
    gathers: true,
    ..Primitive::sending::<Sendmsg>(About {
        summary: "One sendmsg a message, gathered by the kernel from a table that is filled for each call",
        source: "sendmsg(2)",
    })
};

#[derive(Default)]
struct Sendmsg;

impl Sender for Sendmsg {
    fn send(&mut self, socket: BorrowedFd<'_>, outbox: &mut Outbox) -> io::Result<Sent> {
        send_all(outbox, |outbox| outbox.gather(|pieces| socket::sendmsg(socket, pieces, 0)))
    }
}
