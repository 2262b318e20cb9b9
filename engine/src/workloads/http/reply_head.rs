//! The head of a reply, as the client parses it.

use std::cell::RefCell;

use httparse::Status as Parsed;

use super::fields::{MOST_HEADERS, content_length};

/// Meaning of a reply's head.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Head {
    /// Its length.
    pub length: usize,
    /// The reply's status.
    pub status: u16,
    /// The announced length of the body, also if the body itself does not follow.
    pub announced: Option<u64>,
    /// The server closes after the reply.
    pub closes: bool,
    /// It says so, and then must not process any later request of the connection (RFC 9112, section 9.6).
    pub says_close: bool,
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

/// Parses the head of a reply; `None` while it is incomplete. `head_only`: the request was a HEAD, so no body follows.
///
/// Most replies of a load have the same head. So the head is compared with the previous one, and parsed only if it
/// differs.
pub fn read(bytes: &[u8], head_only: bool) -> Result<Option<Head>, String> {
    LAST.with_borrow_mut(|last| {
        if last.head.is_some() && last.head_only == head_only && bytes.starts_with(&last.bytes) {
            return Ok(last.head);
        }
        let head = parse(bytes, head_only)?;
        if let Some(Head { length, .. }) = head
            && length <= LONGEST_KEPT
        {
            (last.head_only, last.head) = (head_only, head);
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

/// The last complete head of any connection in this thread; initially empty.
#[derive(Default)]
struct Last {
    head_only: bool,
    bytes: Vec<u8>,
    head: Option<Head>,
}

/// Nearly all heads have no more header fields than requests may have; a head of the longest length has room for this many.
const MANY_HEADERS: usize = 16 * 1024;

fn parse(bytes: &[u8], head_only: bool) -> Result<Option<Head>, String> {
    let mut headers = [httparse::EMPTY_HEADER; MOST_HEADERS];
    let few = parse_with(bytes, head_only, &mut headers);
    match few {
        Err(Unread::TooManyFields) => parse_with(bytes, head_only, &mut vec![httparse::EMPTY_HEADER; MANY_HEADERS]),
        few => few,
    }
    .map_err(|unread| match unread {
        Unread::TooManyFields => format!("the reply's head has more than {MANY_HEADERS} fields"),
        Unread::Wrong(why) => why,
    })
}

/// Why a head cannot be read.
enum Unread {
    TooManyFields,
    Wrong(String),
}

impl From<String> for Unread {
    fn from(why: String) -> Self {
        Unread::Wrong(why)
    }
}

fn parse_with<'a>(
    bytes: &'a [u8],
    head_only: bool,
    headers: &mut [httparse::Header<'a>],
) -> Result<Option<Head>, Unread> {
    let mut head = httparse::Response::new(headers);
    // A field may go on in lines that begin with a space (RFC 9112, section 5.2): old servers send such lines.
    let mut config = httparse::ParserConfig::default();
    config.allow_obsolete_multiline_headers_in_responses(true);
    let length = match config.parse_response(&mut head, bytes) {
        Ok(Parsed::Complete(length)) => length,
        Ok(Parsed::Partial) => return Ok(None),
        Err(httparse::Error::TooManyHeaders) => return Err(Unread::TooManyFields),
        Err(error) => return Err(Unread::Wrong(format!("the reply is not HTTP: {error}"))),
    };
    let status = head.code.unwrap_or_default();
    if status == 101 {
        return Err("the reply's status is 101: another protocol follows, which was not requested".to_owned().into());
    }
    let says_close = head.version == Some(1) && is_listed(&head, "connection", "close");
    let of_body = |closes, body, announced| Ok(Some(Head { length, status, announced, closes, says_close, body }));
    if (100..200).contains(&status) {
        return of_body(false, Extent::Interim, None);
    }
    let named = |name: &'static str| head.headers.iter().filter(move |header| header.name.eq_ignore_ascii_case(name));
    let says = |word: &str| is_listed(&head, "connection", word);
    // HTTP/1.0 closes by default (RFC 9112, section 9.3).
    let closes = says("close") || (head.version == Some(0) && !says("keep-alive"));
    let has_none = head_only || matches!(status, 204 | 304);
    // A proxy may join several of the same length to one list (RFC 9110, section 8.6).
    let lengths = named("content-length").flat_map(|header| header.value.split(|&byte| byte == b','));
    let mut lengths = lengths.map(|value| content_length(value.trim_ascii()));
    // With two different lengths the end of the reply is unknown (RFC 9112, section 6.3).
    let first = lengths.next();
    if first.is_some_and(|first| lengths.any(|other| other != first)) {
        return Err("the reply has two different Content-Lengths".to_owned().into());
    }
    if !has_none && in_chunks(&head)? {
        return of_body(closes, Extent::Chunks, None);
    }
    match first {
        Some(None) => Err("the reply's Content-Length is not a number".to_owned().into()),
        Some(announced) => of_body(closes, Extent::Bytes(announced.filter(|_| !has_none).unwrap_or(0)), announced),
        // A server may omit it in this case (RFC 9110, section 8.6).
        None if has_none => of_body(closes, Extent::Bytes(0), None),
        // Regardless of the Connection field (RFC 9112, section 6.3).
        None => of_body(true, Extent::Connection, None),
    }
}

/// Returns whether a word is among those of a field. Several fields of one name form one list (RFC 9110, section 5.3).
fn is_listed(head: &httparse::Response<'_, '_>, name: &str, word: &str) -> bool {
    let fields = head.headers.iter().filter(|header| header.name.eq_ignore_ascii_case(name));
    let mut words = fields.flat_map(|header| header.value.split(|&byte| byte == b','));
    words.any(|option| option.trim_ascii().eq_ignore_ascii_case(word.as_bytes()))
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

/// Describes a reply that does not have the expected length.
pub fn unlike(bytes: u64, due: u64) -> String {
    format!("the reply has {bytes} bytes, expected {due}")
}

#[cfg(test)]
mod tests {
    use super::*;

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
                    proptest::bool::ANY,
                ),
                1..20,
            ),
        ) {
            for (status, connection, length, rest, head_only) in replies {
                let text = format!("HTTP/1.1 {status}\r\n{connection}{length}{rest}");
                let seen = read(text.as_bytes(), head_only);
                proptest::prop_assert_eq!(seen, parse(text.as_bytes(), head_only), "{:?}", text);
            }
        }
    }

    #[test]
    fn a_head_is_compared_as_far_as_it_goes() {
        let text = "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc";
        let length = text.len() - 3;
        let right =
            Head { length, status: 200, announced: Some(3), closes: false, says_close: false, body: Extent::Bytes(3) };
        for _ in 0..2 {
            assert_eq!(read(text.as_bytes(), false), Ok(Some(right)));
        }
        assert_eq!(read(&text.as_bytes()[..text.len() - 4], false), Ok(None));
        assert_eq!(read(text.as_bytes(), true), Ok(Some(Head { body: Extent::Bytes(0), ..right })));
        let longer = text.replace("\r\n\r\n", &format!("\r\nX: {}\r\n\r\n", "x".repeat(LONGEST_KEPT)));
        assert_eq!(read(longer.as_bytes(), false).unwrap().unwrap().length, longer.len() - 3);
    }

    #[test]
    fn the_end_of_a_reply_is_unambiguous() {
        let body = |fields: &str| {
            let text = format!("HTTP/1.{fields}\r\n\r\n");
            parse(text.as_bytes(), false).map(|head| head.unwrap().body)
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
            ("1 200 OK\r\nContent-Length: 2, 2", Extent::Bytes(2)),
            ("1 200 OK\r\nContent-Length: 2,02\r\nContent-Length: 2 ,2", Extent::Bytes(2)),
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
            ("1 200 OK\r\nContent-Length: 2, 3", "two different Content-Lengths"),
            ("1 200 OK\r\nContent-Length: 2,", "two different Content-Lengths"),
            ("1 200 OK\r\nContent-Length: ,", "not a number"),
            ("1 200 OK\r\nContent-Length:", "not a number"),
        ] {
            let error = body(fields).unwrap_err();
            assert!(error.contains(word), "{fields}: {error}");
        }
    }

    #[test]
    fn old_servers_fold_lines_and_others_send_many() {
        let folded = "HTTP/1.1 200 OK\r\nX: a,\r\n b\r\n\tc\r\nContent-Length: 3\r\nConnection: x,\r\n close\r\n\r\n";
        let head = parse(folded.as_bytes(), false).unwrap().unwrap();
        assert_eq!((head.body, head.length), (Extent::Bytes(3), folded.len()));
        for fields in [MOST_HEADERS - 1, MOST_HEADERS, 1000] {
            let many = format!("HTTP/1.1 200 OK\r\n{}Content-Length: 3\r\n\r\n", "A: b\r\n".repeat(fields));
            let head = parse(many.as_bytes(), false).unwrap().unwrap();
            assert_eq!((head.body, head.length), (Extent::Bytes(3), many.len()), "{fields}");
            assert_eq!(parse(&many.as_bytes()[..many.len() - 1], false), Ok(None), "{fields}");
        }
    }
}
