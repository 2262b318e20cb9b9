//! Tests of the client side.

use std::collections::BTreeMap;

use super::*;
use crate::base::setting::Value;
use crate::protocol::pattern::pattern;
use crate::transfer::inbox::Inbox;
use crate::workloads::http::ENTRY;

fn new(path: &str) -> Result<Box<dyn Client>> {
    let given = BTreeMap::from([("path", Value::Word(path.to_owned())), ("bytes", Value::Integer(300))]);
    client(&Settings::new(ENTRY.client_settings, &given))
}

/// Gives a conversation a reply, cut into segments.
fn judge(segments: &[&[u8]], ended: bool) -> std::result::Result<Answer, String> {
    judge_by(new("/").unwrap().as_ref(), segments, ended)
}

fn judge_by(client: &dyn Client, segments: &[&[u8]], ended: bool) -> std::result::Result<Answer, String> {
    let mut conversation = client.open();
    let mut answer = Answer::Receive(conversation.ask(&mut Outbox::default()));
    let mut inbox = Inbox::default();
    for segment in segments {
        inbox.room(segment.len()).copy_from_slice(segment);
        inbox.filled(segment.len());
        answer = conversation.receive(&mut Input::new(&mut inbox, 1, 0, false))?;
    }
    if ended {
        answer = conversation.receive(&mut Input::new(&mut inbox, 1, 0, true))?;
    }
    let is_whole = !matches!(answer, Answer::Receive(_) | Answer::Surplus { .. });
    if is_whole && conversation.status().is_some_and(|status| status.is_error) {
        return Err(conversation.error());
    }
    Ok(answer)
}

fn reply(head: &str, body: usize) -> Vec<u8> {
    [head.as_bytes(), &pattern(body as u64)].concat()
}

const HEAD: &str = "HTTP/1.1 200 OK\r\nServer: any\r\ncontent-length: 300\r\n\r\n";

#[test]
fn a_reply_cut_anywhere_is_correct() {
    let right = reply(HEAD, 300);
    for cut in 1..right.len() {
        assert_eq!(judge(&[&right[..cut], &right[cut..]], false), Ok(Answer::Complete), "cut at {cut}");
    }
    assert_eq!(judge(&right.chunks(1).collect::<Vec<_>>(), false), Ok(Answer::Complete));
}

#[test]
fn a_server_that_closes_announces_it() {
    let length = "Content-Length: 300";
    for (head, last) in [
        (format!("HTTP/1.1 200 OK\r\nConnection: close\r\n{length}"), true),
        (format!("HTTP/1.1 200 OK\r\n{length}\r\nconnection: x, CLOSE"), true),
        (format!("HTTP/1.1 200 OK\r\nConnection: x\r\n{length}\r\nConnection: close"), true),
        (format!("HTTP/1.1 200 OK\r\nConnection: keep-alive\r\n{length}"), false),
        (format!("HTTP/1.0 200 OK\r\n{length}"), true),
        (format!("HTTP/1.0 200 OK\r\nConnection: keep-alive\r\n{length}"), false),
    ] {
        let answer = if last { Answer::Last } else { Answer::Complete };
        assert_eq!(judge(&[&reply(&format!("{head}\r\n\r\n"), 300)], false), Ok(answer), "{head}");
    }
}

#[test]
fn an_interim_head_is_no_reply() {
    let interim = b"HTTP/1.1 103 Early Hints\r\nLink: </style.css>\r\n\r\n";
    let right = [&b"HTTP/1.1 100 Continue\r\n\r\n"[..], interim, interim, &reply(HEAD, 300)].concat();
    for cut in 1..right.len() {
        assert_eq!(judge(&[&right[..cut], &right[cut..]], false), Ok(Answer::Complete), "cut at {cut}");
    }
    assert_eq!(judge(&right.chunks(1).collect::<Vec<_>>(), false), Ok(Answer::Complete));
    assert!(judge(&[interim], true).unwrap_err().contains("ended"));
}

/// The bytes of our servers, in chunks of these lengths.
fn chunked(lengths: &[usize]) -> Vec<u8> {
    let all = pattern(lengths.iter().sum::<usize>() as u64);
    let (mut rest, mut text) = (&all[..], b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n".to_vec());
    for &length in lengths {
        let (chunk, others) = rest.split_at(length);
        text.extend_from_slice(format!("{length:x}\r\n").as_bytes());
        text.extend_from_slice(&[chunk, b"\r\n"].concat());
        rest = others;
    }
    [&text[..], b"0\r\n\r\n"].concat()
}

#[test]
fn a_reply_in_chunks_is_looked_at_as_any_other() {
    let right = chunked(&[1, 99, 200]);
    for cut in 1..right.len() {
        assert_eq!(judge(&[&right[..cut], &right[cut..]], false), Ok(Answer::Complete), "cut at {cut}");
        let error = judge(&[&right[..cut]], true).unwrap_err();
        assert!(error.contains("the reply ended after"), "{error}");
    }
    assert_eq!(judge(&right.chunks(1).collect::<Vec<_>>(), false), Ok(Answer::Complete));
    let wrong = |reply: &[u8], word: &str| {
        let error = judge(&[reply], false).unwrap_err();
        assert!(error.contains(word), "'{word}' is not in '{error}'");
    };
    wrong(&chunked(&[299]), "299 bytes, expected 300");
    wrong(&chunked(&[300, 1]), "more than the expected 300 bytes");
    wrong(&chunked(&[]), "0 bytes, expected 300");
    let mut other = right.clone();
    let last = right.len() - 10;
    other[last] ^= 1;
    wrong(&other, "byte 297");
    // A kind without a given length accepts any.
    let any = |size: usize| chunked(&vec![10_000; size / 10_000]);
    let missing = |reply: Vec<u8>| {
        let reply = [b"HTTP/1.1 404 Not Found", &reply["HTTP/1.1 200 OK".len()..]].concat();
        judge_by(of_mix("GET=404:/@1").as_ref(), &[&reply], false)
    };
    assert_eq!(missing(chunked(&[5])), Ok(Answer::Complete));
    assert_eq!(missing(any(1_100_000)), Ok(Answer::Complete));
}

#[test]
fn a_reply_that_ends_with_its_connection_is_whole_then() {
    for fields in ["0 200 OK\r\n", "1 200 OK\r\n", "1 200 OK\r\nConnection: close\r\n"] {
        let head = &format!("HTTP/1.{fields}\r\n");
        let right = reply(head, 300);
        for cut in head.len()..right.len() {
            assert_eq!(judge(&[&right[..cut], &right[cut..]], true), Ok(Answer::Last), "cut at {cut}");
        }
        assert!(matches!(judge(&[&right], false), Ok(Answer::Receive(_))), "more may come");
        assert!(judge(&[&reply(head, 299)], true).unwrap_err().contains("299 bytes, expected 300"));
        assert!(judge(&[&reply(head, 301)], true).unwrap_err().contains("more than the expected 300 bytes"));
    }
}

#[test]
fn a_wrong_reply_is_described() {
    let wrong = |head: &str, body, word: &str| {
        let text = judge(&[&reply(head, body)], true).unwrap_err();
        assert!(text.contains(word), "'{word}' is not in '{text}'");
    };
    wrong("HTTP/1.1 200 OK\r\nContent-Length: 299\r\n\r\n", 299, "299 bytes");
    wrong("HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n", 0, "not a number");
    wrong("HTTP/1.1 101 Switching Protocols\r\n\r\n", 0, "status is 101");
    wrong(
        "HTTP/1.1 103 Early Hints\r\n\r\n",
        0,
        "the reply ended after 0 bytes of its head, after interim heads (1xx)",
    );
    wrong(
        &"HTTP/1.1 100 Continue\r\n\r\n".repeat(3000),
        0,
        "more than 65536 bytes of interim heads (1xx), and no reply",
    );
    let length = "Content-Length: 300\r\n";
    wrong(&format!("HTTP/1.1 200 OK\r\n{length}Transfer-Encoding: chunked\r\n\r\n"), 300, "a Transfer-Encoding");
    for lengths in [format!("{length}Content-Length: 5\r\n"), format!("Content-Length: 5\r\n{length}")] {
        wrong(&format!("HTTP/1.1 200 OK\r\n{lengths}\r\n"), 300, "two different Content-Lengths");
    }
    let twice = reply(&format!("HTTP/1.1 200 OK\r\n{length}{length}\r\n"), 300);
    assert_eq!(judge(&[&twice], false), Ok(Answer::Complete));
    wrong("nonsense\r\n\r\n", 0, "not HTTP");
    wrong("HTTP/1.1 200 OK\r\n", 0, "17 bytes of its head");
    wrong(HEAD, 299, "299 of 300");
    assert_eq!(judge(&[&reply(HEAD, 301)], false), Ok(Answer::Surplus { due: 300 }));
    assert!(judge(&[&"x".repeat(100).into_bytes()], false).is_err());
    let endless = ["HTTP/1.1 200 OK\r\nA: ", &"x".repeat(8000)].concat();
    assert!(
        judge(&[endless.as_bytes(), &[b'x'; 16384], &[b'x'; 16384], &[b'x'; 16384], &[b'x'; 16384]], false).is_err()
    );
}

#[test]
fn the_path_is_requested() {
    let mut outbox = Outbox::default();
    new("/a?b").unwrap().open().ask(&mut outbox);
    let Some(Piece::Bytes(bytes, range)) = outbox.front() else { panic!("a request comes from memory") };
    assert_eq!(&bytes[range.clone()], b"GET /a?b HTTP/1.1\r\nHost: localhost\r\nUser-Agent: thunderherd\r\n\r\n");
    assert!(new("a").err().unwrap().to_string().contains("begins with a slash: /a"));
}

/// Returns everything that the next request of a new connection sends before a reply.
fn sent(given: &[(&'static str, &str)], authority: &str) -> String {
    let given = given.iter().map(|(name, value)| (*name, Value::Word((*value).to_owned()))).collect();
    let mut client = client(&Settings::new(ENTRY.client_settings, &given)).unwrap();
    client.named(authority);
    let (mut conversation, mut outbox, mut text) = (client.open(), Outbox::default(), Vec::new());
    conversation.ask(&mut outbox);
    while let Some(piece) = outbox.front() {
        let bytes = piece.with_bytes(|bytes| Ok(bytes.to_vec())).unwrap();
        outbox.sent(bytes.len() as u64);
        text.extend(bytes);
    }
    assert_eq!(conversation.more(&mut outbox, &Window::to_come()), More::Nothing);
    assert!(text.len() as u64 <= client.longest_request().unwrap());
    String::from_utf8(text).unwrap()
}

#[test]
fn a_request_has_the_configured_head_and_body() {
    let agent = "User-Agent: thunderherd\r\n";
    let host = "Host: h:81\r\n";
    let large = "x".repeat(70_000);
    for (given, right) in [
        (vec![], format!("GET / HTTP/1.1\r\n{host}{agent}\r\n")),
        (vec![("host", "a.b")], format!("GET / HTTP/1.1\r\nHost: a.b\r\n{agent}\r\n")),
        (
            vec![("header", "Accept: a, b\nuser-agent: me\nX:"), ("method", "HEAD")],
            format!("HEAD / HTTP/1.1\r\n{host}Accept: a, b\r\nuser-agent: me\r\n\r\n"),
        ),
        (vec![("header", "User-Agent:")], format!("GET / HTTP/1.1\r\n{host}\r\n")),
        (vec![("method", "POST")], format!("POST / HTTP/1.1\r\n{host}{agent}Content-Length: 0\r\n\r\n")),
        (
            vec![("method", "PUT"), ("path", "/a"), ("body", "\u{e9} \r\nHost: localhost\r\n")],
            format!("PUT /a HTTP/1.1\r\n{host}{agent}Content-Length: 22\r\n\r\n\u{e9} \r\nHost: localhost\r\n"),
        ),
        (vec![("body", &large)], format!("POST / HTTP/1.1\r\n{host}{agent}Content-Length: 70000\r\n\r\n{large}")),
        (
            vec![("body", "x"), ("mix", "POST:/a@1")],
            format!("POST /a HTTP/1.1\r\n{host}{agent}Content-Length: 1\r\n\r\nx"),
        ),
        (vec![("body", "x"), ("mix", "DELETE:/a@1")], format!("DELETE /a HTTP/1.1\r\n{host}{agent}\r\n")),
        (
            vec![("body", "x"), ("header", "Expect: 100-continue")],
            format!("POST / HTTP/1.1\r\n{host}{agent}Expect: 100-continue\r\nContent-Length: 1\r\n\r\n"),
        ),
        (vec![("body", "none")], format!("POST / HTTP/1.1\r\n{host}{agent}Content-Length: 4\r\n\r\nnone")),
        (vec![("body", "")], format!("GET / HTTP/1.1\r\n{host}{agent}\r\n")),
    ] {
        assert_eq!(sent(&given, "h:81"), right);
    }
}

/// Its body leaves after 100 Continue, or when the connection releases it, and once.
#[test]
fn a_body_is_held_back_until_it_may_be_sent() {
    let given = [("body", "abc"), ("header", "Expect: 100-continue")];
    let given = given.into_iter().map(|(name, value)| (name, Value::Word(value.to_owned()))).collect();
    let mut client = client(&Settings::new(ENTRY.client_settings, &given)).unwrap();
    client.named("h");
    for is_told in [true, false] {
        let (mut conversation, mut outbox, mut inbox) = (client.open(), Outbox::default(), Inbox::default());
        conversation.ask(&mut outbox);
        let head = outbox.bytes();
        assert_eq!(
            (conversation.more(&mut outbox, &Window::to_come()), conversation.holds_back()),
            (More::Nothing, true)
        );
        let mut say = |conversation: &mut Box<dyn Conversation>, text: &[u8]| {
            inbox.room(text.len()).copy_from_slice(text);
            inbox.filled(text.len());
            conversation.receive(&mut Input::new(&mut inbox, 1, 0, false)).unwrap()
        };
        assert_eq!(say(&mut conversation, b"HTTP/1.1 103 Early Hints\r\n\r\n"), Answer::Receive(Want::ANYTHING));
        assert!(conversation.holds_back());
        if is_told {
            assert_eq!(say(&mut conversation, b"HTTP/1.1 100 Continue\r\n\r\n"), Answer::Continue(Want::ANYTHING));
        } else {
            conversation.release();
        }
        assert!(!conversation.holds_back());
        assert_eq!(conversation.more(&mut outbox, &Window::to_come()), More::Part);
        assert_eq!(outbox.bytes() - head, 3);
        assert_eq!(conversation.more(&mut outbox, &Window::to_come()), More::Nothing);
        // A late one is an interim reply, and the connection stays.
        assert_eq!(say(&mut conversation, b"HTTP/1.1 100 Continue\r\n\r\n"), Answer::Receive(Want::ANYTHING));
        assert_eq!(say(&mut conversation, b"HTTP/1.1 204 No Content\r\n\r\n"), Answer::Complete);
    }
}

/// The same status means it in both places: unasked, and as the reply to a request that crossed it.
#[test]
fn only_408_says_that_a_connection_was_idle() {
    let client = new("/").unwrap();
    for (status, is_idle) in [("408", true), ("400", false), ("503", false), ("200", false)] {
        assert_eq!(client.is_farewell(format!("HTTP/1.1 {status}").as_bytes()), is_idle, "{status}");
        let (mut conversation, mut inbox) = (client.open(), Inbox::default());
        conversation.ask(&mut Outbox::default());
        let text = format!("HTTP/1.1 {status} x\r\nContent-Length: 300\r\n\r\n").into_bytes();
        let text = [text, pattern(300).to_vec()].concat();
        inbox.room(text.len()).copy_from_slice(&text);
        inbox.filled(text.len());
        conversation.receive(&mut Input::new(&mut inbox, 1, 0, false)).unwrap();
        assert_eq!(conversation.says_idle(), is_idle, "{status}");
    }
    for other in ["", "HTTP/1.", "HTTP/1.1 ", "HTTP/1.1 40", "SSH-2.0- 408"] {
        assert!(!client.is_farewell(other.as_bytes()), "{other}");
    }
}

#[test]
fn a_request_that_cannot_be_made_is_refused() {
    let both = vec![("body", "x"), ("body_file", "/dev/null")];
    for (given, code) in [
        (vec![("method", "get")], "http.invalid_method"),
        (vec![("method", "CONNECT")], "http.invalid_method"),
        (vec![("header", "no colon")], "http.invalid_header"),
        (vec![("header", "a b: c")], "http.invalid_header"),
        (vec![("header", "Content-Length: 3")], "http.invalid_header"),
        (vec![("header", "Transfer-Encoding: chunked")], "http.invalid_header"),
        (vec![("header", "Expect: 100-continue")], "http.nothing_to_continue"),
        (vec![("body_file", "/none/such")], "http.body_unreadable"),
        (both, "http.two_bodies"),
    ] {
        let given = given.into_iter().map(|(name, value)| (name, Value::Word(value.to_owned()))).collect();
        let error = client(&Settings::new(ENTRY.client_settings, &given)).err().unwrap();
        assert_eq!(error.downcast_ref::<crate::base::mistake::Mistake>().unwrap().code, code);
    }
}

fn of_mix(mix: &str) -> Box<dyn Client> {
    let given = BTreeMap::from([("mix", Value::Word(mix.to_owned())), ("bytes", Value::Integer(300))]);
    client(&Settings::new(ENTRY.client_settings, &given)).unwrap()
}

#[test]
fn each_kind_has_a_right_reply_of_its_own() {
    let missing = "HTTP/1.1 404 Not Found\r\nContent-Length: 14\r\n\r\n404 Not Found\n";
    let head = "HTTP/1.1 200 OK\r\nContent-Length: 300\r\n\r\n";
    let without = "HTTP/1.1 200 OK\r\nServer: x\r\n\r\n";
    let none = "HTTP/1.1 204 No Content\r\n\r\n";
    for (mix, right, wrong) in [
        ("HEAD:/@1", head, "HTTP/1.1 200 OK\r\nContent-Length: 299\r\n\r\n"),
        ("HEAD:/@1", without, missing),
        ("GET=404:/@1", missing, head),
        ("GET=404+14:/@1", missing, "HTTP/1.1 404 Not Found\r\nContent-Length: 13\r\n\r\n"),
        ("GET=204:/@1", none, without),
    ] {
        for cut in 1..right.len() {
            let (first, second) = right.as_bytes().split_at(cut);
            assert_eq!(
                judge_by(of_mix(mix).as_ref(), &[first, second], false),
                Ok(Answer::Complete),
                "{mix}, cut at {cut}"
            );
        }
        let (text, ends) = (reply(wrong, if wrong == head { 300 } else { 0 }), wrong == without);
        assert!(judge_by(of_mix(mix).as_ref(), &[&text], ends).is_err(), "{mix}");
    }
    let short = judge_by(of_mix("GET=404:/@1").as_ref(), &[&missing.as_bytes()[..missing.len() - 1]], true);
    assert!(short.unwrap_err().contains("1 bytes of its body missing"));
}

/// Whatever its body, it is read to its end, so that the connection can take the next request.
#[test]
fn a_status_that_is_not_expected_is_an_error_with_its_status() {
    let of = |text: &str| {
        let given = BTreeMap::from([("expect", Value::Word(text.to_owned())), ("bytes", Value::Integer(300))]);
        client(&Settings::new(ENTRY.client_settings, &given)).unwrap()
    };
    let unavailable = "HTTP/1.1 503 Service Unavailable\r\nContent-Length: 5\r\n\r\nlater";
    let unchanged = "HTTP/1.1 304 Not Modified\r\nContent-Length: 300\r\n\r\n";
    let both = of("200,304");
    for right in [reply(HEAD, 300), unchanged.as_bytes().to_vec()] {
        assert_eq!(judge_by(both.as_ref(), &[&right], false), Ok(Answer::Complete));
    }
    assert_eq!(judge_by(of("503").as_ref(), &[unavailable.as_bytes()], false), Ok(Answer::Complete));
    for cut in 1..unavailable.len() {
        let (first, second) = unavailable.as_bytes().split_at(cut);
        let error = judge_by(both.as_ref(), &[first, second], false).unwrap_err();
        assert_eq!(error, "the reply's status is 503, expected 200,304; if that is correct: --expect 200,304,503");
    }
    let counts = both.statuses();
    let seen: Vec<_> = counts.into_iter().map(|(code, of)| (code, of.replies, of.errors)).collect();
    let errors = unavailable.len() as u64 - 1;
    assert_eq!(seen, [(200, 1, 0), (304, 1, 0), (503, errors, errors)]);
    for wrong in ["", "200,", "99", "600", "2xx"] {
        let given = BTreeMap::from([("expect", Value::Word(wrong.to_owned()))]);
        assert!(client(&Settings::new(ENTRY.client_settings, &given)).is_err(), "{wrong}");
    }
}

#[test]
fn kinds_come_as_often_as_their_weights_say_and_are_counted() {
    let client = of_mix("GET:/@8,HEAD:/@2");
    let mut conversation = client.open();
    let (mut heads, all) = (0, 20_000_u64);
    for _ in 0..all {
        let mut outbox = Outbox::default();
        conversation.ask(&mut outbox);
        let Some(Piece::Bytes(bytes, range)) = outbox.front() else { panic!("a request comes from memory") };
        let is_head = bytes[range.clone()].starts_with(b"HEAD ");
        assert_eq!(conversation.kind(), Some(usize::from(is_head)));
        heads += u64::from(is_head);
        conversation.counts();
    }
    let expected = all as f64 * 0.2;
    assert!((heads as f64 - expected).abs() < 4.0 * (expected * 0.8).sqrt(), "{heads}");
    let traffic = client.traffic().unwrap();
    assert_eq!(
        (traffic.requests, traffic.kinds[1].requests, traffic.kinds[0].requests),
        (Some(all), heads, all - heads)
    );
}

proptest::proptest! {
    #[test]
    fn no_reply_makes_a_conversation_panic(
        head in "(HTTP/1.1 200 OK\r\n)?([A-Za-z-]{1,15}: [0-9a-z ]{0,5}\r\n){0,3}(Content-Length: 300\r\n\r\n)?",
        segments in proptest::collection::vec(proptest::collection::vec(proptest::num::u8::ANY, 1..100), 0..5),
    ) {
        let text = [head.into_bytes(), segments.concat()].concat();
        let _ = judge(&text.chunks(13).collect::<Vec<_>>(), true);
    }
}

#[test]
fn a_port_of_another_protocol_is_recognised() {
    let met = |reply: &[u8]| {
        let client = new("/").unwrap();
        let mut conversation = client.open();
        conversation.ask(&mut Outbox::default());
        let mut inbox = Inbox::default();
        inbox.room(reply.len()).copy_from_slice(reply);
        inbox.filled(reply.len());
        let error = conversation.receive(&mut Input::new(&mut inbox, 1, 0, false)).unwrap_err();
        (conversation.meets_another_protocol(), error)
    };
    let tls = [0x15, 3, 1, 0, 2, 2, 70];
    let of_nginx =
        "HTTP/1.1 400 Bad Request\r\nContent-Length: 60\r\n\r\nThe plain HTTP request was sent to HTTPS port";
    let of_go = "HTTP/1.0 400 Bad Request\r\n\r\nClient sent an HTTP request to an HTTPS server.\n";
    let of_apache = "HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\nYou're speaking plain HTTP to an SSL-enabled server port.";
    for reply in [&tls[..], of_nginx.as_bytes(), of_go.as_bytes(), of_apache.as_bytes()] {
        let (is_another, error) = met(reply);
        assert!(is_another && error.contains("TLS"), "{error}");
    }
    let (is_another, error) = met(b"-ERR wrong number of arguments for 'get' command\r\n");
    assert!(is_another && error.contains("redis") && error.contains("-ERR wrong number"), "{error}");
    let (is_another, error) = met(b"SSH-2.0-OpenSSH_9\r\n");
    assert!(is_another && error.contains("SSH-2.0-OpenSSH_9") && !error.contains("redis"), "{error}");
    assert!(!met(b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\n").0, "another length is no other protocol");
}
