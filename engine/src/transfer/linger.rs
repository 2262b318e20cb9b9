//! Closed connections whose zero-copy sends the kernel has not finished. The sent memory must not change until then,
//! and neither an event loop nor a worker can afford to wait.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::Ordering::Relaxed;
use std::sync::mpsc::{Receiver, SendError, Sender as Queue, channel};
use std::sync::{Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use nix::unistd::{Pid, getpid};

use crate::count::tally::Slot;
use crate::sys::{process, socket, zero_copy};
use crate::transfer::primitive::{Completions, Sender};

/// Interval of the checks: completions are due within a round-trip time.
const NAP: Duration = Duration::from_millis(5);

/// The thread that waits for all lingering connections of a process, created by the first of them.
struct Waiting {
    /// Process that created it: a forked child has no such thread.
    process: Pid,
    queue: Queue<Lingering>,
    thread: JoinHandle<()>,
}

static WAITING: Mutex<Option<Waiting>> = Mutex::new(None);

/// A socket to be closed once the kernel is done with what was sent.
pub struct Lingering {
    socket: OwnedFd,
    sender: Box<dyn Sender>,
    slot: &'static Slot,
    patience: Duration,
    /// Bytes that the peer's TCP had not acknowledged at the last check.
    left: u64,
    /// Time at which to reset the connection instead, which makes the kernel release the memory.
    until: Instant,
}

impl Lingering {
    /// Makes it from the sender, which holds the pieces, the counters for its completions, and how long the peer may
    /// take no data.
    pub fn new(socket: OwnedFd, sender: Box<dyn Sender>, slot: &'static Slot, patience: Duration) -> Self {
        Lingering { socket, sender, slot, patience, left: u64::MAX, until: Instant::now() + patience }
    }

    /// Hands it to the waiting thread of this process. If no thread can be created, or the thread is gone, waits in
    /// place; a delay does no harm to data in flight.
    pub fn begin(self) {
        // Tells the peer at once that no more comes, as closing would. An error means that there is no peer any more.
        let _ = socket::shutdown_sending(self.socket.as_fd());
        let mut waiting = WAITING.lock().unwrap_or_else(PoisonError::into_inner);
        if waiting.as_ref().is_none_or(|waiting| waiting.process != getpid()) {
            // The parent's thread does not exist in this process, and nothing of it has to be released.
            std::mem::forget(waiting.take());
            *waiting = Waiting::begin();
        }
        let left = self.hand_to(waiting.as_ref().map(|waiting| &waiting.queue));
        drop(waiting);
        if let Err(left) = left {
            left.wait();
        }
    }

    /// Hands it to the receiver of a queue; returns it if there is none.
    fn hand_to(self, queue: Option<&Queue<Lingering>>) -> Result<(), Self> {
        match queue {
            Some(queue) => queue.send(self).map_err(|SendError(left)| left),
            None => Err(self),
        }
    }

    fn wait(mut self) {
        while !self.is_done() {
            thread::sleep(NAP);
        }
        self.end();
    }

    /// True when the wait is over.
    fn is_done(&mut self) -> bool {
        let reaped = self.sender.reap(self.socket.as_fd());
        let holds = self.sender.holds();
        count_completions(self.slot, self.sender.as_mut());
        if reaped.is_err() || !holds {
            return true;
        }
        match zero_copy::unacknowledged(self.socket.as_fd()) {
            Ok(left) if left < self.left => {
                self.left = left;
                self.until = Instant::now() + self.patience;
                false
            }
            Ok(_) => Instant::now() >= self.until,
            Err(_) => true,
        }
    }

    fn end(mut self) {
        let holds = self.sender.holds();
        count_completions(self.slot, self.sender.as_mut());
        if holds {
            // Fails if the socket is not connected any more; the kernel reads nothing then.
            let _ = zero_copy::reset_on_close(self.socket.as_fd());
        }
        drop(self.socket);
        drop(self.sender);
    }
}

/// Adds completions to a slot.
pub fn count_completions(slot: &Slot, sender: &mut dyn Sender) {
    let Completions { completed, copied } = sender.take_completions();
    if completed > 0 {
        slot.completions.fetch_add(completed, Relaxed);
        slot.completions_copied.fetch_add(copied, Relaxed);
    }
}

/// Waits until no connection of this process lingers any more, each no longer than its limit. Forked children do this
/// before they exit, since their completions would not be counted otherwise. Other processes must call it.
pub fn wait() {
    let waiting = WAITING.lock().unwrap_or_else(PoisonError::into_inner).take();
    match waiting {
        Some(Waiting { process, queue, thread }) if process == getpid() => {
            drop(queue);
            // The thread panics if a sender does; nothing is left to wait for then.
            let _ = thread.join();
        }
        parents => std::mem::forget(parents),
    }
}

impl Waiting {
    fn begin() -> Option<Self> {
        process::before_leaving(wait);
        let (queue, coming) = channel();
        let thread = thread::Builder::new().name("linger".into()).spawn(move || wait_for_all(&coming)).ok()?;
        Some(Waiting { process: getpid(), queue, thread })
    }
}

/// Runs until no more connections can come and the last has ended. Checks all once per [`NAP`], however many come
/// meanwhile.
fn wait_for_all(coming: &Receiver<Lingering>) {
    while let Ok(first) = coming.recv() {
        let mut waiting = vec![first];
        while !waiting.is_empty() {
            let until = Instant::now() + NAP;
            take_until(until, coming, &mut waiting);
            thread::sleep(until.saturating_duration_since(Instant::now()));
            for mut lingering in std::mem::take(&mut waiting) {
                if lingering.is_done() {
                    lingering.end();
                } else {
                    waiting.push(lingering);
                }
            }
        }
    }
}

/// Takes connections that come until then, or until no more can come.
fn take_until(until: Instant, coming: &Receiver<Lingering>, waiting: &mut Vec<Lingering>) {
    while let Ok(next) = coming.recv_timeout(until.saturating_duration_since(Instant::now())) {
        waiting.push(next);
    }
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::net::{TcpListener, TcpStream};
    use std::os::fd::BorrowedFd;
    use std::sync::atomic::AtomicUsize;

    use super::*;
    use crate::count::tally::Tally;
    use crate::transfer::channel::Channel;
    use crate::transfer::inbox::Inbox;
    use crate::transfer::outbox::Outbox;
    use crate::transfer::primitive::{Received, Receiver, Sent, Want};

    /// A sender whose last completion is collected by another thread, at the moment of the check.
    #[derive(Default)]
    struct Late {
        /// Number of checks still answered by yes.
        held: usize,
        asked: AtomicUsize,
        told: bool,
    }

    impl Late {
        fn after(held: usize) -> Box<Self> {
            Box::new(Late { held, ..Late::default() })
        }
    }

    impl Sender for Late {
        fn send(&mut self, _socket: BorrowedFd<'_>, _outbox: &mut Outbox) -> io::Result<Sent> {
            Ok(Sent::Done)
        }

        fn take_completions(&mut self) -> Completions {
            let completed = *self.asked.get_mut() > self.held && !self.told;
            self.told |= completed;
            Completions { completed: completed.into(), copied: completed.into() }
        }

        fn holds(&self) -> bool {
            self.asked.fetch_add(1, Relaxed) < self.held
        }
    }

    impl Receiver for Late {
        fn receive(&mut self, _socket: BorrowedFd<'_>, _want: Want, _inbox: &mut Inbox) -> io::Result<Received> {
            Ok(Received::Blocked)
        }
    }

    fn socket() -> (OwnedFd, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let peer = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        (listener.accept().unwrap().0.into(), peer)
    }

    #[test]
    fn a_completion_that_comes_between_two_questions_is_counted() {
        for held in 0..6 {
            let (socket, _peer) = socket();
            let tally = Tally::new(0).unwrap();
            let channel = Channel::new(socket, Late::after(held), Late::after(0), tally.shared());
            channel.finish(Duration::from_secs(60));
            let deadline = Instant::now() + Duration::from_secs(10);
            while tally.counts().completions == 0 && Instant::now() < deadline {
                thread::sleep(NAP);
            }
            assert_eq!(tally.counts().completions, 1, "after {held} questions");
        }
    }

    /// A connection whose peer takes no data is given up; completions so far count.
    #[test]
    fn a_completion_that_comes_as_it_is_given_up_is_counted() {
        for held in 1..4 {
            let (socket, _peer) = socket();
            let tally = Tally::new(0).unwrap();
            Lingering::new(socket, Late::after(held), tally.shared(), Duration::ZERO).wait();
            assert_eq!(tally.counts().completions, u64::from(held < 3), "after {held} questions");
        }
    }

    #[test]
    fn a_connection_that_no_thread_takes_is_waited_for() {
        let (queue, coming) = channel();
        drop(coming);
        for queue in [None, Some(&queue)] {
            let (socket, _peer) = socket();
            let tally = Tally::new(0).unwrap();
            let lingering = Lingering::new(socket, Late::after(3), tally.shared(), Duration::from_secs(60));
            let Err(left) = lingering.hand_to(queue) else { panic!("no thread takes it") };
            left.wait();
            assert_eq!(tally.counts().completions, 1);
        }
    }
}
