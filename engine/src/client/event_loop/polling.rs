//! Busy-polling instead of sleeping: the thread tries every connection with an outstanding reply, again and again
//! (nonblocking I/O; Stevens, Fenner, Rudoff, UNIX Network Programming 1, 6.2). No wake-ups are needed, and no
//! readiness list is kept. With few connections, on which data has nearly always arrived, this is the least work. It
//! uses a whole CPU, except for what other threads use between two rounds: a server may share it.
//!
//! An epoll instance reports events that cannot be tried: that a connection is established, or that there is room to
//! send.

use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::thread;
use std::time::Duration;

use anyhow::Result;

use super::back_end::BackEnd;
use super::epoll::Readiness;
use crate::client::exchange::Caller;
use crate::client::load::LoadRun;
use crate::count::tally::Slot;
use crate::sys::descriptor::PollFlags;
use crate::sys::readiness::epoll::MOST_EVENTS;
use crate::transfer::channel::Channel;

/// The clients of a thread that wait for replies, and the others.
pub struct Polling {
    others: Readiness,
    /// By client.
    stands: Vec<Stands>,
    /// Number of clients that are among the others, or were when their connection could not be made.
    elsewhere: usize,
    /// Readiness reported for a client that is tried: unknown, so it includes errors, since senders with completions
    /// must be checked.
    ready: PollFlags,
    /// The next client to try.
    next: usize,
    /// Number of clients to try before others have their turn.
    left: usize,
}

/// As many as one epoll wait returns.
const TRIES: usize = MOST_EVENTS;

/// With this many clients, two may be handled together: a reply waits for one or two per cent of a round.
const ENOUGH_FOR_PAIRS: usize = 32;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Stands {
    /// Not watched.
    Nowhere,
    /// Tried in every round.
    Tried,
    /// Watched by the epoll instance.
    Elsewhere,
}

/// State of one client's socket.
#[derive(Default)]
pub struct Watch {
    client: Option<usize>,
    other: Option<PollFlags>,
}

impl Polling {
    /// Makes it; call it in the client thread.
    pub fn new(run: &LoadRun) -> Result<Self> {
        let errors = if run.way.out.item.completes { PollFlags::POLLERR } else { PollFlags::empty() };
        let ready = PollFlags::POLLIN | errors;
        Ok(Polling { others: Readiness::new(run)?, stands: Vec::new(), elsewhere: 0, ready, next: 0, left: 0 })
    }

    fn put(&mut self, client: usize, stands: Stands) {
        if client >= self.stands.len() {
            self.stands.resize(client + 1, Stands::Nowhere);
        }
        let before = std::mem::replace(&mut self.stands[client], stands);
        self.elsewhere += usize::from(stands == Stands::Elsewhere);
        self.elsewhere -= usize::from(before == Stands::Elsewhere);
    }

    fn put_nowhere(&mut self, watch: &Watch) {
        if let Some(client) = watch.client {
            self.put(client, Stands::Nowhere);
        }
    }

    fn leave_others(&mut self, watch: &mut Watch, socket: BorrowedFd<'_>) {
        if watch.other.is_some() {
            self.others.ignore(&mut watch.other, socket);
        }
    }
}

impl BackEnd for Polling {
    type Watch = Watch;

    const WAITS: bool = false;

    fn open(&mut self, watch: &mut Watch, socket: OwnedFd, slot: &'static Slot) -> io::Result<Channel> {
        self.others.open(&mut watch.other, socket, slot)
    }

    fn watch(&mut self, client: usize, watch: &mut Watch, socket: BorrowedFd<'_>, flags: PollFlags) -> io::Result<()> {
        watch.client = Some(client);
        if flags == PollFlags::POLLIN {
            self.leave_others(watch, socket);
            self.put(client, Stands::Tried);
            return Ok(());
        }
        self.others.watch(client, &mut watch.other, socket, flags)?;
        self.put(client, Stands::Elsewhere);
        Ok(())
    }

    fn ignore(&mut self, watch: &mut Watch, socket: BorrowedFd<'_>) {
        self.leave_others(watch, socket);
        self.put_nowhere(watch);
    }

    fn forget(&mut self, watch: &mut Watch, socket: BorrowedFd<'_>) {
        self.put_nowhere(watch);
        self.others.forget(&mut watch.other, socket);
    }

    fn close(&mut self, watch: &mut Watch, caller: Box<Caller<'static>>, patience: Duration) {
        self.put_nowhere(watch);
        self.others.close(&mut watch.other, caller, patience);
    }

    /// Never waits.
    fn wait(&mut self, _time: Duration) -> io::Result<()> {
        if self.next >= self.stands.len() {
            self.next = 0;
        }
        self.left = TRIES;
        thread::yield_now();
        if self.elsewhere > 0 { self.others.wait(Duration::ZERO) } else { Ok(()) }
    }

    /// The second of two consecutive calls of a kind finds its code and data in the CPU's caches. With few clients this
    /// would delay each too long: each should have a request in flight nearly all the time.
    fn together(&self) -> usize {
        if self.stands.len() >= ENOUGH_FOR_PAIRS { 2 } else { 1 }
    }

    fn next(&mut self) -> Option<(usize, PollFlags)> {
        if let Some(other) = self.others.next() {
            return Some(other);
        }
        if self.left == 0 {
            return None;
        }
        let rest = &self.stands[self.next.min(self.stands.len())..];
        let Some(tried) = rest.iter().position(|stands| *stands == Stands::Tried) else {
            self.next = self.stands.len();
            return None;
        };
        let client = self.stands.len() - rest.len() + tried;
        (self.next, self.left) = (client + 1, self.left - 1);
        Some((client, self.ready))
    }
}
