//! select(2) and its sets. They have room only for descriptors below [`FD_SETSIZE`].

use std::io;
use std::os::fd::RawFd;

use crate::sys::{check, named, retry};

/// Smallest descriptor that does not fit into a set: 1,024.
pub const FD_SETSIZE: RawFd = libc::FD_SETSIZE as RawFd;

/// A set of descriptors. FD_SET itself checks nothing, and writes beyond the set (select(2), BUGS).
#[derive(Clone, Copy)]
pub struct FdSet(libc::fd_set);

impl FdSet {
    /// Makes an empty set (FD_ZERO).
    pub fn zero() -> Self {
        // SAFETY: a set is an array of numbers.
        FdSet(unsafe { std::mem::zeroed() })
    }

    /// Adds a descriptor (FD_SET). Panics if the set has no room for it.
    pub fn set(&mut self, descriptor: RawFd) {
        // SAFETY: `within` has checked the descriptor against FD_SETSIZE.
        unsafe { libc::FD_SET(within(descriptor), &mut self.0) };
    }

    /// Removes a descriptor (FD_CLR). Panics as [`FdSet::set`] does.
    pub fn clear(&mut self, descriptor: RawFd) {
        // SAFETY: as above.
        unsafe { libc::FD_CLR(within(descriptor), &mut self.0) };
    }

    /// Returns whether a descriptor is in the set (FD_ISSET). Panics as [`FdSet::set`] does.
    pub fn is_set(&self, descriptor: RawFd) -> bool {
        // SAFETY: as above.
        unsafe { libc::FD_ISSET(within(descriptor), &self.0) }
    }
}

fn within(descriptor: RawFd) -> RawFd {
    assert!((0..FD_SETSIZE).contains(&descriptor), "descriptor {descriptor} is not below FD_SETSIZE");
    descriptor
}

/// Waits until a descriptor of the sets, none above `highest`, is ready. Afterwards the sets hold the ready descriptors.
pub fn select(highest: RawFd, readable: &mut FdSet, writable: &mut FdSet) -> io::Result<()> {
    let (exceptional, forever) = (std::ptr::null_mut(), std::ptr::null_mut());
    let count = within(highest) + 1;
    // SAFETY: the sets live through the call, and have room for `count` descriptors.
    let waited =
        retry(|| check(unsafe { libc::select(count, &mut readable.0, &mut writable.0, exceptional, forever) }));
    named("select", waited).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_takes_what_fits() {
        let mut set = FdSet::zero();
        set.set(FD_SETSIZE - 1);
        assert!(set.is_set(FD_SETSIZE - 1) && !set.is_set(0));
        set.clear(FD_SETSIZE - 1);
        assert!(!set.is_set(FD_SETSIZE - 1));
    }

    #[test]
    #[should_panic(expected = "not below FD_SETSIZE")]
    fn a_set_takes_nothing_else() {
        FdSet::zero().set(FD_SETSIZE);
    }
}
