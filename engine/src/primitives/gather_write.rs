//! The pieces of a message are copied together, and sent by one write(2), as in a program that builds its reply in a
//! buffer.

use std::cell::Cell;
use std::io;
use std::os::fd::BorrowedFd;

use crate::base::about::About;
use crate::base::feature::WRITE;
use crate::sys::descriptor;
use crate::transfer::outbox::{Outbox, Piece};
use crate::transfer::primitive::{Primitive, Sender, Sent, send_all};

pub static ENTRY: Primitive = Primitive {
    gathers: true,
    ..Primitive::sending::<GatherWrite>(
        About { summary: "Copies the pieces of a message together; one write per message", source: "write(2)" },
        &[&WRITE],
    )
};

thread_local! {
    /// The buffer that was last returned in this thread; idle connections hold none.
    static SPARE: Cell<Vec<u8>> = Cell::default();
}

/// For a partly sent message: all gathered bytes, and how many of them were sent.
#[derive(Default)]
struct GatherWrite {
    together: Vec<u8>,
    sent: usize,
}

impl GatherWrite {
    fn gather(&mut self, outbox: &Outbox) -> io::Result<()> {
        self.together = SPARE.take();
        self.together.clear();
        if let file @ Piece::File(..) = outbox.first() {
            return file.with_bytes(|bytes| {
                self.together.extend_from_slice(bytes);
                Ok(())
            });
        }
        for piece in outbox.message() {
            match piece {
                Piece::Bytes(bytes, range) => self.together.extend_from_slice(&bytes[range.clone()]),
                Piece::File(..) => break,
            }
        }
        Ok(())
    }
}

impl Sender for GatherWrite {
    fn send(&mut self, socket: BorrowedFd<'_>, outbox: &mut Outbox) -> io::Result<Sent> {
        send_all(outbox, |outbox| {
            if self.together.is_empty() {
                self.gather(outbox)?;
            }
            let bytes = descriptor::write(socket, &self.together[self.sent..])?;
            self.sent += bytes;
            if self.sent == self.together.len() {
                self.sent = 0;
                SPARE.set(std::mem::take(&mut self.together));
            }
            Ok(bytes)
        })
    }
}
