//! The head of a reply, as the client parses it.

use std::cell::RefCell;

use httparse::Status as Parsed;

use super::fields::{MOST_HEADERS, content_length};
use super::kinds::{KindOfRequest, STATUSES};

/// The longest body accepted if no length is given.
pub const LONGEST_UNKNOWN: u64 = 1 << 20;

/// Meaning of a reply's head.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Head {
    /// Its length.
    pub length: usize,
    /// The server closes after the reply.
    pub closes: bool,
    /// Extent of the body.
    pub body: Extent,
}

/// Extent of the body after a head.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Extent {
    /// No body: an interim reply, which another head follows (RFC 9110, section 15.2).
    Interim,
    /// This many bytes.
    Bytes(u64),
    /// Chunks, up to an empty one.
    Chunks,
    /// Everything up to the end of the connection.
    Connection,
}

/// Parses the head of a reply to a request of this kind, with a body of this length; `None` while it is incomplete.
///
/// Most replies of a load have the same head, with the same meaning for equal requests. So the head is compared with
/// the previous one, and parsed only if it differs.
pub fn read(bytes: &[u8], kind: &KindOfRequest, due: Option<u64>) -> Result<Option<Head>, String> {
    let key = RequestKey { status: kind.status, head_only: kind.head_only, due };
    LAST.with_borrow_mut(|last| {
        if last.key == key && bytes.starts_with(&last.bytes) {
            return Ok(last.head);
        }
        let head = parse(bytes, kind, due)?;
        if let Some(Head { length, .. }) = head
            && length <= LONGEST_KEPT
        {
            (last.key, last.head) = (key, head);
            last.bytes.clear();
            last.bytes.extend_from_slice(&bytes[..length]);
        }
        Ok(head)
    })
}

/// The longest head kept for comparison.
const LONGEST_KEPT: usize = 1024;

thread_local! {
    static LAST: RefCell<Last> = RefCell::default();
}

/// The last complete and correct head of any connection in this thread; initially empty.
#[derive(Default)]
struct Last {
    key: RequestKey,
    bytes: Vec<u8>,
    head: Option<Head>,
}

/// The properties of a request that the meaning of a head depends on, besides the head's bytes.
#[derive(Clone, Copy, Default, PartialEq)]
struct RequestKey {
    status: u16,
    head_only: bool,
    due: Option<u64>,
}

fn parse(bytes: &[u8], kind: &KindOfRequest, due: Option<u64>) -> Result<Option<Head>, String> {
    let mut headers = [httparse::EMPTY_HEADER; MOST_HEADERS];
    let mut head = httparse::Response::new(&mut headers);
    let length = match head.parse(bytes) {
        Ok(Parsed::Complete(length)) => length,
        Ok(Parsed::Partial) => return Ok(None),
        Err(error) => return Err(format!("the reply is not HTTP: {error}")),
    };
    // After 101, another protocol follows.
    if head.code.is_some_and(|code| code != 101 && code != kind.status && (100..200).contains(&code)) {
        return Ok(Some(Head { length, closes: false, body: Extent::Interim }));
    }
    if head.code != Some(kind.status) {
        let (code, reason) = (head.code.unwrap_or_default(), head.reason.unwrap_or_default());
        let path = kind.text.split_once(':').map_or("", |(_, path)| path);
        let wrong = format!("the reply's status is {code} {reason}, not {}", kind.status);
        return Err(if STATUSES.contains(&code) {
            format!("{wrong}; if that is correct: --mix {}={code}:{path}@1", method(kind))
        } else {
            wrong
        });
    }
    let named = |name: &'static str| head.headers.iter().filter(move |header| header.name.eq_ignore_ascii_case(name));
    // Several fields of one name form one list (RFC 9110, section 5.3).
    let says = |word: &str| {
        named("connection")
            .flat_map(|header| header.value.split(|&byte| byte == b','))
            .any(|option| option.trim_ascii().eq_ignore_ascii_case(word.as_bytes()))
    };
    // HTTP/1.0 closes by default (RFC 9112, section 9.3).
    let closes = says("close") || (head.version == Some(0) && !says("keep-alive"));
    let has_none = kind.head_only || matches!(kind.status, 204 | 304);
    let mut lengths = named("content-length");
    // With two different lengths the end of the reply is unknown (RFC 9112, section 6.3).
    let first = lengths.next();
    if first.is_some_and(|first| lengths.any(|other| other.value != first.value)) {
        return Err("the reply has two different Content-Lengths".to_owned());
    }
    if !has_none && in_chunks(&head)? {
        return Ok(Some(Head { length, closes, body: Extent::Chunks }));
    }
    let body = match (first.map(|header| content_length(header.value)), due) {
        (Some(Some(bytes)), Some(due)) if bytes != due && !matches!(kind.status, 204 | 304) => {
            return Err(unlike(bytes, due, kind));
        }
        (Some(Some(bytes)), None) if bytes > LONGEST_UNKNOWN && !has_none => {
            return Err(format!(
                "the reply has {bytes} bytes; the maximum is {LONGEST_UNKNOWN} if no length is given; use --bytes \
                 {bytes} --check count"
            ));
        }
        (Some(Some(bytes)), _) => bytes,
        (Some(None), _) => return Err("the reply's Content-Length is not a number".to_owned()),
        // A server may omit it in this case (RFC 9110, section 8.6).
        (None, _) if has_none => 0,
        // Regardless of the Connection field (RFC 9112, section 6.3).
        (None, _) => return Ok(Some(Head { length, closes: true, body: Extent::Connection })),
    };
    Ok(Some(Head { length, closes, body: Extent::Bytes(if has_none { 0 } else { body }) }))
}

/// Returns whether a reply is chunked. Refuses other codings, a contradictory end, and chunks in a version that does
/// not have them (RFC 9112, sections 6.1 and 6.3): a proxy might have parsed the reply differently.
fn in_chunks(head: &httparse::Response<'_, '_>) -> Result<bool, String> {
    let named = |name: &'static str| head.headers.iter().filter(move |header| header.name.eq_ignore_ascii_case(name));
    let mut codings = named("transfer-encoding").map(|header| header.value.trim_ascii());
    let Some(coding) = codings.next() else { return Ok(false) };
    if !coding.eq_ignore_ascii_case(b"chunked") || codings.next().is_some() {
        let seen = String::from_utf8_lossy(coding);
        return Err(format!("the reply has the Transfer-Encoding {seen:?}; this client supports only chunked"));
    }
    if named("content-length").next().is_some() {
        return Err("the reply has both a Transfer-Encoding and a Content-Length".to_owned());
    }
    if head.version == Some(0) {
        return Err("the reply has a Transfer-Encoding, which HTTP/1.0 does not support".to_owned());
    }
    Ok(true)
}

fn method(kind: &KindOfRequest) -> &'static str {
    if kind.head_only { "HEAD" } else { "GET" }
}

/// Describes a reply to a request of this kind that does not have the expected length.
pub fn unlike(bytes: u64, due: u64, kind: &KindOfRequest) -> String {
    let path = kind.text.split_once(':').map_or("", |(_, path)| path);
    let instead = match bytes {
        0 => format!("--mix {}+0:{path}@1", method(kind)),
        _ => format!("--bytes {bytes} --check count"),
    };
    format!("the reply has {bytes} bytes, expected {due}; for a resource of another server: {instead}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workloads::http::kinds::{Body, Head as RequestHead};

    fn kind(status: u16, head_only: bool) -> KindOfRequest {
        let head = RequestHead::Same(b"".as_slice().into());
        KindOfRequest { text: "GET:/".to_owned(), weight: 1, status, body: Body::Any(None), head_only, head }
    }

    proptest::proptest! {
        #[test]
        fn a_head_means_the_same_after_any_other(
            replies in proptest::collection::vec(
                (
                    proptest::sample::select(vec!["200 OK", "204 No Content"]),
                    proptest::sample::select(vec!["", "Connection: close\r\n", "Connection: keep-alive\r\n"]),
                    proptest::sample::select(vec![
                        "",
                        "Content-Length: 3\r\n",
                        "Content-Length: 30\r\n",
                        "Transfer-Encoding: chunked\r\n",
                    ]),
                    proptest::sample::select(vec!["\r\n", "\r\nabc", ""]),
                    proptest::sample::select(vec![200_u16, 204]),
                    proptest::bool::ANY,
                    proptest::option::of(proptest::sample::select(vec![3_u64, 30])),
                ),
                1..20,
            ),
        ) {
            for (status, connection, length, rest, right, head_only, due) in replies {
                let text = format!("HTTP/1.1 {status}\r\n{connection}{length}{rest}");
                let kind = kind(right, head_only);
                let seen = read(text.as_bytes(), &kind, due);
                proptest::prop_assert_eq!(seen, parse(text.as_bytes(), &kind, due), "{:?}", text);
            }
        }
    }

    #[test]
    fn a_head_is_compared_as_far_as_it_goes() {
        let (kind, text) = (kind(200, false), "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc");
        let right = Some(Head { length: text.len() - 3, closes: false, body: Extent::Bytes(3) });
        for _ in 0..2 {
            assert_eq!(read(text.as_bytes(), &kind, Some(3)), Ok(right));
        }
        assert_eq!(read(&text.as_bytes()[..text.len() - 4], &kind, Some(3)), Ok(None));
        assert!(read(text.as_bytes(), &kind, Some(4)).is_err(), "another length is due");
        let longer = text.replace("\r\n\r\n", &format!("\r\nX: {}\r\n\r\n", "x".repeat(LONGEST_KEPT)));
        assert_eq!(read(longer.as_bytes(), &kind, Some(3)).unwrap().unwrap().length, longer.len() - 3);
    }
    #[test]
    fn the_end_of_a_reply_is_unambiguous() {
        let kind = kind(200, false);
        let body = |fields: &str| {
            let text = format!("HTTP/1.{fields}\r\n\r\n");
            parse(text.as_bytes(), &kind, Some(3)).map(|head| head.unwrap().body)
        };
        for (fields, right) in [
            ("1 200 OK\r\nTransfer-Encoding: chunked", Extent::Chunks),
            ("1 200 OK\r\ntransfer-encoding:  Chunked ", Extent::Chunks),
            ("1 200 OK\r\nTransfer-Encoding: chunked\r\nConnection: close", Extent::Chunks),
            ("1 200 OK\r\nConnection: close", Extent::Connection),
            ("1 200 OK\r\nServer: any", Extent::Connection),
            ("1 200 OK\r\nConnection: keep-alive", Extent::Connection),
            ("1 200 OK\r\nConnection: close, keep-alive", Extent::Connection),
            ("0 200 OK\r\nConnection: keep-alive", Extent::Connection),
            ("1 100 Continue", Extent::Interim),
            ("1 103 Early Hints\r\nLink: </style.css>", Extent::Interim),
            ("0 200 OK\r\nServer: any", Extent::Connection),
            ("0 200 OK\r\nContent-Length: 3", Extent::Bytes(3)),
        ] {
            assert_eq!(body(fields), Ok(right), "{fields}");
        }
        for (fields, word) in [
            ("1 101 Switching Protocols", "the reply's status is 101"),
            ("1 200 OK\r\nTransfer-Encoding: gzip, chunked", "\"gzip, chunked\""),
            ("1 200 OK\r\nTransfer-Encoding: gzip", "\"gzip\""),
            ("1 200 OK\r\nTransfer-Encoding: chunked, chunked", "only chunked"),
            ("1 200 OK\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked", "only chunked"),
            (
                "1 200 OK\r\nTransfer-Encoding: chunked\r\nContent-Length: 3",
                "both a Transfer-Encoding and a Content-Length",
            ),
            (
                "1 200 OK\r\nContent-Length: 3\r\nTransfer-Encoding: chunked",
                "both a Transfer-Encoding and a Content-Length",
            ),
            ("0 200 OK\r\nTransfer-Encoding: chunked", "HTTP/1.0 does not support"),
        ] {
            let error = body(fields).unwrap_err();
            assert!(error.contains(word), "{fields}: {error}");
        }
    }
}
