//! recv(2), repeated until something has arrived: busy-polls instead of sleeping, so nothing has to wake it.

use std::io;
use std::os::fd::BorrowedFd;

use crate::base::about::About;
use crate::base::feature::RECV;
use crate::transfer::inbox::Inbox;
use crate::transfer::primitive::{Primitive, Received, Receiver, Waits, Want, receive_spinning, receive_stored};

pub static ENTRY: Primitive = Primitive {
    spins: true,
    waits: &[Waits::InTheCall],
    ..Primitive::receiving::<BusyPoll>(
        About {
            summary: "Busy-polls until data has arrived, for at most 10 ms: recv with MSG_DONTWAIT",
            source: "recv(2), MSG_DONTWAIT",
        },
        &[&RECV],
    )
};

#[derive(Default)]
struct BusyPoll;

impl Receiver for BusyPoll {
    fn receive(&mut self, socket: BorrowedFd<'_>, want: Want, inbox: &mut Inbox) -> io::Result<Received> {
        receive_spinning(|flags| receive_stored(socket, want.most(), flags, inbox))
    }
}
