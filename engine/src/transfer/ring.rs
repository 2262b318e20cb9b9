//! The counterpart of primitives if bytes move through an io_uring: submissions and completions (io_uring(7)).

use std::cell::RefCell;
use std::collections::VecDeque;
use std::io::{self, Read};
use std::ops::Range;
use std::os::fd::BorrowedFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::sys::ring::{Buffer, Ring};
use crate::transfer::inbox::{CAPACITY, Inbox};
use crate::transfer::outbox::Outbox;
use crate::transfer::primitive::{Received, Receiver, Sender, Sent, Want};

/// Number of spare buffers for connections that receive much at a time.
const MOST_SPARES: usize = 16;

/// Maximum size of a spare buffer in bytes: a thread never keeps more than 16 MiB.
const LARGEST_SPARE: usize = 1 << 20;

thread_local! {
    /// Empty buffers of more than [`CAPACITY`] each.
    static SPARES: RefCell<Vec<VecDeque<u8>>> = const { RefCell::new(Vec::new()) };
}

/// Data between the ring and the two ends of one connection. One thread owns both, so the lock is never contended.
#[derive(Default)]
pub struct Parcels {
    received: VecDeque<u8>,
    /// Completed receives that the connection has not counted yet.
    receives: u64,
    /// The end, or an error, after the received data.
    ended: Option<io::Result<()>>,
    /// Bytes to submit.
    pub to_send: Option<(Arc<[u8]>, Range<usize>)>,
    /// A submitted send without a completion yet.
    pub in_flight: bool,
    /// Result of the completed send.
    pub sent: Option<io::Result<usize>>,
}

impl Parcels {
    /// Takes the data of a completed receive. If no buffer was free, or the receive was cancelled, there is none.
    pub fn take(&mut self, ring: &mut Ring, result: io::Result<Option<Buffer>>) {
        match result {
            Ok(Some(buffer)) => {
                self.make_room(buffer.length());
                ring.take(buffer, &mut self.received);
            }
            Ok(None) => self.ended = Some(Ok(())),
            Err(error) if matches!(error.raw_os_error(), Some(libc::ENOBUFS | libc::ECANCELED | libc::EINTR)) => return,
            Err(error) => self.ended = Some(Err(error)),
        }
        self.receives += 1;
    }

    /// Takes the largest spare buffer of another connection, if there is one, and grows it if needed. Large heap memory
    /// would be mapped and cleared by the kernel each time.
    fn make_room(&mut self, bytes: usize) {
        let capacity = CAPACITY.max(self.received.capacity());
        if self.received.len() + bytes <= capacity {
            return;
        }
        let spare = SPARES.with_borrow_mut(|spares| {
            let (index, largest) = spares.iter().enumerate().max_by_key(|(_, spare)| spare.capacity())?;
            (largest.capacity() > capacity).then(|| spares.swap_remove(index))
        });
        if let Some(mut spare) = spare {
            spare.append(&mut self.received);
            self.received = spare;
        }
    }

    /// An empty connection keeps no more memory than an inbox has; the rest is kept for the next connection of this
    /// thread that needs it.
    fn give_back(&mut self) {
        if self.received.capacity() <= CAPACITY {
            return;
        }
        let memory = std::mem::take(&mut self.received);
        SPARES.with_borrow_mut(|spares| {
            if spares.len() < MOST_SPARES && memory.capacity() <= LARGEST_SPARE {
                spares.push(memory);
            }
        });
    }

    /// Received bytes not yet taken.
    pub fn bytes(&self) -> usize {
        self.received.len()
    }

    /// Returns whether there is something to receive.
    pub fn has_some(&self) -> bool {
        !self.received.is_empty() || self.ended.is_some()
    }

    /// Returns whether more should be received: the peer has not ended, and there is no more data than an inbox holds.
    pub fn wants_more(&self) -> bool {
        self.ended.is_none() && self.received.len() < CAPACITY
    }
}

/// Makes the sender and receiver that take the place of primitives: they take data from completions, and leave data to
/// submit.
#[derive(Clone, Default)]
pub struct ThroughRing {
    parcels: Arc<Mutex<Parcels>>,
}

impl ThroughRing {
    /// Locks the parcels that pass between event loop and protocol.
    pub fn parcels(&self) -> MutexGuard<'_, Parcels> {
        self.parcels.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Receiver for ThroughRing {
    fn receive(&mut self, _socket: BorrowedFd<'_>, want: Want, inbox: &mut Inbox) -> io::Result<Received> {
        let mut parcels = self.parcels();
        (0..std::mem::take(&mut parcels.receives)).for_each(|_| inbox.count_call());
        let bytes = parcels.received.read(inbox.room(want.most()))?;
        if bytes > 0 {
            inbox.filled(bytes);
            return Ok(Received::Bytes(bytes));
        }
        parcels.give_back();
        match &mut parcels.ended {
            None => Ok(Received::Blocked),
            Some(end) => std::mem::replace(end, Ok(())).map(|()| Received::End),
        }
    }
}

impl Sender for ThroughRing {
    /// A piece is one operation, and a short send is followed by another.
    fn send(&mut self, _socket: BorrowedFd<'_>, outbox: &mut Outbox) -> io::Result<Sent> {
        let mut parcels = self.parcels();
        if parcels.in_flight {
            return Ok(Sent::Blocked);
        }
        if let Some(result) = parcels.sent.take() {
            outbox.count_call();
            match result {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                result => outbox.sent(result? as u64),
            }
        }
        parcels.to_send = match outbox.front() {
            None => return Ok(Sent::Done),
            Some(piece) => Some(piece.in_memory()?),
        };
        Ok(Sent::Blocked)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_of_a_finished_connection_goes_to_one_that_needs_it() {
        let (mut first, mut second, mut idle) = (Parcels::default(), Parcels::default(), Parcels::default());
        first.received.extend(std::iter::repeat_n(1, 5 * CAPACITY));
        first.received.clear();
        let memory = first.received.capacity();
        first.give_back();
        assert_eq!(first.received.capacity(), 0);
        idle.received.reserve(CAPACITY / 2);
        idle.give_back();
        assert!(idle.received.capacity() > 0, "what an inbox has too may stay");
        second.received.extend([1, 2, 3]);
        second.make_room(CAPACITY / 2);
        assert!(second.received.capacity() <= CAPACITY, "little needs no memory of others");
        second.make_room(2 * CAPACITY);
        assert_eq!((second.received.capacity(), second.received.make_contiguous()), (memory, &mut [1, 2, 3][..]));
        first.make_room(2 * CAPACITY);
        assert_eq!(first.received.capacity(), 0, "there was one");
    }

    #[test]
    fn a_spare_that_is_smaller_than_what_is_there_stays_one() {
        for capacity in [2 * CAPACITY, 8 * CAPACITY, 4 * CAPACITY] {
            Parcels { received: VecDeque::with_capacity(capacity), ..Parcels::default() }.give_back();
        }
        let mut needs_more = Parcels { received: VecDeque::from(vec![1; 20 * CAPACITY]), ..Parcels::default() };
        let memory = needs_more.received.as_slices().0.as_ptr();
        needs_more.make_room(100 * CAPACITY);
        assert_eq!(needs_more.received.as_slices().0.as_ptr(), memory);
        let mut needs_some = Parcels::default();
        needs_some.make_room(3 * CAPACITY);
        assert!(needs_some.received.capacity() >= 8 * CAPACITY, "the largest");
        assert_eq!(SPARES.with_borrow(Vec::len), 2);
    }

    #[test]
    fn the_memory_that_is_kept_is_bounded() {
        for capacity in [vec![2 * LARGEST_SPARE], vec![2 * CAPACITY; 3 * MOST_SPARES]].concat() {
            Parcels { received: VecDeque::with_capacity(capacity), ..Parcels::default() }.give_back();
        }
        SPARES.with_borrow(|spares| {
            assert_eq!(spares.len(), MOST_SPARES);
            assert!(spares.iter().all(|spare| spare.capacity() <= LARGEST_SPARE));
        });
    }
}
