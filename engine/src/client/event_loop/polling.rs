//! Trying instead of sleeping: every connection that a reply is due on is tried again and again (nonblocking I/O; Stevens,
//! Fenner, Rudoff, UNIX Network Programming 1, 6.2). Nothing that comes has to wake anybody, and no list of what is ready is
//! kept: where there are few connections, and something has nearly always come, that is the least work. It takes all of a CPU,
//! except what others want of it between two rounds: a server may share it.
//!
//! What cannot be tried, that a connection has been made or that there is room to send, is asked of an epoll instance.

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

/// The clients of a thread whose replies are awaited, and the others.
pub struct Polling {
    others: Readiness,
    /// By client.
    stands: Vec<Stands>,
    /// How many are among the others, or were as their connection could not be made.
    elsewhere: usize,
    /// What a client that is tried is said to be ready for: nobody knows, and senders with completions have to be asked for
    /// them.
    ready: PollFlags,
    /// The next that is looked at.
    next: usize,
    /// How many are tried before others have their turn.
    left: usize,
}

/// As many as come from one wait for readiness.
const TRIES: usize = MOST_EVENTS;

/// Of so many clients two may be looked at together: what a reply waits for is one or two per cent of a round of theirs.
const ENOUGH_FOR_PAIRS: usize = 32;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Stands {
    /// It is not watched.
    Nowhere,
    /// It is tried in every round.
    Tried,
    /// It is watched by the epoll instance.
    Elsewhere,
}

/// What is kept of one client's socket.
#[derive(Default)]
pub struct Watch {
    client: Option<usize>,
    other: Option<PollFlags>,
}

impl Polling {
    /// To be made in the thread that asks.
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

    /// Of two calls of a kind that follow each other the second finds in the CPU's caches what the first has run through. Of few
    /// clients it would be too long until one asks: each is to have a request under way all but all of the time.
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
