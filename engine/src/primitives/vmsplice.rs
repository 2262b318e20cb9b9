//! vmsplice(2) through a pipe: the pages of the program's memory go through the pipe into the socket without being
//! copied.
//!
//! Nothing reports when the pages may be changed again. An acknowledgement by the peer's TCP (SIOCOUTQ) does not
//! suffice. Over loopback, or between two namespaces, the peer's socket holds these very pages until its program reads
//! them, and would deliver later changes. So this primitive is only for bytes that never change while the program runs.

use std::io::{self, IoSlice};
use std::os::fd::{AsFd, BorrowedFd};

use crate::base::about::About;
use crate::base::feature::{Feature, SPLICE, refused};
use crate::base::setting::Settings;
use crate::sys::{descriptor, zero_copy};
use crate::transfer::outbox::{Outbox, Piece};
use crate::transfer::pipes::{self, Pipes, ThroughPipe, file_into};
use crate::transfer::primitive::{Moves, Opener, Primitive, Sender, Sent};

pub static ENTRY: Primitive = Primitive {
    descriptors: pipes::DESCRIPTORS,
    gathers: true,
    lends: true,
    ..Primitive::moving(
        About {
            summary: "Through a pipe without copying memory pages: vmsplice, then splice",
            source: "vmsplice(2), splice(2)",
        },
        &[&VMSPLICE, &SPLICE],
        Moves::Out(prepare),
    )
};

/// Passing pages of memory into a pipe.
const VMSPLICE: Feature =
    Feature { name: "vmsplice(2)", since: Some("2.6.17"), refusal: || refused("vmsplice", one_byte_lent()) };

fn one_byte_lent() -> io::Result<usize> {
    let (_from, into) = descriptor::pipe()?;
    zero_copy::vmsplice(into.as_fd(), &[IoSlice::new(b"x")])
}

fn prepare(_settings: &Settings) -> io::Result<Box<dyn Opener<dyn Sender>>> {
    let pipes = Pipes::new()?;
    Ok(Box::new(move || Box::new(Vmsplice(ThroughPipe::new(pipes.clone()))) as Box<dyn Sender>))
}

struct Vmsplice(ThroughPipe);

impl Sender for Vmsplice {
    fn send(&mut self, socket: BorrowedFd<'_>, outbox: &mut Outbox) -> io::Result<Sent> {
        self.0.send(socket, outbox, |pipe, outbox| match outbox.first() {
            Piece::Bytes(..) => outbox.gather(|pieces| zero_copy::vmsplice(pipe, pieces)),
            Piece::File(file, range) => file_into(pipe, file, range),
        })
    }
}
