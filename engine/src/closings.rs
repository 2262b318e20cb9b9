//! Who ends connections first, and so who keeps what is left of them in TIME_WAIT for a minute (RFC 9293, section 3.6; tcp(7)):
//! as the kernel tells of some connections of a load, just before it says at its own end that no more comes.

use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use rustix::io::ioctl_fionread;
use schemars::JsonSchema;
use serde::Serialize;
use socket2::SockRef;

use crate::sys::socket;

/// Of each worker's connections so many are looked at from the first on, and then each whose number can be divided by [`EVERY`]:
/// three system calls of a connection that takes some dozens.
const FIRST: u64 = 16;
const EVERY: u64 = 64;

/// How connections of one worker of a load ended.
#[derive(Default)]
pub struct Closings {
    /// All of them.
    ended: AtomicU64,
    closed_by_load: AtomicU64,
    closed_by_server: AtomicU64,
    reset_by_load: AtomicU64,
    reset_by_server: AtomicU64,
}

/// How connections ended that the load looked at before it ended them: of each of its workers the first 16, and every 64th.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Closed {
    /// The load said first that no more comes (FIN), and keeps what is left in TIME_WAIT.
    pub closed_by_load: u64,
    /// The server did, and keeps it.
    pub closed_by_server: u64,
    /// The load reset it (RST): nothing is left. It had not read all that came, or was told to (`--closing reset`).
    pub reset_by_load: u64,
    /// The server did.
    pub reset_by_server: u64,
    /// Who keeps ended connections in TIME_WAIT: nobody, where all were reset.
    pub time_wait: Vec<&'static str>,
}

impl Closings {
    /// The load is about to end a connection. Nothing is noted of one that is not of TCP.
    pub fn note(&self, connection: BorrowedFd<'_>) {
        let before = self.ended.fetch_add(1, Relaxed);
        if before >= FIRST && !before.is_multiple_of(EVERY) {
            return;
        }
        let Ok(state) = socket::tcp_state(connection) else { return };
        let lingers = SockRef::from(&connection).linger();
        // Whoever closes with something unread tells the peer that it was lost (RFC 2525, section 2.17).
        let resets =
            matches!(lingers, Ok(Some(Duration::ZERO))) || ioctl_fionread(connection).is_ok_and(|bytes| bytes > 0);
        let count = match state {
            socket::TCP_CLOSE => &self.reset_by_server,
            _ if resets => &self.reset_by_load,
            socket::TCP_CLOSE_WAIT => &self.closed_by_server,
            _ => &self.closed_by_load,
        };
        count.fetch_add(1, Relaxed);
    }
}

impl Closed {
    /// Of all workers; `None` where none was looked at.
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
        (sums.looked_at() > 0).then_some(sums)
    }

    fn looked_at(&self) -> u64 {
        self.closed_by_load + self.closed_by_server + self.reset_by_load + self.reset_by_server
    }

    /// For a person, in one line without its end.
    pub fn in_words(&self) -> String {
        let counted = [
            (self.closed_by_load, "closed by the load first"),
            (self.closed_by_server, "closed by the server first"),
            (self.reset_by_load, "reset by the load"),
            (self.reset_by_server, "reset by the server"),
        ];
        let told: Vec<String> =
            counted.iter().filter(|(count, _)| *count > 0).map(|(count, how)| format!("{count} {how}")).collect();
        let kept = match self.time_wait[..] {
            [] => "nobody".to_owned(),
            _ => format!("the {}", self.time_wait.join(" and the ")),
        };
        format!("connections that were looked at as they ended: {}; in TIME_WAIT at {kept}", told.join(", "))
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

    /// What is told of one connection, after its server has done this and the kernel has brought it to the load.
    fn after(does: impl FnOnce(TcpStream) -> Option<TcpStream>) -> Closed {
        let (load, server) = pair();
        let _server = does(server);
        // It has come: an end, a byte, or that the connection was reset.
        let _ = load.peek(&mut [0]);
        told(&load)
    }

    fn told(load: &TcpStream) -> Closed {
        let closings = Closings::default();
        closings.note(load.as_fd());
        Closed::of([&closings].into_iter()).unwrap()
    }

    #[test]
    fn who_ends_a_connection_first_keeps_it_in_time_wait_and_nobody_does_after_a_reset() {
        let (load, _server) = pair();
        assert_eq!(told(&load), Closed { closed_by_load: 1, time_wait: vec!["load"], ..Closed::default() });
        let by_server = after(|server| {
            server.shutdown(Shutdown::Write).unwrap();
            Some(server)
        });
        assert_eq!(by_server, Closed { closed_by_server: 1, time_wait: vec!["server"], ..Closed::default() });
        let reset = Closed { reset_by_load: 1, ..Closed::default() };
        SockRef::from(&load).set_linger(Some(Duration::ZERO)).unwrap();
        assert_eq!(told(&load), reset);
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
        assert!(words.ends_with("1 reset by the server; in TIME_WAIT at nobody"), "{words}");
    }

    #[test]
    fn both_may_keep_some_and_few_of_many_are_looked_at() {
        let (load, server) = pair();
        let closings = [Closings::default(), Closings::default()];
        (0..200).for_each(|_| closings[0].note(load.as_fd()));
        server.shutdown(Shutdown::Write).unwrap();
        assert_eq!(load.peek(&mut [0]).unwrap(), 0);
        closings[1].note(load.as_fd());
        let closed = Closed::of(closings.iter()).unwrap();
        // The first 16, and those with 64, 128 and 192 before them.
        assert_eq!((closed.closed_by_load, closed.closed_by_server), (19, 1));
        assert!(closed.in_words().ends_with("in TIME_WAIT at the load and the server"), "{}", closed.in_words());
    }

    #[test]
    fn of_a_unix_socket_nothing_is_told() {
        let closings = Closings::default();
        closings.note(UnixStream::pair().unwrap().0.as_fd());
        assert_eq!(Closed::of([&closings].into_iter()), None);
    }
}
