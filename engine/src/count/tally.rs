//! The tally: counts that survive a killed worker, because they live in memory shared by all processes of a server.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use anyhow::{Context, Result};
use schemars::JsonSchema;
use serde::Serialize;

use crate::net::closings::{Closed, Closings};
use crate::net::tcp::FirstConnection;
use crate::sys::memory::shared::SharedArray;
use crate::sys::process::Reaped;
use crate::sys::ring::number;

/// Declares the kinds of errors once: the enumeration and its names in the results.
macro_rules! error_kinds {
    ($($(#[$meta:meta])* $kind:ident = $name:literal,)+) => {
        /// Kinds of errors, counted separately. An error of one client never ends a server or a worker.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum ErrorKind { $($(#[$meta])* $kind,)+ }
        impl ErrorKind {
            /// All kinds, in the order of their counters.
            pub const ALL: &'static [(ErrorKind, &'static str)] = &[$((ErrorKind::$kind, $name),)+];
        }
    };
}

error_kinds! {
    /// A request that the protocol does not allow.
    BadRequest = "bad_request",
    /// The peer ended in the middle of a request or a reply.
    Truncated = "truncated",
    /// The peer reset the connection (ECONNRESET).
    Reset = "reset",
    /// The peer had closed before a send (EPIPE).
    BrokenPipe = "broken_pipe",
    /// Nobody listens there (ECONNREFUSED).
    Refused = "refused",
    /// No progress within the time allowed.
    TimedOut = "timed_out",
    /// The reply was not what the protocol says.
    WrongReply = "wrong_reply",
    /// The reply was longer than the protocol allows.
    Surplus = "surplus",
    /// The server had just closed a persistent connection, and the request that met this must not be sent twice.
    NotRepeated = "not_repeated",
    /// The reply's status says that the request failed.
    ErrorStatus = "error_status",
    /// The reply is none of this protocol: another one is spoken there.
    OtherProtocol = "other_protocol",
    /// The connection was gone before accept returned it (ECONNABORTED, EPROTO).
    Aborted = "aborted",
    /// No descriptor, port, memory, process or thread was available.
    ResourceLimit = "resource_limit",
    /// Connections whose serving had not begun when the server stopped; the kernel resets them.
    QueuedAtStop = "queued_at_stop",
    /// A fault of this program while it served a connection.
    Fault = "fault",
    /// Any other error of the system.
    Other = "other",
}

impl ErrorKind {
    /// Returns the kind of a system error.
    pub fn of(error: &std::io::Error) -> Self {
        match number(error) {
            Some(libc::ECONNRESET) => ErrorKind::Reset,
            Some(libc::EPIPE) => ErrorKind::BrokenPipe,
            // A Unix socket with a path may not exist.
            Some(libc::ECONNREFUSED | libc::ENOENT) => ErrorKind::Refused,
            Some(libc::ETIMEDOUT | libc::EAGAIN | libc::EINPROGRESS) => ErrorKind::TimedOut,
            Some(libc::ECONNABORTED | libc::EPROTO) => ErrorKind::Aborted,
            // epoll_ctl(2) returns ENOSPC if no watch is left.
            Some(libc::EMFILE | libc::ENFILE | libc::ENOBUFS | libc::ENOMEM | libc::EADDRNOTAVAIL | libc::ENOSPC) => {
                ErrorKind::ResourceLimit
            }
            _ => ErrorKind::Other,
        }
    }

    /// Returns the name in the results.
    pub fn name(self) -> &'static str {
        ErrorKind::ALL[self as usize].1
    }
}

/// Declares the counts once: the counters of a slot, and their sums in the results.
macro_rules! counts {
    ($($(#[$meta:meta])* $name:ident,)+) => {
        /// Counters of one worker, on separate cache lines, so that workers do not share one.
        #[derive(Default)]
        #[repr(align(64))]
        pub struct Slot {
            $($(#[$meta])* pub $name: AtomicU64,)+
            /// Endings of a load's connections.
            pub closings: Closings,
            errors: [AtomicU64; ErrorKind::ALL.len()],
        }

        /// Sums of the tally of a server or a load at one moment, counted from its start.
        #[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, JsonSchema)]
        pub struct Counts {
            $($(#[$meta])* pub $name: u64,)+
            /// Workers (in a load: client processes) that a signal or a fault ended.
            pub workers_lost: u64,
            /// Workers forked to replace lost ones.
            pub workers_replaced: u64,
            /// Errors by kind. Kinds that did not occur are omitted.
            pub errors: BTreeMap<&'static str, u64>,
        }

        impl Counts {
            /// Adds the counts of a slot.
            fn add(&mut self, slot: &Slot) {
                $(self.$name += slot.$name.load(Relaxed);)+
                for (&(_, name), counter) in ErrorKind::ALL.iter().zip(&slot.errors) {
                    match counter.load(Relaxed) {
                        0 => {}
                        count => *self.errors.entry(name).or_default() += count,
                    }
                }
            }
        }
    };
}

counts! {
    /// Connections whose serving began (in a load: connections made).
    connections,
    /// Connections whose serving ended, with or without an error.
    closed,
    /// Requests answered in full (in a load: with a correct reply).
    requests,
    /// Bytes received.
    bytes_received,
    /// Bytes handed to the kernel.
    bytes_sent,
    /// Received bytes that were not copied to the program: mapped, or discarded by the kernel.
    bytes_not_copied,
    /// System calls that receive from a socket, including those that returned nothing: a busy-polling primitive makes many.
    /// Waiting for readiness (poll, epoll_wait) is not included.
    receive_calls,
    /// System calls that send or prepare a send, such as filling a pipe or corking. Reading completions from the error queue is
    /// not included; completions are counted separately.
    send_calls,
    /// Zero-copy sends that the kernel has completed (MSG_ZEROCOPY, IORING_OP_SEND_ZC), and those that had to copy (ENOBUFS).
    completions,
    /// Completed zero-copy sends whose bytes the kernel copied after all (SO_EE_CODE_ZEROCOPY_COPIED).
    completions_copied,
    /// Wake-ups that found no work.
    empty_wakeups,
    /// In a load: persistent connections that the server had closed before the next request, and that were made anew. No
    /// errors.
    closed_idle,
    /// In a load: requests that were sent once more, over another connection, because the server closed theirs before a byte of
    /// the reply.
    sent_again,
    /// In a load: requests whose body was sent although the server had not said that it may come (Expect: 100-continue).
    sent_unbidden,
}

impl Slot {
    /// Counts an error.
    pub fn error(&self, kind: ErrorKind) {
        self.errors[kind as usize].fetch_add(1, Relaxed);
    }

    /// Counts several errors of a kind.
    pub fn errors(&self, kind: ErrorKind, count: u64) {
        self.errors[kind as usize].fetch_add(count, Relaxed);
    }
}

/// One slot for each worker of a pool, and a shared one, slot 0, for everything else.
pub struct Tally {
    slots: SharedArray<Slot>,
    general: SharedArray<General>,
}

/// Counts of the server as a whole.
#[derive(Default)]
pub struct General {
    /// Workers that a signal or a fault ended.
    pub workers_lost: AtomicU64,
    /// Workers forked to replace lost ones.
    pub workers_replaced: AtomicU64,
    /// Connections that were accepted and wait for a worker, in designs where one accepts for others.
    pub handed_over: AtomicU64,
    /// Usage of ended processes that the processes of a server or load have waited for.
    pub reaped: Reaped,
    /// User and system time in nanoseconds of the server's first process, which it reports as it ends.
    pub server_process_user: AtomicU64,
    /// See [`General::server_process_user`].
    pub server_process_system: AtomicU64,
    /// Effective options of the first connection.
    pub first_connection: FirstConnection,
}

impl Tally {
    /// Makes a tally for a pool of this many workers (0 for designs without a pool). It lives as long as the process.
    pub fn new(workers: usize) -> Result<&'static Tally> {
        let mapped = || "the tally could not be mapped";
        Ok(Box::leak(Box::new(Tally {
            slots: SharedArray::new(workers + 1).with_context(mapped)?,
            general: SharedArray::new(1).with_context(mapped)?,
        })))
    }

    /// Returns the slot shared by everything that is not a pool worker.
    pub fn shared(&self) -> &Slot {
        &self.slots[0]
    }

    /// Returns the slot of a pool worker, counted from 0.
    pub fn worker(&self, index: usize) -> &Slot {
        &self.slots[index + 1]
    }

    /// Returns the counts of the server as a whole.
    pub fn general(&self) -> &General {
        &self.general[0]
    }

    /// Returns the sums over all slots.
    pub fn counts(&self) -> Counts {
        let mut counts = Counts {
            workers_lost: self.general().workers_lost.load(Relaxed),
            workers_replaced: self.general().workers_replaced.load(Relaxed),
            ..Counts::default()
        };
        self.slots.iter().for_each(|slot| counts.add(slot));
        counts
    }

    /// Returns how a load's connections ended; `None` if none has, or none was TCP.
    pub fn closings(&self) -> Option<Closed> {
        Closed::of(self.slots.iter().map(|slot| &slot.closings))
    }

    /// Returns the connections of each pool worker; `None` for designs without a pool.
    pub fn connections_by_worker(&self) -> Option<Vec<u64>> {
        (self.slots.len() > 1).then(|| self.slots[1..].iter().map(|slot| slot.connections.load(Relaxed)).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_has_its_own_counter() {
        for (index, &(kind, name)) in ErrorKind::ALL.iter().enumerate() {
            assert_eq!(kind as usize, index);
            assert_eq!(kind.name(), name);
        }
    }

    #[test]
    fn a_slot_shares_no_cache_line() {
        assert_eq!(size_of::<Slot>() % 64, 0);
        assert_eq!(align_of::<Slot>(), 64);
    }

    #[test]
    fn sums_go_over_all_slots() {
        let tally = Tally::new(2).unwrap();
        tally.shared().requests.fetch_add(1, Relaxed);
        tally.worker(0).requests.fetch_add(2, Relaxed);
        tally.worker(1).connections.fetch_add(4, Relaxed);
        tally.worker(1).error(ErrorKind::Reset);
        let counts = tally.counts();
        assert_eq!((counts.requests, counts.connections), (3, 4));
        assert_eq!(counts.errors, BTreeMap::from([("reset", 1)]));
        tally.shared().errors(ErrorKind::Reset, 2);
        assert_eq!(tally.counts().errors, BTreeMap::from([("reset", 3)]));
        assert_eq!(tally.connections_by_worker(), Some(vec![0, 4]));
        assert_eq!(Tally::new(0).unwrap().connections_by_worker(), None);
    }
}
