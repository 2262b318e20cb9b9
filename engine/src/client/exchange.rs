//! A load's connection and its data: the client's counterpart of [`crate::server::connection`]. Blocking clients and
//! clients of an event loop run this same code; they differ in when they call it.

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use nix::errno::Errno;
use nix::sys::socket::{MsgFlags, recv};

use crate::base::window::Window;
use crate::client::show::Shown;
use crate::count::tally::ErrorKind;
use crate::net::closings::ShutDown;
use crate::protocol::workload::{Answer, Client, Conversation, FAREWELL, Input, MeasuredBy, More, Status};
use crate::sys::clock::now;
use crate::sys::descriptor::{PollFlags, poll};
use crate::transfer::channel::Channel;
use crate::transfer::inbox::CAPACITY;
use crate::transfer::primitive::{Received, Sent, Want};

/// Maximum time for a reply in pieces, as a multiple of the time allowed without progress.
pub const LONGEST: u32 = 10;

/// A failed request: the kind that is counted, and the message for the user.
#[derive(Debug)]
pub struct Failure {
    /// Counted as this kind.
    pub kind: ErrorKind,
    /// Message for the user.
    pub message: String,
}

impl Failure {
    /// Makes a failure of a system error during this activity.
    pub fn system(doing: &str, error: &io::Error) -> Self {
        match ErrorKind::of(error) {
            ErrorKind::TimedOut => Failure::timed_out(doing),
            kind => Failure { kind, message: format!("{doing}: {error}") },
        }
    }

    /// Waiting for a connection failed.
    pub fn waiting(error: &io::Error) -> Self {
        Failure::system("waiting for a connection", error)
    }

    /// Requests in flight after the window's end got no reply in time, though there may have been progress.
    pub fn behind_the_window() -> Self {
        let message = "waiting for replies after the window: the time allowed is over (--timeout)".to_owned();
        Failure { kind: ErrorKind::TimedOut, message }
    }

    /// A reply arrived in pieces, and is incomplete after this long.
    fn in_pieces(longest: Duration) -> Self {
        let message = format!(
            "{RECEIVING}: it arrived in pieces and is incomplete after {:.1} s, {LONGEST} times the time allowed \
             (--timeout)",
            longest.as_secs_f64()
        );
        Failure { kind: ErrorKind::TimedOut, message }
    }

    /// This activity made no progress in time.
    pub fn timed_out(doing: &str) -> Self {
        let message = format!("{doing}: no progress within the time allowed (--timeout)");
        Failure { kind: ErrorKind::TimedOut, message }
    }
}

/// One connection of a load.
pub struct Caller<'run> {
    channel: Channel,
    client: &'run dyn Client,
    /// One conversation per request in flight, in order, and then free ones.
    conversations: VecDeque<Box<dyn Conversation>>,
    /// Requests in flight.
    in_flight: usize,
    /// Number of them that have been put, and not begun.
    gathered: usize,
    shown: Option<Shown<'run>>,
    window: &'run Window,
    want: Want,
    /// The outbox, or a pipe or queue of the sender, may hold unsent data, or the request has more parts.
    unsent: bool,
    /// Data was sent or received since the last check.
    moved: bool,
    /// A request was answered, and no data has arrived since.
    at_rest: bool,
    /// A request was answered.
    has_answered: bool,
    /// The connection was opened before there was a request for it, so its server may have closed it as idle, and no data has
    /// arrived.
    stands_by: bool,
    /// The kernel may have taken a byte of the requests in flight.
    has_begun: bool,
    /// The kernel refused the first byte of the requests in flight: none can have come to the server.
    is_unsent: bool,
    /// This end has shut down its sending side, and still receives.
    shut_down: Option<ShutDown>,
    /// The inbox holds data after the last reply: the beginning of the next, or all of it.
    left_over: bool,
    /// Time at which the first piece of the incomplete reply arrived (CLOCK_MONOTONIC, nanoseconds); 0: none has.
    first_piece: u64,
    /// Maximum time for a reply in pieces; `None` if it lasts as long as the load.
    longest: Option<Duration>,
    /// The peer had closed when a later request was sent. Replies to earlier ones may have arrived.
    cannot_send: bool,
    /// Time allowed without progress.
    patience: Duration,
    /// Time at which the rest of the last request, which waits for the peer, is sent nevertheless (CLOCK_MONOTONIC,
    /// nanoseconds).
    held_until: Option<u64>,
}

/// Result of [`Caller::send_request`] or [`Caller::advance`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Progress {
    /// The socket would block until it is ready for these events.
    Blocked(PollFlags),
    /// The turn is over, and there may be more to do; the socket must be ready for these events.
    Yields(PollFlags),
    /// The reply arrived and was correct, unless [`Caller::rejection`] has an error.
    Answered {
        /// The connection takes another request.
        open: bool,
    },
}

impl<'run> Caller<'run> {
    /// Makes a caller of a channel, blocking or not, for a load with this window and this time allowed without
    /// progress.
    pub fn new(
        channel: Channel,
        client: &'run dyn Client,
        shown: Option<Shown<'run>>,
        window: &'run Window,
        patience: Duration,
    ) -> Self {
        if let Some(shown) = &shown {
            shown.connected(channel.socket());
        }
        Caller {
            channel,
            client,
            conversations: VecDeque::from([client.open()]),
            in_flight: 0,
            gathered: 0,
            shown,
            window,
            want: Want::AtMost(0),
            unsent: false,
            moved: false,
            at_rest: false,
            has_answered: false,
            stands_by: false,
            has_begun: false,
            is_unsent: false,
            shut_down: None,
            left_over: false,
            first_piece: 0,
            longest: (client.measured_by() == MeasuredBy::Requests).then(|| patience * LONGEST),
            cannot_send: false,
            patience,
            held_until: None,
        }
    }

    /// Notes that the connection was opened before there was a request for it.
    pub fn stand_by(&mut self) {
        self.stands_by = true;
    }

    /// Sends a request and waits for its reply, on a blocking socket whose own time limit ends the wait. Returns
    /// whether the connection takes another request.
    pub fn exchange(&mut self) -> Result<bool, Failure> {
        let mut progress = self.send_request()?;
        if progress == Progress::Blocked(PollFlags::POLLIN) && !self.is_held() {
            progress = self.advance()?;
        }
        loop {
            match progress {
                Progress::Answered { open } => return Ok(open),
                Progress::Blocked(_) | Progress::Yields(_) if self.is_held() => {
                    self.wait_while_held()?;
                    progress = self.advance()?;
                }
                Progress::Blocked(_) => return Err(self.timed_out()),
                Progress::Yields(_) if self.window.is_left() => return Err(Failure::behind_the_window()),
                Progress::Yields(_) => progress = self.advance()?,
            }
        }
    }

    /// Sends the next request, as far as the socket allows. Does not receive, since a reply cannot be there yet.
    /// Everything before it must have been sent ([`Caller::is_sending`]).
    pub fn send_request(&mut self) -> Result<Progress, Failure> {
        self.put(None);
        self.begin()
    }

    /// Prepares the next request, which is the arrival of this number, counted from 0, if the load has a schedule.
    /// [`Caller::begin`] sends it.
    pub fn put(&mut self, arrival: Option<u64>) {
        if self.in_flight == self.conversations.len() {
            self.conversations.push_back(self.client.open());
        }
        if let Some(arrival) = arrival {
            self.conversations[self.in_flight].numbered(arrival);
        }
        if self.in_flight == 0 {
            (self.has_begun, self.is_unsent) = (false, false);
        }
        let before = self.channel.outbox.bytes();
        let want = self.conversations[self.in_flight].ask(&mut self.channel.outbox);
        // Several replies may arrive together.
        self.want = if self.in_flight == 0 { want } else { Want::AtMost(CAPACITY) };
        if self.conversations[self.in_flight].holds_back() {
            self.held_until = Some(now() + HELD_BACK.min(self.patience / 2).as_nanos() as u64);
        }
        self.in_flight += 1;
        self.gathered += 1;
        if let Some(shown) = &mut self.shown {
            shown.sends_request(&self.channel.outbox, before);
        }
        self.unsent = true;
    }

    /// Returns whether another prepared request would leave by the same call as those not yet begun.
    pub fn gathers_another(&self) -> bool {
        self.held_until.is_none() && self.gathered < self.channel.outbox.messages_at_once()
    }

    /// Sends prepared requests, as far as the socket allows, as [`Caller::send_request`] does.
    pub fn begin(&mut self) -> Result<Progress, Failure> {
        self.gathered = 0;
        self.send().or_else(|failure| self.early_reply(failure))
    }

    /// Counts the request that was answered last.
    pub fn counts(&mut self) {
        if let Some(last) = self.conversations.back_mut() {
            last.counts();
        }
    }

    /// Kind of the request that was answered last ([`Conversation::kind`]).
    pub fn kind(&self) -> Option<usize> {
        self.conversations.back().and_then(|last| last.kind())
    }

    /// Status of the request that was answered last ([`Conversation::status`]).
    pub fn status(&self) -> Option<Status> {
        self.conversations.back().and_then(|last| last.status())
    }

    /// Returns the failure of the request that was answered last, if the reply itself says that it failed.
    pub fn rejection(&self) -> Option<Failure> {
        let last = self.conversations.back().filter(|last| last.status().is_some_and(|status| status.is_error))?;
        Some(Failure { kind: ErrorKind::ErrorStatus, message: last.error() })
    }

    /// Returns whether a request has not been sent in full, so that none may follow it yet.
    pub fn is_sending(&self) -> bool {
        self.unsent || self.held_until.is_some() || self.cannot_send
    }

    /// Returns the time at which [`Caller::advance`] sends the rest of a request that waits for the peer (CLOCK_MONOTONIC,
    /// nanoseconds); `None` if none waits.
    pub fn held_until(&self) -> Option<u64> {
        self.held_until
    }

    /// Returns whether there is nothing to send until the peer says something, although a request has not been sent in full.
    pub fn is_held(&self) -> bool {
        !self.unsent && self.is_sending()
    }

    /// Waits on a blocking socket until the peer says something, or has said nothing for too long.
    fn wait_while_held(&self) -> Result<(), Failure> {
        let left = self.held_until.unwrap_or_default().saturating_sub(now());
        let readable = [(self.channel.socket(), PollFlags::POLLIN)];
        poll(&readable, Some(Duration::from_nanos(left))).map_err(|error| Failure::waiting(&error)).map(drop)
    }

    /// Lets the rest of the last request go, if the peer has not said for too long that it may come.
    fn release(&mut self) {
        if self.held_until.is_some_and(|until| now() >= until) {
            self.held_until = None;
            self.conversations[self.in_flight - 1].release();
            self.channel.slot().sent_unbidden.fetch_add(1, Relaxed);
            self.unsent = true;
        }
    }

    /// Returns whether data was sent or received since the last call of this function.
    pub fn has_moved(&mut self) -> bool {
        std::mem::take(&mut self.moved)
    }

    /// Returns whether there is work without waiting for the socket: more than one reply has arrived.
    pub fn is_behind(&self) -> bool {
        self.left_over
    }

    /// Advances as far as the socket allows.
    pub fn advance(&mut self) -> Result<Progress, Failure> {
        self.go_on().or_else(|failure| self.early_reply(failure))
    }

    /// Takes the reply of a server that closed before it had received all of the request; otherwise returns the failure.
    fn early_reply(&mut self, failure: Failure) -> Result<Progress, Failure> {
        if self.in_flight > 1 && self.unsent && is_of_closing(&failure) {
            // Nothing more is sent. Replies that have arrived come before the failure.
            (self.unsent, self.held_until, self.cannot_send) = (false, None, true);
            return Ok(Progress::Blocked(PollFlags::POLLIN));
        }
        let may_be = self.client.answers_early() && self.in_flight == 1 && self.unsent && is_of_closing(&failure);
        for _ in 0..if may_be { RECEIVES_IN_A_TURN } else { 0 } {
            let ended = match self.channel.receive(self.want) {
                Ok(Received::End) => true,
                Ok(Received::Bytes(_)) => false,
                _ => break,
            };
            self.at_rest &= ended;
            self.stands_by &= ended;
            match self.take(0, ended) {
                Ok(Answer::Complete | Answer::Last) => return self.answered(true),
                Ok(Answer::Receive(want)) if !ended => self.want = want,
                _ => break,
            }
        }
        Err(self.explained(failure))
    }

    /// Returns whether the server has closed the connection, or said that it closes it, while no request was in flight.
    pub fn is_closed(&self) -> bool {
        let mut unasked = [0; FAREWELL];
        match recv(self.channel.socket().as_raw_fd(), &mut unasked, MsgFlags::MSG_PEEK | MsgFlags::MSG_DONTWAIT) {
            Ok(bytes) => bytes == 0 || self.client.is_farewell(&unasked[..bytes]),
            Err(error) => !matches!(error, Errno::EAGAIN | Errno::EINTR),
        }
    }

    /// Returns whether the requests in flight may be sent again after this failure: the server closed an idle connection before
    /// a byte of their replies, and each of them may be sent twice, or none has been sent. A connection that was made for its
    /// first request was never idle.
    pub fn may_repeat(&self, failure: &Failure) -> bool {
        self.was_idle() && is_of_closing(failure) && (self.all_repeat() || self.is_unsent)
    }

    /// Returns whether no data has arrived since the connection had no request.
    fn was_idle(&self) -> bool {
        self.at_rest || self.stands_by
    }

    /// Returns whether each request in flight may be sent again.
    pub fn all_repeat(&self) -> bool {
        self.conversations.iter().take(self.in_flight).all(|each| each.repeats())
    }

    /// Returns whether the last reply says that the server has not processed any request after it.
    pub fn refuses_later(&self) -> bool {
        self.conversations.back().is_some_and(|last| last.refuses_later())
    }

    /// If a server closes after its reply, the next request on a persistent connection fails, unless it may be sent again.
    fn explained(&self, failure: Failure) -> Failure {
        if self.client.reconnects() && self.was_idle() && is_of_closing(&failure) && !self.may_repeat(&failure) {
            let message = format!(
                "{}; the server had just closed the connection, and a request that is not idempotent is not sent again",
                failure.message
            );
            return Failure { kind: ErrorKind::NotRepeated, message };
        }
        match self.conversations[0].kept_by().filter(|_| is_of_closing(&failure) && self.at_rest) {
            None => failure,
            Some(option) => Failure {
                message: format!(
                    "{}; the server had closed after its last reply: serve with {option}, or load without \
                     --connections kept",
                    failure.message
                ),
                ..failure
            },
        }
    }

    fn go_on(&mut self) -> Result<Progress, Failure> {
        self.release();
        if self.unsent {
            let progress = self.send()?;
            // Earlier requests may have been answered: a server that cannot send its replies receives no more.
            if self.unsent && self.in_flight == 1 && !self.client.answers_early() {
                return Ok(progress);
            }
        }
        for _ in 0..RECEIVES_IN_A_TURN {
            let (not_stored, ended) = if std::mem::take(&mut self.left_over) {
                (0, false)
            } else {
                match self.channel.receive(self.want).map_err(|error| Failure::system(RECEIVING, &error))? {
                    Received::Bytes(_) => (0, false),
                    Received::Discarded(bytes) | Received::Mapped(bytes) => (bytes, false),
                    Received::End => (0, true),
                    Received::Blocked => {
                        self.channel.inbox.give_back();
                        return Ok(Progress::Blocked(self.waits_for()));
                    }
                }
            };
            self.moved = true;
            let was_idle = self.was_idle();
            self.at_rest &= ended;
            self.stands_by &= ended;
            match self.take(not_stored, ended)? {
                Answer::Receive(_) if self.window.is_left() => return Err(Failure::behind_the_window()),
                Answer::Receive(want) => {
                    self.comes_in_time()?;
                    self.want = if self.in_flight == 1 { want } else { Want::AtMost(CAPACITY) };
                    if self.held_until.is_some() {
                        // A blocking receive would not end in time.
                        return Ok(Progress::Yields(self.waits_for()));
                    }
                }
                Answer::Continue(want) => {
                    self.want = want;
                    (self.unsent, self.held_until) = (true, None);
                    self.conversations[0].more(&mut self.channel.outbox, self.window);
                    let progress = self.send()?;
                    // The reply may have come with it.
                    self.left_over = !self.channel.inbox.unread().is_empty();
                    if self.unsent && !self.left_over {
                        return Ok(progress);
                    }
                }
                Answer::Complete | Answer::Last
                    if was_idle && self.all_repeat() && self.conversations[0].says_idle() =>
                {
                    // It left the server before the request had come, which is sent again.
                    self.conversations[0].uncount();
                    self.at_rest = true;
                    let message = self.conversations[0].error();
                    return Err(Failure { kind: ErrorKind::Truncated, message });
                }
                Answer::Complete => return self.answered(ended),
                Answer::Last => return self.answered(true),
                Answer::Surplus { due } => {
                    let message = format!("the reply has more than the {due} bytes requested");
                    return Err(Failure { kind: ErrorKind::Surplus, message });
                }
            }
        }
        Ok(Progress::Yields(self.waits_for()))
    }

    /// A reply that arrives drop by drop always makes progress, but must not be awaited for ever.
    fn comes_in_time(&mut self) -> Result<(), Failure> {
        let Some(longest) = self.longest else { return Ok(()) };
        let at = now();
        match self.first_piece {
            0 => self.first_piece = at,
            first if at - first > longest.as_nanos() as u64 => return Err(Failure::in_pieces(longest)),
            _ => {}
        }
        Ok(())
    }

    fn waits_for(&self) -> PollFlags {
        if self.unsent { PollFlags::POLLIN | PollFlags::POLLOUT } else { PollFlags::POLLIN }
    }

    /// Gives received data to its conversation.
    fn take(&mut self, not_stored: usize, ended: bool) -> Result<Answer, Failure> {
        let unread = self.channel.inbox.unread();
        let before = self.shown.is_some().then(|| unread.to_vec());
        let is_http = !self.has_answered && unread.starts_with(b"HTTP/1.");
        let calls = self.channel.take_calls();
        let mut input = Input::new(&mut self.channel.inbox, calls, not_stored, ended);
        input.more_follow = self.in_flight > 1;
        let answer = self.conversations[0].receive(&mut input);
        let left = input.bytes().len();
        if let (Some(shown), Some(before)) = (&mut self.shown, before) {
            shown.receives(&before[..before.len() - left], not_stored);
        }
        answer.map_err(|message| match () {
            // HTTP is the only public protocol: of any other workload, a server of HTTP is none.
            () if is_http && !self.client.reconnects() => {
                let message = "the server speaks HTTP at this port: `load http` loads it".to_owned();
                Failure { kind: ErrorKind::OtherProtocol, message }
            }
            () if !self.has_answered && self.conversations[0].meets_another_protocol() => {
                Failure { kind: ErrorKind::OtherProtocol, message }
            }
            () if ended => Failure { kind: ErrorKind::Truncated, message },
            () => Failure { kind: ErrorKind::WrongReply, message },
        })
    }

    /// Notes that the first request in flight was answered.
    fn answered(&mut self, last: bool) -> Result<Progress, Failure> {
        self.in_flight -= 1;
        // The rest of a request that was answered early is not sent.
        let last = last || self.in_flight == 0 && (std::mem::take(&mut self.unsent) || self.cannot_send);
        self.first_piece = 0;
        self.conversations.rotate_left(1);
        if self.in_flight == 0 {
            self.held_until = None;
            self.nothing_is_left()?;
            self.channel.inbox.give_back();
        } else {
            self.left_over = !self.channel.inbox.unread().is_empty();
            self.want = Want::AtMost(CAPACITY);
        }
        self.at_rest = !self.left_over;
        (self.has_answered, self.stands_by) = (true, false);
        if self.status().is_none_or(|status| !status.is_error) {
            self.channel.slot().requests.fetch_add(1, Relaxed);
        }
        if let Some(shown) = &mut self.shown {
            shown.replied();
        }
        Ok(Progress::Answered { open: !last })
    }

    /// The socket, for waiting on it.
    pub fn socket(&self) -> BorrowedFd<'_> {
        self.channel.socket()
    }

    /// As [`Channel::reap`].
    pub fn reap(&mut self) -> io::Result<()> {
        self.channel.reap()
    }

    /// Makes the failure of a wait that took too long.
    pub fn timed_out(&self) -> Failure {
        Failure::timed_out(if self.unsent { SENDING } else { RECEIVING })
    }

    /// Closes, and gives the sender the time that the kernel needs for its pieces.
    pub fn finish(self, patience: Duration) {
        self.channel.slot().closings.note_close(self.channel.socket(), self.shut_down);
        self.channel.finish(patience);
    }

    /// Sends, and requests the next part when that is done.
    fn send(&mut self) -> Result<Progress, Failure> {
        let failure = |error| Failure::system(SENDING, &error);
        for _ in 0..PARTS_IN_A_TURN {
            let before = self.channel.outbox.bytes();
            let sent = self.channel.send();
            let has_moved = self.channel.outbox.bytes() < before;
            self.moved |= has_moved;
            self.has_begun |= has_moved;
            self.is_unsent = sent.is_err() && !self.has_begun;
            let sent = sent.map_err(failure)?;
            if sent == Sent::Blocked {
                return Ok(Progress::Blocked(PollFlags::POLLOUT));
            }
            match self.conversations[self.in_flight - 1].more(&mut self.channel.outbox, self.window) {
                More::Part => {
                    if let Some(shown) = &mut self.shown {
                        shown.goes_on(&self.channel.outbox);
                    }
                    continue;
                }
                More::Nothing => {}
                More::End => {
                    self.shut_down = Some(self.channel.slot().closings.note_shutdown(self.channel.socket()));
                    self.channel.end().map_err(failure)?;
                }
            }
            self.unsent = false;
            return Ok(Progress::Blocked(PollFlags::POLLIN));
        }
        Ok(Progress::Yields(PollFlags::POLLOUT))
    }

    /// Checks for surplus data: the next request would take it as its reply.
    fn nothing_is_left(&self) -> Result<(), Failure> {
        match self.channel.inbox.unread().len() {
            0 => Ok(()),
            bytes => Err(Failure {
                kind: ErrorKind::Surplus,
                message: format!("{bytes} more bytes arrived than the reply has"),
            }),
        }
    }
}

/// Returns whether a failure is that the peer closed.
fn is_of_closing(failure: &Failure) -> bool {
    matches!(failure.kind, ErrorKind::Truncated | ErrorKind::Reset | ErrorKind::BrokenPipe)
}

/// Time for which the rest of a request waits for the peer: a client "SHOULD NOT wait for an indefinite period" (RFC 9110,
/// section 10.1.1). curl waits as long. At most half of the time allowed without progress.
const HELD_BACK: Duration = Duration::from_secs(1);

/// Maximum parts of a request sent in one turn: a server that takes data as fast as it comes must not delay the other
/// connections of an event loop, nor the edges of its window.
const PARTS_IN_A_TURN: usize = 8;

/// Maximum receives in one turn, for the same reason: a server may send faster than data is taken.
const RECEIVES_IN_A_TURN: usize = 16;

const SENDING: &str = "sending a request";
const RECEIVING: &str = "receiving a reply";

#[cfg(test)]
mod tests;
