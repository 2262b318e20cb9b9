//! Replies of HTTP/1.1 as a client reads them (RFC 9112, section 6.3).

use httparse::Status;

use crate::conform::verdict::quoted;

/// Maximum fields of a reply.
const FIELDS: usize = 100;

/// Maximum bytes of interim heads before a reply, as of a load's client.
const MOST_INTERIM: usize = 64 << 10;

/// A complete reply.
#[derive(Debug)]
pub struct HttpReply {
    /// Status code.
    pub status: u16,
    /// Fields with lower-case names.
    pub fields: Vec<(String, String)>,
    /// The body without its framing.
    pub body: Vec<u8>,
    /// Bytes of head and body, and of interim replies before them.
    pub length: usize,
    /// Whether only the end of the connection ends its body.
    pub until_end: bool,
    /// Whether it is of HTTP/1.0.
    is_1_0: bool,
    /// What a field about its length may not be there for, or one of an interim reply before it. Clients read it all the same.
    pub misframed: Option<String>,
}

impl HttpReply {
    /// Whether the status is in a class, such as 4.
    pub fn is(&self, class: u16) -> bool {
        self.status / 100 == class
    }

    /// Whether the status is one of a resource that the server has.
    pub fn is_success(&self) -> bool {
        self.is(2) || self.is(3)
    }

    /// Returns the value of a field.
    pub fn field(&self, name: &str) -> Option<&str> {
        self.fields.iter().find(|(own, _)| own == name).map(|(_, value)| value.as_str())
    }

    /// Whether the reply says that it is the last one of its connection (RFC 9112, section 9.3).
    pub fn is_last(&self) -> bool {
        let options: Vec<&str> = self
            .fields
            .iter()
            .filter(|(name, _)| name == "connection")
            .flat_map(|(_, value)| value.split(','))
            .collect();
        let has = |word: &str| options.iter().any(|option| option.trim().eq_ignore_ascii_case(word));
        has("close") || self.until_end || self.is_1_0 && !has("keep-alive")
    }

    /// Describes it for a fault.
    pub fn in_words(&self) -> String {
        format!("status {}", self.status)
    }
}

/// Reads a reply from the beginning of the bytes; `None` while it is incomplete. `head_only`: it has no body. `ended`: no
/// more bytes will come. The error says what is wrong with it.
pub fn read(bytes: &[u8], head_only: bool, ended: bool) -> Result<Option<HttpReply>, String> {
    let (mut interim, mut interim_misframed) = (0, None);
    loop {
        let Some(reply) = read_one(&bytes[interim..], head_only, ended)? else { return Ok(None) };
        let misframed = interim_misframed.or(reply.misframed);
        if !is_interim(reply.status) {
            return Ok(Some(HttpReply { length: reply.length + interim, misframed, ..reply }));
        }
        interim += reply.length;
        interim_misframed = misframed;
        if interim > MOST_INTERIM {
            return Err(format!("more than {MOST_INTERIM} bytes of interim heads (1xx), and no reply"));
        }
    }
}

/// Whether another reply follows a reply with this status. The new protocol follows 101 (RFC 9110, section 15.2.2).
fn is_interim(status: u16) -> bool {
    (100..200).contains(&status) && status != 101
}

/// Reads a reply as [`read`] does, or an interim one.
fn read_one(bytes: &[u8], head_only: bool, ended: bool) -> Result<Option<HttpReply>, String> {
    let mut headers = [httparse::EMPTY_HEADER; FIELDS];
    let mut head = httparse::Response::new(&mut headers);
    let length = match head.parse(bytes) {
        Ok(Status::Complete(length)) => length,
        Ok(Status::Partial) => return Ok(None),
        Err(error) => return Err(format!("no reply of HTTP ({error}): {}", quoted(bytes))),
    };
    if let Some(why) = lax(&bytes[..length]) {
        return Err(format!("{why}: {}", quoted(bytes)));
    }
    let status = head.code.unwrap_or_default();
    let text = |value: &[u8]| String::from_utf8_lossy(value).into_owned();
    let fields: Vec<(String, String)> =
        head.headers.iter().map(|field| (field.name.to_ascii_lowercase(), text(field.value))).collect();
    let misframed = misframed(status, &fields);
    let is_1_0 = head.version == Some(0);
    let mut reply = HttpReply { status, fields, body: Vec::new(), length, until_end: false, is_1_0, misframed };
    if is_interim(status) {
        return Ok(Some(reply));
    }
    let lengths: Vec<&str> =
        reply.fields.iter().filter(|(name, _)| name == "content-length").map(|(_, value)| value.trim()).collect();
    if let Some(pair) = lengths.windows(2).find(|pair| pair[0] != pair[1]) {
        return Err(format!("a reply with Content-Length: {} and Content-Length: {}", pair[0], pair[1]));
    }
    if head_only || matches!(status, 204 | 304) {
        return Ok(Some(reply));
    }
    let rest = &bytes[length..];
    if let Some(coding) = reply.field("transfer-encoding") {
        if !coding.trim().eq_ignore_ascii_case("chunked") {
            return Err(format!("a reply with the transfer coding {coding}"));
        }
        let Some((body, framed)) = unchunked(rest)? else { return Ok(None) };
        (reply.body, reply.length) = (body, length + framed);
        return Ok(Some(reply));
    }
    if let Some(field) = reply.field("content-length") {
        let digits = Some(field.trim()).filter(|field| field.bytes().all(|byte| byte.is_ascii_digit()));
        let due: usize = digits
            .and_then(|digits| digits.parse().ok())
            .ok_or_else(|| format!("a reply with Content-Length: {field}"))?;
        if rest.len() < due {
            return Ok(None);
        }
        (reply.body, reply.length) = (rest[..due].to_vec(), length + due);
        return Ok(Some(reply));
    }
    if !ended {
        return Ok(None);
    }
    (reply.body, reply.length, reply.until_end) = (rest.to_vec(), bytes.len(), true);
    Ok(Some(reply))
}

/// Returns what a lenient client would forgive in a head: a line that does not end in CRLF (RFC 9112, section 2.2: "a sequence
/// of octets [...] each ending with CRLF"), or a status line without its last space, which a server MUST send (section 4).
fn lax(head: &[u8]) -> Option<&'static str> {
    const STATUS_LINE: usize = "HTTP/1.1 200".len();
    let is_bare = |at: usize| head[at] == b'\n' && (at == 0 || head[at - 1] != b'\r');
    if (0..head.len()).any(is_bare) {
        return Some("a line of the reply's head ends without CR");
    }
    (head.get(STATUS_LINE) != Some(&b' ')).then_some("no space behind the status code")
}

/// Returns which fields about its length a reply may not have. "A sender MUST NOT send a Content-Length header field in any message
/// that contains a Transfer-Encoding header field" (RFC 9112, section 6.2). "A server MUST NOT send a Transfer-Encoding header field
/// in any response with a status code of 1xx (Informational) or 204 (No Content)" (section 6.1); nor "a Content-Length header field"
/// (RFC 9110, section 8.6). A reply with 304 may have either.
fn misframed(status: u16, fields: &[(String, String)]) -> Option<String> {
    let has = |name: &str| fields.iter().any(|(own, _)| own == name);
    let is_bare = status == 204 || (100..200).contains(&status);
    match (has("content-length"), has("transfer-encoding")) {
        (true, true) => Some("Content-Length and Transfer-Encoding in the same reply".to_owned()),
        (true, false) if is_bare => Some(format!("Content-Length in a reply with status {status}")),
        (false, true) if is_bare => Some(format!("Transfer-Encoding in a reply with status {status}")),
        _ => None,
    }
}

/// Whether a complete reply says that it is the last one of its connection.
pub fn is_last(reply: &[u8]) -> bool {
    // Its framing has been judged before, and the request may have been of any method.
    read(reply, true, true).is_ok_and(|reply| reply.is_some_and(|reply| reply.is_last()))
}

/// Returns a body without its chunks, and the length with them; `None` while it is incomplete.
fn unchunked(bytes: &[u8]) -> Result<Option<(Vec<u8>, usize)>, String> {
    let (mut body, mut at) = (Vec::new(), 0);
    loop {
        let Ok(parsed) = httparse::parse_chunk_size(&bytes[at..]) else {
            return Err(format!("a chunk without a size: {}", quoted(&bytes[at..])));
        };
        let Status::Complete((line, size)) = parsed else { return Ok(None) };
        at += line;
        if size == 0 {
            // Trailers end with an empty line.
            while let Some(end) = bytes[at..].windows(2).position(|pair| pair == b"\r\n") {
                at += end + 2;
                if end == 0 {
                    return Ok(Some((body, at)));
                }
            }
            return Ok(None);
        }
        let too_large = || format!("a chunk of {size} bytes");
        let end = usize::try_from(size).ok().and_then(|size| at.checked_add(size)).ok_or_else(too_large)?;
        if bytes.len().saturating_sub(2) < end {
            return Ok(None);
        }
        body.extend_from_slice(&bytes[at..end]);
        if &bytes[end..end + 2] != b"\r\n" {
            return Err(format!("a chunk with {} behind it", quoted(&bytes[end..end + 2])));
        }
        at = end + 2;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chunk_longer_than_memory_is_a_fault_or_incomplete() {
        for (size, is_fault) in [("ffffffffffffffff", true), ("fffffffffffffffe", true), ("7fffffffffffffff", false)] {
            let reply = format!("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n{size}\r\nx");
            let found = read(reply.as_bytes(), false, false);
            assert_eq!((found.is_err(), matches!(found, Ok(None))), (is_fault, !is_fault), "{size}: {found:?}");
        }
    }

    #[test]
    fn what_a_lenient_client_forgives_is_a_fault() {
        for head in [
            "HTTP/1.1 200 OK\nContent-Length: 0\n\n",
            "HTTP/1.1 200 OK\r\nContent-Length: 0\n\r\n",
            "HTTP/1.1 200\r\nContent-Length: 0\r\n\r\n",
            "HTTP/1.1 200 OK\r\nContent-Length: +0\r\n\r\n",
        ] {
            assert!(read(head.as_bytes(), false, false).is_err(), "{head:?}");
        }
        assert!(read(b"HTTP/1.1 200 \r\nContent-Length: 0\r\n\r\n", false, false).is_ok_and(|reply| reply.is_some()));
    }

    #[test]
    fn a_reply_is_read_wherever_it_is_cut() {
        let head = "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
        for (reply, body, until_end) in [
            ("HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc", "abc", false),
            (&format!("{head}2;x=y\r\nab\r\n1\r\nc\r\n0\r\nTrailer: t\r\n\r\n"), "abc", false),
            ("HTTP/1.1 204 No Content\r\n\r\n", "", false),
        ] {
            for cut in 0..reply.len() {
                assert!(read(&reply.as_bytes()[..cut], false, false).unwrap().is_none(), "{cut} of {reply}");
            }
            let more = [reply.as_bytes(), b"HTTP"].concat();
            let found = read(&more, false, false).unwrap().unwrap();
            assert_eq!((found.body.as_slice(), found.length), (body.as_bytes(), reply.len()), "{reply}");
            assert_eq!(found.until_end, until_end);
        }
    }

    /// A server may send them without end, and a call for each would overflow the stack.
    #[test]
    fn interim_heads_without_end_are_a_fault() {
        let interim = b"HTTP/1.1 100 \r\n\r\n";
        let fault = read(&interim.repeat(100_000), false, false).unwrap_err();
        assert_eq!(fault, "more than 65536 bytes of interim heads (1xx), and no reply");
        let most = interim.repeat(MOST_INTERIM / interim.len());
        assert!(read(&most, false, false).unwrap().is_none());
        let reply = [&most[..], b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc"].concat();
        let found = read(&reply, false, false).unwrap().unwrap();
        assert_eq!((found.status, found.body.as_slice(), found.length), (200, &b"abc"[..], reply.len()));
    }

    #[test]
    fn a_body_without_length_ends_with_the_connection() {
        let reply = b"HTTP/1.0 200 OK\r\n\r\nabc";
        assert!(read(reply, false, false).unwrap().is_none());
        let found = read(reply, false, true).unwrap().unwrap();
        assert!(found.until_end && found.body == b"abc" && found.length == reply.len());
        assert_eq!(read(reply, true, false).unwrap().unwrap().length, reply.len() - 3);
    }

    #[test]
    fn a_reply_says_whether_it_is_the_last() {
        for (reply, is_last_one) in [
            ("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", false),
            ("HTTP/1.1 200 OK\r\nConnection: x, Close\r\n\r\n", true),
            ("HTTP/1.0 200 OK\r\n\r\n", true),
            ("HTTP/1.0 200 OK\r\nConnection: Keep-Alive\r\n\r\n", false),
            ("no reply", false),
        ] {
            assert_eq!(is_last(reply.as_bytes()), is_last_one, "{reply}");
        }
    }

    #[test]
    fn fields_that_a_reply_may_not_have_are_told() {
        const LENGTH: &str = "Content-Length: 0\r\n";
        const CODING: &str = "Transfer-Encoding: chunked\r\n";
        const CONTINUED: &str = "HTTP/1.1 100 X\r\nContent-Length: 0\r\n\r\nHTTP/1.1 200";
        for (status, fields, is_wrong) in [
            ("HTTP/1.1 200", LENGTH, false),
            ("HTTP/1.1 200", CODING, false),
            ("HTTP/1.1 200", &[LENGTH, CODING].concat(), true),
            ("HTTP/1.1 204", "", false),
            ("HTTP/1.1 204", LENGTH, true),
            ("HTTP/1.1 204", CODING, true),
            ("HTTP/1.1 304", LENGTH, false),
            ("HTTP/1.1 304", CODING, false),
            ("HTTP/1.1 100 X\r\n\r\nHTTP/1.1 200", LENGTH, false),
            (CONTINUED, LENGTH, true),
        ] {
            let reply = format!("{status} X\r\n{fields}\r\n");
            let found = read(reply.as_bytes(), true, true).unwrap().unwrap();
            assert_eq!(found.misframed.is_some(), is_wrong, "{reply}");
        }
    }

    #[test]
    fn what_is_no_reply_is_refused() {
        for bytes in ["hello\r\n\r\n", "HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n"] {
            assert!(read(bytes.as_bytes(), false, true).is_err(), "{bytes}");
        }
        let with =
            |second: &str| format!("HTTP/1.1 200 OK\r\nContent-Length: 3\r\nContent-Length: {second}\r\n\r\nabcd");
        assert!(read(with("4").as_bytes(), false, true).is_err() && read(with("4").as_bytes(), true, true).is_err());
        assert_eq!(read(with("3").as_bytes(), false, true).unwrap().unwrap().body, b"abc");
        let chunked = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nabc";
        assert!(read(chunked, false, false).unwrap_err().contains("behind it"));
    }
}
