//! Socket calls for designs and primitives, under their own names.

use std::ffi::OsString;
use std::io::{self, IoSlice};
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use nix::sys::socket::setsockopt;
use nix::sys::socket::sockopt::TcpCongestion;

use super::{check, check_size, named};

/// Accepts a connection. exec does not inherit the new descriptor (accept4(2)).
pub fn accept(listener: BorrowedFd<'_>, flags: libc::c_int) -> io::Result<OwnedFd> {
    // SAFETY: without an address to fill in, the call writes nothing.
    let descriptor = check(unsafe {
        libc::accept4(listener.as_raw_fd(), std::ptr::null_mut(), std::ptr::null_mut(), flags | libc::SOCK_CLOEXEC)
    })?;
    // SAFETY: the kernel has just made this descriptor for us.
    Ok(unsafe { OwnedFd::from_raw_fd(descriptor) })
}

/// Fails if accept4(2) does not exist, as in a sandbox that hides it: a server would try again for ever.
pub fn accept_exists() -> io::Result<()> {
    // SAFETY: without a listener, the call fails before it does anything.
    let tried = check(unsafe { libc::accept4(-1, std::ptr::null_mut(), std::ptr::null_mut(), 0) });
    tried.map(drop).or_else(|error| if error.raw_os_error() == Some(libc::ENOSYS) { Err(error) } else { Ok(()) })
}

/// Receives into the buffer; 0 if the peer will send no more (recv(2)).
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

/// Sends from several places in one call (sendmsg(2)), without SIGPIPE.
pub fn sendmsg(socket: BorrowedFd<'_>, pieces: &[IoSlice<'_>], flags: libc::c_int) -> io::Result<usize> {
    // SAFETY: all zeroes are a message without address and control data.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    // An IoSlice has the layout of an iovec (std::io::IoSlice); the kernel reads it and what it points to.
    message.msg_iov = pieces.as_ptr().cast_mut().cast();
    message.msg_iovlen = pieces.len() as _;
    // SAFETY: the message's parts live until the call returns, and the kernel only reads them.
    check_size(unsafe { libc::sendmsg(socket.as_raw_fd(), &message, flags | libc::MSG_NOSIGNAL) })
}

/// Corks or uncorks a socket. While corked, it sends only full segments, for at most 200 ms (TCP_CORK, tcp(7)).
pub fn cork(socket: BorrowedFd<'_>, corked: bool) -> io::Result<()> {
    socket2::SockRef::from(&socket).set_tcp_cork(corked)
}

/// Shuts a listener down. Every accept, select, poll and epoll of every process wakes, and accept returns EINVAL. A second
/// shutdown (ENOTCONN) is no error.
pub fn shutdown(socket: BorrowedFd<'_>) -> io::Result<()> {
    // SAFETY: the call takes two numbers.
    match check(unsafe { libc::shutdown(socket.as_raw_fd(), libc::SHUT_RDWR) }) {
        Err(error) if error.raw_os_error() != Some(libc::ENOTCONN) => Err(error),
        _ => Ok(()),
    }
}

/// Tells the peer that no more will be sent after the bytes so far (SHUT_WR, shutdown(2)). Receiving still works.
pub fn shutdown_sending(socket: BorrowedFd<'_>) -> io::Result<()> {
    // SAFETY: the call takes two numbers.
    check(unsafe { libc::shutdown(socket.as_raw_fd(), libc::SHUT_WR) }).map(drop)
}

/// Makes the kernel choose a connection's listener by CPU (SO_ATTACH_REUSEPORT_CBPF, socket(7)): the listener at position i
/// of the group gets connections whose first segment was handled on `cpus[i]`. For other CPUs, the kernel chooses by its
/// hash. Positions follow the order of listen(2). When a listener leaves the group, the last one takes its position, so call
/// this again.
pub fn steer_by_cpu(listener: BorrowedFd<'_>, cpus: &[usize]) -> io::Result<()> {
    let instruction = |code: u32, k: u32| libc::sock_filter { code: code as u16, jt: 0, jf: 0, k };
    let give = |place: usize| instruction(libc::BPF_RET | libc::BPF_K, place as u32);
    let mut program =
        vec![instruction(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, (libc::SKF_AD_OFF + libc::SKF_AD_CPU) as u32)];
    for (place, &cpu) in cpus.iter().enumerate() {
        // Another CPU: skip one instruction.
        let is_it = instruction(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, cpu as u32);
        program.extend([libc::sock_filter { jf: 1, ..is_it }, give(place)]);
    }
    // No listener has this position, so the kernel uses its hash.
    program.push(give(cpus.len()));
    let program = libc::sock_fprog { len: program.len() as u16, filter: program.as_mut_ptr() };
    // SAFETY: the kernel reads the program, which lives through the call.
    check(unsafe {
        libc::setsockopt(
            listener.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_ATTACH_REUSEPORT_CBPF,
            std::ptr::from_ref(&program).cast(),
            size_of::<libc::sock_fprog>() as libc::socklen_t,
        )
    })
    .map(drop)
}

/// Returns the connections that wait in a listener's queue, and the effective limit of the queue (TCP_INFO; tcp(7)).
pub fn listen_queue(listener: BorrowedFd<'_>) -> io::Result<(u32, u32)> {
    let information = tcp_information(listener)?;
    Ok((information.tcpi_unacked, information.tcpi_sacked))
}

/// Returns the connections that this listener dropped, for instance because its queue was full (SO_MEMINFO,
/// SK_MEMINFO_DROPS).
pub fn listen_drops(listener: BorrowedFd<'_>) -> io::Result<u32> {
    const DROPS: usize = 8;
    let mut values = [0u32; DROPS + 1];
    read_option(listener, libc::SOL_SOCKET, libc::SO_MEMINFO, &mut values)?;
    Ok(values[DROPS])
}

/// Returns the congestion control of a socket, for instance `cubic` (TCP_CONGESTION).
pub fn congestion_control(socket: BorrowedFd<'_>) -> io::Result<String> {
    let mut name = [0u8; 16];
    read_option(socket, libc::IPPROTO_TCP, libc::TCP_CONGESTION, &mut name)?;
    Ok(until_zero(&name))
}

/// Sets the congestion control of a socket and of connections that it accepts (TCP_CONGESTION). Fails with EPERM if an
/// ordinary user may not use it, ENOENT if the kernel has none of this name.
pub fn set_congestion_control(socket: BorrowedFd<'_>, name: &str) -> io::Result<()> {
    Ok(setsockopt(&socket, TcpCongestion, &OsString::from(name))?)
}

/// Returns the size of the largest segment that a connection sends, in bytes (TCP_INFO, tcpi_snd_mss).
pub fn segment_bytes(connection: BorrowedFd<'_>) -> io::Result<u32> {
    Ok(tcp_information(connection)?.tcpi_snd_mss)
}

/// Returns the state of a connection (TCP_INFO, tcpi_state).
pub fn tcp_state(connection: BorrowedFd<'_>) -> io::Result<u8> {
    Ok(tcp_information(connection)?.tcpi_state)
}

/// State after only this end has sent FIN, before the peer acknowledged it (`enum` of netinet/tcp.h).
pub const TCP_FIN_WAIT1: u8 = 4;
/// State after only this end has sent FIN, and the peer acknowledged it.
pub const TCP_FIN_WAIT2: u8 = 5;
/// State of a connection that is over.
pub const TCP_CLOSE: u8 = 7;
/// State after only the peer has sent FIN.
pub const TCP_CLOSE_WAIT: u8 = 8;

/// Returns the text before the first zero byte.
pub fn until_zero(bytes: &[u8]) -> String {
    let length = bytes.iter().position(|&byte| byte == 0).unwrap_or(bytes.len());
    String::from_utf8_lossy(&bytes[..length]).into_owned()
}

fn tcp_information(socket: BorrowedFd<'_>) -> io::Result<libc::tcp_info> {
    // SAFETY: zero bytes are a valid tcp_info.
    let mut information: libc::tcp_info = unsafe { std::mem::zeroed() };
    read_option(socket, libc::IPPROTO_TCP, libc::TCP_INFO, &mut information)?;
    Ok(information)
}

fn read_option<T: Copy>(
    socket: BorrowedFd<'_>,
    level: libc::c_int,
    option: libc::c_int,
    value: &mut T,
) -> io::Result<()> {
    let mut length = size_of::<T>() as libc::socklen_t;
    // SAFETY: the kernel writes at most `length` bytes into the value, whose every bit pattern is valid.
    let read =
        unsafe { libc::getsockopt(socket.as_raw_fd(), level, option, std::ptr::from_mut(value).cast(), &mut length) };
    named("getsockopt", check(read)).map(drop)
}
