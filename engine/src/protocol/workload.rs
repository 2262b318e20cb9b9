//! Types of workloads: one protocol, both ends, without input or output.

use std::collections::BTreeMap;

use anyhow::{Result, bail};
use schemars::JsonSchema;
use serde::Serialize;

use crate::base::about::About;
use crate::base::mistake::{Blame, mistake_with_hint};
use crate::base::setting::{Kind, Setting, Settings, Value};
use crate::base::unit::Unit;
use crate::base::window::Window;
use crate::count::tally::ErrorKind;
use crate::requests::sizes::SIZES;
use crate::requests::traffic::Traffic;
use crate::transfer::inbox::Inbox;
use crate::transfer::outbox::Outbox;
use crate::transfer::primitive::{Waits, Want};

/// A registered workload. Its name is that of its file.
pub struct Workload {
    /// Description, and the source of the protocol.
    pub about: About,
    /// The server's TCP port in the source, used by default.
    pub port: u16,
    /// Settings of the server side.
    pub service_settings: &'static [Setting],
    /// Settings of the client side.
    pub client_settings: &'static [Setting],
    /// Settings of both ends that must agree; requests fail otherwise.
    pub agreements: &'static [Agreement],
    /// Settings of the client side that replace others.
    pub instead: &'static [Instead],
    /// Returns the settings of the client side that have no effect, because the load requests a resource that our servers do
    /// not have, so that every reply is correct. The second argument tells which settings were given.
    pub without_effect: WithoutEffect,
    /// Settings with which an end makes new messages for each request, so that messages do not stay in memory for ever.
    pub made_anew: &'static [(End, Setting)],
    /// Settings of the client side whose product is fixed.
    pub products: &'static [Product],
    /// The ends that only count bytes which a primitive does not store; the other ends must read them.
    pub takes_unstored: &'static [End],
    /// The ends whose messages are contiguous in one buffer each.
    pub laid_out: &'static [End],
    /// The ends whose messages stay in memory unchanged while the program runs.
    pub lasting: &'static [End],
    /// The end that sends the measured bytes by default; a setting may change it.
    pub sender: End,
    /// Unit that is counted in the window of a load by default; a setting may change it.
    pub measured_by: MeasuredBy,
    /// The setting of the client side that chooses the direction of a stream; `None` if all requests have the same.
    pub direction: Option<Direction>,
    /// True if the protocol supports pipelining: each request's conversation takes its reply from the input, and leaves
    /// the rest if [`Input::more_follow`] says that more may follow.
    pub pipelines: bool,
    /// True if the server can distinguish requests, so that it counts as many as its clients. If the protocol has no
    /// boundaries between requests, the server counts receives, and both ends account for another sum
    /// ([`Service::account`]).
    pub counts_requests: bool,
    /// Formats the output of the source's own client, if it is known.
    pub original: Option<fn(&Outcome<'_>) -> String>,
    /// Makes the server side, once per server, before any fork; its argument is how the design waits.
    pub service: fn(&Settings, Waits) -> Result<Box<dyn Service>>,
    /// Makes the client side, once per load.
    pub client: fn(&Settings) -> Result<Box<dyn Client>>,
}

/// Returns the settings without effect, from the settings and whether a setting was given.
pub type WithoutEffect = fn(&Settings, &dyn Fn(&str) -> bool) -> &'static [Setting];

impl Workload {
    /// Options with which a server must be started to serve a load with these settings, as typed; empty if nothing has
    /// to agree. Omits switches: if a server does not keep connections, [`Conversation::kept_by`] names the option.
    /// `largest` is that of [`Client::largest`].
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
                // Several settings may have the same bound.
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
    /// Removes settings that another given setting replaces; refuses both together.
    pub fn settle(&self, settings: &mut Settings, given: impl Fn(&str) -> bool) -> Result<()> {
        for Instead { given: setting, of } in self.instead {
            if settings.values().get(setting.name).is_none_or(|value| *value == setting.default()) {
                continue;
            }
            if given(of.name) {
                return Err(mistake_with_hint(
                    "workload.contradiction",
                    format!(
                        "--{} and --{} contradict each other: each sets what is requested",
                        setting.option(),
                        of.option()
                    ),
                    "leave one of them out",
                )
                .blaming(&[of.name, setting.name]));
            }
            settings.forget(of.name);
        }
        (self.without_effect)(settings, &given).iter().for_each(|setting| settings.forget(setting.name));
        Ok(())
    }
}

/// Defaults shared by most workloads: an entry ends with `..COMMON`.
pub const COMMON: Workload = Workload {
    about: About { summary: "", source: "" },
    port: 0,
    service_settings: &[],
    client_settings: &[],
    agreements: &[],
    instead: &[],
    without_effect: |_, _| &[],
    made_anew: &[],
    products: &[],
    takes_unstored: &[],
    laid_out: &[End::Service, End::Client],
    lasting: &[],
    sender: End::Service,
    measured_by: MeasuredBy::Requests,
    direction: None,
    pipelines: false,
    counts_requests: true,
    original: None,
    service: |_, _| bail!("this workload has its own server side"),
    client: |_| bail!("this workload has its own client side"),
};

/// Persistent connections, in protocols whose sources close after a reply.
pub const KEEP: Setting = Setting {
    name: "keep_connections",
    help: "Persistent connections: another request may follow a reply on its connection; the source's server closes \
           instead",
    unit: Unit::None,
    kind: Kind::Boolean { default: false },
    for_more: None,
};

/// Quantity that is counted in the window of a load.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum MeasuredBy {
    /// Requests, at the time of their reply.
    Requests,
    /// Bytes, as the server receives them: a request lasts as long as the load.
    BytesToServer,
    /// Bytes, as the clients receive them.
    BytesToClients,
}

/// End of a protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum End {
    /// The server.
    Service,
    /// The load.
    Client,
}

/// A setting of the client side that a setting of the server side bounds. Neither end sees the other's settings; `list
/// --json` informs programs that start both.
#[derive(Debug, Clone, Copy)]
pub struct Agreement {
    /// The setting of the client side.
    pub client: Setting,
    /// The relation between the two.
    pub relation: Relation,
    /// The setting of the server side.
    pub service: Setting,
}

/// A setting of the client side that replaces another if it is given. The other is then not a setting of the load, and
/// giving both is refused.
#[derive(Debug, Clone, Copy)]
pub struct Instead {
    /// The setting; its default has no effect.
    pub given: Setting,
    /// The setting that it replaces.
    pub of: Setting,
}

/// Two integer settings of the client side whose product is fixed, such as the number and size of pieces. A load with
/// another product is refused; `list --json` informs programs that choose settings.
#[derive(Debug, Clone, Copy)]
pub struct Product {
    /// The two.
    pub settings: [Setting; 2],
    /// Their product.
    pub product: u64,
}

/// The setting of the client side that chooses the direction of a stream. Both sides have the same settings of a stream,
/// and only one side uses each.
#[derive(Debug, Clone, Copy)]
pub struct Direction {
    /// The setting.
    pub setting: Setting,
    /// Its value for streams that clients send.
    pub to_server: &'static str,
    /// Its value for streams that the server sends.
    pub to_client: &'static str,
    /// Settings that only the sender uses.
    pub of_sender: &'static [Setting],
    /// Settings that only the receiver uses.
    pub of_receiver: &'static [Setting],
}

/// Required relation of a client's setting to its server's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Relation {
    /// Equal.
    Equal,
    /// At most: for numbers, and for switches, with true above false.
    AtMost,
}

/// Server side of a workload; shared by all workers.
pub trait Service: Send + Sync {
    /// Makes the state of a new connection.
    fn open(&self) -> Box<dyn Session>;

    /// Returns the sums to account for, after every process of the server has ended; so they are in memory that the
    /// processes share. The error describes how the server's own sums disagree.
    fn account(&self) -> std::result::Result<Account, String> {
        Ok(Account::new())
    }

    /// Makes what it sends from, such as a file, before any fork. A dry run does not.
    fn prepare(&self) -> Result<()> {
        Ok(())
    }

    /// Size of the file that it sends from; `None` if there is none.
    fn source_bytes(&self) -> Option<u64> {
        None
    }
}

/// Status of a reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Status {
    /// Its number.
    pub code: u16,
    /// The request failed, as the reply itself says. Its connection takes other requests nevertheless.
    pub is_error: bool,
}

/// Replies with a status.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Replies {
    /// All of them.
    pub replies: u64,
    /// Those that count as errors.
    pub errors: u64,
}

/// Replies by status.
pub type StatusCounts = BTreeMap<u16, Replies>;

/// Sums that both ends of a workload must agree on, by name.
pub type Account = BTreeMap<&'static str, u64>;

/// One connection of the server side.
pub trait Session: Send {
    /// Returns the bytes that the first receive may take.
    fn first(&self) -> Want;

    /// Takes at most one request from the input, puts its reply into the outbox, and returns what comes next.
    ///
    /// Called again with the rest of the input once the outbox has been sent. A session takes every byte that it has
    /// looked at, and keeps what it needs of an incomplete request. When the input has ended, `Next::Receive` means
    /// `Next::Close`. An error is tallied and ends the connection. The outbox, which may hold an error reply, is sent
    /// first.
    fn receive(&mut self, input: &mut Input<'_>, outbox: &mut Outbox) -> std::result::Result<Next, ErrorKind>;

    /// Returns whether a refusal must reach a peer that still sends: the server then discards what comes after it, until the
    /// peer closes.
    fn lingers(&self) -> bool {
        false
    }

    /// Puts the next part of a reply begun with [`Next::Begun`] into the outbox. Called when everything before it has
    /// been sent, so that a long reply needs the memory of one part only.
    fn more(&mut self, _outbox: &mut Outbox) -> More {
        More::Nothing
    }
}

/// Result of [`Session::more`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum More {
    /// A part is in the outbox; more may follow.
    Part,
    /// Everything has been sent.
    Nothing,
    /// Everything that this end ever sends has been sent, and the peer is to see the end (shutdown(2), SHUT_WR).
    End,
}

/// Next need of a session.
pub enum Next {
    /// More bytes of an incomplete request.
    Receive(Want),
    /// The request was complete, and its reply is in the outbox.
    Answered(Then),
    /// The request was complete, and the beginning of its reply, if any, is in the outbox; [`Session::more`] has the
    /// rest.
    Begun(Then),
    /// The request needs computing. The design decides where to run it. Replies keep the order of requests, and this
    /// connection takes no more input meanwhile.
    Work(Job, Then),
    /// Send the outbox, then close.
    Close,
}

/// Next step after a reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Then {
    /// Another request may follow: when the input is used up, receive as given.
    Receive(Want),
    /// Send the reply, then close.
    Close,
}

/// The computing part of a request, which puts its reply into the outbox. Its errors are handled like those of
/// [`Session::receive`].
pub type Job = Box<dyn FnOnce(&mut Outbox) -> std::result::Result<(), ErrorKind> + Send>;

/// Client side of a workload; shared by all connections of a load.
pub trait Client: Send + Sync {
    /// Makes the state of a new connection.
    fn open(&self) -> Box<dyn Conversation>;

    /// Returns the sums to account for, after the load has ended. Sums that the server has under the same name must be
    /// equal. They are in memory that the load's processes share.
    fn account(&self) -> Account {
        Account::new()
    }

    /// Describes its requests, after the load has ended; `None` if all are alike. In memory that the load's processes
    /// share.
    fn traffic(&self) -> Option<Traffic> {
        None
    }

    /// Returns the replies by status, after the load has ended; empty if the protocol has no statuses. In memory that the
    /// load's processes share.
    fn statuses(&self) -> StatusCounts {
        StatusCounts::new()
    }

    /// Returns whether servers of this protocol may close a persistent connection at any time between two requests.
    fn reconnects(&self) -> bool {
        false
    }

    /// Returns whether a server of this protocol may answer before it has received all of a request, and then close.
    fn answers_early(&self) -> bool {
        false
    }

    /// Returns whether a server that sends this to an idle client closes the connection. `bytes`: the first
    /// [`FAREWELL`] of them, or fewer.
    fn is_farewell(&self, _bytes: &[u8]) -> bool {
        false
    }

    /// Takes the name of the server, as typed, before the first request.
    fn named(&mut self, _authority: &str) {}

    /// See [`Service::prepare`]; called before the first connection.
    fn prepare(&self) -> Result<()> {
        Ok(())
    }

    /// See [`Service::source_bytes`].
    fn source_bytes(&self) -> Option<u64> {
        None
    }

    /// Maximum reply size of its requests in bytes; `None` if a setting fixes the size.
    fn largest(&self) -> Option<u64> {
        None
    }

    /// Length of its longest request; `None` if all are alike. A request made only to learn its length is not sent, and
    /// does not change the sequence of the others.
    fn longest_request(&self) -> Option<u64> {
        None
    }

    /// Returns whether the replies are those of this program's own servers, as far as it compares them.
    fn expects_our_servers(&self) -> bool {
        true
    }

    /// Unit that is counted in the load's window.
    fn measured_by(&self) -> MeasuredBy {
        MeasuredBy::Requests
    }

    /// Returns its own measurements of the counted requests ([`Conversation::counts`]), after the load has ended. In
    /// memory that the load's processes share.
    fn figures(&self) -> Figures {
        Figures::new()
    }
}

/// Sums over the counted requests of a load, by name. Names made by [`last`] hold values of the last request only.
pub type Figures = BTreeMap<String, u64>;

/// Entry of [`Figures`]: number of counted requests.
pub const REQUESTS: &str = "requests";

/// Name in [`Figures`] of a value of the last request only.
pub fn last(name: &str) -> String {
    format!("last_{name}")
}

/// Entry of [`Figures`]: bytes of payload, as the workload defines it.
pub const PAYLOAD_BYTES: &str = "payload_bytes";

/// Entry of [`Figures`]: nanoseconds that the payload took, if that is not the time over which requests were counted. A
/// sum over requests, of which several may have been in flight at a time.
pub const PAYLOAD_NANOSECONDS: &str = "payload_ns";

/// Entries of [`Figures`] next to that sum: CLOCK_MONOTONIC at the start of the first request's payload, and at the end
/// of the last one's.
pub const PAYLOAD_BEGAN: &str = "payload_began_ns";
/// See [`PAYLOAD_BEGAN`].
pub const PAYLOAD_ENDED: &str = "payload_ended_ns";

/// Returns how long the payload took: the sum over the requests, but at most the time from the start of the first to
/// the end of the last, because requests of several clients overlap. With one client, whose requests follow each other,
/// it is the sum. If the workload does not measure this time, it is `counted_for`: the time over which requests were
/// counted, which is the load's window, or its whole life if it has no window.
pub fn payload_time(figures: &Figures, counted_for: u64) -> u64 {
    let figure = |name: &str| figures.get(name).copied().filter(|&time| time > 0);
    let Some(together) = figure(PAYLOAD_NANOSECONDS) else { return counted_for };
    let between = figure(PAYLOAD_BEGAN).zip(figure(PAYLOAD_ENDED)).map(|(began, ended)| ended.saturating_sub(began));
    between.map_or(together, |between| between.min(together))
}

/// Outcome of a load, for [`Workload::original`].
pub struct Outcome<'a> {
    /// The send primitive, as the source's client calls it (`Primitive::original`); its own name by default.
    pub primitive: &'static str,
    /// All effective settings.
    pub settings: &'a Settings,
    /// Counted requests of each client; `None` if there are too many clients to count separately.
    pub requests: Option<&'a [u64]>,
    /// See [`Client::figures`].
    pub figures: &'a Figures,
}

/// One connection of the client side.
pub trait Conversation: Send {
    /// Announces that the next request is arrival `number`, counted from 0, of a load with a schedule.
    fn numbered(&mut self, _arrival: u64) {}

    /// Kind of the request that was answered last, counted from 0; `None` if there is only one.
    fn kind(&self) -> Option<usize> {
        None
    }

    /// Status of the reply to the request that was answered last; `None` if the protocol has none.
    fn status(&self) -> Option<Status> {
        None
    }

    /// Describes the error that this status says ([`Status::is_error`]).
    fn error(&self) -> String {
        String::new()
    }

    /// Returns whether the request that was put last may be sent again if its connection was closed before a byte of its
    /// reply.
    fn repeats(&self) -> bool {
        false
    }

    /// Returns whether the last reply says that the server has not processed any later request of its connection, so that each
    /// may be sent again.
    fn refuses_later(&self) -> bool {
        false
    }

    /// Returns whether the last reply says that the server closes a connection that was idle, as it does at any time.
    fn says_idle(&self) -> bool {
        false
    }

    /// Takes back the count of the last reply, which answered no request.
    fn uncount(&mut self) {}

    /// Puts the next request, or its beginning, into the outbox; returns what the first receive of the reply wants.
    fn ask(&mut self, outbox: &mut Outbox) -> Want;

    /// Puts the next part of the request into the outbox. Called when everything before it has been sent, so that a
    /// long request needs the memory of one part only. A request without an end of its own ends with the load's window.
    fn more(&mut self, _outbox: &mut Outbox, _window: &Window) -> More {
        More::Nothing
    }

    /// Returns whether the rest of the request that was put last waits for the peer ([`Answer::Continue`]).
    fn holds_back(&self) -> bool {
        false
    }

    /// Makes [`Conversation::more`] have that rest, although the peer has not said that it may come.
    fn release(&mut self) {}

    /// Takes a part of the reply from the input. The error describes the fault for the user.
    fn receive(&mut self, input: &mut Input<'_>) -> std::result::Result<Answer, String>;

    /// Returns whether the last fault of [`Conversation::receive`] was that the peer speaks another protocol.
    fn meets_another_protocol(&self) -> bool {
        false
    }

    /// Counts the request that was answered last: its reply arrived within the load's window.
    fn counts(&mut self) {}

    /// The option that makes a server of this protocol accept another request after a reply; `None` if every server
    /// does.
    fn kept_by(&self) -> Option<&'static str> {
        None
    }
}

/// Bytes that a client looks at to see whether its server closes an idle connection: `HTTP/1.1 408`.
pub const FAREWELL: usize = 12;

/// Progress of a reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answer {
    /// More of it must come.
    Receive(Want),
    /// The peer is ready for the rest of the request, which [`Conversation::more`] has; then more of the reply must come.
    Continue(Want),
    /// Complete and correct.
    Complete,
    /// Complete and correct, and by the protocol the peer now closes: the next request needs another connection. If the
    /// input has ended, every complete reply is the last one.
    Last,
    /// Longer than expected, which is wrong.
    Surplus {
        /// Expected length.
        due: u64,
    },
}

/// Received data: a view of the inbox from which a session takes bytes.
pub struct Input<'a> {
    inbox: &'a mut Inbox,
    /// Receive calls since the session last got input.
    pub calls: u64,
    /// Bytes that arrived without being stored, by a primitive that discards or maps them.
    pub not_stored: usize,
    /// The peer will send no more.
    pub ended: bool,
    /// Other replies may follow this one, to requests sent before it arrived.
    pub more_follow: bool,
}

impl<'a> Input<'a> {
    /// Makes a view of the inbox's content.
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
