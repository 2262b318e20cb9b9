//! vmsplice(2) through a pipe: the pages of the program's own memory go into the pipe and on into the socket, uncopied.
//! Nothing says when the kernel is done with them: they are held until the peer's TCP has acknowledged all (SIOCOUTQ).

use std::collections::VecDeque;
use std::io;
use std::os::fd::BorrowedFd;

use crate::about::About;
use crate::outbox::{Outbox, Piece};
use crate::pipes::{Pipes, ThroughPipe};
use crate::primitive::{Moves, Opener, Primitive, Sender, Sent};
use crate::setting::Settings;
use crate::sys::zero_copy;

pub static ENTRY: Primitive = Primitive::moving(
    About {
        summary: "Through a pipe, the memory's pages uncopied: vmsplice, then splice",
        source: "vmsplice(2), splice(2)",
    },
    Moves::Out(prepare),
)
.gathering();

/// Pieces held from which on each further one asks first what has been acknowledged.
const HELD: usize = 16;

fn prepare(_settings: &Settings) -> io::Result<Box<dyn Opener<dyn Sender>>> {
    let pipes = Pipes::default();
    Ok(Box::new(move || {
        let through = ThroughPipe::new(pipes.clone());
        Box::new(Vmsplice { through, held: VecDeque::new(), given: 0 }) as Box<dyn Sender>
    }))
}

struct Vmsplice {
    through: ThroughPipe,
    /// Pieces that the kernel may still read, each with the place in the connection's bytes where it ends.
    held: VecDeque<(u64, Piece)>,
    /// Bytes given to the pipe so far.
    given: u64,
}

impl Sender for Vmsplice {
    fn send(&mut self, socket: BorrowedFd<'_>, outbox: &mut Outbox) -> io::Result<Sent> {
        if self.held.len() >= HELD {
            self.reap(socket)?;
        }
        let Vmsplice { through, held, given } = self;
        through.send(socket, outbox, |pipe, outbox| {
            let pieces = outbox.in_memory()?;
            let slices: Vec<_> = pieces.iter().map(Piece::slice).collect();
            let bytes = zero_copy::vmsplice(pipe, &slices)?;
            let mut end = *given;
            for piece in pieces {
                if end < *given + bytes as u64 {
                    end += piece.length();
                    held.push_back((end, piece));
                }
            }
            *given += bytes as u64;
            Ok(bytes)
        })
    }

    /// What is in the pipe, or acknowledged by nobody yet, stays.
    fn reap(&mut self, socket: BorrowedFd<'_>) -> io::Result<()> {
        let unacknowledged = zero_copy::unacknowledged(socket)? + self.through.inside() as u64;
        let done = self.given.saturating_sub(unacknowledged);
        while self.held.front().is_some_and(|&(end, _)| end <= done) {
            self.held.pop_front();
        }
        Ok(())
    }

    fn holds(&self) -> bool {
        !self.held.is_empty()
    }
}
