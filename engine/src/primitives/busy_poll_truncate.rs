//! recv(2) with MSG_TRUNC, repeated until something has arrived: the kernel discards the data, and nothing has to wake
//! the receiver.

use std::io;
use std::os::fd::BorrowedFd;

use crate::base::about::About;
use crate::base::feature::TRUNCATE;
use crate::transfer::inbox::Inbox;
use crate::transfer::primitive::{Primitive, Received, Receiver, Waits, Want, receive_discarded, receive_spinning};

pub static ENTRY: Primitive = Primitive {
    stores: false,
    spins: true,
    waits: &[Waits::InTheCall],
    tcp_only: Some("MSG_TRUNC does not discard data on Unix stream sockets"),
    ..Primitive::receiving::<BusyPollTruncate>(
        About {
            summary: "Busy-polls; the kernel discards the data without copying: recv with MSG_DONTWAIT and MSG_TRUNC",
            source: "recv(2), MSG_DONTWAIT; tcp(7), MSG_TRUNC",
        },
        &[&TRUNCATE],
    )
};

#[derive(Default)]
struct BusyPollTruncate;

impl Receiver for BusyPollTruncate {
    fn receive(&mut self, socket: BorrowedFd<'_>, want: Want, inbox: &mut Inbox) -> io::Result<Received> {
        receive_spinning(|flags| receive_discarded(socket, want, flags, inbox))
    }
}
