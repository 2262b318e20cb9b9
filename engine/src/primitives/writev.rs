//! One writev(2) per message: the kernel gathers the pieces from a table (struct iovec) that is filled for every call,
//! on the stack if it is small. `sendmsg` keeps its table while the pieces stay the same, and takes flags; the kernel
//! does the same for both.

use std::io;
use std::os::fd::BorrowedFd;

use crate::base::about::About;
use crate::base::feature::Feature;
use crate::sys::descriptor;
use crate::transfer::outbox::Outbox;
use crate::transfer::primitive::{Primitive, Sender, Sent, send_all};

pub static ENTRY: Primitive = Primitive {
    gathers: true,
    original: Some("2"),
    ..Primitive::sending::<Writev>(
        About { summary: "One writev per message, gathered by the kernel", source: "writev(2)" },
        &[&WRITEV],
    )
};

const WRITEV: Feature = Feature::everywhere("writev(2)");

#[derive(Default)]
struct Writev;

impl Sender for Writev {
    fn send(&mut self, socket: BorrowedFd<'_>, outbox: &mut Outbox) -> io::Result<Sent> {
        send_all(outbox, |outbox| outbox.gather(|pieces| descriptor::writev(socket, pieces)))
    }
}
