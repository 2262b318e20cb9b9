//! The vocabulary of workloads: one protocol, both ends, without input or output of its own.

use std::collections::BTreeMap;

use anyhow::Result;
use serde::Serialize;

use crate::about::About;
use crate::inbox::Inbox;
use crate::outbox::Outbox;
use crate::primitive::{Waits, Want};
use crate::setting::{Setting, Settings};
use crate::tally::ErrorKind;

/// A registered workload. Its file's name is its name.
pub struct Workload {
    /// What it is and where the protocol is described.
    pub about: About,
    /// The server's TCP port in the source, used when none is given.
    pub port: u16,
    /// Settings of the serving end.
    pub service_settings: &'static [Setting],
    /// Settings of the asking end.
    pub client_settings: &'static [Setting],
    /// Which settings of both ends must agree: where they do not, requests fail.
    pub agreements: &'static [Agreement],
    /// The ends that only count what comes where a primitive does not store it; the others have to read it.
    pub takes_unstored: &'static [End],
    /// Each of its messages lies in one buffer.
    pub laid_out: bool,
    /// The ends whose messages lie in memory, as they are, for as long as the program lives.
    pub lasting: &'static [End],
    /// Makes the serving end, once for the whole server, before any fork; told how the design waits.
    pub service: fn(&Settings, Waits) -> Result<Box<dyn Service>>,
    /// Makes the asking end, once for the whole load.
    pub client: fn(&Settings) -> Result<Box<dyn Client>>,
}

/// An end of a protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum End {
    /// The server's.
    Service,
    /// The load's.
    Client,
}

/// A setting of the asking end that one of the serving end bounds. Neither end sees the other's settings; whoever starts
/// both is told by `list --json`.
#[derive(Debug, Clone, Copy)]
pub struct Agreement {
    /// The setting of the asking end.
    pub client: Setting,
    /// How the two stand to each other.
    pub relation: Relation,
    /// The setting of the serving end.
    pub service: Setting,
}

/// How a client's setting must stand to its server's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Relation {
    /// It has the same value.
    Equal,
    /// It is no more: of numbers, and of switches, where true is more than false.
    AtMost,
}

/// The serving end; shared by all workers.
pub trait Service: Send + Sync {
    /// The state of a new connection.
    fn open(&self) -> Box<dyn Session>;

    /// What it has to account for, asked when every process of the server has ended: so it is kept in memory that they
    /// share. The error says how its own books do not balance.
    fn account(&self) -> std::result::Result<Account, String> {
        Ok(Account::new())
    }
}

/// Sums that the two ends of a workload must agree on, by name.
pub type Account = BTreeMap<&'static str, u64>;

/// One connection of the serving end.
pub trait Session: Send {
    /// How much the first receive may take.
    fn first(&self) -> Want;

    /// Takes at most one request from the input, answers it into the outbox, and says what is to come next.
    ///
    /// Called again with what is left of the input once the outbox has been sent. A session takes every byte that it
    /// has looked at and keeps what it needs of an incomplete request. When the input has ended, `Next::Receive` means
    /// `Next::Close`. An error is tallied and ends the connection; what was put into the outbox, such as an answer that
    /// says what was wrong, is sent before.
    fn receive(&mut self, input: &mut Input<'_>, outbox: &mut Outbox) -> std::result::Result<Next, ErrorKind>;
}

/// What a session wants next.
pub enum Next {
    /// More bytes of a request that is not complete.
    Receive(Want),
    /// The request was complete, and its answer is in the outbox.
    Answered(Then),
    /// The request needs computing. The design decides where; replies keep the order of requests, and no more input of
    /// this connection is taken meanwhile.
    Work(Job, Then),
    /// Send what is in the outbox, then close.
    Close,
}

/// What comes after an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Then {
    /// Another request may follow: receive as said when the input is used up.
    Receive(Want),
    /// Send the answer, then close.
    Close,
}

/// The part of a request that computes, and puts its answer into the outbox. An error is as one of [`Session::receive`].
pub type Job = Box<dyn FnOnce(&mut Outbox) -> std::result::Result<(), ErrorKind> + Send>;

/// The asking end; shared by all connections of a load.
pub trait Client: Send + Sync {
    /// The state of a new connection.
    fn open(&self) -> Box<dyn Conversation>;

    /// What it has to account for, asked when the load has ended. A sum that the server has under the same name must be
    /// equal. Kept in memory that the load's processes share.
    fn account(&self) -> Account {
        Account::new()
    }
}

/// One connection of the asking end.
pub trait Conversation: Send {
    /// Puts the next request into the outbox and says how the first receive of the reply is to be made.
    fn ask(&mut self, outbox: &mut Outbox) -> Want;

    /// Takes a part of the reply from the input. The error says what was wrong with it, for the user.
    fn receive(&mut self, input: &mut Input<'_>) -> std::result::Result<Answer, String>;

    /// The option by which a server of this protocol is told to take another request after a reply; `None` where every
    /// server does.
    fn kept_by(&self) -> Option<&'static str> {
        None
    }
}

/// How far a reply has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answer {
    /// More of it is to come.
    Receive(Want),
    /// It is complete and right.
    Complete,
    /// It is complete and right, and the protocol says that the peer closes now: the next request needs another
    /// connection. An end of the input makes every complete reply the last one.
    Last,
}

/// What was received: a view of the inbox from which a session takes.
pub struct Input<'a> {
    inbox: &'a mut Inbox,
    /// Receive calls since the session was last given any input.
    pub calls: u64,
    /// Bytes that came without being stored, by a primitive that discards or maps them.
    pub not_stored: usize,
    /// The peer will send no more.
    pub ended: bool,
}

impl<'a> Input<'a> {
    /// A view of what the inbox holds.
    pub fn new(inbox: &'a mut Inbox, calls: u64, not_stored: usize, ended: bool) -> Self {
        Input { inbox, calls, not_stored, ended }
    }

    /// The bytes not yet taken.
    pub fn bytes(&self) -> &[u8] {
        self.inbox.unread()
    }

    /// Takes `count` bytes from the front.
    pub fn take(&mut self, count: usize) {
        self.inbox.taken(count);
    }
}
