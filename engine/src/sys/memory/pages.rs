//! Pages of new memory: mmap(2) and madvise(2).

use std::hint::black_box;
use std::io;

use crate::sys::{check, page_size};

/// Private anonymous memory that forked children do not get, so it does not make forks more expensive.
pub struct Pages {
    start: *mut u8,
    bytes: usize,
}

impl Pages {
    /// Maps this many pages of the usual size. The kernel provides each when it is first touched.
    pub fn untouched(pages: usize) -> io::Result<Self> {
        let pages = Self::of_bytes(pages * page_size())?;
        // SAFETY: the mapping is ours. A kernel without huge pages refuses with EINVAL, which does no harm.
        unsafe { libc::madvise(pages.start.cast(), pages.bytes, libc::MADV_NOHUGEPAGE) };
        Ok(pages)
    }

    /// Maps room for this many bytes, at least 1.
    pub fn of_bytes(bytes: usize) -> io::Result<Self> {
        let bytes = bytes.next_multiple_of(page_size());
        // SAFETY: a new anonymous mapping aliases nothing.
        let start = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                bytes,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
                -1,
                0,
            )
        };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let pages = Pages { start: start.cast(), bytes };
        // SAFETY: the mapping is ours, and no child refers to it.
        check(unsafe { libc::madvise(pages.start.cast(), bytes, libc::MADV_DONTFORK) })?;
        Ok(pages)
    }

    /// Writes to every page.
    pub fn touch(&mut self) {
        for offset in (0..self.bytes).step_by(page_size()) {
            // SAFETY: the offset lies within the mapping. The write is volatile because nothing ever reads the byte.
            unsafe { self.start.add(offset).write_volatile(1) };
        }
    }

    /// Copies the first bytes of other pages to the beginning of these (memcpy(3)).
    ///
    /// # Panics
    /// If either has fewer bytes.
    pub fn copy_from(&mut self, other: &Pages, bytes: usize) {
        assert!(bytes <= self.bytes && bytes <= other.bytes, "{bytes} bytes are more than there are");
        // SAFETY: both mappings hold this many bytes, and separate mappings do not overlap. black_box keeps the compiler
        // from knowing addresses and length beforehand.
        unsafe { std::ptr::copy_nonoverlapping(black_box(other.start), black_box(self.start), black_box(bytes)) };
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        // SAFETY: this is the mapping made above, and no reference into it exists.
        unsafe { libc::munmap(self.start.cast(), self.bytes) };
    }
}

#[cfg(test)]
mod tests {
    use nix::sys::resource::{UsageWho, getrusage};

    use super::*;

    #[test]
    fn a_copy_has_the_bytes() {
        let (mut from, mut to) = (Pages::of_bytes(3 * page_size()).unwrap(), Pages::of_bytes(100).unwrap());
        from.touch();
        // SAFETY: both have at least one page.
        unsafe {
            from.start.add(99).write(7);
            from.start.add(100).write(8);
        }
        to.copy_from(&from, 100);
        // SAFETY: as above.
        let copied = unsafe { [to.start.read(), to.start.add(99).read(), to.start.add(100).read()] };
        assert_eq!(copied, [1, 7, 0]);
    }

    #[test]
    #[should_panic(expected = "more than there are")]
    fn a_copy_of_more_than_there_is_does_not_happen() {
        let (from, mut to) = (Pages::of_bytes(2 * page_size()).unwrap(), Pages::of_bytes(1).unwrap());
        to.copy_from(&from, page_size() + 1);
    }

    #[test]
    fn each_page_is_one_fault() {
        let faults = || getrusage(UsageWho::RUSAGE_THREAD).unwrap().minor_page_faults();
        let mut pages = Pages::untouched(256).unwrap();
        let before = faults();
        pages.touch();
        let touched = faults() - before;
        assert!((256..512).contains(&touched), "{touched} faults of 256 pages");
    }
}
