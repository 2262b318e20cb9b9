//! Readiness by level-triggered epoll; primitives move the bytes.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::time::Duration;

use anyhow::{Context, Result};

use super::back_end::BackEnd;
use crate::client::exchange::Caller;
use crate::client::load::LoadRun;
use crate::count::tally::Slot;
use crate::sys::descriptor::PollFlags;
use crate::sys::readiness::epoll::{self, Epoll, Events};
use crate::transfer::channel::{Channel, Openers};

/// An epoll instance, and the sockets that have become ready.
pub struct Readiness {
    epoll: Epoll,
    openers: Openers,
    /// The client of each descriptor.
    of_descriptor: Vec<usize>,
    events: Box<Events>,
    /// Ready sockets of the last wait that have not been taken.
    ready: std::ops::Range<usize>,
}

impl Readiness {
    /// Makes it; call it in the thread that waits.
    pub fn new(run: &LoadRun) -> Result<Self> {
        Ok(Readiness {
            epoll: Epoll::create().context("cannot create an epoll instance")?,
            openers: run.way.prepare(&run.settings).context("cannot prepare the primitives")?,
            of_descriptor: Vec::new(),
            events: Box::new(epoll::no_events()),
            ready: 0..0,
        })
    }

    fn belongs(&mut self, descriptor: RawFd, client: usize) {
        let descriptor = descriptor as usize;
        if descriptor >= self.of_descriptor.len() {
            self.of_descriptor.resize(descriptor + 1, usize::MAX);
        }
        self.of_descriptor[descriptor] = client;
    }
}

impl BackEnd for Readiness {
    /// Events the socket is watched for; `None` if it is not watched.
    type Watch = Option<PollFlags>;

    fn open(&mut self, _watch: &mut Self::Watch, socket: OwnedFd, slot: &'static Slot) -> io::Result<Channel> {
        self.openers.open(socket, slot)
    }

    fn watch(
        &mut self,
        client: usize,
        watch: &mut Self::Watch,
        socket: BorrowedFd<'_>,
        flags: PollFlags,
    ) -> io::Result<()> {
        match watch.replace(flags) {
            Some(watched) if watched == flags => Ok(()),
            Some(_) => self.epoll.modify(socket, epoll::flags(flags)),
            None => {
                self.belongs(socket.as_raw_fd(), client);
                self.epoll.add(socket, epoll::flags(flags))
            }
        }
    }

    fn ignore(&mut self, watch: &mut Self::Watch, socket: BorrowedFd<'_>) {
        let _ = self.epoll.delete(socket);
        *watch = None;
    }

    /// Closing the last copy of a socket removes it from the epoll instance.
    fn forget(&mut self, watch: &mut Self::Watch, _socket: BorrowedFd<'_>) {
        *watch = None;
    }

    fn close(&mut self, watch: &mut Self::Watch, caller: Box<Caller<'static>>, patience: Duration) {
        *watch = None;
        caller.finish(patience);
    }

    fn wait(&mut self, time: Duration) -> io::Result<()> {
        self.ready = 0..self.epoll.wait_at_most(&mut self.events, time)?;
        Ok(())
    }

    fn next(&mut self) -> Option<(usize, PollFlags)> {
        let (descriptor, flags) = epoll::ready(&self.events[self.ready.next()?]);
        Some((self.of_descriptor[descriptor as usize], flags))
    }
}
