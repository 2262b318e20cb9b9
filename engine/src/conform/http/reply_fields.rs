//! Fields that a reply of HTTP may not have (RFC 9110, section 8.6; RFC 9112, sections 6.1 and 6.2).

use std::time::Duration;

use crate::conform::case::Case;
use crate::conform::http::heads::{asked, is_http};
use crate::conform::http::reply::HttpReply;
use crate::conform::subject::Subject;
use crate::conform::verdict::{Fault, Verdict};

pub const CASES: &[Case] = &[Case {
    number: 48,
    name: "fields about the length of a reply",
    rule: "No reply has both Content-Length and Transfer-Encoding, none of class 1 or with 204 has either, and none to HTTP/1.0 has Transfer-Encoding",
    source: "RFC 9110, section 8.6; RFC 9112, sections 6.1 and 6.2",
    applies: is_http,
    needed_by: None,
    run: fields_of_replies,
}];

/// Requests whose replies a server may frame in different ways.
const REQUESTS: &[&str] = &[
    "GET {path} HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n",
    "HEAD {path} HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n",
    "GET {path} HTTP/1.0\r\nHost: h\r\n\r\n",
    "GET {path} HTTP/1.0\r\nHost: h\r\nConnection: keep-alive\r\n\r\n",
    "GET /no-such-path-of-the-cases HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n",
    "OPTIONS {path} HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n",
    "POST {path} HTTP/1.1\r\nHost: h\r\nContent-Length: 0\r\nConnection: close\r\n\r\n",
    "POST {path} HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\nExpect: 100-continue\r\nConnection: close\r\n\r\nabcde",
    "DELETE {path} HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n",
];

/// Wait for bytes behind a reply that has no body.
const NO_MORE: Duration = Duration::from_millis(200);

fn fields_of_replies(subject: &mut Subject<'_>) -> Result<Verdict, Fault> {
    let mut first = None;
    for request in REQUESTS {
        let reply = judged(subject, request)?;
        first.get_or_insert(reply);
    }
    // A client that has the resource already gets 304 from a server that knows its condition.
    for (field, condition) in [("etag", "If-None-Match"), ("last-modified", "If-Modified-Since")] {
        if let Some(value) = first.as_ref().and_then(|reply| reply.field(field)) {
            let value = value.to_owned();
            judged(subject, &format!("GET {{path}} HTTP/1.1\r\nHost: h\r\n{condition}: {value}\r\n\r\n"))?;
        }
    }
    Ok(Verdict::Passed)
}

fn judged(subject: &mut Subject<'_>, request: &str) -> Result<HttpReply, Fault> {
    const EXPECTED: &str = "a reply whose length is said in one way that its client knows";
    let first_line = request.lines().next().unwrap_or_default().replace("{path}", &subject.path);
    let when = |fault: Fault| fault.when(&format!("to {first_line}"));
    let (mut client, reply) = asked(subject, request).map_err(when)?;
    // "A server MUST NOT send a response containing Transfer-Encoding unless the corresponding request indicates HTTP/1.1 (or
    // later minor revisions)" (RFC 9112, section 6.1).
    if let Some(coding) = reply.field("transfer-encoding").filter(|_| request.contains("HTTP/1.0\r\n")) {
        return Err(when(Fault::new(EXPECTED, format!("Transfer-Encoding: {coding} to HTTP/1.0"))));
    }
    if let Some(actual) = &reply.misframed {
        return Err(when(Fault::new(EXPECTED, actual.clone())));
    }
    if matches!(reply.status, 204 | 304) {
        client.no_more(NO_MORE).map_err(|fault| when(fault.when(&format!("after {}", reply.in_words()))))?;
    }
    Ok(reply)
}
