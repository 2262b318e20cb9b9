//! Joins both ends of a workload without sockets: each receives what the other sends, in pieces of any size, stored or
//! only counted.

use std::collections::VecDeque;

use crate::base::window::Window;
use crate::protocol::workload::{Answer, Conversation, End, Input, More, Next, Service, Session, Then};
use crate::transfer::inbox::Inbox;
use crate::transfer::outbox::Outbox;
use crate::transfer::primitive::Want;

/// A connection between a session and a conversation.
pub struct Between<'a> {
    session: Box<dyn Session>,
    conversation: Box<dyn Conversation>,
    window: &'a Window,
    /// Maximum sizes of the pieces, used cyclically.
    cuts: &'a [usize],
    cut: usize,
    /// The ends that only count bytes which need not be stored.
    discard: &'a [End],
    /// All bytes sent by the client, and all sent by the server.
    pub said: [Vec<u8>; 2],
    up: Wire,
    down: Wire,
    want: Want,
    /// The server has closed.
    closed: bool,
}

/// Bytes on their way to one end, and what it has not yet taken.
#[derive(Default)]
struct Wire {
    bytes: VecDeque<u8>,
    ended: bool,
    inbox: Inbox,
}

impl<'a> Between<'a> {
    /// A new connection.
    pub fn new(
        service: &dyn Service,
        conversation: Box<dyn Conversation>,
        window: &'a Window,
        cuts: &'a [usize],
        discard: &'a [End],
    ) -> Self {
        let session = service.open();
        let want = session.first();
        let (up, down) = (Wire::default(), Wire::default());
        Between {
            session,
            conversation,
            window,
            cuts,
            cut: 0,
            discard,
            said: Default::default(),
            up,
            down,
            want,
            closed: false,
        }
    }

    /// Runs one request and its reply. The error names the end that rejected something.
    pub fn exchange(&mut self) -> Result<Answer, String> {
        let mut outbox = Outbox::default();
        let mut client_wants = self.conversation.ask(&mut outbox);
        let mut asking = true;
        loop {
            drain(&mut outbox, &mut self.up, &mut self.said[0]);
            if asking {
                match self.conversation.more(&mut outbox, self.window) {
                    More::Part => drain(&mut outbox, &mut self.up, &mut self.said[0]),
                    More::Nothing => asking = false,
                    More::End => (asking, self.up.ended) = (false, true),
                }
            }
            self.serve()?;
            while !asking && let Some((calls, not_stored, ended)) = self.arrive(client_wants, End::Client) {
                let mut input = Input::new(&mut self.down.inbox, calls, not_stored, ended);
                match self.conversation.receive(&mut input).map_err(|message| format!("client: {message}"))? {
                    Answer::Receive(want) => client_wants = want,
                    Answer::Continue(_) => unreachable!("no server of this program has such requests"),
                    complete => {
                        assert!(self.down.inbox.unread().is_empty(), "more came than the reply has");
                        self.conversation.counts();
                        return Ok(complete);
                    }
                }
            }
            assert!(asking || !self.up.bytes.is_empty() || !self.up.inbox.unread().is_empty(), "both ends wait");
        }
    }

    /// The client sends no more, and closes.
    pub fn close(&mut self) -> Result<(), String> {
        self.up.ended = true;
        self.serve()
    }

    /// Lets the session take everything that has arrived.
    fn serve(&mut self) -> Result<(), String> {
        while !self.closed
            && let Some((calls, not_stored, ended)) = self.arrive(self.want, End::Service)
        {
            let mut outbox = Outbox::default();
            let mut input = Input::new(&mut self.up.inbox, calls, not_stored, ended);
            let next = self.session.receive(&mut input, &mut outbox);
            drain(&mut outbox, &mut self.down, &mut self.said[1]);
            let then = match next.map_err(|kind| format!("server: {}", kind.name()))? {
                Next::Receive(want) => Then::Receive(want),
                Next::Answered(then) => then,
                Next::Begun(then) => {
                    let more = loop {
                        let more = self.session.more(&mut outbox);
                        drain(&mut outbox, &mut self.down, &mut self.said[1]);
                        if more != More::Part {
                            break more;
                        }
                    };
                    self.down.ended |= more == More::End;
                    then
                }
                Next::Work(..) => unreachable!("none of these workloads computes"),
                Next::Close => Then::Close,
            };
            match then {
                Then::Receive(want) => self.want = want,
                Then::Close => self.closed = true,
            }
            self.closed |= ended;
            self.down.ended |= self.closed;
        }
        Ok(())
    }

    /// Returns what the next receive of an end brings, as the parts of an [`Input`]; `None` if nothing has arrived.
    fn arrive(&mut self, want: Want, end: End) -> Option<(u64, usize, bool)> {
        let wire = if end == End::Service { &mut self.up } else { &mut self.down };
        if !wire.inbox.unread().is_empty() {
            return Some((0, 0, false));
        }
        if wire.bytes.is_empty() {
            return wire.ended.then_some((1, 0, true));
        }
        let cut = self.cuts[self.cut % self.cuts.len()];
        self.cut += 1;
        let bytes: Vec<u8> = wire.bytes.drain(..cut.min(want.most()).min(wire.bytes.len())).collect();
        assert!(!bytes.is_empty(), "an end wants nothing, and {} bytes have come", wire.bytes.len());
        if self.discard.contains(&end) && !matches!(want, Want::Stored(_)) {
            return Some((1, bytes.len(), false));
        }
        wire.inbox.room(bytes.len()).copy_from_slice(&bytes);
        wire.inbox.filled(bytes.len());
        Some((1, 0, false))
    }
}

fn drain(outbox: &mut Outbox, wire: &mut Wire, said: &mut Vec<u8>) {
    while let Some(piece) = outbox.front() {
        let bytes = piece.with_bytes(|bytes| Ok(bytes.to_vec())).expect("a piece is in memory or can be read");
        wire.bytes.extend(&bytes);
        said.extend_from_slice(&bytes);
        outbox.sent(bytes.len() as u64);
    }
}
