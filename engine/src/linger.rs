//! Connections that are over while the kernel still reads bytes where the program has them, since they were sent without
//! being copied. Those bytes must stay as they are until then, and neither an event loop nor a worker has the time to wait.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::Ordering::Relaxed;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender as Queue, channel};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use nix::unistd::{Pid, getpid};

use crate::primitive::{Completions, Sender};
use crate::sys::zero_copy;
use crate::tally::Slot;

/// How often is asked: completions are due within the time of a round trip.
const NAP: Duration = Duration::from_millis(5);

/// The thread that waits, and the process that it is of: a forked child has none.
static WAITING: Mutex<Option<(Pid, Queue<Lingering>)>> = Mutex::new(None);

/// A socket to be closed once the kernel is done with what was sent.
pub struct Lingering {
    /// The socket.
    pub socket: OwnedFd,
    /// What holds the pieces.
    pub sender: Box<dyn Sender>,
    /// Where the completions are counted.
    pub slot: &'static Slot,
    /// When to reset the connection instead, which makes the kernel let go.
    pub until: Instant,
}

impl Lingering {
    /// Hands it to the thread that waits for all of this process, which the first of them makes. Where no thread can be
    /// made, the connection is reset.
    pub fn begin(self) {
        let mut waiting = WAITING.lock().unwrap_or_else(PoisonError::into_inner);
        let queue = match waiting.take() {
            Some((process, queue)) if process == getpid() => Some(queue),
            _ => thread_of_this_process(),
        };
        match queue {
            Some(queue) => {
                let sent = queue.send(self);
                debug_assert!(sent.is_ok(), "the thread lives as long as the process");
                *waiting = Some((getpid(), queue));
            }
            None => self.end(),
        }
    }

    /// True when it need not be waited for any longer.
    fn is_done(&mut self) -> bool {
        let reaped = self.sender.reap(self.socket.as_fd());
        count_completions(self.slot, self.sender.as_mut());
        reaped.is_err() || !self.sender.holds() || Instant::now() >= self.until
    }

    fn end(self) {
        if self.sender.holds() {
            // Fails on a socket that is no connection any more, and then the kernel reads nothing.
            let _ = zero_copy::reset_on_close(self.socket.as_fd());
        }
        drop(self.socket);
        drop(self.sender);
    }
}

/// Adds what has been completed to a slot.
pub fn count_completions(slot: &Slot, sender: &mut dyn Sender) {
    let Completions { completed, copied } = sender.take_completions();
    if completed > 0 {
        slot.completions.fetch_add(completed, Relaxed);
        slot.completions_copied.fetch_add(copied, Relaxed);
    }
}

fn thread_of_this_process() -> Option<Queue<Lingering>> {
    let (queue, coming) = channel();
    thread::Builder::new().name("linger".into()).spawn(move || wait_for_all(&coming)).ok()?;
    Some(queue)
}

fn wait_for_all(coming: &Receiver<Lingering>) {
    let mut waiting: Vec<Lingering> = Vec::new();
    loop {
        let next = if waiting.is_empty() { coming.recv().map_err(Into::into) } else { coming.recv_timeout(NAP) };
        match next {
            Ok(lingering) => waiting.push(lingering),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return,
        }
        for mut lingering in std::mem::take(&mut waiting) {
            if lingering.is_done() {
                lingering.end();
            } else {
                waiting.push(lingering);
            }
        }
    }
}
