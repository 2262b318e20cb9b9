//! Prethreaded; the main thread accepts, and hands connections over through a bounded ring.

use std::collections::VecDeque;
use std::os::fd::OwnedFd;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use anyhow::Result;

use crate::base::about::About;
use crate::base::feature::THREADS;
use crate::base::setting::{Kind, Setting};
use crate::base::unit::Unit;
use crate::server::design::{COMMON, Design, POOL, Run, Worker, pool};
use crate::server::pool::thread_pool;
use crate::server::shares::Shares;
use crate::transfer::primitive::Waits;

pub static ENTRY: Design = Design {
    about: About {
        summary: "Prethreaded; the main thread accepts and hands connections over through a queue",
        source: "UNP volume 1, third edition, section 30.12; Fig. 30.1 row 8",
    },
    waits: Waits::InTheCall,
    shares: Shares::Workers,
    settings: &[POOL, RING],
    workers: pool,
    serve,
    rests_on: &[&THREADS],
    ..COMMON
};

const RING: Setting = Setting {
    name: "ring",
    help: "Accepted connections that may wait for a free thread; the main thread waits while the queue is full",
    unit: Unit::Of("connections"),
    kind: Kind::Integer { minimum: 1, maximum: 65536, default: 32 },
    for_more: None,
};

fn serve(run: &'static Run) -> Result<()> {
    let ring = Ring::new(run.settings.integer(RING.name) as usize);
    let serve = |worker: &mut Worker| {
        while let Some(socket) = ring.get() {
            run.tally.general().handed_over.fetch_sub(1, Relaxed);
            worker.serve(socket);
        }
        Ok(())
    };
    let accept = || {
        let mut acceptor = run.acceptor();
        while let Some(socket) = acceptor.accept() {
            run.tally.general().handed_over.fetch_add(1, Relaxed);
            ring.put(socket);
        }
        ring.close();
        Ok(())
    };
    thread_pool(run, serve, accept)
}

/// The book's array with iput and iget. It waits when full, whereas the book's server exits.
struct Ring {
    capacity: usize,
    state: Mutex<State>,
    not_empty: Condvar,
    not_full: Condvar,
}

struct State {
    sockets: VecDeque<OwnedFd>,
    closed: bool,
}

impl Ring {
    fn new(capacity: usize) -> Self {
        let state = State { sockets: VecDeque::with_capacity(capacity), closed: false };
        Ring { capacity, state: Mutex::new(state), not_empty: Condvar::new(), not_full: Condvar::new() }
    }

    fn put(&self, socket: OwnedFd) {
        let full = |state: &mut State| self.is_full(state);
        let mut state = self.not_full.wait_while(self.lock(), full).unwrap_or_else(PoisonError::into_inner);
        state.sockets.push_back(socket);
        drop(state);
        self.not_empty.notify_one();
    }

    /// Takes the oldest connection; `None` when the ring is closed and empty.
    fn get(&self) -> Option<OwnedFd> {
        let empty = |state: &mut State| state.sockets.is_empty() && !state.closed;
        let mut state = self.not_empty.wait_while(self.lock(), empty).unwrap_or_else(PoisonError::into_inner);
        let was_full = self.is_full(&state);
        let socket = state.sockets.pop_front();
        drop(state);
        if was_full {
            self.not_full.notify_one();
        }
        socket
    }

    fn is_full(&self, state: &State) -> bool {
        state.sockets.len() == self.capacity
    }

    fn close(&self) {
        self.lock().closed = true;
        self.not_empty.notify_all();
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
