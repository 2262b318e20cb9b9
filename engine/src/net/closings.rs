//! Which end closes connections first and so keeps them in TIME_WAIT for a minute (RFC 9293, section 3.6; tcp(7)). The load
//! asks the kernel about a sample of its connections just before it shuts them down.

use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use rustix::io::ioctl_fionread;
use schemars::JsonSchema;
use serde::Serialize;
use socket2::SockRef;

use crate::sys::socket;

/// Number of connections that each worker examines first. Afterwards it examines those whose number is a multiple of [`EVERY`].
/// This takes three system calls, for a connection that takes some dozens.
const FIRST: u64 = 16;
const EVERY: u64 = 64;

/// Counts of how connections of one worker of a load ended.
#[derive(Default)]
pub struct Closings {
    /// Connections that ended.
    ended: AtomicU64,
    closed_by_load: AtomicU64,
    closed_by_server: AtomicU64,
    reset_by_load: AtomicU64,
    reset_by_server: AtomicU64,
}

/// Endings of connections of a load. Each worker examines its first 16 connections and every 64th.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Closed {
    /// Connections that the load closed first (FIN). They stay in TIME_WAIT at the load.
    pub closed_by_load: u64,
    /// Connections that the server closed first. They stay in TIME_WAIT at the server.
    pub closed_by_server: u64,
    /// Connections that the load reset (RST), which leaves no TIME_WAIT: unread bytes were left, or `--closing reset` was
    /// given.
    pub reset_by_load: u64,
    /// Connections that the server reset.
    pub reset_by_server: u64,
    /// Which ends keep connections in TIME_WAIT. Empty if all were reset.
    pub time_wait: Vec<&'static str>,
}

/// State of a connection when its load shut it down (shutdown(2)); empty if it was not examined.
#[derive(Debug, Clone, Copy)]
pub struct ShutDown(Option<End>);

/// Ending of a connection.
#[derive(Debug, Clone, Copy)]
enum End {
    ClosedByLoad,
    ClosedByServer,
    ResetByLoad,
    ResetByServer,
}

impl End {
    /// Examines a connection before its load shuts it down, unless the load resets it. `None` if it is not TCP.
    fn of(connection: BorrowedFd<'_>) -> Option<End> {
        Some(match socket::tcp_state(connection).ok()? {
            socket::TCP_CLOSE => End::ResetByServer,
            socket::TCP_CLOSE_WAIT => End::ClosedByServer,
            _ => End::ClosedByLoad,
        })
    }
}

impl Closings {
    /// Notes that the load is about to shut down a connection for sending. FIN is sent even if received bytes are unread.
    pub fn note_shutdown(&self, connection: BorrowedFd<'_>) -> ShutDown {
        ShutDown(if self.is_next_examined() { End::of(connection) } else { None })
    }

    /// Notes that the load is about to close a connection, possibly after a shutdown. Connections that are not TCP are ignored.
    pub fn note_close(&self, connection: BorrowedFd<'_>, shut_down: Option<ShutDown>) {
        let end = match shut_down {
            None if self.is_next_examined() => match End::of(connection) {
                Some(End::ClosedByLoad | End::ClosedByServer) if resets(connection) => Some(End::ResetByLoad),
                end => end,
            },
            None | Some(ShutDown(None)) => None,
            // The server has not closed it yet, so a reset ends it now and leaves no TIME_WAIT.
            Some(ShutDown(Some(_))) if awaits_the_server(connection) && resets(connection) => Some(End::ResetByLoad),
            Some(ShutDown(end)) => end,
        };
        let count = match end {
            None => return,
            Some(End::ClosedByLoad) => &self.closed_by_load,
            Some(End::ClosedByServer) => &self.closed_by_server,
            Some(End::ResetByLoad) => &self.reset_by_load,
            Some(End::ResetByServer) => &self.reset_by_server,
        };
        count.fetch_add(1, Relaxed);
    }

    /// Returns whether to examine the next connection that ends.
    fn is_next_examined(&self) -> bool {
        let before = self.ended.fetch_add(1, Relaxed);
        before < FIRST || before.is_multiple_of(EVERY)
    }
}

/// Returns whether close(2) sends RST. Unread bytes cause one, to tell the peer that they were lost (RFC 2525, section
/// 2.17).
fn resets(connection: BorrowedFd<'_>) -> bool {
    let lingers = SockRef::from(&connection).linger();
    matches!(lingers, Ok(Some(Duration::ZERO))) || ioctl_fionread(connection).is_ok_and(|bytes| bytes > 0)
}

fn awaits_the_server(connection: BorrowedFd<'_>) -> bool {
    matches!(socket::tcp_state(connection), Ok(socket::TCP_FIN_WAIT1 | socket::TCP_FIN_WAIT2))
}

impl Closed {
    /// Sums the counts of all workers; `None` if no connection was examined.
    pub fn of<'a>(workers: impl Iterator<Item = &'a Closings>) -> Option<Closed> {
        let mut sums = Closed::default();
        for worker in workers {
            sums.closed_by_load += worker.closed_by_load.load(Relaxed);
            sums.closed_by_server += worker.closed_by_server.load(Relaxed);
            sums.reset_by_load += worker.reset_by_load.load(Relaxed);
            sums.reset_by_server += worker.reset_by_server.load(Relaxed);
        }
        let kept = [(sums.closed_by_load, "load"), (sums.closed_by_server, "server")];
        sums.time_wait = kept.iter().filter(|(count, _)| *count > 0).map(|(_, who)| *who).collect();
        (sums.examined() > 0).then_some(sums)
    }

    fn examined(&self) -> u64 {
        self.closed_by_load + self.closed_by_server + self.reset_by_load + self.reset_by_server
    }

    /// Formats the endings for people: counts only if connections ended in several ways.
    pub fn in_words(&self) -> String {
        let counted = [
            (self.closed_by_load, "closed by the load first"),
            (self.closed_by_server, "closed by the server first"),
            (self.reset_by_load, "reset by the load"),
            (self.reset_by_server, "reset by the server"),
        ];
        let occurred: Vec<_> = counted.iter().filter(|(count, _)| *count > 0).collect();
        let how = match occurred[..] {
            [(_, how)] => (*how).to_owned(),
            _ => {
                let counts: Vec<String> = occurred.iter().map(|(count, how)| format!("{count} {how}")).collect();
                format!("of {} examined: {}", self.examined(), counts.join(", "))
            }
        };
        match self.time_wait[..] {
            [] => format!("{how}; none in TIME_WAIT"),
            _ => format!("{how}; in TIME_WAIT at the {}", self.time_wait.join(" and the ")),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::net::{Shutdown, TcpListener, TcpStream};
    use std::os::fd::AsFd;
    use std::os::unix::net::UnixStream;

    use super::*;

    fn pair() -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let load = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        (load, listener.accept().unwrap().0)
    }

    /// Returns the counts of one connection, after its server has done this and the load's kernel has noticed.
    fn after(does: impl FnOnce(TcpStream) -> Option<TcpStream>) -> Closed {
        let (load, server) = pair();
        let _server = does(server);
        // Waits for the result: an end, a byte, or a reset.
        let _ = load.peek(&mut [0]);
        noted(&load)
    }

    fn noted(load: &TcpStream) -> Closed {
        let closings = Closings::default();
        closings.note_close(load.as_fd(), None);
        Closed::of([&closings].into_iter()).unwrap()
    }

    #[test]
    fn the_end_that_closes_first_keeps_time_wait_and_a_reset_leaves_none() {
        let (load, _server) = pair();
        assert_eq!(noted(&load), Closed { closed_by_load: 1, time_wait: vec!["load"], ..Closed::default() });
        let by_server = after(|server| {
            server.shutdown(Shutdown::Write).unwrap();
            Some(server)
        });
        assert_eq!(by_server, Closed { closed_by_server: 1, time_wait: vec!["server"], ..Closed::default() });
        let reset = Closed { reset_by_load: 1, ..Closed::default() };
        SockRef::from(&load).set_linger(Some(Duration::ZERO)).unwrap();
        assert_eq!(noted(&load), reset);
        let unread = after(|mut server| {
            server.write_all(b"more").unwrap();
            Some(server)
        });
        assert_eq!(unread, reset);
        let by_server = after(|server| {
            SockRef::from(&server).set_linger(Some(Duration::ZERO)).unwrap();
            None
        });
        assert_eq!(by_server, Closed { reset_by_server: 1, ..Closed::default() });
        let words = by_server.in_words();
        assert!(words.ends_with("reset by the server; none in TIME_WAIT"), "{words}");
    }

    /// Returns the counts of a connection that was shut down and is reset when it closes, after its server has ended it or
    /// not.
    fn after_a_shutdown(server_ends: bool) -> Closed {
        let (load, server) = pair();
        SockRef::from(&load).set_linger(Some(Duration::ZERO)).unwrap();
        let closings = Closings::default();
        let shut_down = closings.note_shutdown(load.as_fd());
        load.shutdown(Shutdown::Write).unwrap();
        if server_ends {
            server.shutdown(Shutdown::Write).unwrap();
            assert_eq!(load.peek(&mut [0]).unwrap(), 0);
        }
        closings.note_close(load.as_fd(), Some(shut_down));
        Closed::of([&closings].into_iter()).unwrap()
    }

    #[test]
    fn a_shutdown_sends_fin_even_if_closing_would_reset() {
        let closed = Closed { closed_by_load: 1, time_wait: vec!["load"], ..Closed::default() };
        assert_eq!(after_a_shutdown(true), closed);
        assert_eq!(after_a_shutdown(false), Closed { reset_by_load: 1, ..Closed::default() });
    }

    #[test]
    fn both_may_keep_some_and_few_of_many_are_examined() {
        let (load, server) = pair();
        let closings = [Closings::default(), Closings::default()];
        (0..200).for_each(|_| closings[0].note_close(load.as_fd(), None));
        server.shutdown(Shutdown::Write).unwrap();
        assert_eq!(load.peek(&mut [0]).unwrap(), 0);
        closings[1].note_close(load.as_fd(), None);
        let closed = Closed::of(closings.iter()).unwrap();
        // The first 16, and those numbered 64, 128 and 192.
        assert_eq!((closed.closed_by_load, closed.closed_by_server), (19, 1));
        assert!(closed.in_words().ends_with("in TIME_WAIT at the load and the server"), "{}", closed.in_words());
    }

    #[test]
    fn of_a_unix_socket_nothing_is_noted() {
        let closings = Closings::default();
        let (stream, _other) = UnixStream::pair().unwrap();
        let shut_down = closings.note_shutdown(stream.as_fd());
        closings.note_close(stream.as_fd(), Some(shut_down));
        closings.note_close(stream.as_fd(), None);
        assert_eq!(Closed::of([&closings].into_iter()), None);
    }
}
