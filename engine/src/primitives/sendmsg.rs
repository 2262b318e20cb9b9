//! One sendmsg(2) per message. The kernel gathers the pieces from a table that is kept while messages consist of the
//! same pieces. `writev` fills its table for every call; the two primitives differ only in that and in the flags.
//!
//! The program of CSE 638 PA02 ("one-copy") fills its table of eight pieces (struct iovec) once per connection, and
//! passes it to sendmsg for every message. Here the outbox provides the pieces, so the primitive detects repetition: a
//! row of pieces that comes twice in succession is registered. From then on the primitive only checks that the next row
//! is the same.
//!
//! Registering costs a share of every buffer. Messages that never repeat, such as the parts of a long one, do not pay
//! this cost. A reply made for one request is not kept for long either: the next message of other pieces drops the
//! table. A row of one piece is never registered, since there is nothing to gather.

use std::io::{self, IoSlice};
use std::os::fd::BorrowedFd;

use crate::base::about::About;
use crate::base::feature::SENDMSG;
use crate::sys::memory::piece_table::PieceTable;
use crate::sys::socket;
use crate::transfer::outbox::Outbox;
use crate::transfer::primitive::{Primitive, Sender, Sent, send_all};

pub static ENTRY: Primitive = Primitive {
    gathers: true,
    ..Primitive::sending::<Sendmsg>(
        About {
            summary: "One sendmsg per message; the kernel gathers the pieces from a table that is kept while the \
                      pieces stay the same",
            source: "sendmsg(2)",
        },
        &[&SENDMSG],
    )
};

#[derive(Default)]
struct Sendmsg {
    /// The last whole row of pieces, if it came twice.
    registered: PieceTable,
    /// The last whole row for which a table was filled.
    last: Outline,
    /// A row has been sent in part, and its rest comes next.
    within_a_row: bool,
}

impl Sender for Sendmsg {
    fn send(&mut self, socket: BorrowedFd<'_>, outbox: &mut Outbox) -> io::Result<Sent> {
        send_all(outbox, |outbox| {
            if self.registered.is_of(outbox.row_in_memory()) {
                let pieces = self.registered.entries();
                let bytes = socket::sendmsg(socket, pieces, 0)?;
                self.within_a_row = bytes < bytes_of(pieces);
                return Ok(bytes);
            }
            outbox.gather(|pieces| {
                let bytes = socket::sendmsg(socket, pieces, 0)?;
                // The rest of a partly sent row gets a separate table for one call. If it replaced the registered row,
                // the next message would have to be registered again, once for every partial send.
                if !self.within_a_row {
                    self.register(outbox, pieces);
                }
                self.within_a_row = bytes < bytes_of(pieces);
                Ok(bytes)
            })
        })
    }
}

impl Sendmsg {
    /// Notes a whole row for which a table was filled: registers it if it equals the previous one.
    fn register(&mut self, outbox: &Outbox, pieces: &[IoSlice<'_>]) {
        let outline = Outline::of(pieces);
        if pieces.len() > 1 && outline == self.last {
            self.registered.fill(outbox.row_in_memory());
        } else {
            self.registered.clear();
        }
        self.last = outline;
    }
}

/// Start and end of a row in memory, and its number of pieces. It does not own the memory, which may hold something
/// else by now: equality only indicates that a row is worth registering.
#[derive(Default, PartialEq)]
struct Outline {
    first: usize,
    last: usize,
    pieces: usize,
}

impl Outline {
    fn of(pieces: &[IoSlice<'_>]) -> Self {
        let address = |piece: Option<&IoSlice<'_>>| piece.map_or(0, |piece| piece.as_ptr().addr());
        Outline { first: address(pieces.first()), last: address(pieces.last()), pieces: pieces.len() }
    }
}

fn bytes_of(pieces: &[IoSlice<'_>]) -> usize {
    pieces.iter().map(|piece| piece.len()).sum()
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::net::TcpStream;
    use std::os::fd::AsFd;
    use std::sync::Arc;

    use super::*;
    use crate::primitives::fixtures::{Buffers, PATIENCE, TINY, compare, connection, file, in_memory, noise, reader};
    use crate::sys::descriptor::{self, PollFlags};
    use crate::transfer::outbox::Piece;

    /// Buffers of eight fields that differ from those of every other seed.
    fn fields(seed: u64, bytes: usize) -> Vec<Arc<[u8]>> {
        (0..8).map(|index| noise(seed * 8 + index, bytes).into()).collect()
    }

    fn put(outbox: &mut Outbox, message: &[Arc<[u8]>]) {
        message.iter().for_each(|field| outbox.push(in_memory(field)));
        outbox.end_message();
    }

    /// Sends a message, and receives it, expecting these bytes.
    fn exchange(sender: &mut Sendmsg, ends: &mut (TcpStream, TcpStream), outbox: &mut Outbox, expected: &[u8]) {
        assert_eq!(sender.send(ends.1.as_fd(), outbox).unwrap(), Sent::Done);
        let mut received = vec![0; expected.len()];
        ends.0.read_exact(&mut received).unwrap();
        compare("sendmsg", &received, expected);
    }

    fn exchange_fields(sender: &mut Sendmsg, ends: &mut (TcpStream, TcpStream), message: &[Arc<[u8]>]) {
        let mut outbox = Outbox::default();
        put(&mut outbox, message);
        exchange(sender, ends, &mut outbox, &message.concat());
    }

    #[test]
    fn the_table_is_filled_once_for_messages_of_the_same_pieces() {
        let (mut sender, mut ends) = (Sendmsg::default(), connection(Buffers::default()));
        let message = fields(1, 64);
        (0..100).for_each(|_| exchange_fields(&mut sender, &mut ends, &message));
        assert_eq!(sender.registered.fills, 1);
        // One reference is this test's, the other the table's; the table drops its own with the connection.
        assert!(message.iter().all(|field| Arc::strong_count(field) == 2));
        drop(sender);
        assert!(message.iter().all(|field| Arc::strong_count(field) == 1));
    }

    #[test]
    fn another_message_takes_the_place_of_the_one_before() {
        let (mut sender, mut ends) = (Sendmsg::default(), connection(Buffers::default()));
        let [one, other] = [fields(1, 64), fields(2, 100)];
        (0..5).for_each(|_| exchange_fields(&mut sender, &mut ends, &one));
        exchange_fields(&mut sender, &mut ends, &other);
        // Messages that may never repeat are not kept.
        assert!(one.iter().chain(&other).all(|field| Arc::strong_count(field) == 1));
        (0..5).for_each(|_| exchange_fields(&mut sender, &mut ends, &other));
        assert_eq!(sender.registered.fills, 2);
        assert!(other.iter().all(|field| Arc::strong_count(field) == 2));
    }

    #[test]
    fn equal_bytes_in_another_buffer_are_another_message() {
        let (mut sender, mut ends) = (Sendmsg::default(), connection(Buffers::default()));
        let [one, equal] = [fields(1, 64), fields(1, 64)];
        (0..3).for_each(|_| exchange_fields(&mut sender, &mut ends, &one));
        // Only one field lies elsewhere, in a row with the same start and end as before.
        let mut mixed = one.clone();
        mixed[4] = Arc::clone(&equal[4]);
        for message in [&mixed, &equal] {
            (0..3).for_each(|_| exchange_fields(&mut sender, &mut ends, message));
            let registered = sender.registered.entries().iter().map(|entry| entry.as_ptr());
            assert!(registered.eq(message.iter().map(|field| field.as_ptr())));
        }
        assert_eq!(sender.registered.fills, 3);
    }

    #[test]
    fn messages_that_never_come_again_are_not_registered() {
        let (mut sender, mut ends) = (Sendmsg::default(), connection(Buffers::default()));
        let all: Arc<[u8]> = noise(1, 64_000).into();
        let mut outbox = Outbox::default();
        outbox.push_messages(in_memory(&all), 640, 64);
        exchange(&mut sender, &mut ends, &mut outbox, &all);
        assert_eq!((sender.registered.fills, Arc::strong_count(&all)), (0, 1));
        // Rows of one piece are not kept either.
        let single = &fields(2, 64)[..1];
        (0..5).for_each(|_| exchange_fields(&mut sender, &mut ends, single));
        assert_eq!((sender.registered.fills, Arc::strong_count(&single[0])), (0, 1));
    }

    /// A message made for each request may have the address of the previous one, and so look the same.
    #[test]
    fn a_row_that_lies_where_another_did_is_sent_as_it_is() {
        let (mut sender, mut ends) = (Sendmsg::default(), connection(Buffers::default()));
        for seed in 0..100 {
            exchange_fields(&mut sender, &mut ends, &fields(seed, 64));
        }
    }

    #[test]
    fn a_file_goes_as_ever_and_is_not_registered() {
        let (mut sender, mut ends) = (Sendmsg::default(), connection(Buffers::default()));
        let [bytes, on_disk] = [noise(1, 100), noise(2, 40_000)];
        let (head, file): (Arc<[u8]>, _) = (bytes.as_slice().into(), file(&on_disk));
        for _ in 0..3 {
            let mut outbox = Outbox::default();
            outbox.push(in_memory(&head));
            outbox.push(Piece::File(Arc::clone(&file), 0..40_000));
            outbox.push(in_memory(&head));
            outbox.end_message();
            exchange(&mut sender, &mut ends, &mut outbox, &[&bytes[..], &on_disk, &bytes].concat());
        }
        assert_eq!((sender.registered.fills, Arc::strong_count(&head)), (0, 1));
    }

    /// A socket with a small buffer cuts nearly every message, at places of all kinds.
    #[test]
    fn the_rest_of_a_message_does_not_replace_its_table() {
        let (peer, own) = connection(TINY);
        own.set_nonblocking(true).unwrap();
        let (message, mut sender, mut outbox) = (fields(1, 1500), Sendmsg::default(), Outbox::default());
        let reader = reader(peer, &[700, 4000, 11]);
        let mut cut = 0;
        for _ in 0..200 {
            put(&mut outbox, &message);
            while sender.send(own.as_fd(), &mut outbox).unwrap() == Sent::Blocked {
                cut += u32::from(sender.within_a_row);
                let ready = descriptor::poll(&[(own.as_fd(), PollFlags::POLLOUT)], Some(PATIENCE)).unwrap();
                assert_eq!(ready, [PollFlags::POLLOUT]);
            }
        }
        drop(own);
        compare("sendmsg", &reader.join().unwrap(), &message.concat().repeat(200));
        assert!(cut > 100, "{cut} sends were cut short");
        assert_eq!(sender.registered.fills, 1);
        assert!(message.iter().all(|field| Arc::strong_count(field) == 2));
    }

    #[test]
    fn a_retry_is_no_repetition() {
        let (_peer, own) = connection(TINY);
        own.set_nonblocking(true).unwrap();
        let (message, mut outbox) = (fields(1, 1500), Outbox::default());
        outbox.push(in_memory(&noise(2, 1_000_000).into()));
        assert_eq!(Sendmsg::default().send(own.as_fd(), &mut outbox).unwrap(), Sent::Blocked);
        let (mut sender, mut outbox) = (Sendmsg::default(), Outbox::default());
        put(&mut outbox, &message);
        for _ in 0..5 {
            assert_eq!(sender.send(own.as_fd(), &mut outbox).unwrap(), Sent::Blocked);
        }
        assert_eq!(sender.registered.fills, 0);
    }

    proptest::proptest! {
        #![proptest_config(proptest::test_runner::Config::with_cases(40))]

        /// Messages by number, cut wherever a socket may: the table is always that of the front row, or none.
        #[test]
        fn every_byte_of_any_messages_is_sent(
            order in proptest::collection::vec(0usize..3, 1..60), at_once in 1usize..4, waiting in 1usize..5,
        ) {
            let (peer, own) = connection(TINY);
            let reader = reader(peer, &[300, 5000]);
            let messages = [fields(1, 300), fields(2, 300), fields(1, 301)[..2].to_vec()];
            let (mut sender, mut outbox) = (Sendmsg::default(), Outbox::gathering(at_once));
            for several in order.chunks(waiting) {
                several.iter().for_each(|number| put(&mut outbox, &messages[*number]));
                proptest::prop_assert_eq!(sender.send(own.as_fd(), &mut outbox).unwrap(), Sent::Done);
            }
            drop(own);
            let expected: Vec<u8> = order.iter().flat_map(|number| messages[*number].concat()).collect();
            compare("sendmsg", &reader.join().unwrap(), &expected);
        }
    }
}
