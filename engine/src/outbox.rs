//! The outbox says WHAT is to be sent; the primitive decides HOW.

use std::cell::Cell;
use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, IoSlice};
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

/// Bytes of a file that are read at a time.
const CAPACITY: usize = 16 * 1024;

/// UIO_MAXIOV of linux/uio.h.
const PIECES_IN_A_CALL: usize = 1024;

/// A part of a message. Pieces are shared, not copied: a zero-copy transfer can hold one until the kernel is done with it.
#[derive(Debug, Clone)]
pub enum Piece {
    /// A range of bytes in memory.
    Bytes(Arc<[u8]>, Range<usize>),
    /// A range of bytes of a file, for primitives that send files without reading them.
    File(Arc<File>, Range<u64>),
}

impl Piece {
    /// Length in bytes.
    pub fn length(&self) -> u64 {
        match self {
            Piece::Bytes(_, range) => range.len() as u64,
            Piece::File(_, range) => range.end.saturating_sub(range.start),
        }
    }

    /// Gives its next bytes to a call, all of them where they are in memory; those of a file are read first, as many as fit
    /// into a buffer. An error is one of the call, or of reading the file.
    pub fn with_bytes<T>(&self, call: impl FnOnce(&[u8]) -> io::Result<T>) -> io::Result<T> {
        match self {
            Piece::Bytes(bytes, range) => call(&bytes[range.clone()]),
            Piece::File(file, range) => {
                let mut buffer = [0; CAPACITY];
                let most = buffer.len().min((range.end - range.start) as usize);
                match file.read_at(&mut buffer[..most], range.start)? {
                    0 => Err(io::ErrorKind::UnexpectedEof.into()),
                    read => call(&buffer[..read]),
                }
            }
        }
    }

    /// The bytes in memory, shared where they are there; those of a file are read, as many as fit into a buffer. An error is
    /// one of reading the file.
    pub fn in_memory(&self) -> io::Result<(Arc<[u8]>, Range<usize>)> {
        match self {
            Piece::Bytes(bytes, range) => Ok((Arc::clone(bytes), range.clone())),
            Piece::File(..) => self.with_bytes(|bytes| Ok((Arc::from(bytes), 0..bytes.len()))),
        }
    }

    /// The bytes that are in memory, as a call takes them; none of a file.
    pub fn slice(&self) -> IoSlice<'_> {
        match self {
            Piece::Bytes(bytes, range) => IoSlice::new(&bytes[range.clone()]),
            Piece::File(..) => IoSlice::new(&[]),
        }
    }

    fn skip(&mut self, bytes: u64) {
        match self {
            Piece::Bytes(_, range) => range.start += bytes as usize,
            Piece::File(_, range) => range.start += bytes,
        }
    }
}

#[derive(Debug)]
struct Entry {
    piece: Piece,
    ends_message: bool,
}

/// What one connection has yet to send, piece by piece, with the ends of messages marked.
#[derive(Debug, Default)]
pub struct Outbox {
    entries: VecDeque<Entry>,
    bytes: u64,
    calls: Cell<u64>,
}

impl Outbox {
    /// Appends a piece of the current message; an empty piece is dropped.
    pub fn push(&mut self, piece: Piece) {
        if piece.length() > 0 {
            self.bytes += piece.length();
            self.entries.push_back(Entry { piece, ends_message: false });
        }
    }

    /// Marks the last piece as the end of its message.
    pub fn end_message(&mut self) {
        if let Some(last) = self.entries.back_mut() {
            last.ends_message = true;
        }
    }

    /// Appends all of another outbox: what was answered elsewhere.
    pub fn append(&mut self, mut other: Outbox) {
        self.entries.append(&mut other.entries);
        self.bytes += other.bytes;
        self.calls.update(|calls| calls + other.calls.get());
    }

    /// True when nothing is left to send.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// The next piece.
    pub fn front(&self) -> Option<&Piece> {
        self.entries.front().map(|entry| &entry.piece)
    }

    /// As [`Outbox::front`], of an outbox that is not empty.
    ///
    /// # Panics
    /// When it is empty.
    pub fn first(&self) -> &Piece {
        self.front().expect("there is something to send")
    }

    /// Gives the pieces of the first message to a call that takes several, as many as it takes (UIO_MAXIOV, readv(2)). A
    /// piece of a file ends the row, and is read and goes alone where it is the first. An error is one of the call, or of
    /// reading the file.
    pub fn gather<T>(&self, call: impl FnOnce(&[IoSlice<'_>]) -> io::Result<T>) -> io::Result<T> {
        match self.first() {
            file @ Piece::File(..) => file.with_bytes(|bytes| call(&[IoSlice::new(bytes)])),
            Piece::Bytes(..) => {
                let pieces = self.message().map_while(|piece| match piece {
                    Piece::Bytes(bytes, range) => Some(IoSlice::new(&bytes[range.clone()])),
                    Piece::File(..) => None,
                });
                call(&pieces.take(PIECES_IN_A_CALL).collect::<Vec<_>>())
            }
        }
    }

    /// Gives the pieces at the front that lie side by side in one buffer, of one message, to a call as one. An error is one of
    /// the call, or of reading a file.
    pub fn side_by_side<T>(&self, call: impl FnOnce(&[u8]) -> io::Result<T>) -> io::Result<T> {
        let Piece::Bytes(buffer, first) = self.first() else { return self.first().with_bytes(call) };
        let end = self.message().skip(1).try_fold(first.end, |end, piece| match piece {
            Piece::Bytes(other, range) if Arc::ptr_eq(buffer, other) && range.start == end => Ok(range.end),
            _ => Err(end),
        });
        let (Ok(end) | Err(end)) = end;
        call(&buffer[first.start..end])
    }

    /// Whether so many bytes from the front are the end of a message, or all that there is of one.
    pub fn ends_message(&self, bytes: u64) -> bool {
        let whole = |front: &Entry| front.piece.length() == bytes && (front.ends_message || self.entries.len() == 1);
        self.entries.front().is_some_and(whole)
    }

    /// The pieces of the first message that are left, in order: a primitive may gather these, and no further.
    pub fn message(&self) -> impl Iterator<Item = &Piece> {
        let mut ended = false;
        self.entries
            .iter()
            .take_while(move |entry| {
                let within = !ended;
                ended |= entry.ends_message;
                within
            })
            .map(|entry| &entry.piece)
    }

    /// The pieces of the first message that are left, in memory: one of a file ends the row, or is read, as much as fits
    /// into a buffer, where it is the first. At most as many as a call takes (UIO_MAXIOV, readv(2)). An error is one of
    /// reading the file.
    pub fn in_memory(&self) -> io::Result<Vec<Piece>> {
        match self.front() {
            Some(file @ Piece::File(..)) => file.in_memory().map(|(bytes, range)| vec![Piece::Bytes(bytes, range)]),
            _ => {
                let pieces = self.message().take_while(|piece| matches!(piece, Piece::Bytes(..)));
                Ok(pieces.take(PIECES_IN_A_CALL).cloned().collect())
            }
        }
    }

    /// Takes away what was sent: `bytes` from the front, across pieces.
    ///
    /// # Panics
    /// When more was sent than the outbox held, which no correct primitive does.
    pub fn sent(&mut self, mut bytes: u64) {
        self.bytes = self.bytes.checked_sub(bytes).expect("no more is sent than there was");
        while bytes > 0 {
            let front = self.entries.front_mut().expect("the entries hold the bytes");
            if front.piece.length() > bytes {
                front.piece.skip(bytes);
                return;
            }
            bytes -= front.piece.length();
            self.entries.pop_front();
        }
    }

    /// A primitive says that it made one system call to send, or to prepare for that.
    pub fn count_call(&self) {
        self.calls.update(|calls| calls + 1);
    }

    /// The calls counted since the last time this was asked.
    pub fn take_calls(&mut self) -> u64 {
        self.calls.take()
    }

    /// Bytes left to send.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(length: usize) -> Piece {
        Piece::Bytes(Arc::from(vec![0; length]), 0..length)
    }

    #[test]
    fn a_message_ends_where_it_was_marked() {
        let mut outbox = Outbox::default();
        for (length, ends) in [(3, false), (4, true), (5, false), (6, true)] {
            outbox.push(bytes(length));
            if ends {
                outbox.end_message();
            }
        }
        let first = |outbox: &Outbox| outbox.message().map(Piece::length).collect::<Vec<_>>();
        assert_eq!(first(&outbox), [3, 4]);
        outbox.sent(5);
        assert_eq!(first(&outbox), [2]);
        outbox.sent(2);
        assert_eq!(first(&outbox), [5, 6]);
        outbox.sent(11);
        assert!(outbox.is_empty());
    }

    #[test]
    fn what_was_answered_elsewhere_keeps_its_messages_apart() {
        let mut elsewhere = Outbox::default();
        for length in [4, 5] {
            elsewhere.push(bytes(length));
            elsewhere.end_message();
        }
        let mut outbox = Outbox::default();
        outbox.push(bytes(3));
        outbox.end_message();
        outbox.append(elsewhere);
        assert_eq!(outbox.bytes(), 12);
        outbox.sent(3);
        assert_eq!(outbox.message().map(Piece::length).collect::<Vec<_>>(), [4]);
    }

    proptest::proptest! {
        #[test]
        fn whatever_the_cuts_no_byte_is_lost(lengths in proptest::collection::vec(0usize..50, 0..20), cuts in proptest::collection::vec(1u64..40, 0..60)) {
            let mut outbox = Outbox::default();
            for &length in &lengths {
                outbox.push(bytes(length));
            }
            let mut left: u64 = lengths.iter().sum::<usize>() as u64;
            for cut in cuts {
                proptest::prop_assert_eq!(outbox.bytes(), left);
                let sent = cut.min(left);
                outbox.sent(sent);
                left -= sent;
            }
            proptest::prop_assert_eq!(outbox.is_empty(), left == 0);
        }
    }
}
