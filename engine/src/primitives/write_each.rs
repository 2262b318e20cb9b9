//! One write(2) per piece.

use std::io;
use std::os::fd::BorrowedFd;

use crate::base::about::About;
use crate::base::feature::WRITE;
use crate::sys::descriptor;
use crate::transfer::outbox::Outbox;
use crate::transfer::primitive::{Primitive, Sender, Sent, send_all};

pub static ENTRY: Primitive = Primitive {
    original: Some("1"),
    ..Primitive::sending::<WriteEach>(About { summary: "One write per piece", source: "write(2)" }, &[&WRITE])
};

#[derive(Default)]
struct WriteEach;

impl Sender for WriteEach {
    fn send(&mut self, socket: BorrowedFd<'_>, outbox: &mut Outbox) -> io::Result<Sent> {
        send_all(outbox, |outbox| outbox.first().with_bytes(|bytes| descriptor::write(socket, bytes)))
    }
}
