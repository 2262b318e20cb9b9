//! One request and its reply on a blocking socket: the asking end of what [`crate::connection`] is to the serving end.

use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use socket2::{Domain, Socket, Type};

use crate::inbox::Inbox;
use crate::outbox::Outbox;
use crate::primitive::{Received, Sent, Transfer};
use crate::tally::{ErrorKind, Slot};
use crate::workload::{Answer, Conversation, Input};

/// A request that failed: the kind that is counted, and the words for the user.
pub struct Failure {
    /// What is counted.
    pub kind: ErrorKind,
    /// What is shown.
    pub message: String,
}

impl Failure {
    fn system(doing: &str, error: &std::io::Error) -> Self {
        match ErrorKind::of(error) {
            ErrorKind::TimedOut => Failure::timed_out(doing),
            kind => Failure { kind, message: format!("{doing}: {error}") },
        }
    }

    fn timed_out(doing: &str) -> Self {
        let message = format!("{doing}: no progress within the time allowed (--timeout-milliseconds)");
        Failure { kind: ErrorKind::TimedOut, message }
    }
}

/// Connects to the first address that answers. Every later call on the socket fails after `timeout` without progress.
pub fn connect(target: &[SocketAddr], timeout: Duration, nodelay: bool) -> Result<OwnedFd, Failure> {
    let mut failure = None;
    for address in target {
        match connect_to(address, timeout, nodelay) {
            Ok(socket) => return Ok(socket.into()),
            Err(error) => failure = Some(Failure::system(&format!("connecting to {address}"), &error)),
        }
    }
    Err(failure.expect("a target has at least one address"))
}

fn connect_to(address: &SocketAddr, timeout: Duration, nodelay: bool) -> std::io::Result<Socket> {
    let socket = Socket::new(Domain::for_address(*address), Type::STREAM, None)?;
    socket.set_read_timeout(Some(timeout))?;
    socket.set_write_timeout(Some(timeout))?;
    if nodelay {
        socket.set_tcp_nodelay(true)?;
    }
    socket.connect(&(*address).into())?;
    Ok(socket)
}

/// Asks once and takes the reply, counting in the slot.
pub fn exchange(
    socket: BorrowedFd<'_>,
    conversation: &mut dyn Conversation,
    transfer: &mut dyn Transfer,
    slot: &Slot,
) -> Result<(), Failure> {
    let (mut outbox, mut inbox) = (Outbox::default(), Inbox::default());
    let mut want = conversation.ask(&mut outbox);
    let asked = outbox.bytes();
    let sent = transfer.send(socket.as_fd(), &mut outbox);
    slot.send_calls.fetch_add(outbox.take_calls(), Relaxed);
    slot.bytes_sent.fetch_add(asked - outbox.bytes(), Relaxed);
    if sent.map_err(|error| Failure::system("sending a request", &error))? == Sent::Blocked {
        return Err(Failure::timed_out("sending a request"));
    }
    loop {
        let received = transfer.receive(socket.as_fd(), want, &mut inbox);
        let calls = inbox.take_calls();
        slot.receive_calls.fetch_add(calls, Relaxed);
        let (stored, not_stored, ended) =
            match received.map_err(|error| Failure::system("receiving a reply", &error))? {
                Received::Bytes(bytes) => (bytes, 0, false),
                Received::Discarded(bytes) | Received::Mapped(bytes) => (0, bytes, false),
                Received::End => (0, 0, true),
                Received::Blocked => {
                    return Err(Failure::timed_out("receiving a reply"));
                }
            };
        slot.bytes_received.fetch_add((stored + not_stored) as u64, Relaxed);
        let answer = conversation.receive(&mut Input::new(&mut inbox, calls, not_stored, ended));
        let kind = if ended { ErrorKind::Truncated } else { ErrorKind::WrongReply };
        match answer.map_err(|message| Failure { kind, message })? {
            Answer::Complete => {
                slot.requests.fetch_add(1, Relaxed);
                return Ok(());
            }
            Answer::Receive(more) => want = more,
        }
    }
}
