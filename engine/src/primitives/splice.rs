//! splice(2) through a pipe: pages of a file go through the pipe into the socket without being copied to the program.
//! Bytes in memory are written into the pipe, which copies them.

use std::io;
use std::os::fd::BorrowedFd;

use crate::base::about::About;
use crate::base::feature::SPLICE;
use crate::base::setting::Settings;
use crate::sys::descriptor;
use crate::transfer::outbox::{Outbox, Piece};
use crate::transfer::pipes::{self, Pipes, ThroughPipe, file_into};
use crate::transfer::primitive::{Moves, Opener, Primitive, Sender, Sent};

pub static ENTRY: Primitive = Primitive {
    descriptors: pipes::DESCRIPTORS,
    ..Primitive::moving(
        About {
            summary: "Through a pipe: splice from a file, or write from memory; then splice to the socket",
            source: "splice(2)",
        },
        &[&SPLICE],
        Moves::Out(prepare),
    )
};

fn prepare(_settings: &Settings) -> io::Result<Box<dyn Opener<dyn Sender>>> {
    let pipes = Pipes::new()?;
    Ok(Box::new(move || Box::new(Splice(ThroughPipe::new(pipes.clone()))) as Box<dyn Sender>))
}

struct Splice(ThroughPipe);

impl Sender for Splice {
    fn send(&mut self, socket: BorrowedFd<'_>, outbox: &mut Outbox) -> io::Result<Sent> {
        self.0.send(socket, outbox, |pipe, outbox| match outbox.first() {
            Piece::Bytes(bytes, range) => {
                descriptor::write(pipe, &bytes[range.start..][..range.len().min(pipes::CAPACITY)])
            }
            Piece::File(file, range) => file_into(pipe, file, range),
        })
    }
}
