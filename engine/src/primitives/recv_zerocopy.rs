//! TCP_ZEROCOPY_RECEIVE: maps whole received pages into the program's memory without copying; recv(2) receives the
//! rest. The mapped share is reported: over loopback it may be zero.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use socket2::SockRef;

use crate::base::about::About;
use crate::base::feature::{Feature, RECV};
use crate::base::setting::Settings;
use crate::sys::descriptor::{self, PollFlags};
use crate::sys::memory::mapped::{self, Mapped, Mapping};
use crate::transfer::inbox::Inbox;
use crate::transfer::primitive::{Moves, Opener, Primitive, Received, Receiver, Want, receive_stored};

pub static ENTRY: Primitive = Primitive {
    stores: false,
    tcp_only: Some("TCP_ZEROCOPY_RECEIVE is a TCP option"),
    ..Primitive::moving(
        About {
            summary: "Maps whole pages without copying (TCP_ZEROCOPY_RECEIVE); recv for the rest",
            source: "linux/tcp.h; Linux, tools/testing/selftests/net/tcp_mmap.c",
        },
        &[&RECV, &MAPPED],
        Moves::In(prepare),
    )
};

/// Mapping received pages.
const MAPPED: Feature = Feature {
    name: "tcp.h, TCP_ZEROCOPY_RECEIVE",
    since: Some("4.18"),
    refusal: || mapped::refusal().map(|error| format!("TCP_ZEROCOPY_RECEIVE: {error}")),
};

/// Maximum size of one mapping.
const PAGES: usize = 256 * 1024;

fn prepare(_settings: &Settings) -> io::Result<Box<dyn Opener<dyn Receiver>>> {
    Ok(Box::new(Sockets))
}

struct Sockets;

impl Opener<dyn Receiver> for Sockets {
    fn open(&mut self, socket: BorrowedFd<'_>) -> io::Result<Box<dyn Receiver>> {
        let waits = !SockRef::from(&socket).nonblocking()?;
        let timeout = SockRef::from(&socket).read_timeout()?;
        Ok(Box::new(RecvZeroCopy { mapping: Mapping::new(socket, PAGES)?, waits, timeout }))
    }
}

struct RecvZeroCopy {
    mapping: Mapping,
    /// For a blocking socket: the option itself never waits, so poll(2) does, at most as long as the socket would.
    waits: bool,
    timeout: Option<Duration>,
}

impl Receiver for RecvZeroCopy {
    fn receive(&mut self, socket: BorrowedFd<'_>, want: Want, inbox: &mut Inbox) -> io::Result<Received> {
        if let Want::Stored(most) = want {
            return receive_stored(socket, most, 0, inbox);
        }
        if self.waits {
            let ready = descriptor::poll(&[(socket.as_fd(), PollFlags::POLLIN)], self.timeout)?;
            if ready[0].is_empty() {
                return Ok(Received::Blocked);
            }
        }
        inbox.count_call();
        let not_mappable = match self.mapping.receive(socket, want.most()) {
            Ok(Mapped { mapped, .. }) if mapped > 0 => return Ok(Received::Mapped(mapped)),
            Ok(Mapped { not_mappable, .. }) => not_mappable,
            // The peer will send no more, as recv reports it.
            Err(error) if error.raw_os_error() == Some(libc::EIO) => 0,
            Err(error) => return Err(error),
        };
        let most = if not_mappable == 0 { want.most() } else { want.most().min(not_mappable) };
        receive_stored(socket, most, 0, inbox)
    }
}
