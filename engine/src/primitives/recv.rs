//! One recv(2) a time, of what there is: what most programs do.

use std::io;
use std::os::fd::BorrowedFd;

use crate::about::About;
use crate::inbox::Inbox;
use crate::primitive::{Moves, Primitive, Received, Receiver, Waits, Want};
use crate::sys::socket;

pub static ENTRY: Primitive = Primitive {
    about: About { summary: "One recv a time, of what there is", source: "recv(2)" },
    settings: &[],
    waits: &[Waits::InTheCall, Waits::ForReadiness, Waits::ForCompletion],
    moves: Moves::In(|_settings| Ok(Box::new(|| Box::new(Recv) as Box<dyn Receiver>))),
};

struct Recv;

impl Receiver for Recv {
    fn receive(&mut self, socket: BorrowedFd<'_>, want: Want, inbox: &mut Inbox) -> io::Result<Received> {
        loop {
            inbox.count_call();
            match socket::recv(socket, inbox.room(want.most()), 0) {
                Ok(0) => return Ok(Received::End),
                Ok(bytes) => {
                    inbox.filled(bytes);
                    return Ok(Received::Bytes(bytes));
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(Received::Blocked),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }
}
