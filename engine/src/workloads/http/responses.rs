//! All possible replies, made once: serving a request means sending one of them.

use std::sync::Arc;

use crate::transfer::outbox::{Outbox, Piece};

/// Status of a reply (RFC 9110, section 15).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Status {
    /// The resource follows.
    Ok,
    /// Not a valid request.
    BadRequest,
    /// No such path.
    NotFound,
    /// Neither GET nor HEAD.
    MethodNotAllowed,
    /// The request has a body.
    ContentTooLarge,
    /// The head is too long, or has too many fields.
    HeadTooLarge,
}

impl Status {
    const ALL: [Status; 6] = [
        Status::Ok,
        Status::BadRequest,
        Status::NotFound,
        Status::MethodNotAllowed,
        Status::ContentTooLarge,
        Status::HeadTooLarge,
    ];

    fn words(self) -> &'static str {
        match self {
            Status::Ok => "200 OK",
            Status::BadRequest => "400 Bad Request",
            Status::NotFound => "404 Not Found",
            Status::MethodNotAllowed => "405 Method Not Allowed",
            Status::ContentTooLarge => "413 Content Too Large",
            Status::HeadTooLarge => "431 Request Header Fields Too Large",
        }
    }
}

/// Size above which a resource is stored only once: replies that close the connection share the body of the persistent
/// ones. This costs one more call, but a process that forks pays for all its memory. A smaller body is stored after
/// each head.
const LARGE: usize = 64 * 1024;

/// Content type of resources.
const RESOURCE: &str = "application/octet-stream";

/// A reply for each status, for closed and for persistent connections.
pub struct Responses {
    of_status: Vec<[Response; 2]>,
    /// The largest sized resource; the others are prefixes of it.
    sized: Arc<[u8]>,
}

struct Response {
    head: Piece,
    whole: Vec<Piece>,
}

impl Responses {
    /// Makes the replies of a server with this resource, and with one of each size up to that of the other.
    pub fn new(resource: &[u8], sized: Arc<[u8]>) -> Self {
        let both = |&status: &Status| {
            let explanation = format!("{}\n", status.words());
            let (kind, body) = match status {
                Status::Ok => (RESOURCE, resource),
                _ => ("text/plain", explanation.as_bytes()),
            };
            let [closed, kept] = [false, true].map(|keep| head(status, keep, kind, body.len()));
            let together = [kept.as_bytes(), body].concat().into();
            let closed = match body.len() {
                ..LARGE => Response::together([closed.as_bytes(), body].concat().into(), closed.len()),
                LARGE.. => Response::apart(closed, Piece::Bytes(Arc::clone(&together), kept.len()..together.len())),
            };
            [closed, Response::together(together, kept.len())]
        };
        Responses { of_status: Status::ALL.iter().map(both).collect(), sized }
    }

    /// Returns whether there is a resource of this size.
    pub fn has(&self, bytes: u64) -> bool {
        (1..=self.sized.len() as u64).contains(&bytes)
    }

    /// As [`Responses::say`], for an existing size. The head is made for this request, since there are too many sizes
    /// to keep.
    pub fn say_sized(&self, bytes: u64, keep: bool, head_only: bool, outbox: &mut Outbox) {
        let bytes = bytes as usize;
        let head = head(Status::Ok, keep, RESOURCE, bytes).into_bytes();
        let length = head.len();
        if head_only || bytes >= LARGE {
            outbox.push(Piece::Bytes(head.into(), 0..length));
            if !head_only {
                outbox.push(Piece::Bytes(Arc::clone(&self.sized), 0..bytes));
            }
        } else {
            outbox.push(Piece::Bytes([&head, &self.sized[..bytes]].concat().into(), 0..length + bytes));
        }
        outbox.end_message();
    }

    /// Puts a reply, or only its head, into the outbox.
    pub fn say(&self, status: Status, keep: bool, head_only: bool, outbox: &mut Outbox) {
        let Response { head, whole } = &self.of_status[status as usize][usize::from(keep)];
        let pieces = if head_only { std::slice::from_ref(head) } else { whole };
        pieces.iter().cloned().for_each(|piece| outbox.push(piece));
        outbox.end_message();
    }
}

impl Response {
    /// Joins a head and its body in one piece, so that one call sends both.
    fn together(bytes: Arc<[u8]>, head: usize) -> Self {
        let all = bytes.len();
        Response { head: Piece::Bytes(Arc::clone(&bytes), 0..head), whole: vec![Piece::Bytes(bytes, 0..all)] }
    }

    fn apart(head: String, body: Piece) -> Self {
        let length = head.len();
        let head = Piece::Bytes(head.into_bytes().into(), 0..length);
        Response { whole: vec![head.clone(), body], head }
    }
}

fn head(status: Status, keep: bool, kind: &str, length: usize) -> String {
    // Always included: clients of HTTP/1.0 (ab -k) wait for it.
    let connection = if keep { "keep-alive" } else { "close" };
    let allow = if status == Status::MethodNotAllowed { "Allow: GET, HEAD\r\n" } else { "" };
    let fields = format!("Content-Type: {kind}\r\nContent-Length: {length}\r\nConnection: {connection}\r\n{allow}");
    format!("HTTP/1.1 {}\r\n{fields}\r\n", status.words())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_status_has_its_place() {
        for (index, status) in Status::ALL.into_iter().enumerate() {
            assert_eq!(status as usize, index);
        }
    }

    #[test]
    fn a_reply_is_the_same_bytes_however_large_it_is() {
        for length in [1, LARGE as u64 - 1, LARGE as u64, LARGE as u64 + 1, 300_000] {
            let resource: Vec<u8> = (0..length).map(|place| place as u8).collect();
            let responses = Responses::new(&resource, resource.clone().into());
            for (keep, word) in [(true, "keep-alive"), (false, "close")] {
                let said = |head_only| {
                    let mut outbox = Outbox::default();
                    responses.say(Status::Ok, keep, head_only, &mut outbox);
                    let one = |piece: Piece| match piece {
                        Piece::Bytes(bytes, range) => bytes[range].to_vec(),
                        Piece::File(..) => panic!("a reply comes from memory"),
                    };
                    outbox.message().flat_map(one).collect::<Vec<u8>>()
                };
                let head = format!(
                    "HTTP/1.1 200 OK\r\nContent-Type: application/octet-stream\r\n\
                     Content-Length: {length}\r\nConnection: {word}\r\n\r\n"
                );
                let mut sized = Outbox::default();
                responses.say_sized(length, keep, false, &mut sized);
                let one = |piece: Piece| piece.with_bytes(|bytes| Ok(bytes.to_vec())).unwrap();
                assert!(sized.message().flat_map(one).collect::<Vec<u8>>() == said(false), "{length} {word}");
                assert!(said(true) == head.as_bytes(), "{length} {word}");
                assert!(said(false) == [head.as_bytes(), &resource].concat(), "{length} {word}");
            }
        }
    }
}
