use std::collections::BTreeMap;

use super::*;
use crate::base::setting::Value::Integer;
use crate::transfer::inbox::Inbox;
use crate::transfer::outbox::Piece;

/// Gives a session the peer's bytes, cut into segments; returns everything it sent and the state of the connection.
fn served(segments: &[&[u8]]) -> (String, &'static str) {
    let service = service(
        &Settings::new(
            ENTRY.service_settings,
            &BTreeMap::from([("bytes", Integer(1)), ("largest_resource", Integer(9))]),
        ),
        Waits::InTheCall,
    );
    let mut session = service.unwrap().open();
    let (mut inbox, mut sent) = (Inbox::default(), String::new());
    for segment in segments {
        inbox.room(segment.len()).copy_from_slice(segment);
        inbox.filled(segment.len());
        while !inbox.unread().is_empty() {
            let mut outbox = Outbox::default();
            let next = session.receive(&mut Input::new(&mut inbox, 1, 0, false), &mut outbox);
            if let Some(Piece::Bytes(bytes, range)) = outbox.front() {
                sent += &String::from_utf8_lossy(&bytes[range.clone()]);
            }
            match next {
                Ok(Next::Receive(_) | Next::Answered(Then::Receive(_))) => {}
                Ok(_) => return (sent, "closed"),
                Err(kind) => return (sent, kind.name()),
            }
        }
    }
    (sent, "open")
}

/// The statuses of all replies, each with k for a persistent connection and c for a closed one, and the state of the
/// connection.
fn statuses(request: &str) -> (Vec<String>, &'static str) {
    let (sent, state) = served(&[request.as_bytes()]);
    let replies = sent.split("HTTP/1.1 ").skip(1);
    let one = |reply: &str| {
        let kept = if reply.contains("\r\nConnection: keep-alive\r\n") { "k" } else { "c" };
        format!("{}{kept}", &reply[..3])
    };
    (replies.map(one).collect(), state)
}

#[track_caller]
fn answers(request: &str, right: &[&str], state: &str) {
    let (seen, is) = statuses(request);
    assert_eq!((seen.iter().map(String::as_str).collect::<Vec<_>>(), is), (right.to_vec(), state), "{request:?}");
}

const HOST: &str = "Host: a\r\n";

#[test]
fn the_resource_and_nothing_else() {
    answers(&format!("GET / HTTP/1.1\r\n{HOST}\r\n"), &["200k"], "open");
    answers(&format!("GET /?q=1 HTTP/1.1\r\n{HOST}\r\n"), &["200k"], "open");
    answers(&format!("GET http://a/ HTTP/1.1\r\n{HOST}\r\n"), &["200k"], "open");
    answers(&format!("GET http://a HTTP/1.1\r\n{HOST}\r\n"), &["200k"], "open");
    answers(&format!("GET HTTP://a/ HTTP/1.1\r\n{HOST}\r\n"), &["200k"], "open");
    answers(&format!("GET /other HTTP/1.1\r\n{HOST}\r\n"), &["404k"], "open");
    answers(&format!("GET http://a/other HTTP/1.1\r\n{HOST}\r\n"), &["404k"], "open");
    answers(&format!("DELETE / HTTP/1.1\r\n{HOST}\r\n"), &["405k"], "open");
    answers(&format!("OPTIONS * HTTP/1.1\r\n{HOST}\r\n"), &["405k"], "open");
    let (sent, _) = served(&[format!("GET / HTTP/1.1\r\n{HOST}\r\n").as_bytes()]);
    assert!(sent.ends_with("\r\nContent-Length: 1\r\nConnection: keep-alive\r\n\r\n\0"), "{sent:?}");
    let (sent, _) = served(&[format!("HEAD / HTTP/1.1\r\n{HOST}\r\n").as_bytes()]);
    assert!(sent.ends_with("\r\nContent-Length: 1\r\nConnection: keep-alive\r\n\r\n"), "{sent:?}");
}

#[test]
fn there_is_a_resource_of_each_size_up_to_the_largest() {
    let ask = |method: &str, size: &str| served(&[format!("{method} /bytes/{size} HTTP/1.1\r\n{HOST}\r\n").as_bytes()]);
    for (size, body) in [("1", "\0"), ("9", "\0\x01\x02\x03\x04\x05\x06\x07\x08")] {
        let (sent, state) = ask("GET", size);
        let head = format!("Content-Length: {size}\r\nConnection: keep-alive\r\n\r\n");
        assert!(sent.ends_with(&(head.clone() + body)) && state == "open", "{sent:?}");
        assert!(ask("HEAD", size).0.ends_with(&head));
    }
    for size in ["0", "10", "-1", "+1", "", "x", "99999999999999999999", "1/", "1.0"] {
        let (sent, state) = ask("GET", size);
        assert!(sent.starts_with("HTTP/1.1 404 ") && state == "open", "{size}: {sent:?}");
    }
    answers(&format!("DELETE /bytes/1 HTTP/1.1\r\n{HOST}\r\n"), &["405k"], "open");
}

#[test]
fn connections_persist_as_the_client_requests() {
    for (version, option, right, state) in [
        ("1.1", "", "200k", "open"),
        ("1.1", "Connection: close\r\n", "200c", "closed"),
        ("1.1", "connection: Foo ,CLOSE\r\n", "200c", "closed"),
        ("1.1", "Connection: keep-alive\r\nConnection: close\r\n", "200c", "closed"),
        ("1.1", "Connection: disclose\r\n", "200k", "open"),
        ("1.0", "", "200c", "closed"),
        ("1.0", "Connection: Keep-Alive\r\n", "200k", "open"),
        ("1.0", "Connection: keep-alive, close\r\n", "200c", "closed"),
    ] {
        answers(&format!("GET / HTTP/{version}\r\n{HOST}{option}\r\n"), &[right], state);
    }
    // Requests pipelined after the last request of a connection are not served.
    let (close, kept) = (format!("{HOST}Connection: close\r\n\r\n"), format!("{HOST}\r\n"));
    let text = format!("GET / HTTP/1.1\r\n{kept}GET /x HTTP/1.1\r\n{close}GET / HTTP/1.1\r\n{kept}");
    answers(&text, &["200k", "404c"], "closed");
}

#[test]
fn garbage_is_answered_and_ends_the_connection() {
    for garbage in ["\0", "nonsense\r\n\r\n", "GET / HTTP/2.0\r\n\r\n", "GET  / HTTP/1.1\r\n", "G\0T / HTTP/1.1\r\n"] {
        answers(garbage, &["400c"], "bad_request");
    }
    answers("GET / HTTP/1.1\r\n\r\n", &["400c"], "bad_request");
    answers(&format!("GET / HTTP/1.1\r\n{HOST}{HOST}\r\n"), &["400c"], "bad_request");
    answers("GET / HTTP/1.1\r\nHost : a\r\n\r\n", &["400c"], "bad_request");
    answers(&format!("GET / HTTP/1.1\r\n{HOST} folded\r\n\r\n"), &["400c"], "bad_request");
    for host in ["a/b", "a b", "a@b", "a?", "\"a\""] {
        answers(&format!("GET / HTTP/1.1\r\nHost: {host}\r\n\r\n"), &["400c"], "bad_request");
    }
    for host in ["", "a.b-c:80", "[::1]:80", "a%20b", "a "] {
        answers(&format!("GET / HTTP/1.1\r\nHost: {host}\r\n\r\n"), &["200k"], "open");
    }
    answers("GET / HTTP/1.0\r\n\r\n", &["200c"], "closed");
    answers("\r\n\r\nGET / HTTP/1.0\r\n\r\n", &["200c"], "closed");
}

#[test]
fn heads_have_a_limit() {
    let of = |length: usize| {
        let rest = length - format!("GET / HTTP/1.1\r\n{HOST}A: \r\n\r\n").len();
        format!("GET / HTTP/1.1\r\n{HOST}A: {}\r\n\r\n", "x".repeat(rest))
    };
    answers(&of(LONGEST_HEAD), &["200k"], "open");
    answers(&of(LONGEST_HEAD + 1), &["431c"], "bad_request");
    answers(&"x".repeat(LONGEST_HEAD - 1), &[], "open");
    answers(&"x".repeat(LONGEST_HEAD), &["431c"], "bad_request");
    let fields = |count: usize| format!("GET / HTTP/1.1\r\n{HOST}{}\r\n", "A: b\r\n".repeat(count - 1));
    answers(&fields(MOST_HEADERS), &["200k"], "open");
    answers(&fields(MOST_HEADERS + 1), &["431c"], "bad_request");
}

/// Bytes that follow a request with a body, or something like it, are not a request.
#[test]
fn a_body_is_never_taken_for_a_request() {
    let inner = format!("GET /x HTTP/1.1\r\n{HOST}\r\n");
    let length = format!("Content-Length: {}\r\n", inner.len());
    for (fields, right) in [
        (length.as_str(), "413c"),
        ("Transfer-Encoding: chunked\r\n", "413c"),
        ("Transfer-Encoding: gzip, Chunked\r\n", "413c"),
        ("Transfer-Encoding: xchunked\r\n", "400c"),
        ("Transfer-Encoding: chunked, gzip\r\n", "400c"),
        ("Transfer-Encoding: chunked\r\nTransfer-Encoding: gzip\r\n", "400c"),
        ("Transfer-Encoding: identity\r\nContent-Length: 0\r\n", "400c"),
        (&format!("Content-Length: 0\r\n{length}"), "400c"),
        (&format!("{length}Content-Length: 0\r\n"), "400c"),
        ("Content-Length: +0\r\n", "400c"),
        ("Content-Length: 0, 41\r\n", "400c"),
        (&format!("{length}{length}"), "413c"),
        ("Content-Length: \r\n", "400c"),
        ("Content-Length: 99999999999999999999\r\n", "400c"),
        ("Content-Length : 41\r\n", "400c"),
    ] {
        answers(&format!("GET / HTTP/1.1\r\n{HOST}{fields}\r\n{inner}"), &[right], "bad_request");
        let right = right.replace("413", "405");
        answers(&format!("POST / HTTP/1.1\r\n{HOST}{fields}\r\n{inner}"), &[&right], "bad_request");
    }
    // No body, so the connection can persist.
    answers(&format!("POST / HTTP/1.1\r\n{HOST}Content-Length: 0\r\n\r\n{inner}"), &["405k", "404k"], "open");
}

#[test]
fn requests_cut_anywhere_get_the_same_replies() {
    let text = format!(
        "GET / HTTP/1.1\r\n{HOST}\r\nHEAD /x HTTP/1.1\r\n{HOST}\r\n\r\nPOST / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n\
         GET / HTTP/1.1\r\n{HOST}Content-Length: 2\r\n\r\nxx"
    )
    .into_bytes();
    let whole = served(&[&text]);
    assert_eq!(whole.1, "bad_request");
    for cut in 1..text.len() {
        assert_eq!(served(&[&text[..cut], &text[cut..]]), whole, "cut at {cut}");
    }
    assert_eq!(served(&text.chunks(1).collect::<Vec<_>>()), whole);
}

proptest::proptest! {
    #[test]
    fn no_input_makes_a_session_panic_and_cuts_change_nothing(
        pieces in proptest::collection::vec("(GET|HEAD|POST|P\u{0}|) ?(/|/x|http://a/) ?HTTP/1.[01]\r?\n((Host|Content-Length|Connection|A) ?: ?[a-z0-9]{0,3}\r?\n){0,4}\r?\n?", 1..4),
        garbage in proptest::collection::vec(proptest::num::u8::ANY, 0..50),
        cut in 0usize..400,
    ) {
        let text = [pieces.concat().into_bytes(), garbage].concat();
        let cut = cut.min(text.len());
        let whole = served(&[&text]);
        proptest::prop_assert_eq!(&served(&[&text[..cut], &text[cut..]]), &whole);
        proptest::prop_assert_eq!(&served(&text.chunks(5).collect::<Vec<_>>()), &whole);
    }
}
