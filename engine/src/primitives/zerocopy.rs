//! sendmsg(2) with MSG_ZEROCOPY: the kernel sends from the program's memory, unless it copies after all. The socket's
//! error queue reports when the kernel is done with the bytes, and whether it has copied them.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::BorrowedFd;

use crate::base::about::About;
use crate::base::feature::{Feature, SENDMSG, on_tcp_socket};
use crate::base::setting::Settings;
use crate::sys::{socket, zero_copy};
use crate::transfer::outbox::{Outbox, Piece};
use crate::transfer::primitive::{Completions, Moves, Opener, Primitive, Sender, Sent};

pub static ENTRY: Primitive = Primitive {
    gathers: true,
    completes: true,
    tcp_only: Some("SO_ZEROCOPY is refused on Unix sockets"),
    ..Primitive::moving(
        About {
            summary: "One zero-copy call per message: sendmsg with MSG_ZEROCOPY",
            source: "Linux, Documentation/networking/msg_zerocopy.rst",
        },
        &[&SENDMSG, &ZEROCOPY],
        Moves::Out(prepare),
    )
};

/// Zero-copy sends.
const ZEROCOPY: Feature = Feature {
    name: "sendmsg(2), MSG_ZEROCOPY",
    since: Some("4.14"),
    refusal: || on_tcp_socket("setsockopt, SO_ZEROCOPY", zero_copy::allow_zero_copy),
};

/// Number of sends in flight above which each further send collects completions first: the kernel's notifications take
/// limited memory (net.core.optmem_max), and the pieces are held meanwhile.
const IN_FLIGHT: usize = 16;

fn prepare(_settings: &Settings) -> io::Result<Box<dyn Opener<dyn Sender>>> {
    Ok(Box::new(Sockets))
}

struct Sockets;

impl Opener<dyn Sender> for Sockets {
    fn open(&mut self, socket: BorrowedFd<'_>) -> io::Result<Box<dyn Sender>> {
        zero_copy::allow_zero_copy(socket)?;
        Ok(Box::new(ZeroCopy::default()))
    }
}

#[derive(Default)]
struct ZeroCopy {
    /// Pieces that each call has sent, until the kernel is done with it. The kernel counts calls from 0, and wraps
    /// around.
    held: BTreeMap<u32, Vec<Piece>>,
    calls: u32,
    completions: Completions,
}

impl ZeroCopy {
    fn collect(&mut self, socket: BorrowedFd<'_>) -> io::Result<()> {
        while let Some((first, last, copied)) = zero_copy::completion(socket)? {
            let before = self.held.len();
            self.held.retain(|call, _| call.wrapping_sub(first) > last.wrapping_sub(first));
            self.completed((before - self.held.len()) as u64, copied);
        }
        Ok(())
    }

    fn completed(&mut self, calls: u64, copied: bool) {
        self.completions.completed += calls;
        self.completions.copied += if copied { calls } else { 0 };
    }
}

impl Sender for ZeroCopy {
    fn send(&mut self, socket: BorrowedFd<'_>, outbox: &mut Outbox) -> io::Result<Sent> {
        while !outbox.is_empty() {
            if self.held.len() >= IN_FLIGHT {
                self.collect(socket)?;
            }
            let pieces = outbox.in_memory()?;
            let slices: Vec<_> = pieces.iter().map(Piece::slice).collect();
            let mut result = socket::sendmsg(socket, &slices, libc::MSG_ZEROCOPY);
            outbox.count_call();
            let no_room = matches!(&result, Err(error) if error.raw_os_error() == Some(libc::ENOBUFS));
            if no_room {
                // The kernel cannot allocate another notification. Waiting could mean waiting for the peer, so this
                // send is copied, and counted as copied.
                self.collect(socket)?;
                result = socket::sendmsg(socket, &slices, 0);
                outbox.count_call();
            }
            match result {
                Ok(bytes) if no_room => {
                    self.completed(1, true);
                    outbox.sent(bytes as u64);
                }
                Ok(bytes) => {
                    self.held.insert(self.calls, pieces);
                    self.calls = self.calls.wrapping_add(1);
                    outbox.sent(bytes as u64);
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(Sent::Blocked),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(Sent::Done)
    }

    fn reap(&mut self, socket: BorrowedFd<'_>) -> io::Result<()> {
        self.collect(socket)
    }

    fn take_completions(&mut self) -> Completions {
        std::mem::take(&mut self.completions)
    }

    fn holds(&self) -> bool {
        !self.held.is_empty()
    }
}
