//! One recv(2) at a time, of whatever has arrived, as in most programs.

use std::io;
use std::os::fd::BorrowedFd;

use crate::base::about::About;
use crate::base::feature::RECV;
use crate::transfer::inbox::Inbox;
use crate::transfer::primitive::{Primitive, Received, Receiver, Waits, Want, receive_stored};

pub static ENTRY: Primitive = Primitive {
    waits: &[Waits::InTheCall, Waits::ForReadiness, Waits::ForCompletion],
    ..Primitive::receiving::<Recv>(
        About { summary: "One recv at a time, of whatever has arrived", source: "recv(2)" },
        &[&RECV],
    )
};

#[derive(Default)]
struct Recv;

impl Receiver for Recv {
    fn receive(&mut self, socket: BorrowedFd<'_>, want: Want, inbox: &mut Inbox) -> io::Result<Received> {
        receive_stored(socket, want.most(), 0, inbox)
    }
}
