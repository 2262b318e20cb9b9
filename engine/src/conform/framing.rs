//! Where requests and replies of HTTP end, and when connections do (RFC 9112, sections 6, 7 and 9).

use crate::conform::case::{Case, Need};
use crate::conform::heads::{asked, is_http, refused, with_path};
use crate::conform::http_reply::HttpReply;
use crate::conform::subject::Subject;
use crate::conform::verdict::{Fault, Verdict};

pub const CASES: &[Case] = &[
    Case {
        number: 31,
        name: "Content-Length and Transfer-Encoding",
        rule: "A request with both is refused, or read by its chunks; the connection is closed after the reply",
        source: "RFC 9112, section 6.1",
        applies: is_http,
        needed_by: None,
        run: both_lengths,
    },
    Case {
        number: 32,
        name: "Content-Length that is no number",
        rule: "A Content-Length that is no number is refused with 400",
        source: "RFC 9112, section 6.3",
        applies: is_http,
        needed_by: None,
        run: |subject| refused(subject, "GET {path} HTTP/1.1\r\nHost: h\r\nContent-Length: 1x\r\n\r\nab"),
    },
    Case {
        number: 33,
        name: "two different Content-Lengths",
        rule: "A request with two different lengths is refused with 400, and the connection is closed",
        source: "RFC 9112, section 6.3",
        applies: is_http,
        needed_by: None,
        run: two_lengths,
    },
    Case {
        number: 34,
        name: "chunked request body",
        rule: "A chunked body is read to its end, or the connection is closed: it is never taken for a request",
        source: "RFC 9112, section 9.3",
        applies: is_http,
        needed_by: None,
        run: |subject| body(subject, "Transfer-Encoding: chunked", true),
    },
    Case {
        number: 35,
        name: "request body with a length",
        rule: "A body is read to its end, or the connection is closed: it is never taken for a request",
        source: "RFC 9112, section 9.3",
        applies: is_http,
        needed_by: Some(Need::RequestBody),
        run: |subject| body(subject, "Content-Length: ", false),
    },
    Case {
        number: 36,
        name: "HEAD",
        rule: "The reply to HEAD has the head of the reply to GET and no body",
        source: "RFC 9110, section 9.3.2",
        applies: is_http,
        needed_by: Some(Need::Head),
        run: head,
    },
    Case {
        number: 37,
        name: "HTTP/1.0",
        rule: "Without keep-alive, the connection is closed after the reply to HTTP/1.0",
        source: "RFC 9112, section 9.3",
        applies: is_http,
        needed_by: None,
        run: |subject| closes(subject, "GET {path} HTTP/1.0\r\nHost: h\r\n\r\n"),
    },
    Case {
        number: 38,
        name: "Connection: close",
        rule: "After the reply to a request with Connection: close, the connection is closed",
        source: "RFC 9112, section 9.6",
        applies: is_http,
        needed_by: None,
        run: |subject| closes(subject, "GET {path} HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n"),
    },
    Case {
        number: 39,
        name: "persistent connection",
        rule: "HTTP/1.1 without Connection: close should keep the connection for another request",
        source: "RFC 9112, section 9.3",
        applies: is_http,
        needed_by: None,
        run: persistent,
    },
    Case {
        number: 40,
        name: "the same reply again",
        rule: "The reply to a request has as many bytes as it says, and is the same again",
        source: "RFC 9112, section 6.3",
        applies: is_http,
        needed_by: None,
        run: same_again,
    },
];

/// A request that stands in a body. A server that takes it for one sends a reply too many.
const SMUGGLED: &str = "GET {path} HTTP/1.1\r\nHost: smuggled\r\n\r\n";

fn both_lengths(subject: &mut Subject<'_>) -> Result<Verdict, Fault> {
    let smuggled = with_path(subject, SMUGGLED);
    let head = "POST {path} HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n";
    let (mut client, _) = asked(subject, &format!("{head}{smuggled}"))?;
    client.ends().map_err(|fault| fault.when("after the reply to a request with both"))?;
    Ok(Verdict::Passed)
}

fn two_lengths(subject: &mut Subject<'_>) -> Result<Verdict, Fault> {
    let request = "GET {path} HTTP/1.1\r\nHost: h\r\nContent-Length: 0\r\nContent-Length: 5\r\n\r\nabcde";
    let (mut client, reply) = asked(subject, request)?;
    if reply.status != 400 {
        return Err(Fault::new("status 400", reply.in_words()));
    }
    client.ends().map_err(|fault| fault.when("after the refusal"))?;
    Ok(Verdict::Passed)
}

/// Judges a request with a body, and a request behind it.
fn body(subject: &mut Subject<'_>, field: &str, chunked: bool) -> Result<Verdict, Fault> {
    let smuggled = with_path(subject, SMUGGLED);
    let (length, body) = match chunked {
        true => (String::new(), format!("{:x}\r\n{smuggled}\r\n0\r\n\r\n", smuggled.len())),
        false => (smuggled.len().to_string(), smuggled),
    };
    let request = format!("POST {{path}} HTTP/1.1\r\nHost: h\r\n{field}{length}\r\n\r\n{body}");
    let (mut client, first) = asked(subject, &request)?;
    let mut replies = 1;
    // The next reply must be that to this request, or there is none: the connection is closed.
    let next = with_path(subject, "GET {path} HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n");
    client.send_in_vain(next.as_bytes());
    while client.http(false).is_ok() {
        replies += 1;
    }
    match replies {
        1 => Ok(Verdict::Allowed(format!("it refuses the body and closes ({})", first.in_words()))),
        2 => Ok(Verdict::Passed),
        _ => Err(Fault::new("at most 2 replies to 2 requests", format!("{replies}: it took the body for a request"))),
    }
}

fn head(subject: &mut Subject<'_>) -> Result<Verdict, Fault> {
    let (_, got) = asked(subject, "GET {path} HTTP/1.1\r\nHost: h\r\n\r\n")?;
    let (mut client, reply) = asked(subject, "HEAD {path} HTTP/1.1\r\nHost: h\r\n\r\n")?;
    client.half_close();
    client.ends().map_err(|fault| fault.when("after the head"))?;
    let length = |reply: &HttpReply| reply.field("content-length").map(str::to_owned);
    if reply.status != got.status {
        return Err(Fault::new(format!("{}, as GET", got.in_words()), reply.in_words()));
    }
    match (length(&got), length(&reply)) {
        (Some(expected), Some(came)) if expected != came => {
            Err(Fault::new(format!("Content-Length: {expected}, as GET"), format!("Content-Length: {came}")))
        }
        _ => Ok(Verdict::Passed),
    }
}

fn closes(subject: &mut Subject<'_>, request: &str) -> Result<Verdict, Fault> {
    let (mut client, _) = asked(subject, request)?;
    client.ends().map_err(|fault| fault.when("after the reply"))?;
    Ok(Verdict::Passed)
}

fn persistent(subject: &mut Subject<'_>) -> Result<Verdict, Fault> {
    const REQUEST: &str = "GET {path} HTTP/1.1\r\nHost: h\r\n\r\n";
    let (mut client, first) = asked(subject, REQUEST)?;
    let request = with_path(subject, REQUEST);
    client.send_in_vain(request.as_bytes());
    match client.http(false) {
        Ok(_) => Ok(Verdict::Passed),
        Err(_) if first.is_last() => {
            Ok(Verdict::Warned(Fault::new("a connection that persists", "a reply that says that the connection ends")))
        }
        Err(fault) => Err(fault.when("to the second request")),
    }
}

fn same_again(subject: &mut Subject<'_>) -> Result<Verdict, Fault> {
    const REQUEST: &str = "GET {path} HTTP/1.1\r\nHost: h\r\n\r\n";
    let (mut client, first) = asked(subject, REQUEST)?;
    client.half_close();
    client.ends().map_err(|fault| fault.when("after the reply"))?;
    let (_, second) = asked(subject, REQUEST)?;
    if (second.status, &second.body) == (first.status, &first.body) {
        return Ok(Verdict::Passed);
    }
    Ok(Verdict::Warned(Fault::new("the same reply to the same request", "another one")))
}
