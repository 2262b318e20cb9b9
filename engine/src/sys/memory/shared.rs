//! Memory shared by a process and its forked children: mmap(2) with MAP_SHARED and MAP_ANONYMOUS.

use std::io;
use std::ops::Deref;

use crate::sys::named;

/// An array in shared memory. Its elements must be safe to use from several processes: atomics, or a process-shared lock.
pub struct SharedArray<T> {
    start: *mut T,
    length: usize,
}

// SAFETY: the array only hands out shared references, and its elements are `Sync`.
unsafe impl<T: Sync> Sync for SharedArray<T> {}
// SAFETY: the mapping belongs to no thread.
unsafe impl<T: Sync> Send for SharedArray<T> {}

impl<T: Default + Sync> SharedArray<T> {
    /// Maps an array of default values.
    pub fn new(length: usize) -> io::Result<Self> {
        let array = Self::unset(length)?;
        for index in 0..length {
            // SAFETY: the mapping holds `length` elements and is aligned to a page.
            unsafe { array.start.add(index).write(T::default()) };
        }
        Ok(array)
    }
}

impl<T> SharedArray<T> {
    /// Maps zero bytes; the caller writes the elements before it reads any.
    pub(in crate::sys) fn unset(length: usize) -> io::Result<Self> {
        let bytes = length * size_of::<T>();
        // SAFETY: a new anonymous mapping aliases nothing.
        let start = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                bytes,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED | libc::MAP_ANONYMOUS,
                -1,
                0,
            )
        };
        if start == libc::MAP_FAILED {
            return named("mmap", Err(io::Error::last_os_error()));
        }
        Ok(SharedArray { start: start.cast(), length })
    }

    /// Returns the address of the first element, for a C library that initialises it in place.
    pub(in crate::sys) fn as_mut_ptr(&self) -> *mut T {
        self.start
    }
}

impl<T> Deref for SharedArray<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        // SAFETY: the mapping holds `length` initialised elements for as long as `self` lives.
        unsafe { std::slice::from_raw_parts(self.start, self.length) }
    }
}

impl<T> Drop for SharedArray<T> {
    fn drop(&mut self) {
        // SAFETY: this is the mapping made above, and no reference into it outlives `self`.
        unsafe { libc::munmap(self.start.cast(), self.length * size_of::<T>()) };
    }
}
