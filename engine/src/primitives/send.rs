//! One send(2) a piece, one recv(2) a time: what most programs do.

use std::io;
use std::os::fd::BorrowedFd;
use std::os::unix::fs::FileExt;

use crate::about::About;
use crate::inbox::Inbox;
use crate::outbox::{Outbox, Piece};
use crate::primitive::{Opener, Primitive, Received, Sent, Transfer, Waits, Want};
use crate::setting::Settings;
use crate::sys::socket;

pub static ENTRY: Primitive = Primitive {
    about: About { summary: "One send a piece; recv", source: "send(2), recv(2)" },
    settings: &[],
    waits: &[Waits::InTheCall, Waits::ForReadiness, Waits::ForCompletion],
    prepare,
};

fn prepare(_settings: &Settings) -> io::Result<Box<dyn Opener>> {
    Ok(Box::new(Send))
}

/// Neither a worker nor a connection has to keep anything.
struct Send;

impl Opener for Send {
    fn open(&mut self) -> io::Result<Box<dyn Transfer>> {
        Ok(Box::new(Send))
    }
}

impl Transfer for Send {
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

    fn send(&mut self, socket: BorrowedFd<'_>, outbox: &mut Outbox) -> io::Result<Sent> {
        while let Some(piece) = outbox.front() {
            let result = match piece {
                Piece::Bytes(bytes, range) => socket::send(socket, &bytes[range.clone()], 0),
                Piece::File(file, range) => {
                    let mut buffer = [0; 16 * 1024];
                    let most = buffer.len().min((range.end - range.start) as usize);
                    match file.read_at(&mut buffer[..most], range.start)? {
                        0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                        read => socket::send(socket, &buffer[..read], 0),
                    }
                }
            };
            outbox.count_call();
            match result {
                Ok(bytes) => outbox.sent(bytes as u64),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(Sent::Blocked),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(Sent::Done)
    }
}
