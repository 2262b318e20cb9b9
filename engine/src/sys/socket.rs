//! Sockets: the calls that designs and primitives are made of, under their own names.

use std::ffi::OsString;
use std::io::{self, IoSlice};
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use nix::sys::socket::setsockopt;
use nix::sys::socket::sockopt::TcpCongestion;

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

/// Puts the cork in or takes it out: in, only full segments are sent, for 200 ms at most (TCP_CORK, tcp(7)).
pub fn cork(socket: BorrowedFd<'_>, corked: bool) -> io::Result<()> {
    socket2::SockRef::from(&socket).set_tcp_cork(corked)
}

/// Shuts a listener down, so that every accept, select, poll and epoll of every process wakes, and accept returns EINVAL.
/// One that has been shut down before (ENOTCONN) is no error.
pub fn shutdown(socket: BorrowedFd<'_>) -> io::Result<()> {
    // SAFETY: the call takes two numbers.
    match check(unsafe { libc::shutdown(socket.as_raw_fd(), libc::SHUT_RDWR) }) {
        Err(error) if error.raw_os_error() != Some(libc::ENOTCONN) => Err(error),
        _ => Ok(()),
    }
}

/// Tells the peer that no more will be sent, behind all that was (SHUT_WR, shutdown(2)); what it sends can still come.
pub fn shutdown_sending(socket: BorrowedFd<'_>) -> io::Result<()> {
    // SAFETY: the call takes two numbers.
    check(unsafe { libc::shutdown(socket.as_raw_fd(), libc::SHUT_WR) }).map(drop)
}

/// Has the kernel give a connection to the listener whose place in the group is the place among `cpus` of the CPU on which the
/// connection's first segment was handled; to any, by a hash, where that CPU is none of them (SO_ATTACH_REUSEPORT_CBPF,
/// socket(7)). Places are in the order of listen(2); the last listener takes the place of one that leaves the group, and this is
/// to be said anew.
pub fn steer_by_cpu(listener: BorrowedFd<'_>, cpus: &[usize]) -> io::Result<()> {
    let instruction = |code: u32, k: u32| libc::sock_filter { code: code as u16, jt: 0, jf: 0, k };
    let give = |place: usize| instruction(libc::BPF_RET | libc::BPF_K, place as u32);
    let mut program =
        vec![instruction(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, (libc::SKF_AD_OFF + libc::SKF_AD_CPU) as u32)];
    for (place, &cpu) in cpus.iter().enumerate() {
        // Another CPU: one instruction is left out.
        let is_it = instruction(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, cpu as u32);
        program.extend([libc::sock_filter { jf: 1, ..is_it }, give(place)]);
    }
    // There is no listener of this place: the kernel takes its hash.
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

/// Connections that wait in a listener's queue, and the queue's limit as the kernel took it (TCP_INFO; tcp(7)).
pub fn listen_queue(listener: BorrowedFd<'_>) -> io::Result<(u32, u32)> {
    let information = tcp_information(listener)?;
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
    Ok(until_zero(&name))
}

/// Has a socket use a congestion control, and connections that it accepts (TCP_CONGESTION): EPERM where an ordinary user may
/// not, ENOENT where the kernel has none of this name.
pub fn set_congestion_control(socket: BorrowedFd<'_>, name: &str) -> io::Result<()> {
    Ok(setsockopt(&socket, TcpCongestion, &OsString::from(name))?)
}

/// The largest segment that a connection sends, in bytes (TCP_INFO, tcpi_snd_mss).
pub fn segment_bytes(connection: BorrowedFd<'_>) -> io::Result<u32> {
    Ok(tcp_information(connection)?.tcpi_snd_mss)
}

/// In which state a connection is (TCP_INFO, tcpi_state).
pub fn tcp_state(connection: BorrowedFd<'_>) -> io::Result<u8> {
    Ok(tcp_information(connection)?.tcpi_state)
}

/// The states of one of which this end alone has said that no more comes: the peer has not taken note, or has.
pub const TCP_FIN_WAIT1: u8 = 4;
/// See [`TCP_FIN_WAIT1`].
pub const TCP_FIN_WAIT2: u8 = 5;
/// The state of a connection that is over (`enum` of netinet/tcp.h).
pub const TCP_CLOSE: u8 = 7;
/// That of one whose peer has said that no more comes.
pub const TCP_CLOSE_WAIT: u8 = 8;

/// The text before the first zero byte.
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
    check(unsafe { libc::getsockopt(socket.as_raw_fd(), level, option, std::ptr::from_mut(value).cast(), &mut length) })
        .map(drop)
}
