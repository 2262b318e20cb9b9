//! One write(2) per message whose pieces are contiguous in one buffer, so that nothing has to be gathered. Pieces that
//! are not contiguous take a write each.

use std::io;
use std::os::fd::BorrowedFd;

use crate::base::about::About;
use crate::base::feature::WRITE;
use crate::sys::descriptor;
use crate::transfer::outbox::Outbox;
use crate::transfer::primitive::{Primitive, Sender, Sent, send_all};

pub static ENTRY: Primitive = Primitive {
    gathers: true,
    laid_out: true,
    original: Some("3"),
    ..Primitive::sending::<WriteOnce>(
        About { summary: "One write per message, laid out contiguously in advance", source: "write(2)" },
        &[&WRITE],
    )
};

#[derive(Default)]
struct WriteOnce;

impl Sender for WriteOnce {
    fn send(&mut self, socket: BorrowedFd<'_>, outbox: &mut Outbox) -> io::Result<Sent> {
        send_all(outbox, |outbox| outbox.side_by_side(|bytes| descriptor::write(socket, bytes)))
    }
}
