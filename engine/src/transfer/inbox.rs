//! The inbox holds received data that the session has not taken yet.
//!
//! An idle connection has no such data, and so needs no buffer: buffers for ten thousand connections would take 160
//! MiB. Connections that one thread serves in turn pass one buffer on, and a thread that ends passes it on to the next one.

use std::cell::Cell;
use std::io;
use std::ops::{Deref, DerefMut, Range};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Capacity of an inbox by default, the same for every design, so that a study compares designs and not buffers.
pub const CAPACITY: usize = 16 * 1024;

/// Alignment of buffers: a page. A large heap buffer begins 16 bytes after a page boundary (malloc(3), mmap). At that
/// offset, an AMD Zen used twice the CPU time to copy a byte out of a socket. Others have also found that rep movsb
/// depends on the offset within a page: xuanwo.io/2023/04-rust-std-fs-slower-than-python.
const ALIGNMENT: usize = 4096;

/// Maximum number of buffers that are kept of threads that have ended.
const MOST_SPARES: usize = 64;

thread_local! {
    /// The buffer that was last returned in this thread. Empty if there is none.
    static SPARE: Spare = const { Spare(Cell::new(Buffer::NONE)) };
}

/// Buffers of threads that have ended. A new one would have to be cleared, for a thread that serves one connection.
static SPARES: Mutex<Vec<Buffer>> = Mutex::new(Vec::new());

/// A buffer that outlives its thread.
struct Spare(Cell<Buffer>);

impl Spare {
    /// Returns this thread's buffer, or else one of a thread that has ended. Empty if there is none.
    fn take(&self) -> Buffer {
        let own = self.0.take();
        if own.is_empty() { spares().pop().unwrap_or(Buffer::NONE) } else { own }
    }
}

impl Drop for Spare {
    fn drop(&mut self) {
        let buffer = self.0.take();
        let mut spares = spares();
        if buffer.len() == CAPACITY && spares.len() < MOST_SPARES {
            spares.push(buffer);
        }
    }
}

fn spares() -> MutexGuard<'static, Vec<Buffer>> {
    SPARES.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Bytes on the heap, starting at a multiple of [`ALIGNMENT`].
#[derive(Debug)]
struct Buffer {
    memory: Vec<u8>,
    bytes: Range<usize>,
}

impl Default for Buffer {
    fn default() -> Self {
        Buffer::NONE
    }
}

impl Buffer {
    const NONE: Buffer = Buffer { memory: Vec::new(), bytes: 0..0 };

    fn new(length: usize) -> Self {
        let memory = vec![0; length + ALIGNMENT];
        let first = memory.as_ptr().align_offset(ALIGNMENT);
        assert!(first <= ALIGNMENT, "an address within the next page is a multiple of its size");
        Buffer { memory, bytes: first..first + length }
    }
}

impl Deref for Buffer {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.memory[self.bytes.clone()]
    }
}

impl DerefMut for Buffer {
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.memory[self.bytes.clone()]
    }
}

/// Makes the buffer of this thread's next connection now. A process calls this before it forks: its children inherit the
/// buffer, and each copies only the pages that it writes, instead of clearing a new one.
pub fn make_ready() {
    SPARE.with(|spare| {
        let buffer = spare.take();
        spare.0.set(if buffer.is_empty() { Buffer::new(CAPACITY) } else { buffer });
    });
}

/// Received bytes, and the number of receive calls made for them.
#[derive(Debug, Default)]
pub struct Inbox {
    /// Empty while there is no data to hold.
    buffer: Buffer,
    start: usize,
    end: usize,
    calls: u64,
}

impl Inbox {
    /// Returns room for the next receive: at most `most` bytes, and never empty as long as the session takes its input.
    /// The buffer is as large as the largest receive so far.
    pub fn room(&mut self, most: usize) -> &mut [u8] {
        if self.start == self.end {
            (self.start, self.end) = (0, 0);
        }
        if self.buffer.is_empty() {
            self.buffer = SPARE.with(Spare::take);
        }
        if self.buffer.len() < most.max(CAPACITY) {
            let mut buffer = Buffer::new(most.max(CAPACITY));
            buffer[self.start..self.end].copy_from_slice(&self.buffer[self.start..self.end]);
            self.buffer = buffer;
        }
        let end = (self.end + most).min(self.buffer.len());
        &mut self.buffer[self.end..end]
    }

    /// Receives by a call that puts bytes into the room and returns their number.
    pub fn receive(&mut self, most: usize, call: impl FnOnce(&mut [u8]) -> io::Result<usize>) -> io::Result<usize> {
        let bytes = call(self.room(most))?;
        self.filled(bytes);
        Ok(bytes)
    }

    /// Notes that the kernel wrote `bytes` into the room.
    pub fn filled(&mut self, bytes: usize) {
        self.end += bytes;
    }

    /// Notes that a primitive made one receive call, whether it returned data or not.
    pub fn count_call(&mut self) {
        self.calls += 1;
    }

    /// Calls counted since the last call of this function.
    pub fn take_calls(&mut self) -> u64 {
        std::mem::take(&mut self.calls)
    }

    /// Received bytes not yet taken.
    pub fn unread(&self) -> &[u8] {
        &self.buffer[self.start..self.end]
    }

    /// Takes `bytes` from the front.
    pub fn taken(&mut self, bytes: usize) {
        self.start += bytes;
        debug_assert!(self.start <= self.end);
    }

    /// To be called before the connection waits: passes the buffer on to the next connection of this thread, if no data
    /// is left.
    pub fn give_back(&mut self) {
        if self.start == self.end && !self.buffer.is_empty() {
            (self.start, self.end) = (0, 0);
            let buffer = std::mem::take(&mut self.buffer);
            SPARE.with(|spare| spare.0.set(buffer));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn receive(inbox: &mut Inbox, bytes: &[u8]) {
        inbox.room(bytes.len()).copy_from_slice(bytes);
        inbox.filled(bytes.len());
    }

    #[test]
    fn a_buffer_of_any_size_begins_at_a_page() {
        for length in [1, CAPACITY, 128 << 10, (1 << 20) + 1] {
            let mut inbox = Inbox::default();
            let room = inbox.room(length);
            assert_eq!((room.len(), room.as_ptr().addr() % ALIGNMENT), (length, 0));
        }
    }

    #[test]
    fn connections_that_are_served_in_turn_share_one_buffer() {
        let (mut one, mut other) = (Inbox::default(), Inbox::default());
        receive(&mut one, b"abc");
        let place = one.unread().as_ptr();
        one.taken(3);
        one.give_back();
        assert_eq!((one.unread(), one.buffer.len()), (&b""[..], 0));
        receive(&mut other, b"defg");
        assert_eq!((other.unread(), other.unread().as_ptr()), (&b"defg"[..], place));
    }

    #[test]
    fn a_thread_that_ends_leaves_its_buffer_to_another() {
        let place_of = |text: &'static [u8]| {
            std::thread::spawn(move || {
                let mut inbox = Inbox::default();
                receive(&mut inbox, text);
                let place = inbox.unread().as_ptr().addr();
                inbox.taken(text.len());
                inbox.give_back();
                place
            })
            .join()
            .unwrap()
        };
        let places: Vec<_> = (0..100).map(|_| place_of(b"abc")).collect();
        // Other tests run at the same time, and their threads may take one.
        let again = places.windows(2).filter(|pair| pair[0] == pair[1]).count();
        assert!(again > 50, "{again}");
        assert!(spares().len() <= MOST_SPARES);
    }

    #[test]
    fn unread_data_stays() {
        let (mut one, mut other) = (Inbox::default(), Inbox::default());
        receive(&mut one, b"abc");
        one.taken(1);
        one.give_back();
        receive(&mut other, b"xyz");
        assert_eq!((one.unread(), other.unread()), (&b"bc"[..], &b"xyz"[..]));
        receive(&mut one, b"d");
        assert_eq!(one.unread(), b"bcd");
    }

    #[test]
    fn there_is_room_for_the_wanted_bytes_and_unread_data_stays() {
        let mut inbox = Inbox::default();
        receive(&mut inbox, b"abc");
        inbox.taken(1);
        assert_eq!(inbox.room(5 * CAPACITY).len(), 5 * CAPACITY - 3);
        assert_eq!(inbox.unread(), b"bc");
        inbox.taken(2);
        assert_eq!(inbox.room(5 * CAPACITY).len(), 5 * CAPACITY);
        inbox.give_back();
        let mut other = Inbox::default();
        assert_eq!((other.room(10).len(), other.buffer.len()), (10, 5 * CAPACITY));
    }

    #[test]
    fn there_is_room_for_all_that_an_inbox_may_hold_again_and_again() {
        let mut inbox = Inbox::default();
        for _ in 0..2 {
            inbox.give_back();
            assert_eq!(inbox.room(CAPACITY).len(), CAPACITY);
            inbox.filled(CAPACITY);
            inbox.taken(CAPACITY);
        }
    }
}
