//! Sending through a pipe: code shared by primitives that put pages into a pipe and move them on into the socket.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, Mutex, PoisonError};

use crate::sys::{descriptor, zero_copy};
use crate::transfer::outbox::Outbox;
use crate::transfer::primitive::Sent;

/// Maximum put into a pipe at a time: the capacity of an empty pipe (pipe(7)).
pub const CAPACITY: usize = 64 * 1024;

/// The read end, and the write end, which is non-blocking.
type Pipe = (OwnedFd, OwnedFd);

/// Pipes that a worker keeps. A connection that waits for a slow peer holds another one, and one connection at a time
/// is sending.
const SPARE: usize = 1;

/// Descriptors of the kept pipes.
pub const DESCRIPTORS: usize = 2 * SPARE;

/// A worker's stock of empty pipes; copies share it.
#[derive(Clone)]
pub struct Pipes(Arc<Mutex<Vec<Pipe>>>);

impl Pipes {
    /// Makes a full stock, so that the first connection costs no more than the others.
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
    // The pipe may hold less than offered (pipe(7), pipe-user-pages-soft), and no other thread empties it.
    descriptor::set_nonblocking(pipe.1.as_fd())?;
    Ok(pipe)
}

/// Puts pages of a file into a pipe without copying them, and returns the number of bytes.
pub fn file_into(pipe: BorrowedFd<'_>, file: &File, range: &Range<u64>) -> io::Result<usize> {
    let most = (range.end - range.start).min(CAPACITY as u64) as usize;
    match zero_copy::splice_at(file.as_fd(), range.start, pipe, most)? {
        0 => Err(io::ErrorKind::UnexpectedEof.into()),
        bytes => Ok(bytes),
    }
}

/// A connection's sender through a pipe; it holds a pipe only while it sends.
pub struct ThroughPipe {
    pipes: Pipes,
    pipe: Option<Pipe>,
    /// Bytes in the pipe: neither in the outbox nor in the socket.
    inside: usize,
}

impl ThroughPipe {
    /// Takes its pipes from this stock.
    pub fn new(pipes: Pipes) -> Self {
        ThroughPipe { pipes, pipe: None, inside: 0 }
    }

    /// Sends the outbox as far as the socket allows. `fill` puts bytes from its front into the empty pipe, and returns
    /// their number.
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
