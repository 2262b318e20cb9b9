//! Completions by io_uring: what a turn of the loop sends and receives is submitted together, in the call that waits.
//!
//! To the loop it looks like readiness. A connection is said to be ready when a completion has brought something; what it left
//! to be sent is submitted when it says what it waits for. One receive stays with each connection and brings a completion each
//! time something comes.

use std::collections::VecDeque;
use std::io;
use std::ops::RangeInclusive;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::time::Duration;

use anyhow::{Context, Result};

use super::back_end::BackEnd;
use crate::base::mistake::mistake;
use crate::client::exchange::Caller;
use crate::count::tally::Slot;
use crate::sys::clock::now;
use crate::sys::descriptor::PollFlags;
use crate::sys::ring::{Completion, Ring};
use crate::transfer::channel::Channel;
use crate::transfer::ring::ThroughRing;
use crate::transfer::waiting::{BACK_END, COMPLETIONS};

/// Bytes of all receive buffers that the connections of a thread share; they are given back as soon as a completion is taken.
const BUFFER_BYTES: usize = 4 << 20;

/// How many there are: two for each connection, so that few connections have large ones. A reply that fits into one takes one
/// completion.
const BUFFERS: RangeInclusive<usize> = 64..=1024;

/// How much longer each is than that, so that they do not all begin at the same place of a page, which is the same
/// place of the CPU's caches.
const BESIDE: usize = 64;

/// Where more bytes of a connection than these have come and were not taken, its receive is cancelled: a client that asks for
/// nothing takes nothing, whatever its server sends. More than a client is ever given in one turn. About the most that a connection
/// has: on top is what comes until the receive has ended, and memory that grows doubles.
const MOST_WAITING: usize = 1 << 20;

/// The longest that the end of what was cancelled is waited for, in nanoseconds.
const FINISH: u64 = 5_000_000_000;

/// The ring of a thread, and its sockets.
pub struct Completions {
    ring: Ring,
    /// By descriptor.
    sockets: Vec<Option<Socket>>,
    /// Sockets that completions have come for, or that have something left, each once.
    ready: VecDeque<RawFd>,
    /// Connections that are to be closed when nothing of them is in flight.
    closing: usize,
    /// Of the next poll.
    mark: u16,
}

/// A socket that is known to the ring.
struct Socket {
    client: usize,
    state: State,
    /// It stands among the ready.
    is_ready: bool,
}

enum State {
    /// It is being connected.
    Polled {
        /// Which poll says so.
        mark: u16,
    },
    /// It is a connection.
    Connected(Box<Connected>),
}

struct Connected {
    through: ThroughRing,
    receiving: Receiving,
    sending: bool,
    /// It is to be closed.
    closing: Option<(Box<Caller<'static>>, Duration)>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Receiving {
    No,
    Yes,
    /// Until the completion that says so.
    Cancelled,
}

impl Completions {
    /// Refuses a load where there are no rings, with the reason.
    pub fn check() -> Result<()> {
        Ring::new(1, 64).map(drop).map_err(|refusal| {
            mistake(format!("--{} {COMPLETIONS} is not available on this machine: {refusal}", BACK_END.option()))
        })
    }

    /// To be made in the thread that waits, for so many connections.
    pub fn new(connections: usize) -> Result<Self> {
        let buffers = (2 * connections).next_power_of_two().clamp(*BUFFERS.start(), *BUFFERS.end());
        let ring = Ring::new(buffers as u16, BUFFER_BYTES / buffers + BESIDE).context("cannot create the ring")?;
        Ok(Completions { ring, sockets: Vec::new(), ready: VecDeque::new(), closing: 0, mark: 0 })
    }

    fn place(&mut self, descriptor: RawFd) -> &mut Option<Socket> {
        let place = descriptor as usize;
        if place >= self.sockets.len() {
            self.sockets.resize_with(place + 1, || None);
        }
        &mut self.sockets[place]
    }

    /// Takes all completions that have come.
    fn take_all(&mut self) {
        while let Some(completion) = self.ring.completion() {
            let descriptor = match completion {
                Completion::Ready { socket, mark } => {
                    match self.place(socket) {
                        // Of one that was given up nobody waits any more.
                        Some(Socket { state: State::Polled { mark: current }, .. }) if *current == mark => {}
                        _ => continue,
                    }
                    socket
                }
                Completion::Received { socket, result, more } => {
                    let Some(connected) = connected(&mut self.sockets, socket) else { continue };
                    if !more {
                        connected.receiving = Receiving::No;
                    }
                    let mut parcels = connected.through.parcels();
                    parcels.take(&mut self.ring, result);
                    let is_too_much = parcels.bytes() > MOST_WAITING;
                    drop(parcels);
                    // Where this cannot be submitted now, it is when the next bytes come.
                    if is_too_much && connected.receiving == Receiving::Yes && self.ring.cancel_receive(socket).is_ok()
                    {
                        connected.receiving = Receiving::Cancelled;
                    }
                    socket
                }
                Completion::Sent { socket, result } => {
                    let Some(connected) = connected(&mut self.sockets, socket) else { continue };
                    connected.sending = false;
                    let mut parcels = connected.through.parcels();
                    (parcels.in_flight, parcels.sent) = (false, Some(result));
                    socket
                }
                Completion::Accepted { .. } | Completion::Paused => unreachable!("nothing of the kind was submitted"),
            };
            self.is_ready(descriptor);
        }
    }

    fn is_ready(&mut self, descriptor: RawFd) {
        if let Some(socket) = self.place(descriptor)
            && !std::mem::replace(&mut socket.is_ready, true)
        {
            self.ready.push_back(descriptor);
        }
    }

    /// Closes a connection that is to be closed, once nothing of it is in flight.
    fn close_if_done(&mut self, descriptor: RawFd) {
        let Some(connected) = connected(&mut self.sockets, descriptor) else { return };
        if connected.sending || connected.receiving != Receiving::No {
            return;
        }
        if let Some((caller, patience)) = connected.closing.take() {
            self.sockets[descriptor as usize] = None;
            self.closing -= 1;
            caller.finish(patience);
        }
    }

    /// Submits what a connection has left to be sent, and a receive where there is none, or ends it where too much has come.
    fn submit(&mut self, socket: BorrowedFd<'_>) -> io::Result<()> {
        let Some(connected) = connected(&mut self.sockets, socket.as_raw_fd()) else { return Ok(()) };
        let mut parcels = connected.through.parcels();
        if let Some((bytes, range)) = parcels.to_send.take() {
            self.ring.send(socket, bytes, range)?;
            (connected.sending, parcels.in_flight) = (true, true);
        }
        match connected.receiving {
            Receiving::No if parcels.wants_more() => {
                self.ring.receive(socket)?;
                connected.receiving = Receiving::Yes;
            }
            Receiving::Yes if !parcels.wants_more() => {
                self.ring.cancel_receive(socket)?;
                connected.receiving = Receiving::Cancelled;
            }
            _ => {}
        }
        Ok(())
    }
}

fn connected(sockets: &mut [Option<Socket>], descriptor: RawFd) -> Option<&mut Connected> {
    match sockets.get_mut(descriptor as usize)? {
        Some(Socket { state: State::Connected(connected), .. }) => Some(connected),
        _ => None,
    }
}

impl BackEnd for Completions {
    /// All is kept by descriptor: a socket may outlive its client's interest in it.
    type Watch = ();

    fn open(&mut self, (): &mut (), socket: OwnedFd, slot: &'static Slot) -> io::Result<Channel> {
        // Of one that does not block an operation fails at once, instead of waiting in the ring.
        rustix::io::ioctl_fionbio(&socket, false)?;
        let through = ThroughRing::default();
        let ends = (Box::new(through.clone()), Box::new(through.clone()));
        let connected = Connected { through, receiving: Receiving::No, sending: false, closing: None };
        let state = State::Connected(Box::new(connected));
        *self.place(socket.as_raw_fd()) = Some(Socket { client: usize::MAX, state, is_ready: false });
        Ok(Channel::new(socket, ends.0, ends.1, slot))
    }

    fn watch(&mut self, client: usize, (): &mut (), socket: BorrowedFd<'_>, flags: PollFlags) -> io::Result<()> {
        let descriptor = socket.as_raw_fd();
        self.mark = self.mark.wrapping_add(1);
        let mark = self.mark;
        match self.place(descriptor) {
            Some(Socket { client: owner, state: State::Connected(connected), .. }) => {
                *owner = client;
                let left =
                    !connected.sending && flags.contains(PollFlags::POLLIN) && connected.through.parcels().has_some();
                self.submit(socket)?;
                // More has come than was taken in one turn.
                if left {
                    self.is_ready(descriptor);
                }
            }
            unknown => {
                *unknown = Some(Socket { client, state: State::Polled { mark }, is_ready: false });
                self.ring.poll(socket, flags, mark)?;
            }
        }
        Ok(())
    }

    /// It wakes the loop only when something comes, and that is bounded.
    fn ignore(&mut self, (): &mut (), _socket: BorrowedFd<'_>) {}

    fn forget(&mut self, (): &mut (), socket: BorrowedFd<'_>) {
        let descriptor = socket.as_raw_fd();
        if let Some(Socket { state: State::Polled { mark }, .. }) = self.place(descriptor).take() {
            // Where it cannot be submitted now, the poll ends with the ring.
            let _ = self.ring.cancel_poll(descriptor, mark);
        }
    }

    fn close(&mut self, (): &mut (), caller: Box<Caller<'static>>, patience: Duration) {
        let descriptor = caller.socket().as_raw_fd();
        if let Some(connected) = connected(&mut self.sockets, descriptor) {
            // An operation that cannot be cancelled now ends with the ring, and the connection with it.
            if connected.receiving == Receiving::Yes && self.ring.cancel_receive(caller.socket()).is_ok() {
                connected.receiving = Receiving::Cancelled;
            }
            if connected.sending {
                let _ = self.ring.cancel_send(caller.socket());
            }
            connected.closing = Some((caller, patience));
            self.closing += 1;
            self.close_if_done(descriptor);
        }
    }

    fn wait(&mut self, time: Duration) -> io::Result<()> {
        self.ring.wait_at_most(if self.ready.is_empty() { time } else { Duration::ZERO })?;
        self.take_all();
        Ok(())
    }

    fn next(&mut self) -> Option<(usize, PollFlags)> {
        while let Some(descriptor) = self.ready.pop_front() {
            let Some(socket) = self.place(descriptor) else { continue };
            // It may be another socket since, with the number of one that was closed.
            if !std::mem::take(&mut socket.is_ready) {
                continue;
            }
            let client = socket.client;
            match &socket.state {
                State::Polled { .. } => {
                    self.sockets[descriptor as usize] = None;
                    return Some((client, PollFlags::POLLOUT));
                }
                State::Connected(connected) if connected.closing.is_some() => self.close_if_done(descriptor),
                // Replies to earlier requests are taken meanwhile.
                State::Connected(connected) if connected.sending && !connected.through.parcels().has_some() => {}
                State::Connected(_) => return Some((client, PollFlags::POLLIN)),
            }
        }
        None
    }

    fn closing(&self) -> usize {
        self.closing
    }

    fn finish(&mut self) -> io::Result<()> {
        // What was cancelled says so at once; what does not ends with the ring.
        let deadline = now() + FINISH;
        while self.closing > 0 && now() < deadline {
            self.wait(Duration::from_millis(100))?;
            while self.next().is_some() {}
        }
        Ok(())
    }
}
