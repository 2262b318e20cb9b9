//! vmsplice(2) through a pipe: the pages of the program's own memory go into the pipe and on into the socket, uncopied.
//!
//! Nothing says when they may be altered. That the peer's TCP has acknowledged them (SIOCOUTQ) does not: over loopback, or
//! between two namespaces, its socket holds these very pages until the peer's program has read them, and what is written
//! there meanwhile is what it reads. So this is for bytes that last as long as the program does.

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

/// Pages of memory into a pipe.
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
