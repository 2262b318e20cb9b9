//! Types of primitives: ways of moving the bytes of a message through a socket.

use std::ffi::c_int;
use std::io;
use std::os::fd::BorrowedFd;
use std::time::{Duration, Instant};

use crate::base::about::About;
use crate::base::feature::{self, RestsOn};
use crate::base::setting::{Kind, Setting, Settings};
use crate::base::unit::Unit;
use crate::sys::socket;
use crate::transfer::inbox::{self, Inbox};
use crate::transfer::outbox::Outbox;

/// A registered primitive. Its name is that of its file.
pub struct Primitive {
    /// Description, and its source.
    pub about: About,
    /// Its own settings; [`Primitive::all_settings`] adds those that follow from its properties.
    pub settings: &'static [Setting],
    /// Ways of waiting that it supports; the others are holes of `list --matrix`.
    pub waits: &'static [Waits],
    /// Direction of the bytes.
    pub moves: Moves,
    /// Received bytes are stored in the inbox; if false they are only counted, except for [`Want::Stored`].
    pub stores: bool,
    /// It sends several pieces by one call, and pieces of several messages if configured: [`MESSAGES_AT_ONCE`].
    pub gathers: bool,
    /// It sends each message from one buffer.
    pub laid_out: bool,
    /// A zero-copy primitive: each of its sends ends in a completion, which reports whether the kernel copied after
    /// all: [`Completions`].
    pub completes: bool,
    /// Descriptors that each worker holds for it, besides those of its connections.
    pub descriptors: usize,
    /// It busy-polls for a limited time in the call that waits for data, so that no wake-up is needed. A server with it
    /// sleeps while it is idle.
    pub spins: bool,
    /// The peer reads sent bytes from the program's memory at any later time, so this memory must never change.
    pub lends: bool,
    /// Name of this way of sending in the output of the source's client, such as the number of its test. Used where a
    /// workload prints the source's output (`Workload::original`). `None` if it has no such name.
    pub original: Option<&'static str>,
    /// Reason why it supports only TCP; `None` if it supports any stream socket.
    pub tcp_only: Option<&'static str>,
    /// Kernel features that it needs in order to run.
    pub rests_on: RestsOn,
}

impl Primitive {
    /// Makes an entry for a send primitive that needs no preparation per worker or connection. Defaults: no settings;
    /// works with blocking sockets and after readiness.
    pub const fn sending<T: Sender + Default + 'static>(about: About, rests_on: RestsOn) -> Self {
        Self::moving(about, rests_on, Moves::Out(|_settings| Ok(Box::new(|| Box::<T>::default() as Box<dyn Sender>))))
    }

    /// As [`Primitive::sending`], for a receive primitive.
    pub const fn receiving<T: Receiver + Default + 'static>(about: About, rests_on: RestsOn) -> Self {
        Self::moving(about, rests_on, Moves::In(|_settings| Ok(Box::new(|| Box::<T>::default() as Box<dyn Receiver>))))
    }

    /// Returns why it cannot run on this machine; `None` if it can.
    pub fn unavailable(&self) -> Option<String> {
        feature::missing(self.rests_on)
    }

    /// Its own settings, and those that follow from its properties.
    pub fn all_settings(&self) -> Vec<Setting> {
        let gathering: &[Setting] = if self.gathers { &[MESSAGES_AT_ONCE] } else { &[] };
        [self.settings, gathering].concat()
    }

    /// Maximum messages that one of its calls gathers.
    pub fn messages_at_once(&self, settings: &Settings) -> usize {
        if self.gathers { settings.integer(MESSAGES_AT_ONCE.name) as usize } else { 1 }
    }

    /// As [`Primitive::sending`] or [`Primitive::receiving`], with preparation.
    pub const fn moving(about: About, rests_on: RestsOn, moves: Moves) -> Self {
        Primitive {
            about,
            settings: &[],
            waits: &[Waits::InTheCall, Waits::ForReadiness],
            moves,
            stores: true,
            gathers: false,
            laid_out: false,
            completes: false,
            descriptors: 0,
            spins: false,
            lends: false,
            original: None,
            tcp_only: None,
            rests_on,
        }
    }
}

/// For primitives that send several pieces by one call: maximum number of messages of these pieces. Above one, small
/// messages take fewer calls, and a call does not correspond to a message any more.
pub const MESSAGES_AT_ONCE: Setting = Setting {
    name: "messages_at_once",
    help: "Maximum number of queued messages that one call gathers",
    unit: Unit::Of("messages"),
    // UIO_MAXIOV of linux/uio.h.
    kind: Kind::Integer { minimum: 1, maximum: 1024, default: 1 },
    for_more: Some("the kernel limits the pieces per call (UIO_MAXIOV)"),
};

/// Direction of a primitive, and how a worker prepares for it.
#[derive(Clone, Copy)]
pub enum Moves {
    /// From the outbox into the socket.
    Out(Prepare<dyn Sender>),
    /// From the socket into the inbox.
    In(Prepare<dyn Receiver>),
}

/// Makes the state of one worker. Called in the worker, after every fork, so that rings and pipes belong to the worker.
pub type Prepare<T> = fn(&Settings) -> io::Result<Box<dyn Opener<T>>>;

/// Direction of bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Direction {
    /// Sending.
    Out,
    /// Receiving.
    In,
}

impl Moves {
    /// Its direction.
    pub fn direction(&self) -> Direction {
        match self {
            Moves::Out(_) => Direction::Out,
            Moves::In(_) => Direction::In,
        }
    }
}

/// Way in which a design waits for its sockets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Waits {
    /// In the transferring call: blocking sockets.
    InTheCall,
    /// For readiness, followed by a transfer: select, poll, epoll.
    ForReadiness,
    /// For completion of submitted operations: io_uring. Such a design moves bytes itself, with operations instead of
    /// system calls. A primitive lists this if an operation does what its calls do: send(2) has IORING_OP_SEND.
    ForCompletion,
}

/// State that a worker keeps for all its connections, such as a ring or a stock of pipes.
pub trait Opener<T: ?Sized>: Send {
    /// Makes the state of a new connection; may configure its socket.
    fn open(&mut self, socket: BorrowedFd<'_>) -> io::Result<Box<T>>;
}

/// For a primitive without state per worker or connection.
impl<T: ?Sized, F: Send + FnMut() -> Box<T>> Opener<T> for F {
    fn open(&mut self, _socket: BorrowedFd<'_>) -> io::Result<Box<T>> {
        Ok(self())
    }
}

/// Sender of one connection.
pub trait Sender: Send {
    /// Sends until the kernel has everything or the socket would block. Retries on EINTR and continues after partial
    /// writes. Counts the calls that send, or prepare a send, in the outbox. Gathers no more than the outbox offers,
    /// which is one message by default.
    fn send(&mut self, socket: BorrowedFd<'_>, outbox: &mut Outbox) -> io::Result<Sent>;

    /// Collects completions. To be called on error readiness before it counts as a failure: unread completions keep
    /// EPOLLERR ready.
    fn reap(&mut self, _socket: BorrowedFd<'_>) -> io::Result<()> {
        Ok(())
    }

    /// Completions since the last call of this function, collected by `reap` or by `send`.
    fn take_completions(&mut self) -> Completions {
        Completions::default()
    }

    /// Returns whether the kernel may still read sent pieces, which must not change meanwhile. Before dropping the
    /// sender, call this first and read its completions afterwards: another thread may collect the last one between two
    /// checks.
    fn holds(&self) -> bool {
        false
    }
}

/// Receiver of one connection.
pub trait Receiver: Send {
    /// Receives once. Retries on EINTR; counts every receive call in the inbox, whether it returns data or not.
    fn receive(&mut self, socket: BorrowedFd<'_>, want: Want, inbox: &mut Inbox) -> io::Result<Received>;
}

/// Outcome of zero-copy sends.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Completions {
    /// Sends that the kernel is done with.
    pub completed: u64,
    /// Those of them that the kernel copied after all.
    pub copied: u64,
}

/// Bytes that the next receive may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Want {
    /// Exactly this many bytes, if the primitive can wait for them; never more.
    Exactly(usize),
    /// Whatever there is, up to this many bytes.
    AtMost(usize),
    /// As [`Want::AtMost`], for bytes that must be read, such as a head before a body that need not be: every primitive
    /// stores them in the inbox.
    Stored(usize),
}

impl Want {
    /// Whatever there is, as far as the buffer has room.
    pub const ANYTHING: Want = Want::AtMost(inbox::CAPACITY);

    /// Maximum bytes to take.
    pub fn most(self) -> usize {
        match self {
            Want::Exactly(bytes) | Want::AtMost(bytes) | Want::Stored(bytes) => bytes,
        }
    }
}

/// Result of a receive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Received {
    /// Bytes, now in the inbox.
    Bytes(usize),
    /// Bytes discarded by the kernel (MSG_TRUNC); the inbox is unchanged.
    Discarded(usize),
    /// Bytes mapped without copying (TCP_ZEROCOPY_RECEIVE); the inbox is unchanged.
    Mapped(usize),
    /// The peer will send no more.
    End,
    /// No data yet: wait until the socket is readable.
    Blocked,
}

/// Result of a send.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sent {
    /// The outbox, and any pipe or queue of the primitive, is empty.
    Done,
    /// Data is left: wait until the socket is writable.
    Blocked,
}

/// Sends by one kind of call until the outbox is empty or the socket would block: continues after partial writes,
/// retries on EINTR, counts the calls. For primitives whose calls take bytes from the front of the outbox and return
/// their number.
pub fn send_all(outbox: &mut Outbox, mut call: impl FnMut(&Outbox) -> io::Result<usize>) -> io::Result<Sent> {
    while !outbox.is_empty() {
        let result = call(outbox);
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

/// Receives by one call, which returns the number of bytes: retries on EINTR, counts the calls. `of` makes the result
/// for these bytes.
pub fn receive_once(
    inbox: &mut Inbox,
    mut call: impl FnMut(&mut Inbox) -> io::Result<usize>,
    of: fn(usize) -> Received,
) -> io::Result<Received> {
    loop {
        inbox.count_call();
        return match call(inbox) {
            Ok(0) => Ok(Received::End),
            Ok(bytes) => Ok(of(bytes)),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(Received::Blocked),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => Err(error),
        };
    }
}

/// Receives by one recv(2) with these flags into the inbox. Primitives that store nothing else use it for bytes that
/// must be read ([`Want::Stored`]).
pub fn receive_stored(socket: BorrowedFd<'_>, most: usize, flags: c_int, inbox: &mut Inbox) -> io::Result<Received> {
    receive_once(inbox, |inbox| inbox.receive(most, |room| socket::recv(socket, room, flags)), Received::Bytes)
}

/// Receives by one recv(2) with these flags and MSG_TRUNC: the kernel discards the data, except for bytes that must be
/// read.
pub fn receive_discarded(socket: BorrowedFd<'_>, want: Want, flags: c_int, inbox: &mut Inbox) -> io::Result<Received> {
    if let Want::Stored(most) = want {
        return receive_stored(socket, most, flags, inbox);
    }
    let call = |inbox: &mut Inbox| socket::recv(socket, inbox.room(want.most()), flags | libc::MSG_TRUNC);
    receive_once(inbox, call, Received::Discarded)
}

/// Time after which it sleeps after all: an idle connection does not burn a CPU for ever, and the socket's time limit
/// is kept.
const LONGEST_SPIN: Duration = Duration::from_millis(10);

/// Receives with MSG_DONTWAIT until data has arrived; after the time limit without it, so that the call sleeps.
pub fn receive_spinning(mut receive: impl FnMut(c_int) -> io::Result<Received>) -> io::Result<Received> {
    let until = Instant::now() + LONGEST_SPIN;
    loop {
        match receive(libc::MSG_DONTWAIT)? {
            Received::Blocked if Instant::now() < until => std::hint::spin_loop(),
            Received::Blocked => return receive(0),
            received => return Ok(received),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::base::setting::Value;

    const OWN: Setting = Setting {
        name: "own",
        help: "Its own",
        unit: Unit::None,
        kind: Kind::Integer { minimum: 0, maximum: 9, default: 3 },
        for_more: None,
    };

    #[test]
    fn a_primitive_that_gathers_keeps_its_own_settings() {
        let about = About { summary: "", source: "" };
        let prepare = Moves::Out(|_settings| Err(io::Error::other("it sends nothing")));
        let one = Primitive { settings: &[OWN], ..Primitive::moving(about, &[], prepare) };
        assert_eq!(one.all_settings(), [OWN]);
        let both = Primitive { gathers: true, ..one };
        assert_eq!(both.all_settings(), [OWN, MESSAGES_AT_ONCE]);
        let given = BTreeMap::from([(OWN.name, Value::Integer(7)), (MESSAGES_AT_ONCE.name, Value::Integer(64))]);
        let settings = Settings::new(&both.all_settings(), &given);
        assert_eq!((settings.integer(OWN.name), both.messages_at_once(&settings)), (7, 64));
    }
}
