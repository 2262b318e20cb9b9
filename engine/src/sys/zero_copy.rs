//! System calls that move bytes without copying them, under their own names.

use std::io::{self, IoSlice};
use std::os::fd::{AsRawFd, BorrowedFd};

use nix::sys::socket::{ControlMessageOwned, MsgFlags, recvmsg, setsockopt, sockopt};

use super::{check, check_size};

/// SO_EE_ORIGIN_ZEROCOPY and SO_EE_CODE_ZEROCOPY_COPIED of linux/errqueue.h, which the libc crate lacks.
const ORIGIN_ZEROCOPY: u8 = 5;
const CODE_ZEROCOPY_COPIED: u8 = 1;

/// Allows MSG_ZEROCOPY on a socket (SO_ZEROCOPY, Linux Documentation/networking/msg_zerocopy.rst).
pub fn allow_zero_copy(socket: BorrowedFd<'_>) -> io::Result<()> {
    let on: libc::c_int = 1;
    // SAFETY: the option's value is one int.
    check(unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_ZEROCOPY,
            std::ptr::from_ref(&on).cast(),
            size_of_val(&on) as libc::socklen_t,
        )
    })
    .map(drop)
}

/// Reads one notification from the error queue: the first and the last send that it completes, and whether the kernel copied
/// after all. `None` if the queue is empty.
pub fn completion(socket: BorrowedFd<'_>) -> io::Result<Option<(u32, u32, bool)>> {
    let mut space = nix::cmsg_space!(libc::sock_extended_err, libc::sockaddr_in6);
    let flags = MsgFlags::MSG_ERRQUEUE | MsgFlags::MSG_DONTWAIT;
    let message = match recvmsg::<()>(socket.as_raw_fd(), &mut [], Some(&mut space), flags) {
        Err(nix::errno::Errno::EAGAIN) => return Ok(None),
        result => result?,
    };
    for control in message.cmsgs()? {
        if let ControlMessageOwned::Ipv4RecvErr(error, _) | ControlMessageOwned::Ipv6RecvErr(error, _) = control
            && error.ee_origin == ORIGIN_ZEROCOPY
        {
            let copied = error.ee_code & CODE_ZEROCOPY_COPIED != 0;
            return Ok(Some((error.ee_info, error.ee_data, copied)));
        }
    }
    Err(io::Error::other("the error queue holds no completion"))
}

/// Moves bytes from a pipe, which must hold them, into a socket. Waits as the socket does (splice(2)).
pub fn splice(pipe: BorrowedFd<'_>, socket: BorrowedFd<'_>, bytes: usize) -> io::Result<usize> {
    // SAFETY: without offsets the call takes numbers only.
    check_size(unsafe {
        libc::splice(pipe.as_raw_fd(), std::ptr::null_mut(), socket.as_raw_fd(), std::ptr::null_mut(), bytes, 0)
    })
}

/// Puts pages of this program's memory into a pipe without copying them, as many as fit (vmsplice(2)). Their content must
/// not change while somebody may still read them from the pipe.
pub fn vmsplice(pipe: BorrowedFd<'_>, pieces: &[IoSlice<'_>]) -> io::Result<usize> {
    // SAFETY: an IoSlice has the layout of an iovec (std::io::IoSlice), and the pipe's reader cannot write into the pages.
    check_size(unsafe {
        libc::vmsplice(pipe.as_raw_fd(), pieces.as_ptr().cast(), pieces.len(), libc::SPLICE_F_NONBLOCK)
    })
}

/// Returns the bytes sent that the peer's TCP has not acknowledged (SIOCOUTQ, tcp(7)).
pub fn unacknowledged(socket: BorrowedFd<'_>) -> io::Result<u64> {
    let mut bytes: libc::c_int = 0;
    // SAFETY: the kernel writes one int.
    check(unsafe { libc::ioctl(socket.as_raw_fd(), libc::TIOCOUTQ, &mut bytes) })?;
    Ok(bytes as u64)
}

/// Moves bytes of a file, starting at an offset, into a pipe. Never waits for room in the pipe (splice(2)).
pub fn splice_at(file: BorrowedFd<'_>, offset: u64, pipe: BorrowedFd<'_>, bytes: usize) -> io::Result<usize> {
    let mut offset = offset as libc::loff_t;
    // SAFETY: the kernel reads and writes the one offset.
    check_size(unsafe {
        libc::splice(
            file.as_raw_fd(),
            &mut offset,
            pipe.as_raw_fd(),
            std::ptr::null_mut(),
            bytes,
            libc::SPLICE_F_NONBLOCK,
        )
    })
}

/// Sends a range of a file (sendfile(2)). The file's own offset does not change.
pub fn sendfile(socket: BorrowedFd<'_>, file: BorrowedFd<'_>, range: std::ops::Range<u64>) -> io::Result<usize> {
    let mut offset = range.start as libc::off_t;
    let bytes = (range.end - range.start) as usize;
    // SAFETY: the kernel reads and writes the one offset.
    check_size(unsafe { libc::sendfile(socket.as_raw_fd(), file.as_raw_fd(), &mut offset, bytes) })
}

/// Makes close(2) reset a connection, so that the kernel releases its bytes (SO_LINGER of 0).
pub fn reset_on_close(socket: BorrowedFd<'_>) -> io::Result<()> {
    let linger = libc::linger { l_onoff: 1, l_linger: 0 };
    Ok(setsockopt(&socket, sockopt::Linger, &linger)?)
}
