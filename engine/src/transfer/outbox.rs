//! The outbox holds unsent data; the primitive decides how to send it.

use std::cell::Cell;
use std::fs::File;
use std::io::{self, IoSlice};
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use crate::transfer::queue::Queue;

/// Bytes of a file read at a time.
const CAPACITY: usize = 16 * 1024;

/// Bytes per part of a long message; each part is put into an outbox when everything before it has been sent. This is a
/// good size for one call. Longer messages go in one part.
pub const PART: usize = 64 * 1024;

/// UIO_MAXIOV of linux/uio.h.
const PIECES_IN_A_CALL: usize = 1024;

/// Number of pieces that are gathered without allocating memory.
const FEW: usize = 16;

/// A part of a message. Pieces are shared, not copied: a zero-copy primitive can hold one until the kernel is done with
/// it.
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

    /// Passes its next bytes to a call: all bytes in memory, or as many bytes of a file as fit into a buffer. The error
    /// is that of the call, or of reading the file.
    pub fn with_bytes<T>(&self, call: impl FnOnce(&[u8]) -> io::Result<T>) -> io::Result<T> {
        match self {
            Piece::Bytes(bytes, range) => call(&bytes[range.clone()]),
            Piece::File(file, range) => with_bytes_of_file(file, range, call),
        }
    }

    /// Returns its bytes: those in memory are shared, those of a file are read, as many as fit into a buffer. The error
    /// is that of reading the file.
    pub fn in_memory(&self) -> io::Result<(Arc<[u8]>, Range<usize>)> {
        match self {
            Piece::Bytes(bytes, range) => Ok((Arc::clone(bytes), range.clone())),
            Piece::File(..) => self.with_bytes(|bytes| Ok((Arc::from(bytes), 0..bytes.len()))),
        }
    }

    /// Returns the bytes in memory, as a call takes them; none for a file.
    pub fn slice(&self) -> IoSlice<'_> {
        match self {
            Piece::Bytes(bytes, range) => IoSlice::new(&bytes[range.clone()]),
            Piece::File(..) => IoSlice::new(&[]),
        }
    }

    /// Its range in its buffer or file.
    fn place(&self) -> Range<u64> {
        match self {
            Piece::Bytes(_, range) => range.start as u64..range.end as u64,
            Piece::File(_, range) => range.clone(),
        }
    }

    fn set_place(&mut self, place: Range<u64>) {
        match self {
            Piece::Bytes(_, range) => *range = place.start as usize..place.end as usize,
            Piece::File(_, range) => *range = place,
        }
    }

    /// Another range of the same buffer or file.
    pub fn at(&self, place: Range<u64>) -> Piece {
        match self {
            Piece::Bytes(bytes, _) => Piece::Bytes(Arc::clone(bytes), place.start as usize..place.end as usize),
            Piece::File(file, _) => Piece::File(Arc::clone(file), place),
        }
    }
}

/// Kept out of the stack frame of senders from memory: with this buffer a frame spans several pages, and each call
/// would touch them.
#[inline(never)]
fn with_bytes_of_file<T>(file: &File, range: &Range<u64>, call: impl FnOnce(&[u8]) -> io::Result<T>) -> io::Result<T> {
    let mut buffer = [0; CAPACITY];
    let most = buffer.len().min((range.end - range.start) as usize);
    match file.read_at(&mut buffer[..most], range.start)? {
        0 => Err(io::ErrorKind::UnexpectedEof.into()),
        read => call(&buffer[..read]),
    }
}

/// A run of contiguous bytes, cut into pieces, and these into messages: a thousand small messages take no more memory
/// than one. Positions are those in the buffer or file.
#[derive(Debug)]
struct Run {
    /// The first piece, or its rest.
    front: Piece,
    /// End of the run.
    end: u64,
    /// Size of each piece but the last.
    piece: u64,
    /// Size of each message but the last, a multiple of the piece size.
    message: u64,
    /// End of the first message, or of its part in this run.
    message_end: u64,
    /// True if the end of the run ends a message.
    ends_message: bool,
}

impl Run {
    fn bytes(&self) -> u64 {
        self.end - self.front.place().start
    }

    /// Removes bytes from the front, fewer than there are.
    fn skip(&mut self, bytes: u64) {
        let Range { start, end } = self.front.place();
        let start = start + bytes;
        let last = self.end;
        // The first of the evenly spaced ends after the new start.
        let next = |end: u64, apart: u64| {
            if start < end { end } else { last.min(end + ((start - end) / apart + 1) * apart) }
        };
        self.message_end = next(self.message_end, self.message);
        self.front.set_place(start..next(end, self.piece));
    }
}

/// Unsent data of one connection, piece by piece, with message boundaries.
#[derive(Debug)]
pub struct Outbox {
    runs: Queue<Run>,
    bytes: u64,
    calls: Cell<u64>,
    messages_at_once: usize,
}

impl Default for Outbox {
    fn default() -> Self {
        Outbox::gathering(1)
    }
}

impl Outbox {
    /// Makes an outbox from which one call may gather this many messages.
    pub fn gathering(messages_at_once: usize) -> Self {
        Outbox { runs: Queue::default(), bytes: 0, calls: Cell::default(), messages_at_once }
    }

    /// Appends a piece of the current message; drops an empty piece.
    pub fn push(&mut self, piece: Piece) {
        let length = piece.length();
        self.push_run(piece, length, length, false);
    }

    /// Marks the last piece as the end of its message.
    pub fn end_message(&mut self) {
        if let Some(last) = self.runs.back_mut() {
            last.ends_message = true;
        }
    }

    /// Appends whole contiguous messages of `message` bytes each, in pieces of `piece` bytes. The last message may be
    /// shorter.
    ///
    /// # Panics
    /// If a message does not consist of whole pieces.
    pub fn push_messages(&mut self, messages: Piece, message: u64, piece: u64) {
        assert!(piece > 0 && message.is_multiple_of(piece), "{message} bytes are not of pieces of {piece} bytes");
        self.push_run(messages, message, piece, true);
    }

    fn push_run(&mut self, mut front: Piece, message: u64, piece: u64, ends_message: bool) {
        let Range { start, end } = front.place();
        if start >= end {
            return;
        }
        self.bytes += end - start;
        front.set_place(start..end.min(start + piece));
        let message_end = end.min(start + message);
        self.runs.push_back(Run { front, end, piece, message, message_end, ends_message });
    }

    /// Appends the content of another outbox: a reply made elsewhere.
    pub fn append(&mut self, other: Outbox) {
        self.runs.append(other.runs);
        self.bytes += other.bytes;
        self.calls.update(|calls| calls + other.calls.get());
    }

    /// Maximum messages that one call of a primitive may gather.
    pub fn messages_at_once(&self) -> usize {
        self.messages_at_once
    }

    /// True if everything has been sent.
    pub fn is_empty(&self) -> bool {
        self.runs.is_empty()
    }

    /// The next piece.
    pub fn front(&self) -> Option<&Piece> {
        self.runs.front().map(|run| &run.front)
    }

    /// As [`Outbox::front`], of an outbox that is not empty.
    ///
    /// # Panics
    /// If it is empty.
    pub fn first(&self) -> &Piece {
        self.front().expect("there is something to send")
    }

    /// Passes the front pieces that a primitive may gather to a vectored call, as many as it takes (UIO_MAXIOV,
    /// readv(2)). A piece of a file ends the row; if it is the first, it is read and goes alone. The error is that of
    /// the call, or of reading the file.
    pub fn gather<T>(&self, call: impl FnOnce(&[IoSlice<'_>]) -> io::Result<T>) -> io::Result<T> {
        if let file @ Piece::File(..) = self.first() {
            return file.with_bytes(|bytes| call(&[IoSlice::new(bytes)]));
        }
        let mut pieces = self.row_in_memory().map(|(bytes, range)| IoSlice::new(&bytes[range])).fuse();
        // Most messages have few pieces, which need no heap memory.
        let mut few = [IoSlice::new(&[]); FEW];
        let mut count = 0;
        for (place, piece) in few.iter_mut().zip(&mut pieces) {
            *place = piece;
            count += 1;
        }
        match pieces.next() {
            None => call(&few[..count]),
            Some(next) => {
                let all = few.into_iter().chain([next]).chain(pieces);
                call(&all.collect::<Vec<_>>())
            }
        }
    }

    /// Passes the contiguous bytes at the front to a call as one piece, as far as a primitive may gather. The error is
    /// that of the call, or of reading a file.
    pub fn side_by_side<T>(&self, call: impl FnOnce(&[u8]) -> io::Result<T>) -> io::Result<T> {
        let Piece::Bytes(buffer, first) = self.first() else { return self.first().with_bytes(call) };
        let (mut end, mut left) = (first.start as u64, self.messages_at_once as u64);
        for run in self.runs.iter() {
            let beside = matches!(&run.front, Piece::Bytes(other, place)
                if Arc::ptr_eq(buffer, other) && place.start as u64 == end);
            if !beside {
                break;
            }
            let row_end = run.message_end.saturating_add((left - 1).saturating_mul(run.message));
            if row_end < run.end {
                end = row_end;
                break;
            }
            end = run.end;
            left -= (run.end - run.message_end).div_ceil(run.message) + u64::from(run.ends_message);
            if left == 0 {
                break;
            }
        }
        call(&buffer[first.start..end as usize])
    }

    /// Returns whether this many bytes from the front, at most the first piece, end a message, or are all there is of
    /// one.
    pub fn ends_message(&self, bytes: u64) -> bool {
        self.runs.front().is_some_and(|run| {
            let marked = run.message_end < run.end || run.ends_message || self.runs.len() == 1;
            run.front.place().start + bytes == run.message_end && marked
        })
    }

    /// Iterates over the front pieces that a primitive may gather, in order: those of the first message, or of as many
    /// messages as the outbox allows.
    pub fn message(&self) -> impl Iterator<Item = Piece> {
        self.row().map(|(piece, place)| piece.at(place))
    }

    /// As [`Outbox::message`]: the buffer or file of each piece, and its range there.
    fn row(&self) -> impl Iterator<Item = (&Piece, Range<u64>)> {
        let mut messages = self.messages_at_once;
        let mut runs = self.runs.iter();
        let mut run = runs.next();
        let mut next = run.map(|run| (run.front.place(), run.message_end));
        std::iter::from_fn(move || {
            let (here, (place, message_end)) = (run?, next.take()?);
            let within = place.end < here.end;
            let ends = place.end == message_end && (within || here.ends_message);
            messages -= usize::from(ends);
            if messages > 0 && within {
                let message_end = if ends { here.end.min(message_end + here.message) } else { message_end };
                next = Some((place.end..here.end.min(place.end + here.piece), message_end));
            } else if messages > 0 {
                run = runs.next();
                next = run.map(|run| (run.front.place(), run.message_end));
            }
            Some((&here.front, place))
        })
    }

    /// Iterates over the front pieces that one call gathers, each as its buffer and range: those in memory, up to the
    /// first of a file, and at most as many as a call takes (UIO_MAXIOV, readv(2)). Empty if a file is the first.
    pub fn row_in_memory(&self) -> impl Iterator<Item = (&Arc<[u8]>, Range<usize>)> {
        let in_memory = self.row().map_while(|(piece, place)| match piece {
            Piece::Bytes(bytes, _) => Some((bytes, place.start as usize..place.end as usize)),
            Piece::File(..) => None,
        });
        in_memory.take(PIECES_IN_A_CALL)
    }

    /// Returns the front pieces that a primitive may gather, in memory. A piece of a file ends the row; if it is the
    /// first, it is read, as much as fits into a buffer. At most as many pieces as a call takes (UIO_MAXIOV, readv(2)).
    /// The error is that of reading the file.
    pub fn in_memory(&self) -> io::Result<Vec<Piece>> {
        match self.front() {
            Some(file @ Piece::File(..)) => file.in_memory().map(|(bytes, range)| vec![Piece::Bytes(bytes, range)]),
            _ => Ok(self.row_in_memory().map(|(bytes, range)| Piece::Bytes(Arc::clone(bytes), range)).collect()),
        }
    }

    /// Removes sent bytes: `bytes` from the front, across pieces.
    ///
    /// # Panics
    /// If more was sent than the outbox held, which no correct primitive does.
    pub fn sent(&mut self, mut bytes: u64) {
        self.bytes = self.bytes.checked_sub(bytes).expect("no more is sent than there was");
        while bytes > 0 {
            let front = self.runs.front_mut().expect("the runs hold the bytes");
            let length = front.bytes();
            if length > bytes {
                return front.skip(bytes);
            }
            bytes -= length;
            self.runs.pop_front();
        }
    }

    /// Notes that a primitive made one system call to send, or to prepare a send.
    pub fn count_call(&self) {
        self.calls.update(|calls| calls + 1);
    }

    /// Calls counted since the last call of this function.
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
        let first = |outbox: &Outbox| outbox.message().map(|piece| piece.length()).collect::<Vec<_>>();
        assert_eq!(first(&outbox), [3, 4]);
        outbox.sent(5);
        assert_eq!(first(&outbox), [2]);
        outbox.sent(2);
        assert_eq!(first(&outbox), [5, 6]);
        outbox.sent(11);
        assert!(outbox.is_empty());
    }

    #[test]
    fn a_reply_made_elsewhere_keeps_its_message_boundaries() {
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
        assert_eq!(outbox.message().map(|piece| piece.length()).collect::<Vec<_>>(), [4]);
    }

    /// Returns what a primitive sees: the pieces of a row, their contiguous length, and whether the first ends a
    /// message.
    fn offered(outbox: &Outbox) -> (Vec<u64>, usize, bool) {
        let pieces: Vec<u64> = outbox.message().map(|piece| piece.length()).collect();
        let gathered = outbox.gather(|pieces| Ok(pieces.iter().map(|piece| piece.len() as u64).collect::<Vec<_>>()));
        assert_eq!(gathered.unwrap(), pieces[..pieces.len().min(PIECES_IN_A_CALL)]);
        let side_by_side = outbox.side_by_side(|bytes| Ok(bytes.len())).unwrap();
        (pieces, side_by_side, outbox.ends_message(outbox.first().length()))
    }

    /// Messages of pieces of equal size, the last one cut short, contiguous: as one run, and piece by piece.
    fn same_messages(at_once: usize, piece: usize, pieces: usize, bytes: usize) -> [Outbox; 2] {
        let [mut run, mut singly] = [(); 2].map(|()| Outbox::gathering(at_once));
        let buffer: Arc<[u8]> = vec![0; bytes].into();
        let message = piece * pieces;
        run.push_messages(Piece::Bytes(Arc::clone(&buffer), 0..bytes), message as u64, piece as u64);
        for start in (0..bytes).step_by(piece) {
            let end = bytes.min(start + piece);
            singly.push(Piece::Bytes(Arc::clone(&buffer), start..end));
            if end.is_multiple_of(message) || end == bytes {
                singly.end_message();
            }
        }
        [run, singly]
    }

    #[test]
    fn a_piece_of_a_file_ends_the_row() {
        let mut outbox = Outbox::default();
        outbox.push(bytes(3));
        outbox.push(Piece::File(Arc::new(File::open("/dev/null").unwrap()), 0..5));
        outbox.push(bytes(4));
        let gathered = outbox.gather(|pieces| Ok(pieces.iter().map(|piece| piece.len()).collect::<Vec<_>>()));
        assert_eq!(gathered.unwrap(), [3]);
        assert_eq!(outbox.in_memory().unwrap().len(), 1);
    }

    #[test]
    fn many_messages_are_gathered_as_far_as_a_primitive_may() {
        for (at_once, row) in [(1, 2), (3, 6), (1024, 20)] {
            let [mut run, _] = same_messages(at_once, 5, 2, 100);
            // The next piece belongs to the row if that continues, and is not contiguous with it.
            run.push(bytes(7));
            let (pieces, side_by_side, _) = offered(&run);
            assert_eq!((pieces.len(), side_by_side), (row + usize::from(row == 20), row * 5));
        }
    }

    proptest::proptest! {
        #[test]
        fn a_run_is_the_same_as_its_pieces(
            at_once in 1usize..5, piece in 1usize..20, pieces in 1usize..20, bytes in 1usize..2000,
            twice in proptest::bool::ANY, cuts in proptest::collection::vec(1u64..300, 0..40),
        ) {
            let [mut run, mut singly] = same_messages(at_once, piece, pieces, bytes);
            if twice {
                let more = same_messages(at_once, piece, pieces, bytes);
                [&mut run, &mut singly].into_iter().zip(more).for_each(|(outbox, more)| outbox.append(more));
            }
            for cut in cuts {
                proptest::prop_assert_eq!(run.bytes(), singly.bytes());
                if run.is_empty() {
                    break;
                }
                proptest::prop_assert_eq!(offered(&run), offered(&singly));
                let sent = cut.min(run.bytes());
                run.sent(sent);
                singly.sent(sent);
            }
        }

        #[test]
        fn no_byte_is_lost_by_any_cuts(lengths in proptest::collection::vec(0usize..50, 0..20), cuts in proptest::collection::vec(1u64..40, 0..60)) {
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
