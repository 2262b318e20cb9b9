//! A connection being served: the one road between a session, which knows the protocol, and a channel, which knows the
//! system calls. Every design runs this same code; designs differ in when and where they call it.

use std::os::fd::{AsRawFd, BorrowedFd, RawFd};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use crate::count::tally::ErrorKind;
use crate::protocol::workload::{Input, Job, More, Next, Session, Then};
use crate::sys::descriptor::{PollFlags, poll};
use crate::transfer::channel::Channel;
use crate::transfer::primitive::{Received, Sent, Want};

/// How long a peer may take nothing of a finished connection whose pieces the kernel still reads: as long as a client of
/// ours waits for its server.
const FINISH: Duration = Duration::from_secs(10);

/// Answers in one turn, as many as memcached gives (its option -R): a client that never stops asking must not keep the
/// others of its event loop waiting.
const ANSWERS_IN_A_TURN: usize = 20;

/// Parts of an answer that are sent in one turn, for the same reason: a client that takes all that comes as it comes.
const PARTS_IN_A_TURN: usize = 8;

/// Bytes of answers behind which no other is gathered: that bounds the memory of a connection whose peer does not take them.
const GATHERED: u64 = 64 << 10;

/// One accepted connection.
pub struct Connection {
    channel: Channel,
    session: Box<dyn Session>,
    want: Want,
    /// Bytes received without being stored, of which the session has not been told.
    not_stored: usize,
    /// Answers in the outbox that have not been sent in full.
    answers: u64,
    /// An answer has been begun of which the session has more.
    begun: bool,
    /// Something may be left in the outbox, or in a pipe or queue of the sender.
    unsent: bool,
    /// To be run when the answers before it have been sent.
    job: Option<Job>,
    state: State,
    /// What is left of this turn.
    left: Left,
}

/// How much a connection may still do before it yields.
#[derive(Clone, Copy)]
struct Left {
    receives: usize,
    answers: usize,
    parts: usize,
    /// What is to be sent may be.
    sends: bool,
}

/// Of a connection that need not share its process or thread, and so never takes turns.
const UNBOUNDED: Left = Left { receives: usize::MAX, answers: usize::MAX, parts: usize::MAX, sends: true };

/// Of one that shares them.
const TURN: Left = Left { receives: 1, answers: ANSWERS_IN_A_TURN, parts: PARTS_IN_A_TURN, sends: true };

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Open,
    /// The peer has ended; the session has not been told.
    Ended,
    /// To be closed once everything has been sent.
    Closing,
    /// A fault of this program has been tallied; to be closed at once.
    Faulty,
}

impl AsRawFd for Connection {
    fn as_raw_fd(&self) -> RawFd {
        self.channel.socket().as_raw_fd()
    }
}

/// Why [`Connection::advance`] came back.
pub enum Progress {
    /// The socket would block until it is ready for this.
    Blocked(PollFlags),
    /// Its turn is over, and there may be more; the socket is to be ready for this. See [`Turn::Yields`].
    Yields(PollFlags),
    /// The request needs computing: run the job, wherever suits the design, with [`Connection::work`].
    Work(Job),
    /// The connection is over, well or not; what went wrong is tallied.
    Closed,
}

/// Why [`Connection::turn`] came back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Turn {
    /// Nothing more can be done before the socket is ready for this.
    Blocked(PollFlags),
    /// It has done its share, and there may be more. A wait for this level says so at once if there is; whoever waits for
    /// edges has to go on, since the edge was the one that is being served.
    Yields(PollFlags),
    /// The connection is over, well or not; what went wrong is tallied.
    Over,
}

impl Connection {
    /// Begins to serve a channel, of a socket that blocks or not.
    pub fn new(channel: Channel, session: Box<dyn Session>) -> Self {
        Connection {
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

    /// Serves a blocking socket until its end: what a worker does that has one connection at a time.
    pub fn serve(&mut self) {
        while let Some(flags) = self.advance_in_place() {
            if let Err(error) = poll(&[(self.socket(), flags)], None) {
                return self.channel.slot().error(ErrorKind::of(&error));
            }
        }
    }

    /// Goes on as far as the socket allows, and computes right here what needs computing. Says what to wait for; `None`
    /// when the connection is over.
    pub fn advance_in_place(&mut self) -> Option<PollFlags> {
        loop {
            match self.advance() {
                Progress::Blocked(flags) | Progress::Yields(flags) => return Some(flags),
                Progress::Work(job) => self.work(job),
                Progress::Closed => return None,
            }
        }
    }

    /// A turn among the connections of an event loop, of which the socket is said to be ready for `ready`: receives at
    /// most once and answers at most 20 requests, or 8 parts of one, computing right here what needs computing.
    ///
    /// Errors (POLLERR; always to be given by whoever cannot tell, as with select) may be completions, which are collected
    /// first; a real error shows at the next transfer.
    pub fn turn(&mut self, ready: PollFlags) -> Turn {
        let progress = self.turn_without_work(ready);
        self.turn_with_work(progress)
    }

    /// The first half of such a turn, for an event loop that receives from all of its connections before it sends to any: what
    /// is answered is left to [`Connection::send_turn`].
    pub fn receive_turn(&mut self, ready: PollFlags) -> Turn {
        let progress = self.begin_turn(ready, Left { sends: false, ..TURN });
        self.turn_with_work(progress)
    }

    /// The other half, which receives nothing.
    pub fn send_turn(&mut self) -> Turn {
        if !self.unsent {
            return Turn::Blocked(PollFlags::POLLIN);
        }
        self.left = Left { receives: 0, sends: true, ..self.left };
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
                    self.work(job);
                    self.advance()
                }
            }
        }
    }

    /// As [`Connection::turn`], for an event loop that has others compute: a request that needs it comes back as a job. When
    /// [`Connection::work`] has run the job, the next turn, for nothing in particular, sends the answer.
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

    /// Goes on as far as the socket allows. A panic of the session is tallied, and the connection is over.
    ///
    /// A connection with unsent output does not receive: that bounds the memory it takes.
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
                return Ok(Progress::Work(job));
            }
            if self.state == State::Closing {
                return Ok(Progress::Closed);
            }
            if self.channel.inbox.unread().is_empty() && self.not_stored == 0 && self.state == State::Open {
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
            }
            if self.left.answers == 0 {
                // What is left has been received, so the socket may never again be readable, but answers can be sent.
                return Ok(Progress::Yields(PollFlags::POLLOUT));
            }
            self.job = self.give_to_session()?;
        }
    }

    /// Runs the computing part of a request and takes its answer. A panic of the job is tallied; the connection is over
    /// then, as [`Connection::advance`] will say.
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

    /// The socket, for whoever waits for it.
    pub fn socket(&self) -> BorrowedFd<'_> {
        self.channel.socket()
    }

    /// Closes, and gives the sender the time that the kernel needs for its pieces.
    pub fn finish(self) {
        self.channel.finish(FINISH);
    }

    /// Whether the session had one more part of the answer that has been begun.
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

    /// Whether the next request, which has come, is answered before the answers to those before it are sent: one call of the
    /// primitive gathers them. What has to be computed waits until they are.
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

    /// The connection is to end because of a request; what the session has to say about that is sent first.
    fn failed(&mut self, kind: ErrorKind) {
        self.channel.slot().error(kind);
        self.unsent |= !self.channel.outbox.is_empty();
        self.state = State::Closing;
    }

    fn answered(&mut self) {
        self.answers += 1;
        self.left.answers = self.left.answers.saturating_sub(1);
        self.unsent = true;
    }
}
