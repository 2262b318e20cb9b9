//! Completions by io_uring: the sends and receives of one round of the loop are submitted together, in the call that
//! waits.
//!
//! To the loop it looks like readiness. A connection is reported ready when a completion has brought data. Its unsent
//! data is submitted when it says what it waits for. One multishot receive per connection produces a completion
//! whenever data arrives.

use std::collections::VecDeque;
use std::io;
use std::ops::RangeInclusive;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::time::Duration;

use anyhow::{Context, Result};

use super::back_end::BackEnd;
use crate::base::mistake::{Blame, mistake};
use crate::client::exchange::Caller;
use crate::count::tally::Slot;
use crate::sys::clock::now;
use crate::sys::descriptor::PollFlags;
use crate::sys::ring::{Completion, Ring};
use crate::transfer::channel::Channel;
use crate::transfer::ring::ThroughRing;
use crate::transfer::waiting::{BACK_END, COMPLETIONS};

/// Total bytes of the receive buffers that a thread's connections share; each is returned as soon as its completion is
/// taken.
const BUFFER_BYTES: usize = 4 << 20;

/// Number of buffers: two per connection, so that few connections get large buffers. A reply that fits into one takes
/// one completion.
const BUFFERS: RangeInclusive<usize> = 64..=1024;

/// Extra length of each buffer, so that buffers do not all start at the same offset of a page, and so in the same set
/// of the CPU's caches.
const BESIDE: usize = 64;

/// Untaken bytes of a connection above which its receive is cancelled: a client that requests nothing takes nothing,
/// whatever its server sends. More than a client gets in one turn. A connection may have somewhat more, because data
/// arrives until the receive has ended, and growing memory doubles.
const MOST_WAITING: usize = 1 << 20;

/// Maximum wait in nanoseconds for cancelled operations to end.
const FINISH: u64 = 5_000_000_000;

/// A thread's ring and its sockets.
pub struct Completions {
    ring: Ring,
    /// By descriptor.
    sockets: Vec<Option<Socket>>,
    /// Sockets with new completions or data left, each once.
    ready: VecDeque<RawFd>,
    /// Connections to close when none of their operations is in flight.
    closing: usize,
    /// Number of the next poll.
    mark: u16,
}

/// A socket known to the ring.
struct Socket {
    client: usize,
    state: State,
    /// It is in the list of ready sockets.
    is_ready: bool,
}

enum State {
    /// Connecting.
    Polled {
        /// The poll that reports it.
        mark: u16,
    },
    /// Connected.
    Connected(Box<Connected>),
}

struct Connected {
    through: ThroughRing,
    receiving: Receiving,
    sending: bool,
    /// To be closed.
    closing: Option<(Box<Caller<'static>>, Duration)>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Receiving {
    No,
    Yes,
    /// Until its completion arrives.
    Cancelled,
}

impl Completions {
    /// Refuses a load on machines without rings, with the reason.
    pub fn check() -> Result<()> {
        Ring::new(1, 64).map(drop).map_err(|refusal| {
            mistake(
                "back_end.unavailable",
                format!("--{} {COMPLETIONS} is not available on this machine: {refusal}", BACK_END.option()),
            )
            .blaming(&[BACK_END.name])
            .only_here()
        })
    }

    /// Makes it for this many connections; call it in the thread that waits.
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
                        // The poll was given up; its result is ignored.
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
                    // If it cannot be submitted now, it is submitted when the next bytes come.
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

    /// Closes a connection that is to be closed, once none of its operations is in flight.
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

    /// Submits a connection's unsent data, and a receive if there is none; cancels the receive if too much has arrived.
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
    /// Everything is stored by descriptor: a socket may outlive its client's interest in it.
    type Watch = ();

    fn open(&mut self, (): &mut (), socket: OwnedFd, slot: &'static Slot) -> io::Result<Channel> {
        // Operations on a non-blocking socket would fail at once, instead of waiting in the ring.
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
                // More arrived than was taken in one turn.
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

    /// A receive wakes the loop only when data comes, and that is bounded.
    fn ignore(&mut self, (): &mut (), _socket: BorrowedFd<'_>) {}

    fn forget(&mut self, (): &mut (), socket: BorrowedFd<'_>) {
        let descriptor = socket.as_raw_fd();
        if let Some(Socket { state: State::Polled { mark }, .. }) = self.place(descriptor).take() {
            // If it cannot be submitted now, the poll ends with the ring.
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
            // The descriptor may belong to another socket by now.
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
        // Cancelled operations complete at once; others end with the ring.
        let deadline = now() + FINISH;
        while self.closing > 0 && now() < deadline {
            self.wait(Duration::from_millis(100))?;
            while self.next().is_some() {}
        }
        Ok(())
    }
}
