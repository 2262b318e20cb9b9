//! The socket is corked for each message (TCP_CORK), with one send(2) per piece. TCP sends only full segments until the
//! socket is uncorked.

use std::io;
use std::os::fd::BorrowedFd;

use crate::base::about::About;
use crate::base::feature::{Feature, SEND, on_tcp_socket};
use crate::sys::socket;
use crate::transfer::outbox::Outbox;
use crate::transfer::primitive::{Primitive, Sender, Sent, send_all};

pub static ENTRY: Primitive = Primitive {
    tcp_only: Some("TCP_CORK is a TCP option"),
    ..Primitive::sending::<Cork>(
        About { summary: "The socket is corked for each message; one send per piece", source: "tcp(7), TCP_CORK" },
        &[&SEND, &CORK],
    )
};

/// Holding back partial segments.
const CORK: Feature = Feature {
    name: "tcp(7), TCP_CORK",
    since: Some("2.2"),
    refusal: || on_tcp_socket("setsockopt, TCP_CORK", |socket| socket::cork(socket, true)),
};

#[derive(Default)]
struct Cork {
    corked: bool,
}

impl Sender for Cork {
    fn send(&mut self, socket: BorrowedFd<'_>, outbox: &mut Outbox) -> io::Result<Sent> {
        send_all(outbox, |outbox| {
            if !self.corked {
                socket::cork(socket, true)?;
                outbox.count_call();
                self.corked = true;
            }
            let sent = outbox.first().with_bytes(|bytes| socket::send(socket, bytes, 0))?;
            if outbox.ends_message(sent as u64) {
                socket::cork(socket, false)?;
                outbox.count_call();
                self.corked = false;
            }
            Ok(sent)
        })
    }
}
