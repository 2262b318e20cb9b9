//! The vocabulary of workloads: one protocol, both ends, without input or output of its own.

use std::collections::BTreeMap;

use anyhow::{Result, bail};
use schemars::JsonSchema;
use serde::Serialize;

use crate::base::about::About;
use crate::base::mistake::mistake;
use crate::base::setting::{Kind, Setting, Settings, Value};
use crate::base::window::Window;
use crate::count::tally::ErrorKind;
use crate::requests::sizes::SIZES;
use crate::requests::traffic::Traffic;
use crate::transfer::inbox::Inbox;
use crate::transfer::outbox::Outbox;
use crate::transfer::primitive::{Waits, Want};

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
    /// Settings of the asking end that leave others without a meaning.
    pub instead: &'static [Instead],
    /// Whether settings of the asking end ask for what no server of ours has, and those which say what its reply is to be: unless
    /// one of them is given, they say nothing then, and any reply is right.
    pub asks_another: (fn(&Settings) -> bool, &'static [Setting]),
    /// Settings with which an end makes messages anew for each request: then they do not lie in memory for ever.
    pub made_anew: &'static [(End, Setting)],
    /// Settings of the asking end whose product is given.
    pub products: &'static [Product],
    /// The ends that only count what comes where a primitive does not store it; the others have to read it.
    pub takes_unstored: &'static [End],
    /// The ends of which each message lies in one buffer.
    pub laid_out: &'static [End],
    /// The ends whose messages lie in memory, as they are, for as long as the program lives.
    pub lasting: &'static [End],
    /// The end that sends what is measured, where no setting says otherwise.
    pub sender: End,
    /// What of a load is counted in its window, where no setting says otherwise.
    pub measured_by: MeasuredBy,
    /// Whether a connection can have several requests under way: a conversation for each takes its reply from the input, and
    /// leaves what comes behind it where [`Input::more_follow`] says that it may.
    pub pipelines: bool,
    /// Whether its server can tell requests apart, so that it counts as many as its clients. Where the protocol has no bounds
    /// between them it counts receives, and both ends account for something else ([`Service::account`]).
    pub counts_requests: bool,
    /// What the source's own client prints as it ends, where that is known.
    pub original: Option<fn(&Outcome<'_>) -> String>,
    /// Makes the serving end, once for the whole server, before any fork; told how the design waits.
    pub service: fn(&Settings, Waits) -> Result<Box<dyn Service>>,
    /// Makes the asking end, once for the whole load.
    pub client: fn(&Settings) -> Result<Box<dyn Client>>,
}

impl Workload {
    /// What a server has to be started with so that a load with these settings is served, as it is typed; empty where nothing
    /// has to agree. Without switches: where a server does not keep connections, [`Conversation::kept_by`] says so. `largest` is
    /// as [`Client::largest`] says it.
    pub fn needed(&self, settings: &Settings, largest: Option<u64>) -> Vec<String> {
        let mut needed: Vec<(Setting, Relation, Value)> = Vec::new();
        for Agreement { client, relation, service } in self.agreements {
            let value = match settings.values().get(client.name) {
                Some(_) if *client == SIZES => largest.map(Value::Integer),
                value => value.cloned(),
            };
            let Some(value) = value else { continue };
            match needed.iter_mut().find(|(of_server, ..)| of_server == service) {
                _ if matches!(value, Value::Boolean(_)) => {}
                // Several settings may have one bound.
                Some((_, _, least)) => *least = value.max(least.clone()),
                None => needed.push((*service, *relation, value)),
            }
        }
        let typed = |(service, relation, value): (Setting, Relation, Value)| {
            let or_more = if relation == Relation::AtMost { " or more" } else { "" };
            format!("--{} {value}{or_more}", service.option())
        };
        needed.into_iter().map(typed).collect()
    }
}

impl Workload {
    /// Takes away what has no meaning beside a setting that stands instead of it; to give both is refused.
    pub fn settle(&self, settings: &mut Settings, given: impl Fn(&str) -> bool) -> Result<()> {
        for Instead { given: setting, of } in self.instead {
            if settings.values().get(setting.name).is_none_or(|value| *value == setting.default()) {
                continue;
            }
            if given(of.name) {
                return Err(mistake(format!(
                    "--{} and --{} contradict each other: each sets the size of a request; give one of them",
                    setting.option(),
                    of.option()
                )));
            }
            settings.forget(of.name);
        }
        let (asks_another, of_reply) = self.asks_another;
        if asks_another(settings) && !of_reply.iter().any(|setting| given(setting.name)) {
            of_reply.iter().for_each(|setting| settings.forget(setting.name));
        }
        Ok(())
    }
}

/// What most workloads have in common: the end of their entry is `..COMMON`.
pub const COMMON: Workload = Workload {
    about: About { summary: "", source: "" },
    port: 0,
    service_settings: &[],
    client_settings: &[],
    agreements: &[],
    instead: &[],
    asks_another: (|_| false, &[]),
    made_anew: &[],
    products: &[],
    takes_unstored: &[],
    laid_out: &[End::Service, End::Client],
    lasting: &[],
    sender: End::Service,
    measured_by: MeasuredBy::Requests,
    pipelines: false,
    counts_requests: true,
    original: None,
    service: |_, _| bail!("this workload has its own server side"),
    client: |_| bail!("this workload has its own client side"),
};

/// Whether another request may follow a reply, in protocols whose sources close after one.
pub const KEEP: Setting = Setting {
    name: "keep_connections",
    help: "Persistent connections: another request may follow a reply on its connection; the source's server closes \
           instead",
    unit: None,
    kind: Kind::Boolean { default: false },
    for_more: None,
};

/// What of a load is counted in its window.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum MeasuredBy {
    /// Requests, by the moment at which their reply was there.
    Requests,
    /// Bytes as they come to the server: a request takes as long as the load.
    BytesToServer,
    /// The same, as they come to the clients.
    BytesToClients,
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

/// A setting of the asking end that, where it is given, leaves another without a meaning: then that is none of the load's
/// settings, and to give both is refused.
#[derive(Debug, Clone, Copy)]
pub struct Instead {
    /// The setting, whose default says nothing.
    pub given: Setting,
    /// What it stands instead of.
    pub of: Setting,
}

/// Two whole numbers among the settings of the asking end whose product is given, such as pieces and the size of each of
/// something whole. A load with others is refused; whoever makes up settings is told beforehand by `list --json`.
#[derive(Debug, Clone, Copy)]
pub struct Product {
    /// The two.
    pub settings: [Setting; 2],
    /// Their product.
    pub product: u64,
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

    /// Puts the next part of an answer into the outbox that was begun with [`Next::Begun`]: asked for when all before it has
    /// been sent, so that an answer takes no more memory than a part, however long it is.
    fn more(&mut self, _outbox: &mut Outbox) -> More {
        More::Nothing
    }
}

/// Whether there was more to send.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum More {
    /// A part, which is in the outbox; there may be more behind it.
    Part,
    /// What was sent was all.
    Nothing,
    /// What was sent was all that this end ever sends, and the peer is to see the end (shutdown(2), SHUT_WR).
    End,
}

/// What a session wants next.
pub enum Next {
    /// More bytes of a request that is not complete.
    Receive(Want),
    /// The request was complete, and its answer is in the outbox.
    Answered(Then),
    /// The request was complete, and the beginning of its answer is in the outbox, if there is any; [`Session::more`] has the
    /// rest.
    Begun(Then),
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

    /// What its requests were, asked when the load has ended; `None` where all of them are alike. Kept in memory that the
    /// load's processes share.
    fn traffic(&self) -> Option<Traffic> {
        None
    }

    /// The most bytes that one of its requests may ask for; `None` where a setting of its own says how many each does.
    fn largest(&self) -> Option<u64> {
        None
    }

    /// Bytes of the longest of its requests; `None` where they are all alike, and one that is made for its length, and sent to
    /// nobody, takes nothing from those that are.
    fn longest_request(&self) -> Option<u64> {
        None
    }

    /// What is counted in the load's window.
    fn measured_by(&self) -> MeasuredBy {
        MeasuredBy::Requests
    }

    /// What it has measured itself of the requests that count ([`Conversation::counts`]), asked when the load has ended. Kept
    /// in memory that the load's processes share.
    fn figures(&self) -> Figures {
        Figures::new()
    }
}

/// Sums over the requests of a load that count, by name. What [`last`] calls so is of the last request alone.
pub type Figures = BTreeMap<String, u64>;

/// Among [`Figures`]: how many requests count.
pub const REQUESTS: &str = "requests";

/// The name of a sum of [`Figures`] for the last request alone.
pub fn last(name: &str) -> String {
    format!("last_{name}")
}

/// Among [`Figures`]: bytes of payload, by the workload's own definition.
pub const PAYLOAD_BYTES: &str = "payload_bytes";

/// Among [`Figures`]: nanoseconds that the payload took, where that is not the time that the requests were counted; a sum over
/// the requests, of which several may have been under way at a time.
pub const PAYLOAD_NANOSECONDS: &str = "payload_ns";

/// Among [`Figures`], beside that sum: CLOCK_MONOTONIC when the payload of the first request began, and when that of the last
/// ended.
pub const PAYLOAD_BEGAN: &str = "payload_began_ns";
/// See [`PAYLOAD_BEGAN`].
pub const PAYLOAD_ENDED: &str = "payload_ended_ns";

/// How long the payload took: as long as the requests together, but no longer than from the beginning of the first to the end
/// of the last, since those of several clients are under way at a time. Of one client, whose requests follow each other, it is
/// the sum. Where the workload has no time of its own it is `counted_for`: how long the requests were counted, which is the
/// load's window, or its whole life where it has none.
pub fn payload_time(figures: &Figures, counted_for: u64) -> u64 {
    let figure = |name: &str| figures.get(name).copied().filter(|&time| time > 0);
    let Some(together) = figure(PAYLOAD_NANOSECONDS) else { return counted_for };
    let between = figure(PAYLOAD_BEGAN).zip(figure(PAYLOAD_ENDED)).map(|(began, ended)| ended.saturating_sub(began));
    between.map_or(together, |between| between.min(together))
}

/// What a load came to, for [`Workload::original`].
pub struct Outcome<'a> {
    /// The primitive that sent, as the source's client calls it (`Primitive::original`); its own name where that has none.
    pub primitive: &'static str,
    /// All effective settings.
    pub settings: &'a Settings,
    /// The requests that count, of each client; `None` where there are too many to be told apart.
    pub requests: Option<&'a [u64]>,
    /// See [`Client::figures`].
    pub figures: &'a Figures,
}

/// One connection of the asking end.
pub trait Conversation: Send {
    /// The next request is the arrival of this number, counted from 0, of a load that goes by a schedule.
    fn numbered(&mut self, _arrival: u64) {}

    /// Which kind of request was answered last, counted from 0; `None` where there is only one.
    fn kind(&self) -> Option<usize> {
        None
    }

    /// Puts the next request, or its beginning, into the outbox and says how the first receive of the reply is to be made.
    fn ask(&mut self, outbox: &mut Outbox) -> Want;

    /// Puts the next part of the request into the outbox: asked for when all before it has been sent, so that a request takes
    /// no more memory than a part, however long it is. One that has no end of its own ends with the load's window.
    fn more(&mut self, _outbox: &mut Outbox, _window: &Window) -> More {
        More::Nothing
    }

    /// Takes a part of the reply from the input. The error says what was wrong with it, for the user.
    fn receive(&mut self, input: &mut Input<'_>) -> std::result::Result<Answer, String>;

    /// The request that was answered last counts: its reply was there within the load's window.
    fn counts(&mut self) {}

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
    /// It has more than what is due, and that is wrong.
    Surplus {
        /// Bytes that it was to have.
        due: u64,
    },
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
    /// Behind this reply may come others, to requests that were sent before it was there.
    pub more_follow: bool,
}

impl<'a> Input<'a> {
    /// A view of what the inbox holds.
    pub fn new(inbox: &'a mut Inbox, calls: u64, not_stored: usize, ended: bool) -> Self {
        Input { inbox, calls, not_stored, ended, more_follow: false }
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
