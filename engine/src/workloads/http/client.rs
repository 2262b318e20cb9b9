//! The client side: requests of one or several kinds, and their replies.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use anyhow::{Context, Result};
use rand_distr::Distribution;
use rand_distr::weighted::WeightedAliasIndex;

use super::kinds::{Body, Head as RequestHead, KindOfRequest, MIX, kinds};
use super::reply_body::Unmeasured;
use super::reply_head::{Extent, Head, read, unlike};
use super::request::Common;
use super::statuses::Statuses;
use crate::base::mistake::{Blame, mistake};
use crate::base::setting::{NONE, Settings};
use crate::base::window::Window;
use crate::protocol::pattern::{BYTES, CHECK, COUNT, Reception};
use crate::protocol::workload::{Answer, Client, Conversation, Input, More, Status, StatusCounts};
use crate::requests::sizes::alias;
use crate::requests::traffic::{KindSent, SizesInTurn, Traffic};
use crate::sys::memory::shared::SharedArray;
use crate::transfer::outbox::{Outbox, Piece};
use crate::transfer::primitive::Want;

/// The longest reply head accepted.
const LONGEST_HEAD: usize = 64 * 1024;

/// Makes the client side.
pub fn client(settings: &Settings) -> Result<Box<dyn Client>> {
    let common = Common::of(settings)?;
    let kinds: Arc<[KindOfRequest]> = kinds(settings, &common)?.into();
    let sizes = SizesInTurn::new(settings, &BYTES)?;
    let mix = (settings.word(MIX.name) != NONE).then(|| Mix::new(&kinds)).transpose()?;
    let exactly = kinds.iter().filter_map(|kind| if let Body::Exactly(bytes) = kind.body { Some(bytes) } else { None });
    let largest = exactly.chain(sizes.is_given().then(|| sizes.largest())).max().unwrap_or_default();
    let body = Reception::new(settings, largest);
    let current = CurrentRequest { kind: 0, bytes: None };
    Ok(Box::new(HttpClient {
        kinds,
        mix,
        sizes,
        arrival: None,
        current,
        head: Vec::new(),
        interim: 0,
        coming: Coming::Head,
        closes: false,
        says_close: false,
        is_another_protocol: false,
        compares: settings.values().get(CHECK.name).is_some_and(|_| settings.word(CHECK.name) != COUNT),
        is_named_by_server: common.is_named_by_server(),
        expects_continue: common.expects_continue,
        held_back: None,
        status: Status { code: 0, is_error: false },
        statuses: Statuses::new().context("cannot map shared memory")?,
        body,
    }))
}

/// Weights of the kinds, and how often each was requested.
#[derive(Clone)]
struct Mix {
    index: Arc<WeightedAliasIndex<u64>>,
    counted: Arc<SharedArray<AtomicU64>>,
}

impl Mix {
    fn new(kinds: &[KindOfRequest]) -> Result<Self> {
        let index = alias(kinds.iter().map(|kind| kind.weight).collect());
        Ok(Mix {
            index: Arc::new(
                index.map_err(|why| {
                    mistake("http.invalid_mix", format!("--{}: {why}", MIX.name)).blaming(&[MIX.name])
                })?,
            ),
            counted: Arc::new(SharedArray::new(kinds.len()).context("cannot map shared memory")?),
        })
    }
}

#[derive(Clone)]
struct HttpClient {
    kinds: Arc<[KindOfRequest]>,
    /// None if there is only one kind.
    mix: Option<Mix>,
    sizes: SizesInTurn,
    /// Draw of the next request.
    arrival: Option<u64>,
    /// Current request.
    current: CurrentRequest,
    /// The incomplete head so far.
    head: Vec<u8>,
    /// Bytes of interim heads (1xx).
    interim: usize,
    coming: Coming,
    /// The reply's head announces that the server closes after it.
    closes: bool,
    /// It says so.
    says_close: bool,
    /// The peer speaks another protocol.
    is_another_protocol: bool,
    /// The bytes of replies are compared.
    compares: bool,
    /// The Host field is the name of the server.
    is_named_by_server: bool,
    /// Bodies wait for 100 Continue.
    expects_continue: bool,
    /// Body of the current request that waits for it, and whether it may be sent.
    held_back: Option<(Arc<[u8]>, bool)>,
    /// The reply's status.
    status: Status,
    statuses: Statuses,
    body: Reception,
}

#[derive(Clone, Copy)]
struct CurrentRequest {
    kind: usize,
    /// Length of the reply's body, if it had one; `None` if any length is correct.
    bytes: Option<u64>,
}

/// The next part of a reply.
#[derive(Clone, Copy)]
enum Coming {
    Head,
    /// A body that is compared.
    Body,
    /// This many bytes of a body that is not compared.
    Any(u64),
    /// A body whose end is not known in advance, compared or not.
    Unmeasured(Unmeasured),
}

impl Client for HttpClient {
    fn open(&self) -> Box<dyn Conversation> {
        Box::new(self.clone())
    }

    fn traffic(&self) -> Option<Traffic> {
        let Some(mix) = &self.mix else { return self.sizes.traffic() };
        let (numbering, sizes) = (self.sizes.numbering(), self.sizes.traffic());
        let sent = |(kind, counted): (&KindOfRequest, &AtomicU64)| KindSent {
            request: kind.text.clone(),
            weight: kind.weight,
            requests: counted.load(Relaxed),
        };
        Some(Traffic {
            seed: numbering.seed(),
            requests: Some(numbering.made()),
            sizes: sizes.and_then(|traffic| traffic.sizes),
            kinds: self.kinds.iter().zip(mix.counted.iter()).map(sent).collect(),
        })
    }

    fn named(&mut self, authority: &str) {
        let mut kinds = self.kinds.to_vec();
        for kind in &mut kinds {
            if self.is_named_by_server {
                kind.name(authority);
            }
            if !self.expects_continue {
                kind.join();
            }
        }
        self.kinds = kinds.into();
    }

    fn expects_our_servers(&self) -> bool {
        self.compares && self.kinds.iter().any(|kind| !matches!(kind.body, Body::Any(_)))
    }

    fn reconnects(&self) -> bool {
        true
    }

    /// A server may refuse a body whose head it has seen (RFC 9112, section 9.6).
    fn answers_early(&self) -> bool {
        true
    }

    fn is_farewell(&self, bytes: &[u8]) -> bool {
        let status = bytes.get("HTTP/1.1 ".len()..).and_then(|status| std::str::from_utf8(status).ok()?.parse().ok());
        bytes.starts_with(b"HTTP/1.") && status.is_some_and(says_idle)
    }

    fn statuses(&self) -> StatusCounts {
        self.statuses.counts()
    }

    fn largest(&self) -> Option<u64> {
        self.sizes.is_given().then(|| self.sizes.largest())
    }

    fn longest_request(&self) -> Option<u64> {
        let size = self.sizes.largest();
        let length =
            |kind: &KindOfRequest| kind.head.bytes(size).len() + kind.content.as_ref().map_or(0, |body| body.len());
        self.kinds.iter().map(|kind| length(kind) as u64).max()
    }
}

impl Conversation for HttpClient {
    fn numbered(&mut self, arrival: u64) {
        self.arrival = Some(arrival);
    }

    fn kind(&self) -> Option<usize> {
        self.mix.as_ref().map(|_| self.current.kind)
    }

    fn status(&self) -> Option<Status> {
        Some(self.status)
    }

    fn meets_another_protocol(&self) -> bool {
        self.is_another_protocol
    }

    fn error(&self) -> String {
        self.kinds[self.current.kind].unexpected(self.status.code)
    }

    fn counts(&mut self) {
        if let Some(mix) = &self.mix {
            mix.counted[self.current.kind].fetch_add(1, Relaxed);
        }
    }

    /// If it is idempotent (RFC 9112, section 9.3.1).
    fn repeats(&self) -> bool {
        self.kinds[self.current.kind].is_idempotent()
    }

    fn refuses_later(&self) -> bool {
        self.says_close
    }

    fn says_idle(&self) -> bool {
        self.status.is_error && says_idle(self.status.code)
    }

    fn uncount(&mut self) {
        self.statuses.take_back(self.status);
    }

    fn ask(&mut self, outbox: &mut Outbox) -> Want {
        self.head.clear();
        self.interim = 0;
        self.coming = Coming::Head;
        let arrival = self.arrival.take();
        let mut draw = self.mix.as_ref().map(|mix| (mix, self.sizes.numbering().next(arrival)));
        let number = draw.as_mut().map_or(0, |(mix, draw)| mix.index.sample(&mut draw.random));
        let kind = &self.kinds[number];
        let bytes = match (kind.body, &mut draw) {
            (Body::Exactly(bytes), _) => Some(bytes),
            (Body::Any(bytes), _) => bytes,
            (Body::Drawn, Some((_, draw))) => Some(self.sizes.draw(draw)),
            (Body::Drawn, None) => Some(self.sizes.next(arrival)),
        };
        self.current = CurrentRequest { kind: number, bytes };
        let request = match (&kind.head, bytes) {
            (RequestHead::Around(..), Some(bytes)) => kind.head.bytes(bytes),
            (head, _) => head.bytes(0),
        };
        let length = request.len();
        outbox.push(Piece::Bytes(request, 0..length));
        self.held_back = None;
        match &kind.content {
            Some(body) if self.expects_continue => self.held_back = Some((Arc::clone(body), false)),
            Some(body) => outbox.push(Piece::Bytes(Arc::clone(body), 0..body.len())),
            None => {}
        }
        outbox.end_message();
        Want::ANYTHING
    }

    fn more(&mut self, outbox: &mut Outbox, _window: &Window) -> More {
        match self.held_back.take() {
            Some((body, true)) => {
                let length = body.len();
                outbox.push(Piece::Bytes(body, 0..length));
                outbox.end_message();
                More::Part
            }
            waits => {
                self.held_back = waits;
                More::Nothing
            }
        }
    }

    fn holds_back(&self) -> bool {
        matches!(self.held_back, Some((_, false)))
    }

    fn release(&mut self) {
        if let Some((_, may_be_sent)) = &mut self.held_back {
            *may_be_sent = true;
        }
    }

    fn receive(&mut self, input: &mut Input<'_>) -> std::result::Result<Answer, String> {
        while matches!(self.coming, Coming::Head) {
            if input.ended {
                let interim = if self.interim > 0 { ", after interim heads (1xx)" } else { "" };
                return Err(format!("the reply ended after {} bytes of its head{interim}", self.head.len()));
            }
            let kind = &self.kinds[self.current.kind];
            let before = self.head.len();
            let bytes = if before == 0 {
                input.bytes()
            } else {
                self.head.extend_from_slice(input.bytes());
                &self.head
            };
            if let Some(other) = other_protocol(bytes) {
                self.is_another_protocol = true;
                return Err(other);
            }
            let head = read(bytes, kind.head_only)?;
            let Some(Head { length, status, announced, closes, says_close, body }) = head else {
                if before == 0 {
                    self.head.extend_from_slice(input.bytes());
                }
                input.take(input.bytes().len());
                if self.head.len() > LONGEST_HEAD {
                    return Err(format!("the reply's head has more than {LONGEST_HEAD} bytes"));
                }
                return Ok(Answer::Receive(Want::ANYTHING));
            };
            let is_of_tls = status == 400 && !kind.expects(status) && says_tls(bytes);
            input.take(length - before);
            self.head.clear();
            // A server that refuses the body before it has come waits for it nevertheless.
            self.closes = closes || self.held_back.is_some();
            self.says_close = says_close;
            self.status = Status { code: status, is_error: !kind.expects(status) };
            if is_of_tls {
                self.is_another_protocol = true;
                return Err(TLS.to_owned());
            }
            let is_described = kind.describes(status);
            let due = self.current.bytes.filter(|_| is_described);
            let compares = is_described && !matches!(kind.body, Body::Any(_));
            if let (Some(announced), Some(due)) = (announced, due)
                && announced != due
            {
                return Err(unlike(announced, due));
            }
            let want = match body {
                Extent::Bytes(0) => return self.complete(),
                Extent::Interim => {
                    self.interim += length;
                    if self.interim > LONGEST_HEAD {
                        return Err(format!("more than {LONGEST_HEAD} bytes of interim heads (1xx), and no reply"));
                    }
                    if status == 100 && self.holds_back() {
                        self.release();
                        return Ok(Answer::Continue(Want::ANYTHING));
                    }
                    Want::ANYTHING
                }
                Extent::Bytes(bytes) if compares => {
                    self.coming = Coming::Body;
                    self.body.begin(bytes)
                }
                Extent::Bytes(bytes) => {
                    self.coming = Coming::Any(bytes);
                    Want::ANYTHING
                }
                Extent::Chunks | Extent::Connection => {
                    self.body.begin(due.unwrap_or_default());
                    self.coming = Coming::Unmeasured(Unmeasured::new(body == Extent::Chunks, due, compares));
                    Want::ANYTHING
                }
            };
            if input.bytes().is_empty() {
                return Ok(Answer::Receive(want));
            }
        }
        if let Coming::Unmeasured(coming) = &mut self.coming {
            let is_all = coming.receive(input, &mut self.body)?;
            return if is_all { self.complete() } else { Ok(Answer::Receive(Want::ANYTHING)) };
        }
        let Coming::Any(left) = self.coming else {
            let answer = self.body.receive(input)?;
            return if answer == Answer::Complete { self.complete() } else { Ok(answer) };
        };
        if input.ended {
            return Err(format!("the reply ended with {left} bytes of its body missing"));
        }
        let part = (input.bytes().len() as u64).min(left);
        input.take(part as usize);
        self.coming = Coming::Any(left - part);
        if left == part { self.complete() } else { Ok(Answer::Receive(Want::ANYTHING)) }
    }
}

impl HttpClient {
    fn complete(&mut self) -> std::result::Result<Answer, String> {
        self.statuses.note(self.status);
        Ok(if self.closes { Answer::Last } else { Answer::Complete })
    }
}

/// Returns whether a server sends this status before it closes an idle connection: 408, Request Timeout (RFC 9110,
/// section 15.5.9).
fn says_idle(status: u16) -> bool {
    status == 408
}

/// What is reported of a port that speaks TLS.
const TLS: &str = "the server speaks TLS (https) at this port, which is not supported yet; load its http:// port";

/// Describes the beginning of a reply that is not HTTP.
fn other_protocol(bytes: &[u8]) -> Option<String> {
    const HTTP: &[u8] = b"HTTP/";
    let length = bytes.len().min(HTTP.len());
    // Empty lines may come before a reply.
    if bytes[..length] == HTTP[..length] || bytes.starts_with(b"\r") || bytes.starts_with(b"\n") {
        return None;
    }
    // A record of TLS: alert or handshake, of version 3 (RFC 8446, section 5.1).
    if matches!(bytes, [0x15 | 0x16, 3, ..]) {
        return Some(TLS.to_owned());
    }
    let line = bytes.split(|byte| matches!(byte, b'\r' | b'\n')).next().unwrap_or_default();
    let begin = String::from_utf8_lossy(&line[..line.len().min(40)]).escape_default().to_string();
    let is_redis = matches!(bytes.first(), Some(b'-' | b'+' | b'$' | b'*' | b':'));
    let who = if is_redis { ", as redis replies" } else { "" };
    Some(format!("the reply is not HTTP: it begins with \"{begin}\"{who}; another protocol is spoken at this port"))
}

/// Returns whether a reply with status 400 says that its port is one of TLS, as nginx, Go and Apache do.
fn says_tls(reply: &[u8]) -> bool {
    [&b"HTTPS port"[..], b"HTTPS server", b"SSL-enabled server port"]
        .iter()
        .any(|words| reply.windows(words.len()).any(|part| part == *words))
}

#[cfg(test)]
mod tests;
