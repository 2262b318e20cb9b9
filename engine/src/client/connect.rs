//! Connecting a client of a load: in a blocking call, or concurrently with others.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use socket2::{Socket, Type};

use crate::client::exchange::Failure;
use crate::net::address::Address;
use crate::net::target::Target;
use crate::sys::named;

fn connecting(address: &Address) -> String {
    format!("connecting to {address}")
}

/// Connects to the first address that answers, for the client with this number, counted from 1. Every later call on the
/// socket fails after the target's patience without progress.
pub fn connect(target: &Target, client: usize) -> Result<OwnedFd, Failure> {
    let mut failure = None;
    for index in target.places(0) {
        match connect_to(index, target, client) {
            Ok(socket) => {
                target.chosen.answers(index);
                return Ok(socket.into());
            }
            Err(error) => {
                target.chosen.fails(index, &error);
                failure = Some(Failure::system(&connecting(&target.addresses[index]), &error));
            }
        }
    }
    Err(failure.expect("a target has at least one address"))
}

fn connect_to(index: usize, target: &Target, client: usize) -> io::Result<Socket> {
    let socket = open(index, Type::STREAM, target, client)?;
    named("setsockopt, SO_RCVTIMEO", socket.set_read_timeout(Some(target.patience)))?;
    named("setsockopt, SO_SNDTIMEO", socket.set_write_timeout(Some(target.patience)))?;
    socket.connect(&target.addresses[index].for_the_kernel()?)?;
    Ok(socket)
}

fn open(index: usize, kind: Type, target: &Target, client: usize) -> io::Result<Socket> {
    let socket = named("socket", Socket::new(target.addresses[index].domain(), kind, None))?;
    if let Some(options) = &target.tcp {
        named("setsockopt", options.apply(&socket))?;
    }
    named("bind", target.sources.bind(&socket, index, client))?;
    Ok(socket)
}

/// A non-blocking connection attempt (connect(2), EINPROGRESS).
pub struct Attempt<'run> {
    socket: Socket,
    target: &'run Target,
    /// The address that is being tried.
    index: usize,
    /// Number of the client.
    client: usize,
    /// The queue of a Unix listener was full: the attempt has failed, and nothing reports when to try again (EAGAIN).
    found_no_room: bool,
}

/// Result of an [`Attempt`].
pub enum Attempted<'run> {
    /// Connected; the socket is non-blocking.
    Connected(OwnedFd),
    /// This address did not answer; the next one is being tried, with another socket.
    Again(Attempt<'run>),
}

impl<'run> Attempt<'run> {
    /// Starts to connect to the first address that can be tried, for the client with this number, counted from 1.
    pub fn begin(target: &'run Target, client: usize) -> Result<Self, Failure> {
        Self::begin_from(target, client, 0)
    }

    fn begin_from(target: &'run Target, client: usize, first: usize) -> Result<Self, Failure> {
        let mut failure = None;
        for index in target.places(first) {
            match Self::begin_with(index, target, client) {
                Ok((socket, found_no_room)) => return Ok(Attempt { socket, target, index, client, found_no_room }),
                Err(error) => {
                    target.chosen.fails(index, &error);
                    failure = Some(Failure::system(&connecting(&target.addresses[index]), &error));
                }
            }
        }
        Err(failure.expect("a target has at least one address"))
    }

    fn begin_with(index: usize, target: &Target, client: usize) -> io::Result<(Socket, bool)> {
        let address = &target.addresses[index];
        let socket = open(index, Type::STREAM.nonblocking(), target, client)?;
        match socket.connect(&address.for_the_kernel()?) {
            Err(error) => match (error.raw_os_error(), address) {
                (Some(libc::EINPROGRESS), _) => Ok((socket, false)),
                (Some(libc::EAGAIN), Address::Unix(_) | Address::UnixPath(_)) => Ok((socket, true)),
                _ => Err(error),
            },
            Ok(()) => Ok((socket, false)),
        }
    }

    /// Returns whether the attempt failed because a Unix listener's queue was full: retry a little later, or give up.
    pub fn found_no_room(&self) -> bool {
        self.found_no_room
    }

    /// The socket, for waiting until it is writable.
    pub fn socket(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    /// To be called when the socket has become writable.
    pub fn finish(self) -> Result<Attempted<'run>, Failure> {
        match self.socket.take_error() {
            Ok(None) => {
                self.target.chosen.answers(self.index);
                Ok(Attempted::Connected(self.socket.into()))
            }
            Ok(Some(error)) | Err(error) => {
                self.target.chosen.fails(self.index, &error);
                self.next(Failure::system(&self.connecting(), &error))
            }
        }
    }

    /// To be called when the attempt has taken too long.
    pub fn give_up(self) -> Result<Attempted<'run>, Failure> {
        self.target.chosen.fails(self.index, &io::Error::from_raw_os_error(libc::ETIMEDOUT));
        self.next(self.timed_out())
    }

    /// Fails the attempt for taking too long, without trying another address.
    pub fn timed_out(&self) -> Failure {
        Failure::timed_out(&self.connecting())
    }

    fn connecting(&self) -> String {
        connecting(&self.target.addresses[self.index])
    }

    fn next(&self, failure: Failure) -> Result<Attempted<'run>, Failure> {
        let next = self.index + 1;
        if next >= self.target.addresses.len() || self.target.chosen.place() == Some(self.index) {
            return Err(failure);
        }
        Attempt::begin_from(self.target, self.client, next).map(Attempted::Again)
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;
    use std::time::Duration;

    use super::*;
    use crate::net::source_addresses::Sources;
    use crate::net::target::Chosen;
    use crate::sys::descriptor::{PollFlags, poll};

    /// Two addresses: nobody listens at the first.
    fn target(of: &TcpListener) -> (Target, std::net::SocketAddr) {
        let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let addresses = vec![Address::Tcp(free), Address::Tcp(of.local_addr().unwrap())];
        let chosen = Chosen::none(addresses.len()).unwrap();
        (Target { addresses, chosen, tcp: None, sources: Sources::default(), patience: Duration::from_secs(10) }, free)
    }

    fn attempted(target: &Target) -> OwnedFd {
        let mut attempt = Attempt::begin(target, 1).unwrap();
        loop {
            poll(&[(attempt.socket(), PollFlags::POLLOUT)], None).unwrap();
            match attempt.finish().unwrap() {
                Attempted::Connected(socket) => return socket,
                Attempted::Again(next) => attempt = next,
            }
        }
    }

    #[test]
    fn the_address_that_answers_is_found_once_and_kept() {
        let ways: [fn(&Target) -> OwnedFd; 2] = [|target| connect(target, 1).unwrap(), attempted];
        for connected in ways {
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            let (target, refusing) = target(&listener);
            assert_eq!(target.chosen.place(), None);
            connected(&target);
            assert_eq!(target.chosen.place(), Some(1));
            let failures: Vec<_> = target.chosen.failures().map(|(place, error)| (place, error.kind())).collect();
            assert_eq!(failures, [(0, io::ErrorKind::ConnectionRefused)]);
            // From now on the first one would answer.
            let other = TcpListener::bind(refusing).unwrap();
            other.set_nonblocking(true).unwrap();
            connected(&target);
            assert_eq!(other.accept().unwrap_err().kind(), io::ErrorKind::WouldBlock);
        }
    }
}
