//! A connected socket and the primitives that move bytes over it; both ends of a connection use it.

use std::io;
use std::net::Shutdown;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use socket2::SockRef;

use crate::base::about::Entry;
use crate::base::setting::{Setting, Settings};
use crate::count::tally::{Counts, Slot};
use crate::transfer::inbox::Inbox;
use crate::transfer::linger::{Lingering, count_completions};
use crate::transfer::outbox::Outbox;
use crate::transfer::primitive::{Moves, Opener, Primitive, Received, Receiver, Sender, Sent, Want};

/// A way of moving bytes: one primitive per direction.
#[derive(Clone, Copy)]
pub struct Way {
    /// The send primitive.
    pub out: &'static Entry<Primitive>,
    /// The receive primitive.
    pub into: &'static Entry<Primitive>,
}

impl Way {
    /// Settings of both.
    pub fn settings(&self) -> Vec<Setting> {
        [self.out.item.all_settings(), self.into.item.all_settings()].concat()
    }

    /// Descriptors that each worker holds besides those of its connections.
    pub fn descriptors(&self) -> usize {
        self.out.item.descriptors + self.into.item.descriptors
    }

    /// Prepares the state of one worker. Call it where the worker runs, after every fork.
    ///
    /// # Panics
    /// If a primitive has the wrong direction, which the command line refuses.
    pub fn prepare(&self, settings: &Settings) -> io::Result<Openers> {
        let (Moves::Out(senders), Moves::In(receivers)) = (self.out.item.moves, self.into.item.moves) else {
            panic!("{} is to send and {} to receive", self.out.name, self.into.name);
        };
        let messages_at_once = self.out.item.messages_at_once(settings);
        Ok(Openers { senders: senders(settings)?, receivers: receivers(settings)?, messages_at_once })
    }

    /// Formats the copied share of zero-copy transfers, one line per direction. Empty if no primitive tried
    /// to avoid copies: the sender has no completions, and the receiver stores bytes.
    pub fn copying_in_words(self, counted: &Counts) -> String {
        let share = |part: u64, whole: u64| format!("{:.1} %", 100.0 * part as f64 / whole as f64);
        let mut text = String::new();
        if counted.completions > 0 {
            let Counts { completions, completions_copied: copied, .. } = counted;
            let share = share(*copied, *completions);
            text += &format!("zero-copy sends: {completions}, of which the kernel copied {copied} ({share})\n");
        } else if self.out.item.completes && counted.send_calls > 0 {
            text += "zero-copy sends: copied share unknown, since no completion was read\n";
        }
        if !self.into.item.stores && counted.bytes_received > 0 {
            let (all, not) = (counted.bytes_received, counted.bytes_not_copied);
            text += &format!(
                "bytes received by a zero-copy primitive: {all}, of which the kernel copied {} ({})\n",
                all - not,
                share(all - not, all)
            );
        }
        text
    }
}

/// State of a [`Way`] that a worker keeps for all its connections.
pub struct Openers {
    senders: Box<dyn Opener<dyn Sender>>,
    receivers: Box<dyn Opener<dyn Receiver>>,
    messages_at_once: usize,
}

impl Openers {
    /// Makes a channel of a connected socket, blocking or not.
    #[inline]
    pub fn open(&mut self, socket: OwnedFd, slot: &'static Slot) -> io::Result<Channel> {
        let (sender, receiver) = (self.senders.open(socket.as_fd())?, self.receivers.open(socket.as_fd())?);
        Ok(Channel::with_outbox(socket, sender, receiver, slot, Outbox::gathering(self.messages_at_once)))
    }
}

/// One socket, its data in both directions, and its counters.
pub struct Channel {
    socket: OwnedFd,
    sender: Box<dyn Sender>,
    receiver: Box<dyn Receiver>,
    slot: &'static Slot,
    /// Received data that has not been taken yet.
    pub inbox: Inbox,
    /// Data to send.
    pub outbox: Outbox,
    /// Receive calls not yet reported to the protocol.
    calls: u64,
}

impl Channel {
    /// Makes a channel with the given ends; see [`Openers::open`].
    #[inline]
    pub fn new(socket: OwnedFd, sender: Box<dyn Sender>, receiver: Box<dyn Receiver>, slot: &'static Slot) -> Self {
        Channel::with_outbox(socket, sender, receiver, slot, Outbox::default())
    }

    #[inline]
    fn with_outbox(
        socket: OwnedFd,
        sender: Box<dyn Sender>,
        receiver: Box<dyn Receiver>,
        slot: &'static Slot,
        outbox: Outbox,
    ) -> Self {
        slot.connections.fetch_add(1, Relaxed);
        Channel { socket, sender, receiver, slot, inbox: Inbox::default(), outbox, calls: 0 }
    }

    /// The socket, for waiting on it.
    pub fn socket(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    /// Returns the slot in which the channel is counted.
    pub fn slot(&self) -> &'static Slot {
        self.slot
    }

    /// Sends the outbox, and any pipe or queue of the sender, as far as the socket allows.
    pub fn send(&mut self) -> io::Result<Sent> {
        let before = self.outbox.bytes();
        let result = self.sender.send(self.socket.as_fd(), &mut self.outbox);
        self.slot.send_calls.fetch_add(self.outbox.take_calls(), Relaxed);
        self.slot.bytes_sent.fetch_add(before - self.outbox.bytes(), Relaxed);
        self.account();
        result
    }

    /// Receives once.
    pub fn receive(&mut self, want: Want) -> io::Result<Received> {
        let result = self.receiver.receive(self.socket.as_fd(), want, &mut self.inbox);
        let calls = self.inbox.take_calls();
        self.calls += calls;
        self.slot.receive_calls.fetch_add(calls, Relaxed);
        if let Ok(Received::Bytes(bytes) | Received::Discarded(bytes) | Received::Mapped(bytes)) = result {
            self.slot.bytes_received.fetch_add(bytes as u64, Relaxed);
        }
        if let Ok(Received::Discarded(bytes) | Received::Mapped(bytes)) = result {
            self.slot.bytes_not_copied.fetch_add(bytes as u64, Relaxed);
        }
        result
    }

    /// Shuts down the sending side, so that the peer sees the end (shutdown(2), SHUT_WR). If the peer has reset the
    /// connection, the next call reports it.
    pub fn end(&self) -> io::Result<()> {
        match SockRef::from(&self.socket).shutdown(Shutdown::Write) {
            Err(error) if error.kind() == io::ErrorKind::NotConnected => Ok(()),
            result => result,
        }
    }

    /// Receive calls since the last call of this function.
    pub fn take_calls(&mut self) -> u64 {
        std::mem::take(&mut self.calls)
    }

    /// Collects completions: to be called on error readiness, before it counts as a failure.
    pub fn reap(&mut self) -> io::Result<()> {
        let result = self.sender.reap(self.socket.as_fd());
        self.account();
        result
    }

    fn account(&mut self) {
        count_completions(self.slot, self.sender.as_mut());
    }

    /// Closes the socket. If the kernel still reads sent pieces, closing is delayed until the kernel is done, or until
    /// the peer has taken nothing for this long; then the connection is reset.
    pub fn finish(mut self, patience: Duration) {
        let slot = self.slot;
        if self.sender.holds() {
            // After an error the kernel may still hold pieces, as checked below.
            let _ = self.sender.reap(self.socket.as_fd());
        }
        let holds = self.sender.holds();
        self.account();
        if holds {
            Lingering::new(self.socket, self.sender, slot, patience).begin();
        } else {
            drop(self.socket);
        }
        slot.closed.fetch_add(1, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::registry::catalogue;

    #[test]
    fn the_copied_share_is_reported_for_zero_copy_only() {
        let counts = Counts {
            completions: 8,
            completions_copied: 6,
            bytes_received: 1000,
            bytes_not_copied: 250,
            ..Counts::default()
        };
        let (usual, discarding) = (catalogue::way("send_each", "recv"), catalogue::way("send_each", "recv_truncate"));
        let said = discarding.copying_in_words(&counts);
        assert!(said.contains("8, of which the kernel copied 6 (75.0 %)"), "{said}");
        assert!(said.contains("1000, of which the kernel copied 750 (75.0 %)"), "{said}");
        assert_eq!(usual.copying_in_words(&counts).lines().count(), 1);
        assert_eq!(discarding.copying_in_words(&Counts::default()), "");
    }

    #[test]
    fn without_completions_the_copied_share_is_unknown() {
        let (usual, zerocopy) = (catalogue::way("send_each", "recv"), catalogue::way("zerocopy", "recv"));
        let sent = Counts { send_calls: 3, ..Counts::default() };
        let said = zerocopy.copying_in_words(&sent);
        assert!(said.contains("copied share unknown"), "{said}");
        assert_eq!(usual.copying_in_words(&sent), "");
        assert_eq!(zerocopy.copying_in_words(&Counts::default()), "", "nothing was sent");
        let completed = Counts { completions: 3, ..sent };
        assert!(!zerocopy.copying_in_words(&completed).contains("unknown"));
    }
}
