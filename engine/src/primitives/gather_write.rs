//! The pieces of a message are copied together, and go in one write(2): what a program does that builds its reply in a
//! buffer.

use std::io;
use std::os::fd::BorrowedFd;

use crate::about::About;
use crate::outbox::Outbox;
use crate::primitive::{Primitive, Sender, Sent, send_all};
use crate::sys::descriptor;

pub static ENTRY: Primitive = Primitive::sending::<GatherWrite>(About {
    summary: "The pieces of a message copied together, then one write",
    source: "write(2)",
})
.gathering();

/// What is left of a message after a partial write is copied together anew.
#[derive(Default)]
struct GatherWrite {
    together: Vec<u8>,
}

impl Sender for GatherWrite {
    fn send(&mut self, socket: BorrowedFd<'_>, outbox: &mut Outbox) -> io::Result<Sent> {
        send_all(outbox, |outbox| {
            outbox.gather(|pieces| {
                self.together.clear();
                pieces.iter().for_each(|piece| self.together.extend_from_slice(piece));
                descriptor::write(socket, &self.together)
            })
        })
    }
}
