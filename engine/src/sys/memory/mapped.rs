//! Receiving by mapping the pages that have come into the program's memory, uncopied (TCP_ZEROCOPY_RECEIVE,
//! linux/tcp.h; tcp_mmap.c of the kernel's selftests shows the use).

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

use crate::sys::{check, page_size};

/// A place for pages of one socket.
pub struct Mapping {
    address: usize,
    length: usize,
}

/// The first fields of struct tcp_zerocopy_receive; the kernel takes as many as it is given.
#[repr(C)]
#[derive(Default)]
struct ZeroCopyReceive {
    address: u64,
    length: u32,
    recv_skip_hint: u32,
}

/// What can be received.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mapped {
    /// Bytes that are mapped now, and received.
    pub mapped: usize,
    /// Bytes that come next and cannot be mapped; they are to be received otherwise.
    pub not_mappable: usize,
}

impl Mapping {
    /// A place for so many bytes, rounded up to pages. ENODEV where the socket is not one of TCP.
    pub fn new(socket: BorrowedFd<'_>, bytes: usize) -> io::Result<Self> {
        let length = bytes.next_multiple_of(page_size());
        // SAFETY: a new mapping, which nothing else refers to.
        let address = unsafe {
            libc::mmap(std::ptr::null_mut(), length, libc::PROT_READ, libc::MAP_SHARED, socket.as_raw_fd(), 0)
        };
        if address == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        Ok(Mapping { address: address as usize, length })
    }

    /// Maps what has come, at most so many bytes, in place of what was mapped before. Never waits. EIO when the peer will
    /// send no more.
    pub fn receive(&self, socket: BorrowedFd<'_>, most: usize) -> io::Result<Mapped> {
        let most = most.min(self.length);
        let length = most - most % page_size();
        let mut request =
            ZeroCopyReceive { address: self.address as u64, length: length as u32, ..ZeroCopyReceive::default() };
        ask(socket, &mut request)?;
        Ok(Mapped { mapped: request.length as usize, not_mappable: request.recv_skip_hint as usize })
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours, and nothing refers to it any more.
        unsafe { libc::munmap(self.address as *mut libc::c_void, self.length) };
    }
}

fn ask(socket: BorrowedFd<'_>, request: &mut ZeroCopyReceive) -> io::Result<()> {
    let mut size = size_of::<ZeroCopyReceive>() as libc::socklen_t;
    // SAFETY: the kernel reads and writes one such structure, and maps pages at its address, which is a mapping of ours
    // that nothing refers to.
    check(unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_ZEROCOPY_RECEIVE,
            std::ptr::from_mut(request).cast(),
            &mut size,
        )
    })
    .map(drop)
}

/// Why this kernel cannot do it, asked of a socket that has no peer; `None` where it can.
pub fn refusal() -> Option<io::Error> {
    let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None);
    let asked = socket.and_then(|socket| {
        use std::os::fd::AsFd;
        ask(socket.as_fd(), &mut ZeroCopyReceive::default())
    });
    asked.err().filter(|error| matches!(error.raw_os_error(), Some(libc::ENOPROTOOPT | libc::EOPNOTSUPP | libc::EPERM)))
}
