//! A connection being served. It joins a session, which knows the protocol, and a channel, which knows the system
//! calls. Every design runs this same code; designs differ in when and where they call it.

use std::cell::Cell;
use std::os::fd::{AsRawFd, BorrowedFd, RawFd};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use crate::count::tally::ErrorKind;
use crate::protocol::workload::{Input, Job, More, Next, Session, Then};
use crate::server::idle::Watch;
use crate::sys::descriptor::{PollFlags, poll};
use crate::transfer::channel::Channel;
use crate::transfer::primitive::{Received, Sent, Want};

/// Maximum time for which a peer may take no data of a finished connection while the kernel still reads its pieces: as
/// long as our clients wait for their server.
const FINISH: Duration = Duration::from_secs(10);

/// Maximum replies per turn, as in memcached (its option -R): a client that never stops sending requests must not delay
/// the other connections of its event loop.
const ANSWERS_IN_A_TURN: usize = 20;

/// Maximum requests computed per turn. A computed request takes longer than a turn without one, so the other connections of
/// the event loop come next.
const JOBS_IN_A_TURN: usize = 1;

/// Maximum parts of a reply sent per turn, for the same reason: a client that takes everything at once must not delay
/// the others.
const PARTS_IN_A_TURN: usize = 8;

/// Bytes of unsent replies beyond which no further reply is gathered. This bounds the memory of a connection whose peer
/// does not read.
const GATHERED: u64 = 64 << 10;

/// Bytes that are discarded after a refusal. A client that sends more does not get it.
const LINGERS_FOR: u64 = 64 << 20;

thread_local! {
    /// See [`has_computed`].
    static COMPUTED: Cell<bool> = const { Cell::new(false) };
}

/// Returns whether this thread has computed a request in place since the last call. An event loop that computes keeps its
/// connections, and those in its listener's queue, waiting for longer than one that only moves bytes.
pub fn has_computed() -> bool {
    COMPUTED.take()
}

/// An accepted connection.
pub struct Connection {
    /// Closes it when its client is idle for too long. The first field, since it is dropped first.
    watch: Option<Watch>,
    channel: Channel,
    session: Box<dyn Session>,
    want: Want,
    /// Bytes received without being stored and not yet reported to the session.
    not_stored: usize,
    /// Replies in the outbox that have not been sent in full.
    answers: u64,
    /// The session has more of a reply that it has begun.
    begun: bool,
    /// The outbox, or a pipe or queue of the sender, may hold unsent data.
    unsent: bool,
    /// Job to run once the replies before it have been sent.
    job: Option<Job>,
    state: State,
    /// Rest of the current turn.
    left: Left,
}

/// Work that a connection may still do before it yields.
#[derive(Clone, Copy)]
struct Left {
    receives: usize,
    answers: usize,
    parts: usize,
    /// Requests that may still be computed.
    jobs: usize,
    /// Parts of a reply that may still be sent.
    sends: bool,
}

/// Budget of a connection that does not share its process or thread, and so never yields.
const UNBOUNDED: Left =
    Left { receives: usize::MAX, answers: usize::MAX, parts: usize::MAX, jobs: usize::MAX, sends: true };

/// Budget of a connection that shares them.
const TURN: Left =
    Left { receives: 1, answers: ANSWERS_IN_A_TURN, parts: PARTS_IN_A_TURN, jobs: JOBS_IN_A_TURN, sends: true };

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Open,
    /// The peer has ended; the session does not know it yet.
    Ended,
    /// To be closed once everything has been sent.
    Closing,
    /// The same, after a refusal.
    Refusing,
    /// The refusal has been sent. What the peer still sends is discarded, up to this many bytes: a connection that is closed
    /// with unread data is reset, and the peer may lose the refusal (RFC 9112, section 9.6).
    Lingering(u64),
    /// A fault of this program has been tallied; the connection must be closed at once.
    Faulty,
}

impl AsRawFd for Connection {
    fn as_raw_fd(&self) -> RawFd {
        self.channel.socket().as_raw_fd()
    }
}

/// Result of [`Connection::advance`].
pub enum Progress {
    /// The socket would block until it is ready for these events.
    Blocked(PollFlags),
    /// The turn is over, and there may be more to do; the socket must be ready for these events. See [`Turn::Yields`].
    Yields(PollFlags),
    /// The request needs computing: run the job with [`Connection::work`], wherever suits the design.
    Work(Job),
    /// The connection is over; any error has been tallied.
    Closed,
}

/// Result of [`Connection::turn`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Turn {
    /// Nothing can be done before the socket is ready for these events.
    Blocked(PollFlags),
    /// The connection has used up its turn, and there may be more to do. A level-triggered wait reports readiness again
    /// at once. An edge-triggered event loop must continue by itself, since the edge was the one being served.
    Yields(PollFlags),
    /// The connection is over; any error has been tallied.
    Over,
}

impl Connection {
    /// Starts to serve a channel of a blocking or non-blocking socket. Its client may be idle for this long; `None`: for ever.
    #[inline]
    pub fn new(channel: Channel, session: Box<dyn Session>, idle_limit: Option<Duration>) -> Self {
        Connection {
            watch: idle_limit.map(|limit| Watch::new(channel.socket().as_raw_fd(), limit)),
            want: session.first(),
            channel,
            session,
            not_stored: 0,
            answers: 0,
            begun: false,
            unsent: false,
            job: None,
            state: State::Open,
            left: UNBOUNDED,
        }
    }

    /// Serves a blocking socket to its end, for workers with one connection at a time.
    pub fn serve(&mut self) {
        while let Some(flags) = self.advance_in_place() {
            if let Err(error) = poll(&[(self.socket(), flags)], None) {
                return self.channel.slot().error(ErrorKind::of(&error));
            }
        }
    }

    /// Advances as far as the socket allows, and computes in place. Returns what to wait for; `None` when the
    /// connection is over.
    pub fn advance_in_place(&mut self) -> Option<PollFlags> {
        loop {
            match self.advance() {
                Progress::Blocked(flags) | Progress::Yields(flags) => return Some(flags),
                Progress::Work(job) => self.work_in_place(job),
                Progress::Closed => return None,
            }
        }
    }

    /// Takes a turn in an event loop, on a socket that is ready for `ready`: receives at most once, and answers at most
    /// 20 requests, or sends 8 parts of one reply. Computes in place, at most one request, whose reply is sent at once.
    ///
    /// Error readiness (POLLERR) may mean completions, which are collected first; a real error shows at the next
    /// transfer. Callers that cannot distinguish errors, as with select, always pass it.
    pub fn turn(&mut self, ready: PollFlags) -> Turn {
        let progress = self.turn_without_work(ready);
        self.turn_with_work(progress)
    }

    /// As [`Connection::turn`], for an event loop that gives a connection several turns before the others: after a turn
    /// that has computed a request, this one computes none.
    pub fn another_turn(&mut self, ready: PollFlags) -> Turn {
        let progress = self.begin_turn(ready, Left { jobs: self.left.jobs, ..TURN });
        self.turn_with_work(progress)
    }

    /// Returns whether a request has arrived that needs computing, and has not been computed.
    pub fn has_work(&self) -> bool {
        self.job.is_some()
    }

    /// Takes the receiving part of a turn, for an event loop that receives from all its connections before it sends to
    /// any, and sends to all before it computes. [`Connection::send_turn`] sends the replies, and
    /// [`Connection::work_turn`] computes.
    pub fn receive_turn(&mut self, ready: PollFlags) -> Turn {
        let progress = self.begin_turn(ready, Left { jobs: 0, sends: false, ..TURN });
        self.turn_with_work(progress)
    }

    /// Takes the sending part of a turn; receives and computes nothing.
    pub fn send_turn(&mut self) -> Turn {
        if !self.unsent {
            return Turn::Blocked(PollFlags::POLLIN);
        }
        self.left = Left { receives: 0, sends: true, ..self.left };
        let progress = self.advance();
        self.turn_with_work(progress)
    }

    /// Takes the computing part of a turn: computes at most one request, and sends its reply at once; receives nothing.
    pub fn work_turn(&mut self) -> Turn {
        if self.unsent || !self.has_work() {
            return Turn::Blocked(PollFlags::POLLIN);
        }
        self.left = Left { receives: 0, ..TURN };
        let progress = self.advance();
        self.turn_with_work(progress)
    }

    fn turn_with_work(&mut self, mut progress: Progress) -> Turn {
        loop {
            progress = match progress {
                Progress::Blocked(flags) => return Turn::Blocked(flags),
                Progress::Yields(flags) => return Turn::Yields(flags),
                Progress::Closed => return Turn::Over,
                Progress::Work(job) => {
                    self.work_in_place(job);
                    self.advance()
                }
            }
        }
    }

    /// As [`Connection::turn`], for an event loop with a thread pool: a request that needs computing is returned as a
    /// job. After [`Connection::work`] has run the job, the next turn, with empty readiness, sends the reply.
    pub fn turn_without_work(&mut self, ready: PollFlags) -> Progress {
        self.begin_turn(ready, TURN)
    }

    fn begin_turn(&mut self, ready: PollFlags, left: Left) -> Progress {
        self.left = left;
        if ready.contains(PollFlags::POLLERR)
            && let Err(error) = self.channel.reap()
        {
            self.channel.slot().error(ErrorKind::of(&error));
            return Progress::Closed;
        }
        self.advance()
    }

    /// Advances as far as the socket allows. If the session panics, the panic is tallied and the connection is over.
    ///
    /// A connection with unsent output does not receive, which bounds its memory.
    pub fn advance(&mut self) -> Progress {
        let advanced = catch_unwind(AssertUnwindSafe(|| self.try_to_advance()));
        self.channel.inbox.give_back();
        advanced.unwrap_or(Err(ErrorKind::Fault)).unwrap_or_else(|kind| {
            self.channel.slot().error(kind);
            Progress::Closed
        })
    }

    fn try_to_advance(&mut self) -> Result<Progress, ErrorKind> {
        loop {
            if self.state == State::Faulty {
                return Ok(Progress::Closed);
            }
            if self.unsent && !self.gathers_another() {
                if !self.left.sends {
                    return Ok(Progress::Yields(PollFlags::POLLOUT));
                }
                self.watch.iter().for_each(Watch::serves);
                match self.channel.send().map_err(|error| ErrorKind::of(&error))? {
                    Sent::Blocked => return Ok(Progress::Blocked(PollFlags::POLLOUT)),
                    Sent::Done if self.begun && self.next_part()? => {
                        if self.left.parts == 0 {
                            return Ok(Progress::Yields(PollFlags::POLLOUT));
                        }
                        self.left.parts -= 1;
                        continue;
                    }
                    Sent::Done => self.all_sent(),
                }
            }
            if let Some(job) = self.job.take() {
                if self.left.jobs == 0 {
                    self.job = Some(job);
                    // The request has been received already; its reply can be sent once the connection has another turn.
                    return Ok(Progress::Yields(PollFlags::POLLOUT));
                }
                self.left.jobs -= 1;
                return Ok(Progress::Work(job));
            }
            match self.state {
                State::Closing => return Ok(Progress::Closed),
                State::Refusing => {
                    // An error means that the peer has gone.
                    if self.channel.end().is_err() {
                        return Ok(Progress::Closed);
                    }
                    self.state = State::Lingering(LINGERS_FOR);
                }
                _ => {}
            }
            if let State::Lingering(left) = self.state {
                let unread = self.channel.inbox.unread().len();
                self.channel.inbox.taken(unread);
                let Some(left) = left.checked_sub(unread as u64) else { return Ok(Progress::Closed) };
                self.state = State::Lingering(left);
                self.watch.iter().for_each(Watch::waits);
                if self.left.receives == 0 {
                    return Ok(Progress::Yields(PollFlags::POLLIN));
                }
                self.left.receives -= 1;
                match self.channel.receive(Want::ANYTHING) {
                    Ok(Received::Blocked) => return Ok(Progress::Blocked(PollFlags::POLLIN)),
                    Ok(Received::End) | Err(_) => return Ok(Progress::Closed),
                    Ok(_) => {
                        self.watch.iter().for_each(Watch::serves);
                        continue;
                    }
                }
            }
            if self.channel.inbox.unread().is_empty() && self.not_stored == 0 && self.state == State::Open {
                self.watch.iter().for_each(Watch::waits);
                if self.left.receives == 0 {
                    return Ok(Progress::Yields(PollFlags::POLLIN));
                }
                self.left.receives -= 1;
                match self.channel.receive(self.want).map_err(|error| ErrorKind::of(&error))? {
                    Received::Blocked => return Ok(Progress::Blocked(PollFlags::POLLIN)),
                    Received::Bytes(_) => {}
                    Received::Discarded(bytes) | Received::Mapped(bytes) => self.not_stored = bytes,
                    Received::End => self.state = State::Ended,
                }
                self.watch.iter().for_each(Watch::serves);
            }
            if self.left.answers == 0 {
                // The rest has been received already, so the socket may never be readable again, but replies can be
                // sent.
                return Ok(Progress::Yields(PollFlags::POLLOUT));
            }
            self.job = self.give_to_session()?;
        }
    }

    fn work_in_place(&mut self, job: Job) {
        COMPUTED.set(true);
        self.work(job);
    }

    /// Runs the computing part of a request and takes its reply. If the job panics, the panic is tallied and the
    /// connection is over, as [`Connection::advance`] will report.
    pub fn work(&mut self, job: Job) {
        match catch_unwind(AssertUnwindSafe(|| job(&mut self.channel.outbox))) {
            Ok(Ok(())) => self.answered(),
            Ok(Err(kind)) => self.failed(kind),
            Err(_panic) => {
                self.channel.slot().error(ErrorKind::Fault);
                self.state = State::Faulty;
            }
        }
    }

    /// The socket, for waiting on it.
    pub fn socket(&self) -> BorrowedFd<'_> {
        self.channel.socket()
    }

    /// Closes, and gives the sender the time that the kernel needs for its pieces.
    pub fn finish(mut self) {
        self.watch = None;
        self.channel.finish(FINISH);
    }

    /// Puts the next part of the begun reply into the outbox; returns whether the session had one.
    fn next_part(&mut self) -> Result<bool, ErrorKind> {
        let more = self.session.more(&mut self.channel.outbox);
        if more == More::Part {
            return Ok(true);
        }
        self.begun = false;
        self.answered();
        if more == More::End {
            self.channel.end().map_err(|error| ErrorKind::of(&error))?;
        }
        Ok(false)
    }

    /// Returns whether the next request, which has arrived, is answered before earlier replies are sent, so that one
    /// call of the primitive gathers them. Requests that need computing wait until those are sent.
    fn gathers_another(&self) -> bool {
        let outbox = &self.channel.outbox;
        let room = (1..outbox.messages_at_once() as u64).contains(&self.answers) && outbox.bytes() < GATHERED;
        let has_come = !self.channel.inbox.unread().is_empty() && self.state == State::Open;
        has_come && room && !self.begun && self.job.is_none() && self.left.answers > 0
    }

    fn all_sent(&mut self) {
        self.unsent = false;
        self.channel.slot().requests.fetch_add(std::mem::take(&mut self.answers), Relaxed);
    }

    fn give_to_session(&mut self) -> Result<Option<Job>, ErrorKind> {
        let ended = self.state == State::Ended && self.channel.inbox.unread().is_empty();
        let calls = self.channel.take_calls();
        let not_stored = std::mem::take(&mut self.not_stored);
        let mut input = Input::new(&mut self.channel.inbox, calls, not_stored, ended);
        let next = match self.session.receive(&mut input, &mut self.channel.outbox) {
            Ok(next) => next,
            Err(kind) => {
                self.failed(kind);
                return Ok(None);
            }
        };
        self.unsent |= !self.channel.outbox.is_empty();
        let (then, job) = match next {
            Next::Receive(want) => (Then::Receive(want), None),
            Next::Answered(then) => {
                self.answered();
                (then, None)
            }
            Next::Begun(then) => {
                (self.begun, self.unsent) = (true, true);
                (then, None)
            }
            Next::Work(job, then) => (then, Some(job)),
            Next::Close => (Then::Close, None),
        };
        match then {
            Then::Receive(want) => self.want = want,
            Then::Close => self.state = State::Closing,
        }
        if ended && job.is_none() {
            self.state = State::Closing;
        }
        Ok(job)
    }

    /// Ends the connection because of a request; sends the session's error reply first.
    fn failed(&mut self, kind: ErrorKind) {
        self.channel.slot().error(kind);
        self.unsent |= !self.channel.outbox.is_empty();
        // A peer that has ended sends no more.
        let lingers = self.unsent && self.state == State::Open && self.session.lingers();
        self.state = if lingers { State::Refusing } else { State::Closing };
    }

    fn answered(&mut self) {
        self.answers += 1;
        self.left.answers = self.left.answers.saturating_sub(1);
        self.unsent = true;
    }
}
