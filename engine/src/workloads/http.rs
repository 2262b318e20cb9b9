//! HTTP/1.1 as far as load generators and web clients need it: GET and HEAD of one resource, or of one resource per
//! size, persistent connections or not, pipelining (RFC 9110, RFC 9112).
//!
//! The server refuses a request that announces a body and closes the connection, so a body is never parsed as a request. There is no Date field, which a server without a clock does not send (RFC 9110, section
//! 6.6.1): all replies to the same request are the same bytes.

mod chunks;
mod client;
mod fields;
mod kinds;
mod reply_body;
mod reply_head;
mod request;
mod responses;
mod statuses;

use std::sync::Arc;

use anyhow::Result;
use httparse::{Header, Status as Parsed};

use crate::base::about::About;
use crate::base::setting::{Kind, Setting, Settings};
use crate::base::unit::Unit;
use crate::count::tally::ErrorKind;
use crate::protocol::pattern::{BYTES, CHECK, pattern};
use crate::protocol::workload::{
    Agreement, COMMON, End, Input, Instead, Next, Relation, Service, Session, Then, Workload,
};
use crate::requests::numbering::REQUEST_SEED;
use crate::requests::sizes::SIZES;
use crate::transfer::outbox::Outbox;
use crate::transfer::primitive::{Waits, Want};

use fields::{MOST_HEADERS, content_length};
use kinds::{EXPECT, MIX, PATH};
use request::{BODY, BODY_FILE, HOST};
pub use request::{HEADER, METHOD};
use responses::{Responses, Status};

pub static ENTRY: Workload = Workload {
    about: About {
        summary: "HTTP/1.1: GET and HEAD of / and of resources of any size; persistent or closed connections; \
                  pipelining",
        source: "RFC 9110, RFC 9112",
    },
    port: 8080,
    service_settings: &[BYTES, LARGEST],
    client_settings: &[BYTES, SIZES, REQUEST_SEED, CHECK, PATH, MIX, EXPECT, METHOD, HOST, HEADER, BODY, BODY_FILE],
    agreements: &[
        Agreement { client: BYTES, relation: Relation::Equal, service: BYTES },
        Agreement { client: SIZES, relation: Relation::AtMost, service: LARGEST },
    ],
    instead: &[
        Instead { given: SIZES, of: BYTES },
        Instead { given: MIX, of: PATH },
        Instead { given: MIX, of: METHOD },
    ],
    without_effect: kinds::without_effect,
    made_anew: &[(End::Service, LARGEST), (End::Client, SIZES)],
    laid_out: &[End::Client],
    lasting: &[End::Service, End::Client],
    pipelines: true,
    service,
    client: client::client,
    ..COMMON
};

/// Largest size of the sized resources; 0: none.
const LARGEST: Setting = Setting {
    name: "largest_resource",
    help: "Largest N for which the server also serves /bytes/N, a resource of N bytes; 0: only /",
    unit: Unit::Bytes,
    kind: Kind::Integer { minimum: 0, maximum: 1 << 30, default: 0 },
    for_more: None,
};

/// The longest request head, 8 KiB as in nginx (large_client_header_buffers); the server answers a longer one with 431.
const LONGEST_HEAD: usize = 8 * 1024;

fn service(settings: &Settings, _waits: Waits) -> Result<Box<dyn Service>> {
    let (resource, largest) = (pattern(settings.integer(BYTES.name)), pattern(settings.integer(LARGEST.name)));
    Ok(Box::new(Http { responses: Arc::new(Responses::new(&resource, largest)) }))
}

struct Http {
    responses: Arc<Responses>,
}

impl Service for Http {
    fn open(&self) -> Box<dyn Session> {
        Box::new(HttpSession { responses: Arc::clone(&self.responses), head: Vec::new() })
    }
}

struct HttpSession {
    responses: Arc<Responses>,
    /// The incomplete head of a request.
    head: Vec<u8>,
}

impl Session for HttpSession {
    fn first(&self) -> Want {
        Want::ANYTHING
    }

    fn lingers(&self) -> bool {
        true
    }

    fn receive(&mut self, input: &mut Input<'_>, outbox: &mut Outbox) -> std::result::Result<Next, ErrorKind> {
        if input.ended {
            return if self.head.is_empty() { Ok(Next::Close) } else { Err(ErrorKind::Truncated) };
        }
        // A head that arrives whole, as nearly all do, is parsed in place.
        let before = self.head.len();
        let request = if before == 0 {
            read(input.bytes())
        } else {
            self.head.extend_from_slice(input.bytes());
            read(&self.head)
        };
        let Some(request) = request else {
            if before == 0 {
                self.head.extend_from_slice(input.bytes());
            }
            input.take(input.bytes().len());
            return Ok(Next::Receive(Want::ANYTHING));
        };
        self.head.clear();
        input.take(request.length.map_or(input.bytes().len(), |length| length - before));
        match request.sized.filter(|_| request.status == Status::Ok) {
            Some(bytes) if self.responses.has(bytes) => {
                self.responses.say_sized(bytes, request.keep, request.head_only, outbox);
            }
            Some(_) => self.responses.say(Status::NotFound, request.keep, request.head_only, outbox),
            None => self.responses.say(request.status, request.keep, request.head_only, outbox),
        }
        match request {
            Request { length: None, .. } => Err(ErrorKind::BadRequest),
            Request { keep: true, .. } => Ok(Next::Answered(Then::Receive(Want::ANYTHING))),
            Request { keep: false, .. } => Ok(Next::Answered(Then::Close)),
        }
    }
}

/// A request whose head is complete or known to be wrong.
struct Request {
    /// Length of its head; `None` if it is unknown where the next request would begin.
    length: Option<usize>,
    status: Status,
    /// The requested resource, by size, if it exists.
    sized: Option<u64>,
    /// HEAD: the reply has no body.
    head_only: bool,
    /// The connection persists.
    keep: bool,
}

impl Request {
    /// Request that ends its connection.
    fn refused(status: Status, head_only: bool) -> Self {
        Request { length: None, status, sized: None, head_only, keep: false }
    }
}

/// Parses a request's head from its first byte; `None` while it is incomplete. Never looks beyond the longest allowed
/// head, so the result does not depend on how the request is cut.
fn read(bytes: &[u8]) -> Option<Request> {
    let bytes = &bytes[..bytes.len().min(LONGEST_HEAD)];
    let mut headers = [httparse::EMPTY_HEADER; MOST_HEADERS];
    let mut head = httparse::Request::new(&mut headers);
    Some(match head.parse(bytes) {
        Ok(Parsed::Complete(length)) => understand(&head, length),
        Ok(Parsed::Partial) if bytes.len() < LONGEST_HEAD => return None,
        Ok(Parsed::Partial) | Err(httparse::Error::TooManyHeaders) => Request::refused(Status::HeadTooLarge, false),
        Err(_) => Request::refused(Status::BadRequest, false),
    })
}

fn understand(head: &httparse::Request<'_, '_>, length: usize) -> Request {
    let head_only = head.method == Some("HEAD");
    let method_is_known = head_only || head.method == Some("GET");
    let is_1_1 = head.version == Some(1);
    let Some(fields) = Fields::read(head.headers) else { return Request::refused(Status::BadRequest, head_only) };
    if is_1_1 && fields.hosts != 1 || fields.hosts > 1 {
        return Request::refused(Status::BadRequest, head_only);
    }
    if fields.body {
        let status = if method_is_known { Status::ContentTooLarge } else { Status::MethodNotAllowed };
        return Request::refused(status, head_only);
    }
    let path = path(head.path.unwrap_or_default());
    let sized = path.strip_prefix("/bytes/").and_then(|bytes| content_length(bytes.as_bytes()));
    let status = match path {
        _ if !method_is_known => Status::MethodNotAllowed,
        "/" => Status::Ok,
        _ if sized.is_some() => Status::Ok,
        _ => Status::NotFound,
    };
    let keep = !fields.close && (is_1_1 || fields.keep_alive);
    Request { length: Some(length), status, sized, head_only, keep }
}

/// The header fields that matter.
#[derive(Default)]
struct Fields {
    hosts: usize,
    /// The value of Content-Length.
    length: Option<u64>,
    body: bool,
    close: bool,
    keep_alive: bool,
}

impl Fields {
    /// `None` if a Host is no host, if a Content-Length is not a number or contradicts another, or if the last transfer coding is
    /// not chunked: the end of the request is unknown then (RFC 9112, section 6.3).
    fn read(headers: &[Header<'_>]) -> Option<Self> {
        let mut fields = Fields::default();
        let mut last_coding = None;
        for &Header { name, value } in headers {
            if name.eq_ignore_ascii_case("host") {
                if !value.trim_ascii().iter().all(|&byte| may_be_in_host(byte)) {
                    return None;
                }
                fields.hosts += 1;
            } else if name.eq_ignore_ascii_case("transfer-encoding") {
                fields.body = true;
                last_coding = value.rsplit(|&byte| byte == b',').next().map(<[u8]>::trim_ascii);
            } else if name.eq_ignore_ascii_case("content-length") {
                let length = content_length(value)?;
                if fields.length.is_some_and(|other| other != length) {
                    return None;
                }
                fields.length = Some(length);
                fields.body |= length > 0;
            } else if name.eq_ignore_ascii_case("connection") {
                for option in value.split(|&byte| byte == b',').map(<[u8]>::trim_ascii) {
                    fields.close |= option.eq_ignore_ascii_case(b"close");
                    fields.keep_alive |= option.eq_ignore_ascii_case(b"keep-alive");
                }
            }
        }
        last_coding.is_none_or(|coding| coding.eq_ignore_ascii_case(b"chunked")).then_some(fields)
    }
}

/// Whether a byte may be in a host with a port (RFC 3986, sections 2 and 3.2.2).
fn may_be_in_host(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"-._~%!$&'()*+,;=:[]".contains(&byte)
}

/// Begin of a target that is an absolute URI.
const SCHEME: &str = "http://";

/// Extracts the path of a request's target, without its query; the target may be an absolute URI.
fn path(target: &str) -> &str {
    // A scheme has no case (RFC 3986, section 3.1).
    let scheme = target.get(..SCHEME.len()).filter(|scheme| scheme.eq_ignore_ascii_case(SCHEME));
    let path = match scheme.map(|scheme| &target[scheme.len()..]) {
        Some(rest) => rest.find('/').map_or("/", |place| &rest[place..]),
        None => target,
    };
    path.split('?').next().unwrap_or_default()
}

#[cfg(test)]
mod tests;
