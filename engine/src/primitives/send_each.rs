//! One send(2) per piece, as in most programs.

use std::io;
use std::os::fd::BorrowedFd;

use crate::base::about::About;
use crate::base::feature::SEND;
use crate::sys::socket;
use crate::transfer::outbox::Outbox;
use crate::transfer::primitive::{Primitive, Sender, Sent, Waits, send_all};

pub static ENTRY: Primitive = Primitive {
    waits: &[Waits::InTheCall, Waits::ForReadiness, Waits::ForCompletion],
    ..Primitive::sending::<SendEach>(About { summary: "One send per piece", source: "send(2)" }, &[&SEND])
};

#[derive(Default)]
struct SendEach;

impl Sender for SendEach {
    fn send(&mut self, socket: BorrowedFd<'_>, outbox: &mut Outbox) -> io::Result<Sent> {
        send_all(outbox, |outbox| outbox.first().with_bytes(|bytes| socket::send(socket, bytes, 0)))
    }
}
