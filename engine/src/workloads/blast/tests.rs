use std::collections::BTreeMap;

use super::count::LONGEST_LINE;
use super::*;
use crate::base::setting::Value;
use crate::base::window::Window;
use crate::primitives::PRIMITIVES;
use crate::protocol::workload::{Answer, Client, Outcome};
use crate::registry::catalogue::find;
use crate::transfer::inbox::Inbox;
use crate::workloads::both_ends::Between;

fn settings(declared: &[Setting], given: &[(&'static str, Value)]) -> Settings {
    Settings::new(declared, &given.iter().cloned().collect::<BTreeMap<_, _>>())
}

fn ends(given: &[(&'static str, Value)]) -> (Box<dyn Service>, Box<dyn Client>) {
    let service = service(&settings(ENTRY.service_settings, given), Waits::InTheCall).unwrap();
    (service, (ENTRY.client)(&settings(ENTRY.client_settings, given)).unwrap())
}

fn word(name: &'static str, word: &str) -> (&'static str, Value) {
    (name, Value::Word(word.to_owned()))
}

const KEPT: (&str, Value) = ("keep_connections", Value::Boolean(true));

/// Gives a session of a server with persistent connections the peer's bytes, one receive per segment; returns
/// everything it sends, or the error.
fn answers(form: &str, segments: &[&[u8]]) -> std::result::Result<Vec<u8>, ErrorKind> {
    let (service, _) = ends(&[KEPT, word("count_form", form)]);
    let (mut session, mut inbox, mut said) = (service.open(), Inbox::default(), Vec::new());
    for segment in segments {
        inbox.room(segment.len()).copy_from_slice(segment);
        inbox.filled(segment.len());
        let mut calls = 1;
        while !inbox.unread().is_empty() {
            let mut outbox = Outbox::default();
            session.receive(&mut Input::new(&mut inbox, calls, 0, false), &mut outbox)?;
            calls = 0;
            outbox.message().for_each(|piece| said.extend_from_slice(&piece.slice()));
        }
    }
    match session.receive(&mut Input::new(&mut inbox, 1, 0, true), &mut Outbox::default()) {
        Ok(Next::Close) => Ok(said),
        Ok(_) => panic!("a session goes on after the end"),
        Err(kind) => Err(kind),
    }
}

#[test]
fn the_reads_of_iterations_are_counted_and_those_of_the_count_are_not() {
    let data = [7; 3000];
    let read = |segments: &[&[u8]]| String::from_utf8(answers("decimal", segments).unwrap()).unwrap();
    assert_eq!(read(&[b"1", b"\n", &data[..1500]]), "1\n");
    assert_eq!(read(&[b"2\n", &data[..1500], &data[1500..]]), "2\n");
    assert_eq!(read(&[b"2\n", &data[..1], &data[1..1500], &data[1500..2999], &data[2999..]]), "4\n");
    // Bytes that a ring's operation brought together with the count came by one read.
    assert_eq!(read(&[&[b"1\n", &data[..1500]].concat()]), "1\n");
    let two: Vec<&[u8]> = vec![b"1\n", &data[..1500], b"1\r\n", &data[..700], &data[..800]];
    assert_eq!(read(&two), "1\n2\n");
    assert_eq!(answers("little_endian", &[&[1, 0], &[0, 0], &data[..1500]]), Ok(vec![1, 0, 0, 0]));
    assert_eq!(answers("big_endian", &[&[0, 0, 0, 1], &data[..1500]]), Ok(vec![0, 0, 0, 1]));
}

#[test]
fn no_more_is_wanted_than_is_left_of_an_iteration() {
    for form in ["decimal", "little_endian", "big_endian"] {
        let (service, client) = ends(&[word("count_form", form), ("repetitions", Value::Integer(3))]);
        for cut in [1, 7, 999, 1499, 1500, 1501, 100_000] {
            // The connection that joins both ends never gives more than is wanted. As an iteration takes at least one
            // read, the reported number shows that no receive went past its end.
            let (window, cuts) = (Window::whole_life(), [cut]);
            let mut between = Between::new(service.as_ref(), client.open(), &window, &cuts, &[]);
            assert_eq!(between.exchange(), Ok(Answer::Last));
            let reads = 3 * 1500usize.div_ceil(cut);
            let told = match form {
                "decimal" => format!("{reads}\n").into_bytes(),
                "big_endian" => (reads as u32).to_be_bytes().to_vec(),
                _ => (reads as u32).to_le_bytes().to_vec(),
            };
            assert_eq!(between.said[1], told, "{form}, cut at {cut}");
        }
        let of_server = service.account().unwrap();
        assert_eq!((of_server["server_reads"], client.account()), (3 * (1500 + 215 + 2 + 2 + 1 + 1 + 1), of_server));
    }
}

#[test]
fn an_invalid_or_too_large_count_is_refused() {
    for line in ["0", "-1", "1000001", "99999999999999999999", "letters", "", "1 1", "0x10", "1e3", "\u{1}\u{0}"] {
        assert_eq!(answers("decimal", &[format!("{line}\n").as_bytes()]), Err(ErrorKind::BadRequest), "{line}");
    }
    assert_eq!(answers("decimal", &[&[b'1'; LONGEST_LINE]]), Err(ErrorKind::BadRequest));
    for wrong in [0u32, 1_000_001, u32::MAX] {
        assert_eq!(answers("big_endian", &[&wrong.to_be_bytes()]), Err(ErrorKind::BadRequest), "{wrong}");
        assert_eq!(answers("little_endian", &[&wrong.to_le_bytes()]), Err(ErrorKind::BadRequest), "{wrong}");
    }
}

#[test]
fn bytes_that_were_not_announced_are_no_iteration() {
    assert_eq!(answers("decimal", &[b"1\n", &[7; 1500], &[7; 1500]]), Err(ErrorKind::BadRequest));
}

#[test]
fn a_peer_that_ends_within_a_request_has_cut_it_short() {
    for segments in [&[&b"1"[..]][..], &[b"1\n"], &[b"1\n", &[0; 1499]], &[b"2\n", &[0; 1500]]] {
        assert_eq!(answers("decimal", segments), Err(ErrorKind::Truncated), "{segments:?}");
    }
    assert_eq!(answers("decimal", &[]), Ok(Vec::new()));
    assert_eq!(answers("big_endian", &[&[0, 0, 1]]), Err(ErrorKind::Truncated));
}

#[test]
fn a_wrong_count_of_reads_is_seen() {
    let told = |form: &str, reply: &[u8]| {
        let (_, client) = ends(&[word("count_form", form), ("repetitions", Value::Integer(2))]);
        let (mut conversation, mut inbox) = (client.open(), Inbox::default());
        conversation.ask(&mut Outbox::default());
        inbox.room(reply.len()).copy_from_slice(reply);
        inbox.filled(reply.len());
        let answer = conversation.receive(&mut Input::new(&mut inbox, 1, 0, false));
        match answer {
            Ok(Answer::Receive(_)) => conversation.receive(&mut Input::new(&mut inbox, 1, 0, true)),
            answer => answer,
        }
    };
    for right in ["2\n", "3000\n", "1\n", "3001\n"] {
        assert_eq!(told("decimal", right.as_bytes()), Ok(Answer::Last), "{right}");
    }
    for (wrong, word) in [
        ("0\n", "in 0 reads"),
        // In half a minute there might have been as many reads, most of which returned nothing.
        ("3000000000\n", "3000 bytes in 3000000000"),
        ("many\n", "not a number"),
        ("2", "before it reported"),
        ("", "before it reported"),
        (&"1".repeat(LONGEST_LINE), "not a number"),
    ] {
        let message = told("decimal", wrong.as_bytes()).unwrap_err();
        assert!(message.contains(word), "{wrong}: {message}");
    }
    assert!(told("big_endian", &[0, 0, 0, 0]).unwrap_err().contains("in 0 reads"));
    // The wrong byte order is detected too.
    assert!(told("big_endian", &[200, 0, 0, 0]).unwrap_err().contains("3355443200 reads"));
}

#[test]
fn pieces_that_are_no_iteration_are_refused_with_the_nearest_that_are() {
    let refusal = |buffers, size| {
        let given = [("buffers", Value::Integer(buffers)), ("buffer_size", Value::Integer(size))];
        (ENTRY.client)(&settings(ENTRY.client_settings, &given)).err().map(|error| error.to_string())
    };
    for (buffers, size) in [(15, 100), (30, 50), (60, 25), (100, 15), (1, 1500), (1500, 1)] {
        assert_eq!(refusal(buffers, size), None);
    }
    for (buffers, size, nearest) in [
        (15, 99, "--buffers 15 --buffer-size 100"),
        (16, 100, "--buffers 15 --buffer-size 100"),
        (100, 100, "--buffers 30 --buffer-size 50"),
        (1, 1, "--buffers 30 --buffer-size 50"),
        (1, 1499, "--buffers 1 --buffer-size 1500"),
    ] {
        let message = refusal(buffers, size).unwrap();
        assert!(message.contains(&format!("{} bytes", buffers * size)) && message.ends_with(nearest), "{message}");
    }
}

#[test]
fn figures_are_of_the_requests_that_count_and_the_sources_line_is_made_of_them() {
    let given = [("repetitions", Value::Integer(100)), KEPT];
    let (service, client) = ends(&given);
    let window = Window::whole_life();
    let mut between = Between::new(service.as_ref(), client.open(), &window, &[1500], &[]);
    (0..3).for_each(|_| assert_eq!(between.exchange(), Ok(Answer::Complete)));
    let figures = client.figures();
    assert_eq!((figures["requests"], figures["server_reads"], figures["payload_bytes"]), (3, 300, 450_000));
    assert!(figures["sending_ns"] > 0 && figures["sending_ns"] < figures["round_trip_ns"], "{figures:?}");
    assert!(figures["last_round_trip_ns"] < figures["round_trip_ns"], "{figures:?}");

    let figures = [
        ("requests", 2),
        ("round_trip_ns", 2 * 459_085_000),
        ("server_reads", 2 * 22_291),
        ("payload_bytes", 2 * 30_000_000),
    ];
    let figures = figures.map(|(name, value)| (name.to_owned(), value)).into();
    let settings = settings(ENTRY.client_settings, &given);
    let line =
        |primitive| client::original(&Outcome { primitive, settings: &settings, requests: None, figures: &figures });
    assert_eq!(line("1"), "Test (1): time = 459085 usec, #reads = 22291, throughput 0.523 Gbps\n");
    let called = |primitive| find(PRIMITIVES, primitive).item.original;
    assert_eq!(["write_each", "writev", "write_once", "sendfile"].map(called), [Some("1"), Some("2"), Some("3"), None]);
    assert!(line("sendfile").starts_with("Test (sendfile): "));
}

proptest::proptest! {
    #[test]
    fn both_ends_agree_however_the_bytes_come(
        repetitions in 1u64..100,
        buffers in proptest::sample::select(vec![1u64, 2, 15, 30, 60, 100, 1500]),
        form in proptest::sample::select(vec!["decimal", "little_endian", "big_endian"]),
        cuts in proptest::collection::vec(1usize..4000, 1..10),
        discards in proptest::bool::ANY,
    ) {
        let (service, client) = ends(&[
            ("repetitions", Value::Integer(repetitions)),
            ("buffers", Value::Integer(buffers)),
            ("buffer_size", Value::Integer(1500 / buffers)),
            word("count_form", form),
            KEPT,
        ]);
        let (window, discard) = (Window::whole_life(), if discards { ENTRY.takes_unstored } else { &[] });
        let mut between = Between::new(service.as_ref(), client.open(), &window, &cuts, discard);
        for _ in 0..2 {
            proptest::prop_assert_eq!(between.exchange(), Ok(Answer::Complete));
        }
        proptest::prop_assert_eq!(between.close(), Ok(()));
        let reads = client.figures()["server_reads"];
        proptest::prop_assert!(reads >= 2 * repetitions && reads <= 2 * repetitions * 1500);
        proptest::prop_assert_eq!(client.account(), service.account().unwrap());
    }

    #[test]
    fn no_input_makes_a_session_panic(
        form in proptest::sample::select(vec!["decimal", "little_endian", "big_endian"]),
        segments in proptest::collection::vec(proptest::collection::vec(proptest::num::u8::ANY, 1..100), 0..10),
    ) {
        let segments: Vec<&[u8]> = segments.iter().map(Vec::as_slice).collect();
        let _ = answers(form, &segments);
    }
}
