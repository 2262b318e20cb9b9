//! The inbox holds what a connection has received and its session has not yet taken.

/// Bytes that an inbox can hold, the same for every design, so that a study compares designs and not buffers.
pub const CAPACITY: usize = 16 * 1024;

/// Received bytes, and how many receive calls brought them.
#[derive(Debug)]
pub struct Inbox {
    buffer: Box<[u8]>,
    start: usize,
    end: usize,
    calls: u64,
}

impl Default for Inbox {
    fn default() -> Self {
        Inbox { buffer: vec![0; CAPACITY].into_boxed_slice(), start: 0, end: 0, calls: 0 }
    }
}

impl Inbox {
    /// Room for the next receive: at most `most` bytes, never empty while the session takes what it is given.
    pub fn room(&mut self, most: usize) -> &mut [u8] {
        if self.start == self.end {
            (self.start, self.end) = (0, 0);
        }
        let end = (self.end + most).min(self.buffer.len());
        &mut self.buffer[self.end..end]
    }

    /// A primitive says that the kernel wrote `bytes` into the room.
    pub fn filled(&mut self, bytes: usize) {
        self.end += bytes;
    }

    /// A primitive says that it made one system call to receive.
    pub fn count_call(&mut self) {
        self.calls += 1;
    }

    /// The calls counted since the last time this was asked.
    pub fn take_calls(&mut self) -> u64 {
        std::mem::take(&mut self.calls)
    }

    /// What was received and not yet taken.
    pub fn unread(&self) -> &[u8] {
        &self.buffer[self.start..self.end]
    }

    /// A session took `bytes` from the front.
    pub fn taken(&mut self, bytes: usize) {
        self.start += bytes;
        debug_assert!(self.start <= self.end);
    }
}
