//! Where requests and replies of HTTP end, and when connections do (RFC 9112, sections 6, 7 and 9).

use crate::conform::case::{Case, Need};
use crate::conform::http::heads::{asked, closes, is_http, with_path};
use crate::conform::http::reply::HttpReply;
use crate::conform::subject::Subject;
use crate::conform::verdict::{Fault, Verdict, bytes};

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
        rule: "A chunked body, also with extensions or trailers, is read to its end, or the connection is closed: no part of it is taken for a request",
        source: "RFC 9112, sections 7 and 9.3",
        applies: is_http,
        needed_by: None,
        run: chunked_bodies,
    },
    Case {
        number: 35,
        name: "request body with a length",
        rule: "A body is read to its end, or the connection is closed: no part of it is taken for a request",
        source: "RFC 9112, section 9.3",
        applies: is_http,
        needed_by: Some(Need::RequestBody),
        run: |subject| bodies(subject, sized),
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
        rule: "HTTP/1.0, also without Host, gets its reply, and the connection is closed after it if there is no keep-alive",
        source: "RFC 9112, sections 3.2 and 9.3",
        applies: is_http,
        needed_by: None,
        run: |subject| {
            closes(subject, "GET {path} HTTP/1.0\r\nHost: h\r\n\r\n")?;
            // Only "any HTTP/1.1 request message that lacks a Host header field" is refused (RFC 9112, section 3.2).
            let without = closes(subject, "GET {path} HTTP/1.0\r\n\r\n");
            without.map_err(|fault| fault.when("to HTTP/1.0 without Host"))
        },
    },
    Case {
        number: 38,
        name: "Connection: close",
        rule: "After the reply to a request with Connection: close, also in a list, the connection is closed",
        source: "RFC 9112, section 9.6",
        applies: is_http,
        needed_by: None,
        run: |subject| {
            closes(subject, "GET {path} HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n")?;
            let in_a_list = closes(subject, "GET {path} HTTP/1.1\r\nHost: h\r\nConnection: x, close\r\n\r\n");
            in_a_list.map_err(|fault| fault.when("to Connection: x, close"))
        },
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
        rule: "The reply to a request has as many bytes as it says; its status should be the same again, and its body may be another",
        source: "RFC 9112, section 6.3",
        applies: is_http,
        needed_by: None,
        run: same_again,
    },
    Case {
        number: 44,
        name: "client that waits for 100 (Continue)",
        rule: "A request with Expect: 100-continue, in any case, gets a reply of class 1 or its final one before the client sends the body",
        source: "RFC 9110, section 10.1.1",
        applies: is_http,
        needed_by: None,
        run: waiting_client,
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

/// The field that frames a body, and the body with its framing.
type Framed = fn(&str) -> (String, String);

fn sized(body: &str) -> (String, String) {
    (format!("Content-Length: {}", body.len()), body.to_owned())
}

/// Several chunks, so that a server that takes the first for all of it is seen, too. Their sizes have hexadecimal digits of
/// both cases, and all of them in a long body.
fn chunked(body: &str) -> (String, String) {
    in_chunks(body, if body.len() < LONG { &["a", "F"] } else { &["abc", "DEF", "def", "ABC"] })
}

/// Length of a body of which each chunk may be a thousand bytes and more.
const LONG: usize = 16 << 10;

/// Cuts a body into chunks of these sizes, by turns; the last one has the rest.
fn in_chunks(body: &str, sizes: &[&str]) -> (String, String) {
    let (mut framed, mut rest) = (String::new(), body);
    for size in sizes.iter().cycle() {
        match usize::from_str_radix(size, 16).ok().and_then(|length| rest.split_at_checked(length)) {
            Some((chunk, behind)) if !chunk.is_empty() && !behind.is_empty() => {
                framed += &format!("{size}\r\n{chunk}\r\n");
                rest = behind;
            }
            _ => break,
        }
    }
    framed += &format!("{:x}\r\n{rest}\r\n0\r\n\r\n", rest.len());
    ("Transfer-Encoding: chunked".to_owned(), framed)
}

/// Forms of a chunked body that a server that reads chunks must read, too: digits of sizes, the name of the coding in another
/// case ("All transfer-coding names are case-insensitive", RFC 9112, section 7), an extension ("A recipient MUST ignore
/// unrecognized chunk extensions", section 7.1.1), and a trailer section (section 7.1.2).
fn forms(body: &str) -> [(&'static str, (String, String)); 4] {
    let plain = || in_chunks(body, PLAIN);
    let coding = ("Transfer-Encoding: Chunked".to_owned(), plain().1);
    let (field, framed) = plain();
    let extended = (field, framed.replacen("\r\n", ";name=value;quoted=\"a b\"\r\n", 1));
    let (field, framed) = plain();
    let with_trailer = (field, framed.trim_end_matches("\r\n").to_owned() + "\r\nX-Trailer: value\r\n\r\n");
    [
        ("sizes with the digits a-f and A-F", chunked(body)),
        ("Transfer-Encoding: Chunked", coding),
        ("a chunk extension", extended),
        ("a trailer", with_trailer),
    ]
}

/// Sizes of chunks that any server understands that understands chunks.
const PLAIN: &[&str] = &["9"];

fn chunked_bodies(subject: &mut Subject<'_>) -> Result<Verdict, Fault> {
    let body = with_path(subject, SMUGGLED);
    // A server may refuse chunks, but not for their form.
    let is_read = body_of(subject, in_chunks(&body, PLAIN), Sent::AtOnce)? == Verdict::Passed;
    for (form, framed) in forms(&body) {
        let formed = body_of(subject, framed, Sent::AtOnce).map_err(|fault| fault.when(&format!("to {form}")))?;
        if is_read && let Verdict::Allowed(actual) = formed {
            return Err(Fault::new("a body that is read as with plain chunks", format!("to {form}, {actual}")));
        }
    }
    bodies(subject, chunked)
}

/// Requests in the longest body: more than a server receives at once.
const MANY: usize = 1000;

/// Judges requests with bodies of requests: with the head, behind it, and longer than a server receives at once.
fn bodies(subject: &mut Subject<'_>, framed: Framed) -> Result<Verdict, Fault> {
    let smuggled = with_path(subject, SMUGGLED);
    let mut verdict = Verdict::Passed;
    for (body, sent) in
        [(smuggled.clone(), Sent::AtOnce), (smuggled.clone(), Sent::AfterHead), (smuggled.repeat(MANY), Sent::AtOnce)]
    {
        let judged = body_of(subject, framed(&body), sent)
            .map_err(|fault| fault.when(&format!("to a body of {}", bytes(body.len()))))?;
        if verdict == Verdict::Passed {
            verdict = judged;
        }
    }
    Ok(verdict)
}

fn waiting_client(subject: &mut Subject<'_>) -> Result<Verdict, Fault> {
    let smuggled = with_path(subject, SMUGGLED);
    let verdict = body_of(subject, sized(&smuggled), Sent::Expected("100-continue"))?;
    // "The Expect field value is case-insensitive", and upon "a 100-continue expectation [...] an origin server MUST send either"
    // a final reply or 100 (Continue) (RFC 9110, section 10.1.1).
    let other = body_of(subject, sized(&smuggled), Sent::Expected("100-Continue"));
    match other.map_err(|fault| fault.when("to Expect: 100-Continue"))? {
        Verdict::Allowed(actual) if verdict == Verdict::Passed => {
            Err(Fault::new("what comes to Expect: 100-continue", format!("to Expect: 100-Continue, {actual}")))
        }
        _ => Ok(verdict),
    }
}

/// When a body is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Sent {
    /// With the head.
    AtOnce,
    /// Once the server has taken the head.
    AfterHead,
    /// Once the server has said that it expects it, or has replied, to a field Expect with this value.
    Expected(&'static str),
}

/// Judges a request with a body, and a request behind it.
fn body_of(subject: &mut Subject<'_>, (field, body): (String, String), sent: Sent) -> Result<Verdict, Fault> {
    let (_, plain) = asked(subject, "GET {path} HTTP/1.1\r\nHost: h\r\n\r\n")?;
    let expect = match sent {
        Sent::Expected(value) => format!("Expect: {value}\r\n"),
        _ => String::new(),
    };
    let head = with_path(subject, &format!("POST {{path}} HTTP/1.1\r\nHost: h\r\n{expect}{field}\r\n\r\n"));
    let next = with_path(subject, "GET {path} HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n");
    let mut client = subject.connect()?;
    let mut rest = body + &next;
    if sent == Sent::AtOnce {
        rest = head + &rest;
    } else {
        client.send_in_vain(head.as_bytes());
        let _ = client.await_taken();
    }
    if matches!(sent, Sent::Expected(_)) && !client.take(1, subject.patience) {
        return Err(Fault::new("100 (Continue) or the final reply", "nothing while the client waits with the body"));
    }
    let replies = client.while_sending(rest.as_bytes(), |client| {
        let mut replies = vec![client.http(false)?];
        // The next reply must be that to the next request, or there is none: the connection is closed.
        while let Ok(reply) = client.http(false) {
            replies.push(reply);
        }
        client.ends().map(|_| replies)
    });
    let replies = replies.map_err(|error| Fault::new("a connection", error.to_string()))??;
    match replies.as_slice() {
        [first] => Ok(Verdict::Allowed(format!("it replies with {} and closes", first.in_words()))),
        [_, second] if second.status == plain.status => Ok(Verdict::Passed),
        [_, second] => Err(Fault::new(
            format!("{} to the request behind the body", plain.in_words()),
            format!("{}: it took the body for a request", second.in_words()),
        )),
        more => Err(Fault::new(
            "at most 2 replies to 2 requests",
            format!("{}: it took the body for a request", more.len()),
        )),
    }
}

/// Requests in this order, so that a reply that changes with time or by turns is seen to change.
const METHODS: &[&str] = &["GET", "HEAD", "HEAD", "GET", "HEAD", "GET"];

fn head(subject: &mut Subject<'_>) -> Result<Verdict, Fault> {
    let (mut got, mut heads): (Vec<HttpReply>, Vec<HttpReply>) = (Vec::new(), Vec::new());
    for method in METHODS {
        let (mut client, reply) = asked(subject, &format!("{method} {{path}} HTTP/1.1\r\nHost: h\r\n\r\n"))?;
        if *method == "GET" {
            got.push(reply);
            continue;
        }
        client.half_close();
        client.ends().map_err(|fault| fault.when("after the head"))?;
        heads.push(reply);
    }
    let length = |reply: &HttpReply| reply.field("content-length").map(str::to_owned);
    let are_alike = |replies: &[HttpReply]| {
        replies.windows(2).all(|pair| pair[0].status == pair[1].status && length(&pair[0]) == length(&pair[1]))
    };
    if !are_alike(&got) || !are_alike(&heads) {
        return Ok(Verdict::Passed);
    }
    let (got, reply) = (&got[0], &heads[0]);
    if reply.status != got.status {
        return Err(Fault::new(format!("{}, as GET", got.in_words()), reply.in_words()));
    }
    match (length(got), length(reply)) {
        (Some(expected), Some(actual)) if expected != actual => {
            Err(Fault::new(format!("Content-Length: {expected}, as GET"), format!("Content-Length: {actual}")))
        }
        _ => Ok(Verdict::Passed),
    }
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
    Ok(if second.status != first.status {
        Verdict::Warned(Fault::new(format!("{}, as before", first.in_words()), second.in_words()))
    } else if second.body != first.body {
        Verdict::Allowed("another body for the same request".to_owned())
    } else {
        Verdict::Passed
    })
}
