//! Sockets: the calls that designs and primitives are made of, under their own names.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use super::{check, check_size};

/// Accepts a connection; the new descriptor is not inherited by exec (accept4(2)).
pub fn accept(listener: BorrowedFd<'_>, flags: libc::c_int) -> io::Result<OwnedFd> {
    // SAFETY: without an address to fill in, the call writes nothing.
    let descriptor = check(unsafe {
        libc::accept4(listener.as_raw_fd(), std::ptr::null_mut(), std::ptr::null_mut(), flags | libc::SOCK_CLOEXEC)
    })?;
    // SAFETY: the kernel has just made this descriptor for us.
    Ok(unsafe { OwnedFd::from_raw_fd(descriptor) })
}

/// Receives into the buffer; 0 when the peer will send no more (recv(2)).
pub fn recv(socket: BorrowedFd<'_>, buffer: &mut [u8], flags: libc::c_int) -> io::Result<usize> {
    // SAFETY: the kernel writes at most the buffer's length into it.
    check_size(unsafe { libc::recv(socket.as_raw_fd(), buffer.as_mut_ptr().cast(), buffer.len(), flags) })
}

/// Sends from the buffer, without SIGPIPE (send(2)).
pub fn send(socket: BorrowedFd<'_>, buffer: &[u8], flags: libc::c_int) -> io::Result<usize> {
    // SAFETY: the kernel reads at most the buffer's length from it.
    check_size(unsafe {
        libc::send(socket.as_raw_fd(), buffer.as_ptr().cast(), buffer.len(), flags | libc::MSG_NOSIGNAL)
    })
}

/// Shuts a listener down, so that every accept, select, poll and epoll of every process wakes, and accept returns EINVAL.
pub fn shutdown(socket: BorrowedFd<'_>) -> io::Result<()> {
    // SAFETY: the call takes two numbers.
    check(unsafe { libc::shutdown(socket.as_raw_fd(), libc::SHUT_RDWR) }).map(drop)
}

/// Connections that wait in a listener's queue, and the queue's limit as the kernel took it (TCP_INFO; tcp(7)).
pub fn listen_queue(listener: BorrowedFd<'_>) -> io::Result<(u32, u32)> {
    // SAFETY: zero bytes are a valid tcp_info.
    let mut information: libc::tcp_info = unsafe { std::mem::zeroed() };
    read_option(listener, libc::IPPROTO_TCP, libc::TCP_INFO, &mut information)?;
    Ok((information.tcpi_unacked, information.tcpi_sacked))
}

/// Connections that this listener dropped, for instance because its queue was full (SO_MEMINFO, SK_MEMINFO_DROPS).
pub fn listen_drops(listener: BorrowedFd<'_>) -> io::Result<u32> {
    const DROPS: usize = 8;
    let mut values = [0u32; DROPS + 1];
    read_option(listener, libc::SOL_SOCKET, libc::SO_MEMINFO, &mut values)?;
    Ok(values[DROPS])
}

/// The congestion control of a socket, for instance `cubic` (TCP_CONGESTION).
pub fn congestion_control(socket: BorrowedFd<'_>) -> io::Result<String> {
    let mut name = [0u8; 16];
    read_option(socket, libc::IPPROTO_TCP, libc::TCP_CONGESTION, &mut name)?;
    let length = name.iter().position(|&byte| byte == 0).unwrap_or(name.len());
    Ok(String::from_utf8_lossy(&name[..length]).into_owned())
}

fn read_option<T: Copy>(
    socket: BorrowedFd<'_>,
    level: libc::c_int,
    option: libc::c_int,
    value: &mut T,
) -> io::Result<()> {
    let mut length = size_of::<T>() as libc::socklen_t;
    // SAFETY: the kernel writes at most `length` bytes into the value, whose every bit pattern is valid.
    check(unsafe { libc::getsockopt(socket.as_raw_fd(), level, option, std::ptr::from_mut(value).cast(), &mut length) })
        .map(drop)
}
