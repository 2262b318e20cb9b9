//! splice(2) through a pipe: pages of a file go into the pipe and on into the socket without being copied to the program;
//! bytes in memory are written into the pipe, which copies them.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, Mutex, PoisonError};

use crate::about::About;
use crate::outbox::{Outbox, Piece};
use crate::primitive::{Moves, Opener, Primitive, Sender, Sent};
use crate::setting::Settings;
use crate::sys::{descriptor, zero_copy};

pub static ENTRY: Primitive = Primitive::moving(
    About { summary: "Through a pipe: splice from a file, or write, then splice", source: "splice(2)" },
    Moves::Out(prepare),
);

fn prepare(_settings: &Settings) -> io::Result<Box<dyn Opener<dyn Sender>>> {
    Ok(Box::new(Pipes::default()))
}

/// Empty pipes of a worker: a connection has one only while it sends.
#[derive(Clone, Default)]
struct Pipes(Arc<Mutex<Vec<Pipe>>>);

/// Where it is read, and where it is written.
type Pipe = (OwnedFd, OwnedFd);

impl Opener<dyn Sender> for Pipes {
    fn open(&mut self, _socket: BorrowedFd<'_>) -> io::Result<Box<dyn Sender>> {
        Ok(Box::new(Splice { pipes: self.clone(), pipe: None, inside: 0 }))
    }
}

impl Pipes {
    fn take(&self) -> io::Result<Pipe> {
        if let Some(spare) = self.0.lock().unwrap_or_else(PoisonError::into_inner).pop() {
            return Ok(spare);
        }
        let pipe = descriptor::pipe()?;
        // It may hold less than is offered (pipe(7), pipe-user-pages-soft), and nobody else empties it.
        descriptor::set_nonblocking(pipe.1.as_fd())?;
        Ok(pipe)
    }

    fn give_back(&self, pipe: Pipe) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(pipe);
    }
}

struct Splice {
    pipes: Pipes,
    pipe: Option<Pipe>,
    /// Bytes in the pipe: neither in the outbox nor with the socket.
    inside: usize,
}

/// What the pipe is given at a time: as much as an empty one takes (pipe(7)).
const PIPE: usize = 64 * 1024;

impl Sender for Splice {
    fn send(&mut self, socket: BorrowedFd<'_>, outbox: &mut Outbox) -> io::Result<Sent> {
        while self.inside > 0 || !outbox.is_empty() {
            let (read, write) = match &self.pipe {
                Some(pipe) => pipe,
                None => self.pipe.insert(self.pipes.take()?),
            };
            let result = match outbox.front() {
                Some(piece) if self.inside == 0 => {
                    let bytes = match piece {
                        Piece::Bytes(bytes, range) => {
                            let most = range.len().min(PIPE);
                            descriptor::write(write.as_fd(), &bytes[range.start..][..most])
                        }
                        Piece::File(file, range) => {
                            let most = (range.end - range.start).min(PIPE as u64) as usize;
                            zero_copy::splice_at(file.as_fd(), range.start, write.as_fd(), most)
                        }
                    };
                    match bytes {
                        Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                        bytes => bytes.map(|bytes| {
                            self.inside = bytes;
                            outbox.sent(bytes as u64);
                        }),
                    }
                }
                _ => zero_copy::splice(read.as_fd(), socket, self.inside).map(|bytes| self.inside -= bytes),
            };
            outbox.count_call();
            match result {
                Ok(()) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(Sent::Blocked),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        if let Some(pipe) = self.pipe.take() {
            self.pipes.give_back(pipe);
        }
        Ok(Sent::Done)
    }
}
