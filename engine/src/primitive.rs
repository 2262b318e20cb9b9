//! The vocabulary of primitives: ways of moving the bytes of a message through a socket.

use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::time::Instant;

use crate::about::About;
use crate::inbox::Inbox;
use crate::outbox::Outbox;
use crate::setting::{Setting, Settings};

/// A registered primitive. Its file's name is its name.
pub struct Primitive {
    /// What it is and where it is described.
    pub about: About,
    /// Its own settings.
    pub settings: &'static [Setting],
    /// The ways of waiting it works under; others are holes of `list --matrix`.
    pub waits: &'static [Waits],
    /// Makes what one worker needs. Called in the worker, after every fork, so rings and pipes are the worker's own.
    pub prepare: fn(&Settings) -> io::Result<Box<dyn Opener>>,
}

/// How a design waits for its sockets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Waits {
    /// Inside the call that transfers: blocking sockets.
    InTheCall,
    /// For readiness, and transfers afterwards: select, poll, epoll.
    ForReadiness,
    /// For completion of what was submitted: io_uring. Such a design moves bytes itself, with operations in the place of
    /// system calls. A primitive lists this where there is an operation that does what its calls do: `send` has
    /// IORING_OP_SEND.
    ForCompletion,
}

/// What a worker keeps for all its connections, such as a ring or a stock of pipes.
pub trait Opener: Send {
    /// The transfer of a new connection.
    fn open(&mut self) -> io::Result<Box<dyn Transfer>>;
}

/// How one connection's bytes go in and out.
pub trait Transfer: Send {
    /// Receives once. Retries on EINTR; counts its system calls in the inbox.
    fn receive(&mut self, socket: BorrowedFd<'_>, want: Want, inbox: &mut Inbox) -> io::Result<Received>;

    /// Sends until all is with the kernel or the socket would block. Retries on EINTR and goes on after partial writes;
    /// counts its system calls in the outbox, and never gathers across the end of a message.
    fn send(&mut self, socket: BorrowedFd<'_>, outbox: &mut Outbox) -> io::Result<Sent>;

    /// Collects completions. To be called on error readiness before it counts as a failure: unread completions keep
    /// EPOLLERR ready. Returns how many there were.
    fn reap(&mut self, _socket: BorrowedFd<'_>) -> io::Result<usize> {
        Ok(0)
    }

    /// Ends the connection. A transfer whose pieces the kernel may still read holds them until it is done, at most
    /// until the deadline, and else resets the connection first.
    fn finish(self: Box<Self>, socket: OwnedFd, _deadline: Instant) {
        drop(socket);
    }
}

/// How much the next receive may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Want {
    /// This many bytes, no fewer, where the primitive can wait for them; never more.
    Exactly(usize),
    /// What there is, up to this many bytes.
    AtMost(usize),
}

impl Want {
    /// The most bytes that may be taken.
    pub fn most(self) -> usize {
        match self {
            Want::Exactly(bytes) | Want::AtMost(bytes) => bytes,
        }
    }
}

/// What a receive brought.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Received {
    /// Bytes, now in the inbox.
    Bytes(usize),
    /// Bytes that the kernel threw away (MSG_TRUNC); the inbox is unchanged.
    Discarded(usize),
    /// Bytes that are mapped, not copied (TCP_ZEROCOPY_RECEIVE); the inbox is unchanged.
    Mapped(usize),
    /// The peer will send no more.
    End,
    /// Nothing yet: wait until the socket is readable.
    Blocked,
}

/// How a send ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sent {
    /// The outbox, and any pipe or queue of the transfer, is empty.
    Done,
    /// Something is left: wait until the socket is writable.
    Blocked,
}
