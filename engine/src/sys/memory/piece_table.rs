//! A table of struct iovec that is filled once and given to many calls: it owns a share of every buffer that it points into.

use std::io::IoSlice;
use std::ops::Range;
use std::ptr;
use std::sync::Arc;

/// The entries of a row of pieces, which stay right for as long as the table has them.
#[derive(Default)]
pub struct PieceTable {
    /// They point into the buffers below, and leave the table only as borrows of it.
    entries: Vec<IoSlice<'static>>,
    /// Of each entry, a share of its buffer.
    buffers: Vec<Arc<[u8]>>,
    /// How often it was filled.
    #[cfg(test)]
    pub fills: u32,
}

impl PieceTable {
    /// Fills it with these pieces, each a range of a buffer, in the place of those that it had.
    pub fn fill<'a>(&mut self, row: impl Iterator<Item = (&'a Arc<[u8]>, Range<usize>)>) {
        self.entries.clear();
        self.buffers.clear();
        for (buffer, range) in row {
            let bytes = ptr::from_ref(&buffer[range]);
            self.buffers.push(Arc::clone(buffer));
            // SAFETY: what an Arc shares is neither moved nor freed while there is a share of it, and altered by nobody but whoever
            // has the only one. This table has one, from the line before, and alters nothing. It is given back when no entry is
            // left; and whoever is given an entry borrows the table until then.
            self.entries.push(IoSlice::new(unsafe { &*bytes }));
        }
        #[cfg(test)]
        {
            self.fills += 1;
        }
    }

    /// Empties it, and gives back the buffers and its own memory: 1,024 entries (UIO_MAXIOV) are 16 KiB, and as much again.
    pub fn clear(&mut self) {
        self.entries = Vec::new();
        self.buffers = Vec::new();
    }

    /// Whether it was filled with these very bytes, piece by piece: in the same place of memory, not equal ones elsewhere.
    /// An empty table was filled with none, and is of nothing.
    pub fn is_of<'a>(&self, row: impl Iterator<Item = (&'a Arc<[u8]>, Range<usize>)>) -> bool {
        // Where address and length are the same, so is the buffer, since that of the table is still there.
        let places = row.map(|(buffer, range)| ptr::from_ref(&buffer[range]));
        !self.entries.is_empty() && self.entries.iter().map(|entry| ptr::from_ref(&**entry)).eq(places)
    }

    /// The table as a call takes it.
    pub fn entries(&self) -> &[IoSlice<'_>] {
        &self.entries
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn buffer(bytes: &[u8]) -> Arc<[u8]> {
        bytes.into()
    }

    fn row<'a>(pieces: &'a [(&'a Arc<[u8]>, Range<usize>)]) -> impl Iterator<Item = (&'a Arc<[u8]>, Range<usize>)> {
        pieces.iter().cloned()
    }

    #[test]
    fn it_is_of_the_pieces_that_it_was_filled_with_and_of_no_others() {
        let [one, other, equal] = [b"abcabc", b"defdef", b"abcabc"].map(|bytes| buffer(bytes));
        let mut table = PieceTable::default();
        assert!(!table.is_of(row(&[])));
        let pieces = [(&one, 0..3), (&other, 1..6)];
        table.fill(row(&pieces));
        assert!(table.is_of(row(&pieces)));
        for differs in [
            &[(&equal, 0..3), (&other, 1..6)][..],
            &[(&one, 3..6), (&other, 1..6)],
            &[(&one, 0..3), (&other, 1..5)],
            &[(&one, 0..3), (&other, 0..6)],
            &[(&one, 0..3)],
            &[(&other, 1..6), (&one, 0..3)],
            &[(&one, 0..3), (&other, 1..6), (&one, 0..3)],
            &[],
        ] {
            assert!(!table.is_of(row(differs)), "{differs:?}");
        }
        table.clear();
        assert!(!table.is_of(row(&pieces)) && !table.is_of(row(&[])));
    }

    #[test]
    fn buffers_live_as_long_as_the_table_has_them() {
        let [one, other] = [b"first", b"other"].map(|bytes| buffer(bytes));
        let weak = Arc::downgrade(&one);
        let mut table = PieceTable::default();
        table.fill(row(&[(&one, 1..4), (&one, 0..1)]));
        drop(one);
        assert_eq!(table.entries().iter().map(|entry| entry.to_vec()).collect::<Vec<_>>(), [&b"irs"[..], b"f"]);
        // Another row takes its place, then none, then the table goes.
        table.fill(row(&[(&other, 0..5)]));
        assert!(weak.upgrade().is_none());
        assert_eq!(Arc::strong_count(&other), 2);
        table.clear();
        assert!(table.entries().is_empty());
        assert_eq!(Arc::strong_count(&other), 1);
        table.fill(row(&[(&other, 0..5)]));
        drop(table);
        assert_eq!(Arc::strong_count(&other), 1);
    }

    #[test]
    fn it_can_go_to_another_thread_with_its_buffers() {
        let mut table = PieceTable::default();
        table.fill(row(&[(&buffer(b"moved"), 0..5)]));
        let there = std::thread::spawn(move || table.entries()[0].to_vec());
        assert_eq!(there.join().unwrap(), b"moved");
    }
}
