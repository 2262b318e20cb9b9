//! Receives by mapping arrived pages into the program's memory without a copy (TCP_ZEROCOPY_RECEIVE, linux/tcp.h; for an
//! example see tcp_mmap.c of the kernel's selftests).

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

use crate::sys::{check, page_size};

/// An address range for pages of one socket.
pub struct Mapping {
    address: usize,
    length: usize,
}

/// First fields of struct tcp_zerocopy_receive. The kernel uses as many fields as the size covers.
#[repr(C)]
#[derive(Default)]
struct ZeroCopyReceive {
    address: u64,
    length: u32,
    recv_skip_hint: u32,
}

/// Result of a mapped receive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mapped {
    /// Bytes that are mapped now, and so received.
    pub mapped: usize,
    /// Bytes that come next and cannot be mapped. Receive them with another call.
    pub not_mappable: usize,
}

impl Mapping {
    /// Reserves room for this many bytes, rounded up to pages. Fails with ENODEV if the socket is not TCP.
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

    /// Maps bytes that have arrived, at most `most`, in place of the earlier mapping. Never waits. Fails with EIO if the
    /// peer will send no more.
    pub fn receive(&self, socket: BorrowedFd<'_>, most: usize) -> io::Result<Mapped> {
        let most = most.min(self.length);
        let length = most - most % page_size();
        let mut request =
            ZeroCopyReceive { address: self.address as u64, length: length as u32, ..ZeroCopyReceive::default() };
        zero_copy_receive(socket, &mut request)?;
        Ok(Mapped { mapped: request.length as usize, not_mappable: request.recv_skip_hint as usize })
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours, and nothing refers to it any more.
        unsafe { libc::munmap(self.address as *mut libc::c_void, self.length) };
    }
}

fn zero_copy_receive(socket: BorrowedFd<'_>, request: &mut ZeroCopyReceive) -> io::Result<()> {
    let mut size = size_of::<ZeroCopyReceive>() as libc::socklen_t;
    // SAFETY: the kernel reads and writes one such structure, and maps pages at its address. That is a mapping of ours that
    // nothing refers to.
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

/// Tries the call on a socket without a peer, and returns why this kernel cannot do it; `None` if it can.
pub fn refusal() -> Option<io::Error> {
    let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None);
    let tried = socket.and_then(|socket| {
        use std::os::fd::AsFd;
        zero_copy_receive(socket.as_fd(), &mut ZeroCopyReceive::default())
    });
    tried.err().filter(|error| matches!(error.raw_os_error(), Some(libc::ENOPROTOOPT | libc::EOPNOTSUPP | libc::EPERM)))
}
