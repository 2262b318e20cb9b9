//! A table of struct iovec that is filled once and used for many calls. It owns a share of every buffer that it points into.

use std::io::IoSlice;
use std::ops::Range;
use std::ptr;
use std::sync::Arc;

/// The entries of a row of pieces, valid as long as the table holds them.
#[derive(Default)]
pub struct PieceTable {
    /// Pointers into the buffers below. They leave the table only as borrows of it.
    entries: Vec<IoSlice<'static>>,
    /// For each entry, a share of its buffer.
    buffers: Vec<Arc<[u8]>>,
    /// Number of fills.
    #[cfg(test)]
    pub fills: u32,
}

impl PieceTable {
    /// Fills the table with these pieces, each a range of a buffer, in place of the earlier ones.
    pub fn fill<'a>(&mut self, row: impl Iterator<Item = (&'a Arc<[u8]>, Range<usize>)>) {
        self.entries.clear();
        self.buffers.clear();
        for (buffer, range) in row {
            let bytes = ptr::from_ref(&buffer[range]);
            self.buffers.push(Arc::clone(buffer));
            // SAFETY: memory behind an Arc is neither moved nor freed while a share of it exists, and only a sole owner may
            // alter it. This table has a share from the line before, and alters nothing. It drops the share only when no
            // entry is left, and every user of an entry borrows the table.
            self.entries.push(IoSlice::new(unsafe { &*bytes }));
        }
        #[cfg(test)]
        {
            self.fills += 1;
        }
    }

    /// Empties the table, and releases the buffers and its own memory: 1,024 entries (UIO_MAXIOV) take 16 KiB, and their
    /// shares as much again.
    pub fn clear(&mut self) {
        self.entries = Vec::new();
        self.buffers = Vec::new();
    }

    /// Returns whether the table was filled with exactly these pieces: the same bytes at the same addresses, not equal
    /// bytes elsewhere. Always `false` for an empty table.
    pub fn is_of<'a>(&self, row: impl Iterator<Item = (&'a Arc<[u8]>, Range<usize>)>) -> bool {
        // The table's share keeps its buffers alive, so the same address and length mean the same buffer.
        let places = row.map(|(buffer, range)| ptr::from_ref(&buffer[range]));
        !self.entries.is_empty() && self.entries.iter().map(|entry| ptr::from_ref(&**entry)).eq(places)
    }

    /// Returns the entries as a call takes them.
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
    fn a_table_matches_only_the_pieces_that_filled_it() {
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
        // The second row replaces the first, then the table is cleared, then dropped.
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
    fn a_table_can_move_to_another_thread_with_its_buffers() {
        let mut table = PieceTable::default();
        table.fill(row(&[(&buffer(b"moved"), 0..5)]));
        let there = std::thread::spawn(move || table.entries()[0].to_vec());
        assert_eq!(there.join().unwrap(), b"moved");
    }
}
