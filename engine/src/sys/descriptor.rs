//! Descriptors: pass one to another process, wait for several, read and write.

use std::ffi::CStr;
use std::io::{self, IoSlice, IoSliceMut};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::time::{Duration, Instant};

use nix::poll::{PollFd, PollTimeout};
use nix::sys::eventfd::{EfdFlags, EventFd};
use nix::sys::socket::{
    AddressFamily, ControlMessage, ControlMessageOwned, MsgFlags, SockFlag, SockType, recv, recvmsg, send, sendmsg,
    socketpair,
};

pub use nix::poll::PollFlags;

use super::{named, retry};

/// Makes a pair of connected Unix stream sockets, UNP's "stream pipe" (socketpair(2)).
pub fn stream_pair() -> io::Result<(OwnedFd, OwnedFd)> {
    named("socketpair", socketpair(AddressFamily::Unix, SockType::Stream, None, SockFlag::SOCK_CLOEXEC))
}

/// Passes a descriptor over a Unix socket with one byte of data (SCM_RIGHTS, unix(7)). The sender keeps its own copy.
pub fn pass_descriptor(channel: BorrowedFd<'_>, descriptor: BorrowedFd<'_>) -> io::Result<()> {
    let rights = [descriptor.as_raw_fd()];
    let message = [ControlMessage::ScmRights(&rights)];
    let data = [IoSlice::new(&[0])];
    retry(|| sendmsg::<()>(channel.as_raw_fd(), &data, &message, MsgFlags::MSG_NOSIGNAL, None).map_err(io::Error::from))
        .map(drop)
}

/// Waits for a descriptor passed over a Unix socket; `None` at the end of file.
pub fn receive_descriptor(channel: BorrowedFd<'_>) -> io::Result<Option<OwnedFd>> {
    let mut byte = [0];
    let mut space = nix::cmsg_space!([libc::c_int; 1]);
    let received = despite_shortage(|| {
        let mut data = [IoSliceMut::new(&mut byte)];
        let message = recvmsg::<()>(channel.as_raw_fd(), &mut data, Some(&mut space), MsgFlags::MSG_CMSG_CLOEXEC)?;
        if message.bytes == 0 {
            return Ok(None);
        }
        // If the receiver has no descriptor left, the kernel passes the byte alone (MSG_CTRUNC), which is an error of cmsgs.
        let mut controls = message.cmsgs().into_iter().flatten();
        let passed = controls.find_map(|control| match control {
            ControlMessageOwned::ScmRights(descriptors) => descriptors.first().copied(),
            _ => None,
        });
        passed.map(Some).ok_or_else(|| io::Error::from_raw_os_error(libc::EMFILE))
    });
    let descriptor = match received {
        // The sender has ended before it has taken all that was sent to it.
        Err(error) if error.kind() == io::ErrorKind::ConnectionReset => return Ok(None),
        received => named("recvmsg", received)?,
    };
    // SAFETY: the kernel has just made this descriptor for us.
    Ok(descriptor.map(|descriptor| unsafe { OwnedFd::from_raw_fd(descriptor) }))
}

/// Time for which calls of a channel are repeated for lack of memory, since the other end waits for what they bring, and the wait
/// between two attempts.
const SHORTAGE: (Duration, Duration) = (Duration::from_secs(1), Duration::from_millis(1));

/// Repeats a call while there is no memory for it, and after signals.
fn despite_shortage<T>(mut call: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    let began = Instant::now();
    loop {
        match retry(&mut call) {
            Err(error)
                if matches!(error.raw_os_error(), Some(libc::ENOBUFS | libc::ENOMEM))
                    && began.elapsed() < SHORTAGE.0 =>
            {
                std::thread::sleep(SHORTAGE.1);
            }
            result => return result,
        }
    }
}

/// Sends one byte, without SIGPIPE.
pub fn send_byte(channel: BorrowedFd<'_>) -> io::Result<()> {
    let send = || send(channel.as_raw_fd(), &[0], MsgFlags::MSG_NOSIGNAL).map_err(io::Error::from);
    named("send", despite_shortage(send)).map(drop)
}

/// Receives one byte; `false` when the peer has closed or ended.
pub fn receive_byte(channel: BorrowedFd<'_>) -> io::Result<bool> {
    match despite_shortage(|| recv(channel.as_raw_fd(), &mut [0], MsgFlags::empty()).map_err(io::Error::from)) {
        // The peer has ended before it has taken all that was sent to it.
        Err(error) if error.kind() == io::ErrorKind::ConnectionReset => Ok(false),
        received => named("recv", received).map(|bytes| bytes == 1),
    }
}

/// Waits until one of the descriptors is ready or the time is over. Returns for each what it is ready for (poll(2)).
pub fn poll(descriptors: &[(BorrowedFd<'_>, PollFlags)], timeout: Option<Duration>) -> io::Result<Vec<PollFlags>> {
    let mut entries: Vec<PollFd> =
        descriptors.iter().map(|&(descriptor, flags)| PollFd::new(descriptor, flags)).collect();
    // Rounded up, so that a caller with a deadline does not busy-poll through its last millisecond.
    let timeout = timeout.map_or(PollTimeout::NONE, |time| {
        PollTimeout::try_from(time.as_micros().div_ceil(1000)).unwrap_or(PollTimeout::MAX)
    });
    named("poll", retry(|| nix::poll::poll(&mut entries, timeout).map_err(io::Error::from)))?;
    Ok(entries.iter().map(|entry| entry.revents().unwrap_or(PollFlags::empty())).collect())
}

/// Makes calls on a descriptor, and on all copies of it, return EAGAIN instead of waiting (O_NONBLOCK, fcntl(2)).
pub fn set_nonblocking(descriptor: BorrowedFd<'_>) -> io::Result<()> {
    use nix::fcntl::{FcntlArg, OFlag, fcntl};
    let flags = OFlag::from_bits_retain(named("fcntl", fcntl(descriptor, FcntlArg::F_GETFL))?);
    named("fcntl", fcntl(descriptor, FcntlArg::F_SETFL(flags | OFlag::O_NONBLOCK))).map(drop)
}

/// Gives this thread a separate descriptor table with the standard descriptors only. A test that counts its descriptors is
/// then not disturbed by other threads, and holds none of theirs open.
#[cfg(test)]
pub fn leave_descriptors_to_others() {
    // SAFETY: descriptors are closed in the new table only, and this thread uses none of the old table.
    let status = unsafe { libc::close_range(3, libc::c_uint::MAX, libc::CLOSE_RANGE_UNSHARE as libc::c_int) };
    assert_eq!(status, 0, "{}", io::Error::last_os_error());
}

/// Closes the copy of a descriptor that a forked child inherited and that its parent's code still owns.
///
/// Only for code under [`super::process::fork`], which leaves by `_exit`: the owner is never dropped in the child, so
/// nothing is closed twice.
pub fn close_inherited(descriptor: &impl AsFd) {
    // SAFETY: see above; the number is not used again in this process.
    unsafe { libc::close(descriptor.as_fd().as_raw_fd()) };
}

/// Makes a pipe (pipe2(2)): the reading end, then the writing end.
pub fn pipe() -> io::Result<(OwnedFd, OwnedFd)> {
    named("pipe2", nix::unistd::pipe2(nix::fcntl::OFlag::O_CLOEXEC))
}

/// Makes a program that this process becomes inherit a descriptor (FD_CLOEXEC, fcntl(2)).
pub fn keep_over_exec(descriptor: &impl AsFd) -> io::Result<()> {
    let kept = nix::fcntl::FcntlArg::F_SETFD(nix::fcntl::FdFlag::empty());
    named("fcntl", nix::fcntl::fcntl(descriptor.as_fd(), kept)).map(drop)
}

/// Makes a file in memory. Its name only shows in /proc (memfd_create(2)).
pub fn memory_file(name: &CStr) -> io::Result<OwnedFd> {
    named("memfd_create", nix::sys::memfd::memfd_create(name, nix::sys::memfd::MFdFlags::MFD_CLOEXEC))
}

/// Writes from several places (writev(2)); possibly fewer bytes than given.
pub fn writev(descriptor: BorrowedFd<'_>, pieces: &[IoSlice<'_>]) -> io::Result<usize> {
    Ok(nix::sys::uio::writev(descriptor, pieces)?)
}

/// Reads into several places (readv(2)); 0 at the end of file.
pub fn readv(descriptor: BorrowedFd<'_>, places: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
    Ok(nix::sys::uio::readv(descriptor, places)?)
}

/// Reads; 0 at the end of file.
pub fn read(descriptor: BorrowedFd<'_>, buffer: &mut [u8]) -> io::Result<usize> {
    named("read", retry(|| nix::unistd::read(descriptor, buffer).map_err(io::Error::from)))
}

/// Writes.
pub fn write(descriptor: BorrowedFd<'_>, bytes: &[u8]) -> io::Result<usize> {
    match retry(|| nix::unistd::write(descriptor, bytes).map_err(io::Error::from)) {
        // A full socket is usual, and its error gets no name, which takes memory.
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Err(error),
        written => named("write", written),
    }
}

/// Returns whether a listener has been shut down (POLLHUP, poll(2)).
pub fn is_shut_down(listener: BorrowedFd<'_>) -> io::Result<bool> {
    let ready = poll(&[(listener, PollFlags::empty())], Some(Duration::ZERO))?;
    Ok(ready[0].contains(PollFlags::POLLHUP))
}

/// A descriptor that is readable after a notification from any thread or process that shares it (eventfd(2)).
pub struct EventDescriptor {
    descriptor: EventFd,
}

impl EventDescriptor {
    /// Opens the descriptor in non-blocking mode.
    pub fn new() -> io::Result<Self> {
        let descriptor = named("eventfd", EventFd::from_flags(EfdFlags::EFD_CLOEXEC | EfdFlags::EFD_NONBLOCK))?;
        Ok(EventDescriptor { descriptor })
    }

    /// Makes it readable.
    pub fn notify(&self) {
        // This fails only after 2^64 notifications without a read, and then it is readable.
        let _ = retry(|| self.descriptor.write(1).map_err(io::Error::from));
    }

    /// Reads it, so that it is not readable until it is notified again.
    pub fn clear(&self) {
        // This fails only without a notification, and then there is nothing to read.
        let _ = retry(|| self.descriptor.read().map_err(io::Error::from));
    }
}

impl AsFd for EventDescriptor {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_without_memory_is_made_again_until_there_is_some() {
        let mut errors = vec![libc::EINTR, libc::ENOMEM, libc::ENOBUFS];
        let made = despite_shortage(|| errors.pop().map_or(Ok(7), |number| Err(io::Error::from_raw_os_error(number))));
        assert_eq!(made.unwrap(), 7);
        let began = Instant::now();
        let never = despite_shortage(|| Err::<(), _>(io::Error::from_raw_os_error(libc::ENOMEM)));
        assert_eq!(never.unwrap_err().raw_os_error(), Some(libc::ENOMEM));
        assert!(began.elapsed() >= SHORTAGE.0);
    }

    #[test]
    fn the_end_of_a_channel_is_no_error() {
        let (near, far) = stream_pair().unwrap();
        send_byte(far.as_fd()).unwrap();
        assert!(receive_byte(near.as_fd()).unwrap());
        // What the other end has not taken is lost with it, of which the kernel says so.
        send_byte(near.as_fd()).unwrap();
        drop(far);
        assert!(!receive_byte(near.as_fd()).unwrap());
        assert!(receive_descriptor(near.as_fd()).unwrap().is_none());
    }
}
