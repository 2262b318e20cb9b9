//! One send(2) per piece, with MSG_MORE on all but the last piece of a message: TCP waits for the rest before it sends
//! a partial segment.

use std::io;
use std::os::fd::BorrowedFd;

use crate::base::about::About;
use crate::base::feature::{Feature, SEND};
use crate::sys::socket;
use crate::transfer::outbox::Outbox;
use crate::transfer::primitive::{Primitive, Sender, Sent, send_all};

pub static ENTRY: Primitive = Primitive {
    tcp_only: Some("MSG_MORE has no effect on Unix sockets, which send at once"),
    ..Primitive::sending::<SendMore>(
        About {
            summary: "One send per piece, with MSG_MORE on all but the last piece of a message",
            source: "send(2), MSG_MORE",
        },
        &[&SEND, &MORE],
    )
};

/// The flag MSG_MORE.
const MORE: Feature = Feature::flag("send(2), MSG_MORE", "2.4.4");

#[derive(Default)]
struct SendMore;

impl Sender for SendMore {
    fn send(&mut self, socket: BorrowedFd<'_>, outbox: &mut Outbox) -> io::Result<Sent> {
        send_all(outbox, |outbox| {
            let last = outbox.message().nth(1).is_none();
            outbox.first().with_bytes(|bytes| {
                // A piece of a file may be sent in part only.
                let ends = last && bytes.len() as u64 == outbox.first().length();
                socket::send(socket, bytes, if ends { 0 } else { libc::MSG_MORE })
            })
        })
    }
}
