use std::collections::BTreeMap;

use super::request::{MOST_BYTES, MOST_MICROSECONDS};
use super::*;
use crate::base::setting::{Setting, Value};
use crate::base::window::Window;
use crate::client::load::DURATION;
use crate::protocol::pattern::pattern;
use crate::protocol::workload::{Answer, Client};
use crate::transfer::inbox::Inbox;
use crate::transfer::outbox::Piece;
use crate::workloads::both_ends::Between;

fn settings(declared: &[Setting], given: &[(&'static str, Value)]) -> Settings {
    Settings::new(declared, &given.iter().cloned().collect::<BTreeMap<_, _>>())
}

fn ends(given: &[(&'static str, Value)]) -> (Box<dyn Service>, Box<dyn Client>) {
    let service = service(&settings(ENTRY.service_settings, given), Waits::InTheCall).unwrap();
    // A load that may end by time.
    let declared = [ENTRY.client_settings, &[DURATION]].concat();
    let client = (ENTRY.client)(&settings(&declared, given)).unwrap();
    service.prepare().and_then(|()| client.prepare()).unwrap();
    (service, client)
}

fn word(name: &'static str, word: &str) -> (&'static str, Value) {
    (name, Value::Word(word.to_owned()))
}

fn number(name: &'static str, number: u64) -> (&'static str, Value) {
    (name, Value::Integer(number))
}

/// Gives a session the peer's bytes, cut into segments, and then the end; returns everything it sends, or the error.
fn answers(segments: &[&[u8]]) -> std::result::Result<Vec<u8>, ErrorKind> {
    let (service, _) = ends(&[number("stream_size", 1), word("verify", "all"), number("message_size", 100)]);
    let (mut session, mut inbox, mut outbox, mut said) =
        (service.open(), Inbox::default(), Outbox::default(), Vec::new());
    let mut take = |outbox: &mut Outbox| {
        while let Some(piece) = outbox.front() {
            said.extend_from_slice(&piece.slice());
            outbox.sent(piece.length());
        }
    };
    let mut ended = false;
    for segment in segments {
        inbox.room(segment.len()).copy_from_slice(segment);
        inbox.filled(segment.len());
        while !inbox.unread().is_empty() {
            match session.receive(&mut Input::new(&mut inbox, 1, 0, false), &mut outbox)? {
                Next::Begun(_) => {
                    while session.more(&mut outbox) == More::Part {
                        take(&mut outbox);
                    }
                }
                Next::Close => panic!("a session closes before the end"),
                _ => {}
            }
            take(&mut outbox);
        }
    }
    while !ended {
        let next = session.receive(&mut Input::new(&mut inbox, 1, 0, true), &mut outbox)?;
        ended = matches!(next, Next::Close | Next::Answered(Then::Close));
        take(&mut outbox);
    }
    Ok(said)
}

#[test]
fn requests_cut_anywhere_get_the_same_replies() {
    let text = [&b"put 5\n\0\x01\x02\x03\x04get 3\nput 1\n\0get 260\nput\n"[..], &pattern(300)].concat();
    let right = [b"5\n", &pattern(3)[..], b"1\n", &pattern(260)[..], b"300\n"].concat();
    for cut in 0..text.len() {
        assert_eq!(answers(&[&text[..cut], &text[cut..]]), Ok(right.clone()), "cut at {cut}");
    }
    assert_eq!(answers(&text.chunks(1).collect::<Vec<_>>()), Ok(right));
}

#[test]
fn an_invalid_request_is_refused() {
    for line in [
        "",
        "put ",
        "put 0",
        "put -1",
        "put +1",
        "put 1 ",
        "put 1us",
        "put x",
        "get",
        "get ",
        "get 0",
        "get 0us",
        "get us",
        "get 86400000001us",
        "get 1ms",
        "got 1",
        "PUT 1",
        "put 1152921504606846977",
        "put 99999999999999999999",
        "1",
        "\u{e9}",
    ] {
        assert_eq!(answers(&[format!("{line}\n").as_bytes()]), Err(ErrorKind::BadRequest), "{line:?}");
    }
    assert_eq!(answers(&[b"\xff\n"]), Err(ErrorKind::BadRequest));
    assert_eq!(answers(&[&[b'1'; LONGEST_LINE]]), Err(ErrorKind::BadRequest));
}

#[test]
fn a_line_is_read_as_it_is_written() {
    for request in [
        Request::Put(None),
        Request::Put(Some(1)),
        Request::Put(Some(MOST_BYTES)),
        Request::Get(MOST_BYTES),
        Request::GetFor(MOST_MICROSECONDS),
    ] {
        let line = request.line();
        assert!(line.len() < LONGEST_LINE);
        assert_eq!(Request::parse(line.strip_suffix(b"\n").unwrap()), Some(request));
    }
}

#[test]
fn bytes_that_are_wrong_or_missing_are_seen_by_the_server() {
    assert_eq!(answers(&[b"put 3\n\0\x02\x02"]), Err(ErrorKind::BadRequest));
    assert_eq!(answers(&[b"put 3\n\0\x01"]), Err(ErrorKind::Truncated));
    assert_eq!(answers(&[b"pu"]), Err(ErrorKind::Truncated));
    // Bytes beyond the announced number are taken as the next request, which is invalid.
    assert_eq!(answers(&[b"put 1\n\0\x01\n"]), Err(ErrorKind::BadRequest));
}

/// Gives a conversation the server's reply, and then the end.
fn judge(given: &[(&'static str, Value)], segments: &[&[u8]]) -> std::result::Result<Answer, String> {
    let (_, client) = ends(given);
    let (mut conversation, mut inbox, mut outbox) = (client.open(), Inbox::default(), Outbox::default());
    conversation.ask(&mut outbox);
    let window = Window::whole_life();
    while conversation.more(&mut outbox, &window) == More::Part {}
    for segment in segments {
        inbox.room(segment.len()).copy_from_slice(segment);
        inbox.filled(segment.len());
        match conversation.receive(&mut Input::new(&mut inbox, 1, 0, false))? {
            Answer::Receive(_) => assert!(inbox.unread().is_empty()),
            answer => return Ok(answer),
        }
    }
    conversation.receive(&mut Input::new(&mut inbox, 1, 0, true))
}

#[test]
fn the_servers_count_must_be_what_was_sent() {
    let judge = |reply: &str| judge(&[number("stream_size", 1000)], &[reply.as_bytes()]);
    assert_eq!(judge("1000\n"), Ok(Answer::Complete));
    for (wrong, word) in [
        ("999\n", "\"999\" received bytes, but 1000"),
        ("01000\n", "1000 were sent"),
        ("\n", "1000 were sent"),
        ("1000", "before it reported"),
        ("", "before it reported"),
        (&"1".repeat(LONGEST_LINE), "not a number"),
    ] {
        let message = judge(wrong).unwrap_err();
        assert!(message.contains(word), "{wrong:?}: {message}");
    }
}

#[test]
fn a_stream_is_compared_as_far_as_it_is_to_be() {
    let judge = |verify: &str, segments: &[&[u8]]| {
        judge(&[number("stream_size", 1000), word("direction", "to_client"), word("verify", verify)], segments)
    };
    let right = pattern(1000);
    assert_eq!(judge("all", &[&right[..70], &right[70..]]), Ok(Answer::Complete));
    assert!(judge("all", &[&right[..999]]).unwrap_err().contains("999 of 1000"));
    let mut wrong = right.to_vec();
    wrong[300] ^= 1;
    assert!(judge("all", &[&wrong]).unwrap_err().contains("byte 300 of the stream"));
    // The sample is the beginning of each receive.
    assert_eq!(judge("sample", &[&wrong]), Ok(Answer::Complete));
    assert!(judge("sample", &[&wrong[..250], &wrong[250..]]).unwrap_err().contains("byte 300 of the stream"));
    assert_eq!(judge("none", &[&wrong]), Ok(Answer::Complete));
}

#[test]
fn messages_of_a_size_in_use_begin_with_a_page_of_a_file() {
    for (source, message) in [("memfd", 64), ("file", 16 << 10), ("file", 128 << 10), ("file", 1 << 20)] {
        let given = [word("source", source), number("message_size", message)];
        let (reel, mut next) = (Reel::new(&settings(ENTRY.client_settings, &given)), 0);
        reel.make().unwrap();
        for _ in 0..40 {
            let mut outbox = Outbox::default();
            reel.put(&mut next, u64::MAX, &mut outbox);
            let Piece::File(_, place) = outbox.front().unwrap() else { panic!("a part of a file") };
            assert_eq!(place.start % 4096, 0, "{message} bytes of a {source}");
        }
    }
}

#[test]
fn a_stream_needs_an_end() {
    let refused = |declared: &[Setting], given: &[(&'static str, Value)]| {
        (ENTRY.client)(&settings(declared, given)).err().map(|error| error.to_string())
    };
    let timed = [ENTRY.client_settings, &[DURATION]].concat();
    for message in [refused(ENTRY.client_settings, &[]), refused(&timed, &[])] {
        assert!(message.unwrap().contains("--stream-size"));
    }
    assert_eq!(refused(&timed, &[number("duration", 1_000_000)]), None);
    assert_eq!(refused(ENTRY.client_settings, &[number("stream_size", 1)]), None);
}

#[test]
fn a_stream_without_a_number_ends_with_the_window() {
    let (service, client) = ends(&[number("duration", 1_000_000), word("verify", "all")]);
    let window = Window::to_come();
    let mut between = Between::new(service.as_ref(), client.open(), &window, &[100_000], &[]);
    window.set(0..now() + 3_000_000);
    assert_eq!(between.exchange(), Ok(Answer::Last));
    assert!(window.is_over(now()));
    let sent = between.said[0].len() - "put\n".len();
    assert_eq!(between.said[1], format!("{sent}\n").into_bytes());
    assert_eq!(
        (client.account()["bytes_streamed_to_server"], client.account()),
        (sent as u64, service.account().unwrap())
    );
}

#[test]
fn a_stream_to_the_client_is_requested_for_the_rest_of_the_window() {
    let (service, client) =
        ends(&[number("duration", 1_000_000), word("direction", "to_client"), word("verify", "all")]);
    let window = Window::to_come();
    let mut between = Between::new(service.as_ref(), client.open(), &window, &[100_000], &[]);
    let end = now() + 5_000_000;
    window.set(0..end);
    assert_eq!(between.exchange(), Ok(Answer::Last));
    assert!(now() >= end - 5_000);
    assert_eq!(client.account()["bytes_streamed_to_client"], between.said[1].len() as u64);
    assert_eq!(client.account(), service.account().unwrap());
}

#[test]
fn a_stream_of_a_time_that_ends_too_soon_is_cut_short() {
    let (_, client) = ends(&[number("duration", 1_000_000), word("direction", "to_client")]);
    let (mut conversation, mut outbox, window) = (client.open(), Outbox::default(), Window::to_come());
    window.set(0..now() + 59_999_000_000);
    conversation.ask(&mut outbox);
    assert_eq!(conversation.more(&mut outbox, &window), More::Part);
    assert_eq!(conversation.more(&mut outbox, &window), More::Nothing);
    let ended = conversation.receive(&mut Input::new(&mut Inbox::default(), 1, 0, true));
    assert!(ended.unwrap_err().contains("of 5999"));
}

proptest::proptest! {
    #[test]
    fn both_ends_agree_however_the_bytes_come(
        direction in proptest::sample::select(vec!["to_server", "to_client"]),
        source in proptest::sample::select(vec!["memory", "memfd", "file"]),
        message in 1u64..100_000,
        source_bytes in 1u64..300_000,
        bytes in 1u64..600_000,
        receive in 1000u64..300_000,
        cuts in proptest::collection::vec(1usize..200_000, 1..6),
        discards in proptest::bool::ANY,
    ) {
        let (service, client) = ends(&[
            word("direction", direction),
            word("source", source),
            word("verify", "all"),
            number("message_size", message),
            number("source_size", source_bytes),
            number("stream_size", bytes),
            number("receive_size", receive),
        ]);
        let (window, discard) = (Window::whole_life(), if discards { ENTRY.takes_unstored } else { &[] });
        // Receiving byte by byte would take long.
        let cuts: Vec<usize> = cuts.iter().map(|cut| *cut.max(&1000)).chain([1]).collect();
        let mut between = Between::new(service.as_ref(), client.open(), &window, &cuts, discard);
        for _ in 0..2 {
            proptest::prop_assert_eq!(between.exchange(), Ok(Answer::Complete));
        }
        proptest::prop_assert_eq!(between.close(), Ok(()));
        let stream = if direction == "to_server" { &between.said[0] } else { &between.said[1] };
        // Compared by the piece: the test build is not optimised, and all cases together have tens of millions of
        // bytes.
        let right: Vec<u8> = (0..65_536).map(|place| (place % 251) as u8).collect();
        let first = if direction == "to_server" { format!("put {bytes}\n").len() } else { 0 };
        let is_right = |piece: &[u8]| piece == &right[..piece.len()];
        proptest::prop_assert!(stream[first..][..bytes as usize].chunks(right.len()).all(is_right));
        proptest::prop_assert_eq!(client.account().values().sum::<u64>(), 2 * bytes);
        proptest::prop_assert_eq!(client.account(), service.account().unwrap());
        proptest::prop_assert_eq!(client.figures()["payload_bytes"], 2 * bytes);
    }

    #[test]
    fn no_input_makes_a_session_panic(
        lines in proptest::collection::vec("(put|get)? ?[0-9]{0,4}(us)?\n?", 0..6),
        segments in proptest::collection::vec(proptest::collection::vec(proptest::num::u8::ANY, 1..100), 0..10),
    ) {
        let text = [lines.concat().into_bytes(), segments.concat()].concat();
        let _ = answers(&text.chunks(7).collect::<Vec<_>>());
    }
}
