//! sendfile(2) for pieces of a file, which never pass through the program; send(2) for pieces in memory.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};

use crate::base::about::About;
use crate::base::feature::{Feature, SEND, refused};
use crate::sys::{descriptor, socket, zero_copy};
use crate::transfer::outbox::{Outbox, Piece};
use crate::transfer::primitive::{Primitive, Sender, Sent, send_all};

pub static ENTRY: Primitive = Primitive::sending::<Sendfile>(
    About { summary: "sendfile for pieces of a file, send for pieces in memory", source: "sendfile(2)" },
    &[&SEND, &SENDFILE],
);

/// Sending from a file to a socket.
const SENDFILE: Feature =
    Feature { name: "sendfile(2)", since: Some("2.2"), refusal: || refused("sendfile", one_byte_sent()) };

fn one_byte_sent() -> io::Result<usize> {
    let (file, (near, _far)) = (descriptor::memory_file(c"sendfile")?, descriptor::stream_pair()?);
    descriptor::write(file.as_fd(), b"x")?;
    zero_copy::sendfile(near.as_fd(), file.as_fd(), 0..1)
}

#[derive(Default)]
struct Sendfile;

impl Sender for Sendfile {
    fn send(&mut self, socket: BorrowedFd<'_>, outbox: &mut Outbox) -> io::Result<Sent> {
        send_all(outbox, |outbox| match outbox.first() {
            Piece::Bytes(bytes, range) => {
                // MSG_MORE, so that the head of a reply leaves together with the file that follows it.
                let more = if outbox.message().nth(1).is_some() { libc::MSG_MORE } else { 0 };
                socket::send(socket, &bytes[range.clone()], more)
            }
            Piece::File(file, range) => match zero_copy::sendfile(socket, file.as_fd(), range.clone())? {
                0 => Err(io::ErrorKind::UnexpectedEof.into()),
                sent => Ok(sent),
            },
        })
    }
}
