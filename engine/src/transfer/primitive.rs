//! The vocabulary of primitives: ways of moving the bytes of a message through a socket.

use std::ffi::c_int;
use std::io;
use std::os::fd::BorrowedFd;
use std::time::{Duration, Instant};

use crate::base::about::About;
use crate::base::feature::{self, RestsOn};
use crate::base::setting::{Kind, Setting, Settings};
use crate::sys::socket;
use crate::transfer::inbox::{self, Inbox};
use crate::transfer::outbox::Outbox;

/// A registered primitive. Its file's name is its name.
pub struct Primitive {
    /// What it is and where it is described.
    pub about: About,
    /// Its own settings; with those that follow from what it is: [`Primitive::all_settings`].
    pub settings: &'static [Setting],
    /// The ways of waiting it works under; others are holes of `list --matrix`.
    pub waits: &'static [Waits],
    /// Which way the bytes go.
    pub moves: Moves,
    /// What it receives is stored in the inbox; otherwise its bytes are counted only, but for [`Want::Stored`].
    pub stores: bool,
    /// It sends several pieces by one call, and those of several messages where it is told so: [`MESSAGES_AT_ONCE`].
    pub gathers: bool,
    /// It sends each message from one buffer.
    pub laid_out: bool,
    /// It does not copy, and each of its sends ends in a completion, which says whether the kernel has: [`Completions`].
    pub completes: bool,
    /// Descriptors that each worker with it holds beside those of its connections.
    pub descriptors: usize,
    /// It spins instead of sleeping until there is something to be had, in the call that awaits it and not for long: nobody has to
    /// be woken for it. A server with it sleeps while nobody asks.
    pub spins: bool,
    /// The peer reads what it sends from where it lies, as late as it likes: it has to stay there as it is.
    pub lends: bool,
    /// What the client of the source that this way of sending is from calls it, such as the number of its test, where its output
    /// says so: for whatever a workload prints in that client's words (`Workload::original`). `None` where it has no such name.
    pub original: Option<&'static str>,
    /// Why it can run over TCP alone; `None` where any stream socket will do.
    pub tcp_only: Option<&'static str>,
    /// What of the kernel it rests on; without any of it, it cannot run.
    pub rests_on: RestsOn,
}

impl Primitive {
    /// One that sends, where neither a worker nor a connection has to prepare anything. What it does not say otherwise: it
    /// has no settings, and works with blocking sockets and after readiness.
    pub const fn sending<T: Sender + Default + 'static>(about: About, rests_on: RestsOn) -> Self {
        Self::moving(about, rests_on, Moves::Out(|_settings| Ok(Box::new(|| Box::<T>::default() as Box<dyn Sender>))))
    }

    /// As [`Primitive::sending`], for one that receives.
    pub const fn receiving<T: Receiver + Default + 'static>(about: About, rests_on: RestsOn) -> Self {
        Self::moving(about, rests_on, Moves::In(|_settings| Ok(Box::new(|| Box::<T>::default() as Box<dyn Receiver>))))
    }

    /// Why it cannot run on this machine; `None` where it can.
    pub fn unavailable(&self) -> Option<String> {
        feature::missing(self.rests_on)
    }

    /// Its own settings, and those that follow from what it is.
    pub fn all_settings(&self) -> Vec<Setting> {
        let gathering: &[Setting] = if self.gathers { &[MESSAGES_AT_ONCE] } else { &[] };
        [self.settings, gathering].concat()
    }

    /// The most messages that one of its calls gathers.
    pub fn messages_at_once(&self, settings: &Settings) -> usize {
        if self.gathers { settings.integer(MESSAGES_AT_ONCE.name) as usize } else { 1 }
    }

    /// As [`Primitive::sending`] or [`Primitive::receiving`], where there is something to prepare.
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

/// Of a primitive that sends several pieces by one call: how many messages these may be of. With more than one, small
/// messages take fewer calls, and what a call sends is no message any more.
pub const MESSAGES_AT_ONCE: Setting = Setting {
    name: "messages_at_once",
    help: "Maximum number of queued messages that one call gathers",
    unit: Some("messages"),
    // UIO_MAXIOV of linux/uio.h.
    kind: Kind::Integer { minimum: 1, maximum: 1024, default: 1 },
    for_more: Some("the kernel limits the pieces per call (UIO_MAXIOV)"),
};

/// The direction of a primitive, and how a worker prepares for it.
#[derive(Clone, Copy)]
pub enum Moves {
    /// From the outbox into the socket.
    Out(Prepare<dyn Sender>),
    /// From the socket into the inbox.
    In(Prepare<dyn Receiver>),
}

/// Makes what one worker needs. Called in the worker, after every fork, so that rings and pipes are the worker's own.
pub type Prepare<T> = fn(&Settings) -> io::Result<Box<dyn Opener<T>>>;

/// Which way bytes go.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Direction {
    /// Sending.
    Out,
    /// Receiving.
    In,
}

impl Moves {
    /// Which way.
    pub fn direction(&self) -> Direction {
        match self {
            Moves::Out(_) => Direction::Out,
            Moves::In(_) => Direction::In,
        }
    }
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
    /// system calls. A primitive lists this where there is an operation that does what its calls do: send(2) has
    /// IORING_OP_SEND.
    ForCompletion,
}

/// What a worker keeps for all its connections, such as a ring or a stock of pipes.
pub trait Opener<T: ?Sized>: Send {
    /// What a new connection needs, whose socket may have to be told of it.
    fn open(&mut self, socket: BorrowedFd<'_>) -> io::Result<Box<T>>;
}

/// Of a primitive for which neither a worker nor a connection has to keep anything.
impl<T: ?Sized, F: Send + FnMut() -> Box<T>> Opener<T> for F {
    fn open(&mut self, _socket: BorrowedFd<'_>) -> io::Result<Box<T>> {
        Ok(self())
    }
}

/// How one connection's bytes go out.
pub trait Sender: Send {
    /// Sends until all is with the kernel or the socket would block. Retries on EINTR and goes on after partial writes;
    /// counts the calls that send, or prepare for it, in the outbox, and gathers no more than the outbox offers: a message,
    /// unless it is told more.
    fn send(&mut self, socket: BorrowedFd<'_>, outbox: &mut Outbox) -> io::Result<Sent>;

    /// Collects completions. To be called on error readiness before it counts as a failure: unread completions keep
    /// EPOLLERR ready.
    fn reap(&mut self, _socket: BorrowedFd<'_>) -> io::Result<()> {
        Ok(())
    }

    /// The completions since this was last asked, whether `reap` collected them or `send` on its way.
    fn take_completions(&mut self) -> Completions {
        Completions::default()
    }

    /// Whether the kernel may still read pieces that were sent. Until it may not, they have to stay as they are. Whoever is
    /// about to part with the sender asks this first, and for its completions afterwards: another thread may collect the last
    /// one between two questions.
    fn holds(&self) -> bool {
        false
    }
}

/// How one connection's bytes come in.
pub trait Receiver: Send {
    /// Receives once. Retries on EINTR; counts every call that asks the socket for bytes in the inbox, whether it brings any
    /// or not.
    fn receive(&mut self, socket: BorrowedFd<'_>, want: Want, inbox: &mut Inbox) -> io::Result<Received>;
}

/// What became of sends without copying.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Completions {
    /// Sends that the kernel is done with.
    pub completed: u64,
    /// Those among them of which it has copied the bytes after all.
    pub copied: u64,
}

/// How much the next receive may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Want {
    /// This many bytes, no fewer, where the primitive can wait for them; never more.
    Exactly(usize),
    /// What there is, up to this many bytes.
    AtMost(usize),
    /// As [`Want::AtMost`], of bytes that have to be read, such as a head before bytes that need not be: stored in the inbox by
    /// every primitive.
    Stored(usize),
}

impl Want {
    /// Whatever there is, as far as the buffer holds it.
    pub const ANYTHING: Want = Want::AtMost(inbox::CAPACITY);

    /// The most bytes that may be taken.
    pub fn most(self) -> usize {
        match self {
            Want::Exactly(bytes) | Want::AtMost(bytes) | Want::Stored(bytes) => bytes,
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
    /// The outbox, and any pipe or queue of the primitive, is empty.
    Done,
    /// Something is left: wait until the socket is writable.
    Blocked,
}

/// Sends by one kind of call until the outbox is empty or the socket would block: goes on after partial writes, retries on
/// EINTR, counts the calls. For primitives whose calls take bytes from the front of the outbox and say how many.
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

/// Receives by one call, which says how many bytes came: retries on EINTR, counts the calls. `of` says what those bytes
/// are.
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

/// Receives by one recv(2) with these flags, into the inbox: also what has to be read ([`Want::Stored`]), for primitives that
/// store nothing else.
pub fn receive_stored(socket: BorrowedFd<'_>, most: usize, flags: c_int, inbox: &mut Inbox) -> io::Result<Received> {
    receive_once(inbox, |inbox| inbox.receive(most, |room| socket::recv(socket, room, flags)), Received::Bytes)
}

/// Receives by one recv(2) with these flags and MSG_TRUNC: the kernel throws away what came, but for what has to be read.
pub fn receive_discarded(socket: BorrowedFd<'_>, want: Want, flags: c_int, inbox: &mut Inbox) -> io::Result<Received> {
    if let Want::Stored(most) = want {
        return receive_stored(socket, most, flags, inbox);
    }
    let call = |inbox: &mut Inbox| socket::recv(socket, inbox.room(want.most()), flags | libc::MSG_TRUNC);
    receive_once(inbox, call, Received::Discarded)
}

/// After so long it sleeps after all: an idle connection does not burn a CPU for ever, and a time limit of the socket is
/// kept.
const LONGEST_SPIN: Duration = Duration::from_millis(10);

/// Receives with the flag not to wait until something has come, at last without it: then the call sleeps.
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
        unit: None,
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
