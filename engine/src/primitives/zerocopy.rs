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
            self.release(first, last, copied);
        }
        Ok(())
    }

    /// The kernel is done with these calls, which are counted once.
    fn release(&mut self, first: u32, last: u32, copied: bool) {
        let before = self.held.len();
        self.held.retain(|call, _| call.wrapping_sub(first) > last.wrapping_sub(first));
        self.completed((before - self.held.len()) as u64, copied);
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

#[cfg(test)]
mod tests {
    use rand_xoshiro::Xoshiro256PlusPlus;
    use rand_xoshiro::rand_core::{Rng, SeedableRng};

    use super::*;

    const CALLS: u32 = 40;

    fn random() -> Xoshiro256PlusPlus {
        Xoshiro256PlusPlus::seed_from_u64(1)
    }

    /// With calls in flight, the number of the first of which is given.
    fn holding(first: u32) -> ZeroCopy {
        let held = (0..CALLS).map(|call| (first.wrapping_add(call), Vec::new())).collect();
        ZeroCopy { held, ..ZeroCopy::default() }
    }

    /// Also where the kernel's numbers wrap around.
    #[test]
    fn each_call_is_completed_once_however_messages_join_them() {
        let mut random = random();
        for round in 0..1000 {
            let begin = if round % 2 == 0 { 0 } else { u32::MAX - random.next_u32() % CALLS };
            let (mut sender, mut next, mut copied) = (holding(begin), 0, 0);
            let mut messages = Vec::new();
            while next < CALLS {
                let calls = 1 + random.next_u32() % (CALLS - next);
                let by_copy = random.next_u32().is_multiple_of(2);
                copied += if by_copy { u64::from(calls) } else { 0 };
                messages.push((begin.wrapping_add(next), begin.wrapping_add(next + calls - 1), by_copy));
                next += calls;
            }
            // In any order.
            messages.sort_by_cached_key(|_| random.next_u32());
            for (first, last, by_copy) in messages {
                sender.release(first, last, by_copy);
            }
            assert!(!sender.holds());
            assert_eq!(sender.completions, Completions { completed: u64::from(CALLS), copied });
        }
    }

    #[test]
    fn messages_of_any_numbers_complete_no_call_twice() {
        let mut random = random();
        let mut sender = holding(u32::MAX - 7);
        for _ in 0..100_000 {
            let first = random.next_u32();
            let last = if random.next_u32().is_multiple_of(2) { random.next_u32() } else { first };
            sender.release(first, last, false);
            assert_eq!(sender.completions.completed + sender.held.len() as u64, u64::from(CALLS));
        }
    }
}
