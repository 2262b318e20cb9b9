//! One send(2) a piece: what most programs do.

use std::io;
use std::os::fd::BorrowedFd;

use crate::about::About;
use crate::outbox::Outbox;
use crate::primitive::{Moves, Primitive, Sender, Sent, Waits};
use crate::sys::socket;

pub static ENTRY: Primitive = Primitive {
    about: About { summary: "One send a piece", source: "send(2)" },
    settings: &[],
    waits: &[Waits::InTheCall, Waits::ForReadiness, Waits::ForCompletion],
    moves: Moves::Out(|_settings| Ok(Box::new(|| Box::new(Send) as Box<dyn Sender>))),
};

struct Send;

impl Sender for Send {
    fn send(&mut self, socket: BorrowedFd<'_>, outbox: &mut Outbox) -> io::Result<Sent> {
        while let Some(piece) = outbox.front() {
            let result = piece.with_bytes(|bytes| socket::send(socket, bytes, 0))?;
            outbox.count_call();
            match result {
                Ok(bytes) => outbox.sent(bytes as u64),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(Sent::Blocked),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(Sent::Done)
    }
}
