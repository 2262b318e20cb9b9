//! recv(2) with MSG_WAITALL if the protocol gives the length to receive: the call returns when all of it is there. On a
//! non-blocking socket it returns what there is.

use std::io;
use std::os::fd::BorrowedFd;

use crate::base::about::About;
use crate::base::feature::RECV;
use crate::sys::socket;
use crate::transfer::inbox::Inbox;
use crate::transfer::primitive::{Primitive, Received, Receiver, Want, receive_once};

pub static ENTRY: Primitive = Primitive::receiving::<RecvExact>(
    About {
        summary: "Receives the whole expected length in one call: recv with MSG_WAITALL",
        source: "recv(2), MSG_WAITALL",
    },
    &[&RECV],
);

#[derive(Default)]
struct RecvExact;

impl Receiver for RecvExact {
    fn receive(&mut self, socket: BorrowedFd<'_>, want: Want, inbox: &mut Inbox) -> io::Result<Received> {
        receive_once(
            inbox,
            |inbox| {
                let all = if matches!(want, Want::Exactly(_)) { libc::MSG_WAITALL } else { 0 };
                inbox.receive(want.most(), |room| socket::recv(socket, room, all))
            },
            Received::Bytes,
        )
    }
}
