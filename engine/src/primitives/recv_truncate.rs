//! recv(2) with MSG_TRUNC: the kernel discards the received data, and returns its length.

use std::io;
use std::os::fd::BorrowedFd;

use crate::base::about::About;
use crate::base::feature::TRUNCATE;
use crate::transfer::inbox::Inbox;
use crate::transfer::primitive::{Primitive, Received, Receiver, Want, receive_discarded};

pub static ENTRY: Primitive = Primitive {
    stores: false,
    tcp_only: Some("MSG_TRUNC does not discard data on Unix stream sockets"),
    ..Primitive::receiving::<RecvTruncate>(
        About {
            summary: "The kernel discards the data without copying: recv with MSG_TRUNC",
            source: "tcp(7), MSG_TRUNC",
        },
        &[&TRUNCATE],
    )
};

#[derive(Default)]
struct RecvTruncate;

impl Receiver for RecvTruncate {
    fn receive(&mut self, socket: BorrowedFd<'_>, want: Want, inbox: &mut Inbox) -> io::Result<Received> {
        receive_discarded(socket, want, 0, inbox)
    }
}
