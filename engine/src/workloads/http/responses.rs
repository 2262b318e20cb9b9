//! All replies there can be, made once: serving a request is sending one of them.

use std::sync::Arc;

use crate::outbox::Piece;

/// What a reply says of its request (RFC 9110, section 15).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Status {
    /// Here it is.
    Ok,
    /// It is none.
    BadRequest,
    /// There is no such path.
    NotFound,
    /// Neither GET nor HEAD.
    MethodNotAllowed,
    /// It has a body.
    ContentTooLarge,
    /// Its head is too long, or has too many fields.
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

/// A reply for each status, each for connections that are kept and for those that are closed.
pub struct Responses(Vec<[Response; 2]>);

/// A head and its body as one piece of memory, so that one call sends both.
struct Response {
    bytes: Arc<[u8]>,
    head: usize,
}

impl Responses {
    /// The replies of a server with this resource.
    pub fn new(resource: &[u8]) -> Self {
        let response = |status, keep| Response::new(status, keep, resource);
        Responses(Status::ALL.iter().map(|&status| [response(status, false), response(status, true)]).collect())
    }

    /// A reply, or its head alone.
    pub fn piece(&self, status: Status, keep: bool, head_only: bool) -> Piece {
        let Response { bytes, head } = &self.0[status as usize][usize::from(keep)];
        Piece::Bytes(Arc::clone(bytes), 0..if head_only { *head } else { bytes.len() })
    }
}

impl Response {
    fn new(status: Status, keep: bool, resource: &[u8]) -> Self {
        let words = status.words();
        let explanation = format!("{words}\n");
        let (kind, body) = match status {
            Status::Ok => ("application/octet-stream", resource),
            _ => ("text/plain", explanation.as_bytes()),
        };
        // Said also where it goes without saying: clients of HTTP/1.0 (ab -k) wait for it.
        let connection = if keep { "keep-alive" } else { "close" };
        let allow = if status == Status::MethodNotAllowed { "Allow: GET, HEAD\r\n" } else { "" };
        let head = format!(
            "HTTP/1.1 {words}\r\nContent-Type: {kind}\r\nContent-Length: {}\r\nConnection: {connection}\r\n{allow}\r\n",
            body.len()
        );
        Response { bytes: [head.as_bytes(), body].concat().into(), head: head.len() }
    }
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
}
