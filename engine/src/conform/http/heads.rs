//! Heads of requests of HTTP: what a server must refuse, and what it must accept (RFC 9112, sections 2, 3 and 5).

use crate::conform::case::Case;
use crate::conform::connection::Connection;
use crate::conform::http::reply::HttpReply;
use crate::conform::protocol::Protocol;
use crate::conform::subject::Subject;
use crate::conform::verdict::{Fault, Verdict, bytes};

pub const CASES: &[Case] = &[
    Case {
        number: 21,
        name: "no Host field",
        rule: "HTTP/1.1 without Host is refused with 400",
        source: "RFC 9112, section 3.2",
        applies: is_http,
        needed_by: None,
        run: |subject| refused(subject, "GET {path} HTTP/1.1\r\n\r\n"),
    },
    Case {
        number: 22,
        name: "two Host fields",
        rule: "A request with more than one Host is refused with 400",
        source: "RFC 9112, section 3.2",
        applies: is_http,
        needed_by: None,
        run: |subject| refused(subject, "GET {path} HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n"),
    },
    Case {
        number: 23,
        name: "blank before the colon",
        rule: "White space between a field's name and the colon is refused with 400",
        source: "RFC 9112, section 5.1",
        applies: is_http,
        needed_by: None,
        run: |subject| refused(subject, "GET {path} HTTP/1.1\r\nHost: h\r\nX-Field : 1\r\n\r\n"),
    },
    Case {
        number: 24,
        name: "folded field",
        rule: "A field that goes on in the next line is refused with 400, or read with blanks in place of the fold",
        source: "RFC 9112, section 5.2",
        applies: is_http,
        needed_by: None,
        run: folded_field,
    },
    Case {
        number: 25,
        name: "target with scheme and host",
        rule: "The absolute form of the target is accepted, as clients send it to proxies",
        source: "RFC 9112, section 3.2.2",
        applies: is_http,
        needed_by: None,
        run: absolute_form,
    },
    Case {
        number: 26,
        name: "very long target",
        rule: "A target that is too long is refused, with 414 or another status of class 4",
        source: "RFC 9112, section 3",
        applies: is_http,
        needed_by: None,
        run: long_target,
    },
    Case {
        number: 27,
        name: "unknown method",
        rule: "A method that the server does not know should be refused with 501, or 405",
        source: "RFC 9110, section 9.1",
        applies: is_http,
        needed_by: None,
        run: unknown_method,
    },
    Case {
        number: 28,
        name: "lines without CR",
        rule: "Lines that end with LF alone are refused, or read as if they ended with CR LF",
        source: "RFC 9112, section 2.2",
        applies: is_http,
        needed_by: None,
        run: bare_line_feeds,
    },
    Case {
        number: 29,
        name: "Host that is no host",
        rule: "A Host that is no host with an optional port is refused with 400",
        source: "RFC 9112, section 3.2",
        applies: is_http,
        needed_by: None,
        run: |subject| {
            refused(subject, "GET {path} HTTP/1.1\r\nHost: a/b\r\n\r\n")?;
            refused(subject, "GET {path} HTTP/1.1\r\nHost: a b\r\n\r\n")
        },
    },
    Case {
        number: 30,
        name: "empty line before the request",
        rule: "An empty line before the request should be ignored",
        source: "RFC 9112, section 2.2",
        applies: is_http,
        needed_by: None,
        run: empty_line_first,
    },
    Case {
        number: 41,
        name: "fields in any case",
        rule: "The names of fields, and the options of Connection, are read in upper and lower case",
        source: "RFC 9110, sections 5.1 and 7.6.1",
        applies: is_http,
        needed_by: None,
        run: |subject| closes(subject, "GET {path} HTTP/1.1\r\nhOST: h\r\nCONNECTION: Close\r\n\r\n"),
    },
    Case {
        number: 42,
        name: "blanks around values",
        rule: "Blanks around the value of a field, or none, are no part of it",
        source: "RFC 9112, section 5.1",
        applies: is_http,
        needed_by: None,
        run: |subject| {
            closes(subject, "GET {path} HTTP/1.1\r\nHost:h\r\nConnection:close\r\n\r\n")?;
            closes(subject, "GET {path} HTTP/1.1\r\nHost:  h \r\nConnection:  close  \r\n\r\n")
        },
    },
    Case {
        number: 52,
        name: "white space before the first field",
        rule: "A line that begins with white space, before the first field, is no field: without another Host the request is refused with 400",
        source: "RFC 9112, section 2.2",
        applies: is_http,
        needed_by: None,
        run: |subject| refused(subject, "GET {path} HTTP/1.1\r\n Host: h\r\n\r\n"),
    },
    Case {
        number: 43,
        name: "head of 6 kB",
        rule: "A head of 6 kB gets one reply, that to the request or a refusal with a status of class 4",
        source: "RFC 9112, section 3",
        applies: is_http,
        needed_by: None,
        run: long_head,
    },
];

/// Length of a very long target: more than any usual limit.
const LONG: usize = 100_000;

pub fn is_http(protocol: &Protocol) -> bool {
    protocol.is_http
}

/// Puts the path of the resource into a request.
pub fn with_path(subject: &Subject<'_>, request: &str) -> String {
    request.replace("{path}", &subject.path)
}

/// Makes a request on a new connection. Returns the connection and the reply.
pub fn asked(subject: &mut Subject<'_>, request: &str) -> Result<(Connection, HttpReply), Fault> {
    let request = with_path(subject, request);
    let mut client = subject.connect()?;
    client.send_in_vain(request.as_bytes());
    let reply = client.http(request.starts_with("HEAD"))?;
    Ok((client, reply))
}

/// Judges a request that must be refused with 400.
pub fn refused(subject: &mut Subject<'_>, request: &str) -> Result<Verdict, Fault> {
    let (_, reply) = asked(subject, request)?;
    if reply.status == 400 { Ok(Verdict::Passed) } else { Err(Fault::new("status 400", reply.in_words())) }
}

/// Judges a valid request after which the connection must be closed.
pub fn closes(subject: &mut Subject<'_>, request: &str) -> Result<Verdict, Fault> {
    let (mut client, reply) = asked(subject, request)?;
    if !is_understood(&reply) {
        return Err(Fault::new("the reply to the request", reply.in_words()));
    }
    client.ends().map_err(|fault| fault.when("after the reply"))?;
    Ok(Verdict::Passed)
}

/// Whether a reply is one to a request that was understood.
pub fn is_understood(reply: &HttpReply) -> bool {
    reply.is_success() || reply.status == 404
}

fn folded_field(subject: &mut Subject<'_>) -> Result<Verdict, Fault> {
    let (_, reply) = asked(subject, "GET {path} HTTP/1.1\r\nHost: h\r\nX-Field: a\r\n b\r\n\r\n")?;
    match reply.status {
        400 => Ok(Verdict::Passed),
        _ if is_understood(&reply) => Ok(Verdict::Allowed("it reads the folded field".to_owned())),
        _ => Err(Fault::new("status 400, or the reply to the request", reply.in_words())),
    }
}

/// Requests in each form of the target, in this order, so that a body that changes with time or by turns is seen to change.
const FORMS: &[&str] = &["", "http://h", "http://h", "", "http://h", ""];

fn absolute_form(subject: &mut Subject<'_>) -> Result<Verdict, Fault> {
    let (mut plain, mut absolute): (Vec<HttpReply>, Vec<HttpReply>) = (Vec::new(), Vec::new());
    for form in FORMS {
        let (_, reply) = asked(subject, &format!("GET {form}{{path}} HTTP/1.1\r\nHost: h\r\n\r\n"))?;
        if form.is_empty() { plain.push(reply) } else { absolute.push(reply) }
    }
    let is_fixed = |replies: &[HttpReply]| replies.windows(2).all(|pair| pair[0].body == pair[1].body);
    let (right, actual) = (&plain[0], &absolute[0]);
    let is_other_body = is_fixed(&plain) && is_fixed(&absolute) && right.body != actual.body;
    if right.status == actual.status && !is_other_body {
        return Ok(Verdict::Passed);
    }
    let body = |reply: &HttpReply| format!("status {} and {}", reply.status, bytes(reply.body.len()));
    let same_length = if right.body.len() == actual.body.len() && is_other_body { ", which differ" } else { "" };
    Err(Fault::new(format!("the reply to the path alone, {}", body(right)), body(actual) + same_length))
}

fn long_target(subject: &mut Subject<'_>) -> Result<Verdict, Fault> {
    let request = format!("GET /{} HTTP/1.1\r\nHost: h\r\n\r\n", "x".repeat(LONG));
    let mut client = subject.connect()?;
    client.send_in_vain(request.as_bytes());
    // A server that refuses may reset the connection, since it has not taken all of the request: the reply is lost then.
    let reply = client.http(false);
    let is_quiet = client.is_quiet();
    // A server with one connection at a time would wait for its end.
    drop(client);
    subject.still_serves()?;
    match reply {
        Ok(reply) if reply.is(4) => Ok(Verdict::Passed),
        Ok(reply) if is_understood(&reply) => Ok(Verdict::Allowed("it takes a target of 100,000 bytes".to_owned())),
        Ok(reply) if reply.is(5) => Ok(Verdict::Warned(Fault::new("status 414", reply.in_words()))),
        Ok(reply) => Err(Fault::new("a status of class 4", reply.in_words())),
        Err(_) if !is_quiet => Err(Fault::new("a status of class 4", "part of a reply")),
        Err(fault) => Ok(Verdict::Warned(Fault::new("a status of class 4", fault.actual))),
    }
}

fn long_head(subject: &mut Subject<'_>) -> Result<Verdict, Fault> {
    let fields: String = (0..60).map(|number| format!("X-Field-{number}: {}\r\n", "x".repeat(80))).collect();
    let request = format!("GET {{path}} HTTP/1.1\r\nHost: h\r\n{fields}\r\n");
    let (mut client, reply) = asked(subject, &request)?;
    client.half_close();
    client.ends().map_err(|fault| fault.when("after the reply"))?;
    match reply {
        reply if is_understood(&reply) => Ok(Verdict::Passed),
        reply if reply.is(4) => Ok(Verdict::Allowed(format!("it refuses the head ({})", reply.in_words()))),
        reply => Err(Fault::new("the reply to the request, or a status of class 4", reply.in_words())),
    }
}

fn unknown_method(subject: &mut Subject<'_>) -> Result<Verdict, Fault> {
    Ok(match asked(subject, "BREW {path} HTTP/1.1\r\nHost: h\r\n\r\n") {
        Ok((_, reply)) if matches!(reply.status, 501 | 405) => Verdict::Passed,
        Ok((_, reply)) => Verdict::Warned(Fault::new("status 501 or 405", reply.in_words())),
        Err(fault) => Verdict::Warned(Fault::new("status 501 or 405", fault.actual)),
    })
}

fn empty_line_first(subject: &mut Subject<'_>) -> Result<Verdict, Fault> {
    Ok(match asked(subject, "\r\nGET {path} HTTP/1.1\r\nHost: h\r\n\r\n") {
        Ok((_, reply)) if is_understood(&reply) => Verdict::Passed,
        Ok((_, reply)) => Verdict::Warned(Fault::new("the reply to the request", reply.in_words())),
        Err(fault) => Verdict::Warned(Fault::new("the reply to the request", fault.actual)),
    })
}

fn bare_line_feeds(subject: &mut Subject<'_>) -> Result<Verdict, Fault> {
    let request = with_path(subject, "GET {path} HTTP/1.1\nHost: h\n\n");
    let mut client = subject.connect()?;
    client.send_in_vain(request.as_bytes());
    client.half_close();
    let what = match client.http(false) {
        Ok(reply) if is_understood(&reply) => "it accepts them",
        Ok(reply) if reply.is(4) => "it refuses them",
        Ok(reply) => return Err(Fault::new("a refusal, or the reply to the request", reply.in_words())),
        Err(_) if client.ends().is_ok() => "it closes the connection",
        Err(_) => "it does not reply",
    };
    subject.still_serves()?;
    Ok(Verdict::Allowed(what.to_owned()))
}
