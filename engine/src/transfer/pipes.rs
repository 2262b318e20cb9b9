//! Sending through a pipe: what primitives share that give pages to a pipe and move them on into the socket.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, Mutex, PoisonError};

use crate::sys::{descriptor, zero_copy};
use crate::transfer::outbox::Outbox;
use crate::transfer::primitive::Sent;

/// The most that is put into a pipe at a time: as much as an empty one takes (pipe(7)).
pub const CAPACITY: usize = 64 * 1024;

/// Where it is read, and where it is written, which does not block.
type Pipe = (OwnedFd, OwnedFd);

/// Pipes that a worker keeps. Connections that wait for slow peers have one each besides, and one at a time is sending.
const SPARE: usize = 1;

/// Of those that a worker keeps.
pub const DESCRIPTORS: usize = 2 * SPARE;

/// A worker's stock of empty pipes; its copies are the same one.
#[derive(Clone)]
pub struct Pipes(Arc<Mutex<Vec<Pipe>>>);

impl Pipes {
    /// With what a worker keeps, so that its first connection costs no more than the others.
    pub fn new() -> io::Result<Self> {
        let spare: io::Result<Vec<Pipe>> = (0..SPARE).map(|_| pipe()).collect();
        Ok(Pipes(Arc::new(Mutex::new(spare?))))
    }

    fn take(&self) -> io::Result<Pipe> {
        let spare = self.0.lock().unwrap_or_else(PoisonError::into_inner).pop();
        spare.map_or_else(pipe, Ok)
    }

    fn give_back(&self, pipe: Pipe) {
        let mut spare = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if spare.len() < SPARE {
            spare.push(pipe);
        }
    }
}

fn pipe() -> io::Result<Pipe> {
    let pipe = descriptor::pipe()?;
    // It may hold less than is offered (pipe(7), pipe-user-pages-soft), and nobody else empties it.
    descriptor::set_nonblocking(pipe.1.as_fd())?;
    Ok(pipe)
}

/// Puts the pages of the next bytes of a file into a pipe, uncopied, and says how many bytes.
pub fn file_into(pipe: BorrowedFd<'_>, file: &File, range: &Range<u64>) -> io::Result<usize> {
    let most = (range.end - range.start).min(CAPACITY as u64) as usize;
    match zero_copy::splice_at(file.as_fd(), range.start, pipe, most)? {
        0 => Err(io::ErrorKind::UnexpectedEof.into()),
        bytes => Ok(bytes),
    }
}

/// A connection's way through a pipe, of which it has one only while it sends.
pub struct ThroughPipe {
    pipes: Pipes,
    pipe: Option<Pipe>,
    /// Bytes in the pipe: neither in the outbox nor with the socket.
    inside: usize,
}

impl ThroughPipe {
    /// Takes its pipes from there.
    pub fn new(pipes: Pipes) -> Self {
        ThroughPipe { pipes, pipe: None, inside: 0 }
    }

    /// Sends all of the outbox, as far as the socket allows. `fill` puts bytes from its front into the pipe, which is empty,
    /// and says how many.
    pub fn send(
        &mut self,
        socket: BorrowedFd<'_>,
        outbox: &mut Outbox,
        mut fill: impl FnMut(BorrowedFd<'_>, &Outbox) -> io::Result<usize>,
    ) -> io::Result<Sent> {
        while self.inside > 0 || !outbox.is_empty() {
            let (read, write) = match &self.pipe {
                Some(pipe) => pipe,
                None => self.pipe.insert(self.pipes.take()?),
            };
            let result = if self.inside == 0 {
                fill(write.as_fd(), outbox).map(|bytes| {
                    outbox.sent(bytes as u64);
                    self.inside = bytes;
                })
            } else {
                zero_copy::splice(read.as_fd(), socket, self.inside).map(|bytes| self.inside -= bytes)
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
