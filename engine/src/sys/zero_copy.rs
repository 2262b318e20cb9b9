//! System calls that move bytes without copying them, under their own names.

use std::io::{self, IoSlice};
use std::mem::offset_of;
use std::os::fd::{AsRawFd, BorrowedFd};

use nix::sys::socket::{setsockopt, sockopt};

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

/// Room for the control messages of a notification, of which there is one with an error and an address. The kernel wants it
/// aligned as a length (cmsg(3)).
#[repr(C, align(8))]
struct Control([u8; 128]);

/// Reads one notification from the error queue: the first and the last send that it completes, and whether the kernel copied
/// after all. `None` if the queue is empty.
pub fn completion(socket: BorrowedFd<'_>) -> io::Result<Option<(u32, u32, bool)>> {
    let mut control = Control([0; 128]);
    // SAFETY: a message of zeros has no address, no buffers and no control messages.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    message.msg_control = control.0.as_mut_ptr().cast();
    message.msg_controllen = control.0.len();
    let flags = libc::MSG_ERRQUEUE | libc::MSG_DONTWAIT;
    // SAFETY: the kernel writes into the message, and no more of `control` than its length.
    match check_size(unsafe { libc::recvmsg(socket.as_raw_fd(), &mut message, flags) }) {
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(None),
        result => result?,
    };
    let written = control.0.get(..message.msg_controllen).unwrap_or_default();
    let found = completion_in(written).ok_or_else(|| io::Error::other("the error queue holds no completion"))?;
    Ok(Some(found))
}

/// Finds a completion in control messages (cmsg(3), ip(7), `struct sock_extended_err` of linux/errqueue.h): the first and the
/// last send, and whether the kernel copied.
pub fn completion_in(mut control: &[u8]) -> Option<(u32, u32, bool)> {
    use libc::{cmsghdr as Head, sock_extended_err as Failure};
    loop {
        let length = usize::from_ne_bytes(field(control, offset_of!(Head, cmsg_len))?);
        let level = i32::from_ne_bytes(field(control, offset_of!(Head, cmsg_level))?);
        let kind = i32::from_ne_bytes(field(control, offset_of!(Head, cmsg_type))?);
        // A length that is less than that of the head has no rest, which ends the loop.
        let data = control.get(size_of::<Head>()..length)?;
        let is_error = matches!((level, kind), (libc::SOL_IP, libc::IP_RECVERR) | (libc::SOL_IPV6, libc::IPV6_RECVERR));
        if is_error && field(data, offset_of!(Failure, ee_origin)) == Some([ORIGIN_ZEROCOPY]) {
            let [code] = field(data, offset_of!(Failure, ee_code))?;
            let first = u32::from_ne_bytes(field(data, offset_of!(Failure, ee_info))?);
            let last = u32::from_ne_bytes(field(data, offset_of!(Failure, ee_data))?);
            return Some((first, last, code & CODE_ZEROCOPY_COPIED != 0));
        }
        control = control.get(length.next_multiple_of(align_of::<Head>())..)?;
    }
}

/// The bytes of a field at this place; `None` if they are not all there.
fn field<const BYTES: usize>(bytes: &[u8], place: usize) -> Option<[u8; BYTES]> {
    bytes.get(place..)?.first_chunk().copied()
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

#[cfg(test)]
mod tests {
    use super::*;

    /// A control message, with the zeros up to the next one.
    fn message(level: i32, kind: i32, data: &[u8]) -> Vec<u8> {
        let mut bytes = (size_of::<libc::cmsghdr>() + data.len()).to_ne_bytes().to_vec();
        bytes.extend([level.to_ne_bytes(), kind.to_ne_bytes()].concat());
        bytes.extend(data);
        bytes.resize(bytes.len().next_multiple_of(8), 0);
        bytes
    }

    fn error(origin: u8, code: u8) -> Vec<u8> {
        let head = [0, 0, 0, 0, origin, 0, code, 0];
        [&head[..], &3_u32.to_ne_bytes(), &9_u32.to_ne_bytes(), &[0; 16]].concat()
    }

    #[test]
    fn a_completion_is_found_after_other_messages() {
        let other = message(libc::SOL_SOCKET, libc::SCM_RIGHTS, &[7; 17]);
        let icmp = message(libc::SOL_IP, libc::IP_RECVERR, &error(2, 1));
        for (level, kind) in [(libc::SOL_IP, libc::IP_RECVERR), (libc::SOL_IPV6, libc::IPV6_RECVERR)] {
            for (code, copied) in [(0, false), (CODE_ZEROCOPY_COPIED, true)] {
                let done = message(level, kind, &error(ORIGIN_ZEROCOPY, code));
                let control = [&other[..], &icmp, &done].concat();
                assert_eq!(completion_in(&control), Some((3, 9, copied)));
                assert!((0..control.len()).all(|length| completion_in(&control[..length]).is_none()), "it is cut off");
            }
        }
    }

    #[test]
    fn a_length_that_cannot_be_ends_the_search() {
        for length in [0, 15, 16, usize::MAX - 3, usize::MAX] {
            let mut control = message(libc::SOL_IP, libc::IP_RECVERR, &error(ORIGIN_ZEROCOPY, 0));
            control[..8].copy_from_slice(&length.to_ne_bytes());
            assert_eq!(completion_in(&control), None, "{length}");
        }
    }
}
