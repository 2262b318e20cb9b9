//! recv(2) with MSG_TRUNC: the kernel throws away what has come, and says how much it was (tcp(7)).

use std::io;
use std::os::fd::BorrowedFd;

use crate::about::About;
use crate::inbox::Inbox;
use crate::primitive::{Moves, Primitive, Received, Receiver, Waits, Want};
use crate::sys::socket;

pub static ENTRY: Primitive = Primitive {
    about: About { summary: "Thrown away by the kernel, uncopied: recv with MSG_TRUNC", source: "tcp(7), recv(2)" },
    settings: &[],
    waits: &[Waits::InTheCall, Waits::ForReadiness],
    moves: Moves::In(|_settings| Ok(Box::new(|| Box::new(Truncate) as Box<dyn Receiver>))),
};

struct Truncate;

impl Receiver for Truncate {
    fn receive(&mut self, socket: BorrowedFd<'_>, want: Want, inbox: &mut Inbox) -> io::Result<Received> {
        loop {
            inbox.count_call();
            match socket::recv(socket, inbox.room(want.most()), libc::MSG_TRUNC) {
                Ok(0) => return Ok(Received::End),
                Ok(bytes) => return Ok(Received::Discarded(bytes)),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(Received::Blocked),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }
}
