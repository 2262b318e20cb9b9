//! Locks between processes: a POSIX record lock, and a mutex in shared memory.

use std::cell::UnsafeCell;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

use nix::sys::memfd::{MFdFlags, memfd_create};

use super::{check, check_number, named, retry};
use crate::sys::memory::shared::SharedArray;

/// A record lock, fcntl(2) F_SETLKW, as UNP section 30.7 puts around accept. The book unlinks its lock file at once; this
/// file never had a name (memfd_create(2)).
///
/// The kernel drops the lock of a process that dies.
pub struct FileLock {
    file: OwnedFd,
}

impl FileLock {
    /// Makes the lock's file.
    pub fn new() -> io::Result<Self> {
        Ok(FileLock { file: named("memfd_create", memfd_create(c"lock", MFdFlags::MFD_CLOEXEC))? })
    }

    /// Waits for the lock, and holds it until the guard is dropped.
    pub fn lock(&self) -> io::Result<FileLockGuard<'_>> {
        self.set(libc::F_WRLCK)?;
        Ok(FileLockGuard { lock: self })
    }

    fn set(&self, kind: libc::c_int) -> io::Result<()> {
        let region = libc::flock {
            l_type: kind as libc::c_short,
            l_whence: libc::SEEK_SET as libc::c_short,
            l_start: 0,
            l_len: 0,
            l_pid: 0,
        };
        // SAFETY: the descriptor is open, and the region lives through the call.
        let set = retry(|| check(unsafe { libc::fcntl(self.file.as_raw_fd(), libc::F_SETLKW, &region) }));
        named("fcntl", set).map(drop)
    }
}

/// Holds a [`FileLock`].
pub struct FileLockGuard<'a> {
    lock: &'a FileLock,
}

impl Drop for FileLockGuard<'_> {
    fn drop(&mut self) {
        // Unlocking a region of an open file cannot fail (fcntl(2)).
        let _ = self.lock.set(libc::F_UNLCK);
    }
}

/// A mutex in shared memory, PTHREAD_PROCESS_SHARED as in UNP section 30.8, and robust: when its holder dies, the next
/// one gets it with EOWNERDEAD instead of waiting for ever (pthread_mutexattr_setrobust(3)).
pub struct SharedMutex {
    mutexes: SharedMutexes,
}

impl SharedMutex {
    /// Maps and initialises the mutex.
    pub fn new() -> io::Result<Self> {
        Ok(SharedMutex { mutexes: SharedMutexes::new(1)? })
    }

    /// Waits for the mutex, and holds it until the guard is dropped.
    pub fn lock(&self) -> io::Result<SharedMutexGuard<'_>> {
        self.mutexes.lock(0)
    }
}

/// Several mutexes like [`SharedMutex`] in one mapping, each on a separate cache line. There may be more of them than a
/// process may have mappings (`vm.max_map_count`).
pub struct SharedMutexes {
    mutexes: SharedArray<RawMutex>,
}

#[repr(align(64))]
struct RawMutex(UnsafeCell<libc::pthread_mutex_t>);

// SAFETY: a process-shared pthread mutex is made to be used from anywhere.
unsafe impl Sync for RawMutex {}

impl SharedMutexes {
    /// Maps and initialises this many mutexes.
    pub fn new(count: usize) -> io::Result<Self> {
        let mutexes = SharedArray::<RawMutex>::unset(count)?;
        // SAFETY: the attributes are initialised before use and destroyed after it; the mutexes lie in fresh memory, which
        // holds `count` of them.
        unsafe {
            let mut attributes = std::mem::zeroed();
            check_number(libc::pthread_mutexattr_init(&mut attributes))?;
            check_number(libc::pthread_mutexattr_setpshared(&mut attributes, libc::PTHREAD_PROCESS_SHARED))?;
            check_number(libc::pthread_mutexattr_setrobust(&mut attributes, libc::PTHREAD_MUTEX_ROBUST))?;
            for index in 0..count {
                check_number(libc::pthread_mutex_init(mutexes.as_mut_ptr().add(index).cast(), &attributes))?;
            }
            check_number(libc::pthread_mutexattr_destroy(&mut attributes))?;
        }
        Ok(SharedMutexes { mutexes })
    }

    /// Waits for the mutex with this index, and holds it until the guard is dropped.
    pub fn lock(&self, index: usize) -> io::Result<SharedMutexGuard<'_>> {
        let mutex = &self.mutexes[index];
        // SAFETY: the mutex was initialised, and stays mapped while `self` lives.
        let result = unsafe { libc::pthread_mutex_lock(mutex.0.get()) };
        if result == libc::EOWNERDEAD {
            // These mutexes guard accept or a single number, so nothing needs repair after a holder's death.
            // SAFETY: this thread holds the mutex.
            check_number(unsafe { libc::pthread_mutex_consistent(mutex.0.get()) })?;
        } else {
            named("pthread_mutex_lock", check_number(result))?;
        }
        Ok(SharedMutexGuard { mutex })
    }
}

/// Holds a [`SharedMutex`], or one of [`SharedMutexes`].
pub struct SharedMutexGuard<'a> {
    mutex: &'a RawMutex,
}

impl Drop for SharedMutexGuard<'_> {
    fn drop(&mut self) {
        // SAFETY: this thread locked the mutex.
        unsafe { libc::pthread_mutex_unlock(self.mutex.0.get()) };
    }
}
