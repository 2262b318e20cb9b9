//! The workload `fields`: its source's client implemented again over a plain socket, fields of every size under every
//! design, and its client's output.

use std::io::{Read, Write};
use std::net::Shutdown;
use std::time::Duration;

use serde_json::json;

use crate::support::both_ends::{agree, command, connect, load, serve};
use crate::support::client::Client;
use crate::support::lines::designs;
use crate::support::server::Server;
use crate::support::table::{Table, quantity};
use crate::support::{protocol, run};

/// The client of cse638-pa02: one send of all fields, then a receive for each, which may be short.
#[test]
fn the_sources_client_of_fields_is_served_by_every_design() {
    for design in designs() {
        for field_size in [64, 4096, 65536] {
            let server = Server::start(&design, "fields", &["--field-size", &field_size.to_string()]);
            let mut stream = connect(server.port);
            for _ in 0..3 {
                stream.write_all(&vec![b'A'; 8 * field_size]).unwrap();
                let mut message = vec![0; 8 * field_size];
                message.chunks_mut(field_size).for_each(|field| stream.read_exact(field).unwrap());
                assert_eq!(message, protocol::bytes(8 * field_size).reply, "{design}");
            }
            stream.shutdown(Shutdown::Write).unwrap();
            assert_eq!(stream.read(&mut [0]).unwrap(), 0, "the server closes when the client has");
            server.stop().is_good();
        }
    }
}

/// Eight receives and one send per message if nothing is short; eight sends of the server, or one if it gathers.
#[test]
fn a_message_of_fields_makes_as_many_calls_as_the_sources_programs() {
    for (primitive, sends) in [("send_each", 8), ("sendmsg", 1), ("zerocopy", 1)] {
        let server = Server::start("thread_per_client", "fields", &["--primitive", primitive]);
        let options = "--load closed_threads --clients 1 --connections kept --loops 200 --receive recv_exact";
        let line = load("fields", server.port, options);
        assert_eq!(
            (&line["tally"]["send_calls"], &line["tally"]["receive_calls"]),
            (&200.into(), &1600.into()),
            "{line}"
        );
        assert_eq!(line["figures"]["payload_bytes"], 200 * 8 * 1024, "{line}");
        assert_eq!(line["requests_by_client"], json!([200]));
        let ending = server.stop();
        assert_eq!(ending.summary()["tally"]["send_calls"], 200 * sends, "{primitive}");
        ending.is_good();
    }
}

/// A design gets each size from another load, and the next design from the next.
#[test]
fn fields_of_every_size_go_through_every_design_and_load() {
    const LOADS: [&str; 3] = ["closed --children 2", "closed_threads --clients 2", "closed_connections --clients 2"];
    for (place, design) in designs().into_iter().enumerate() {
        for (step, (field_size, loops)) in [(1, 20), (65_536, 3), (1 << 20, 1)].into_iter().enumerate() {
            let server = Server::start(&design, "fields", &["--field-size", &field_size.to_string()]);
            let who = LOADS[(place + step) % LOADS.len()];
            let line = load("fields", server.port, &format!("--load {who} --loops {loops} --field-size {field_size}"));
            assert_eq!(line["figures"]["payload_bytes"], 2 * loops * 8 * field_size, "{design}: {line}");
            assert_eq!(line["requests_by_client"], json!([loops, loops]), "{design}: {line}");
            agree(&server.stop(), &[line]);
        }
    }
}

#[test]
fn a_wrong_field_is_detected_and_a_client_that_breaks_off_is_tallied() {
    let port = serve(|mut stream| {
        let mut reply = protocol::bytes(8 * 1024).reply;
        reply[5000] ^= 1;
        let _ = stream.read_exact(&mut [0; 8 * 1024]);
        let _ = stream.write_all(&reply);
    });
    let ran = run(&mut command("fields", port, "--load closed --children 1 --loops 1"));
    assert!(ran.status == Some(1) && ran.output.contains("904"), "{ran:?}");
    let mut server = Server::start("epoll", "fields", &[]);
    let mut client = Client::connect(server.port);
    client.send(&[b'A'; 8 * 1024 - 1]);
    client.half_close();
    client.receive_to_end(b"");
    server.snapshot_when("the error", |snapshot| snapshot["tally"]["errors"] == json!({"truncated": 1}));
    server.stop().is_good();
}

/// Both ends need the size as an option, since neither sees the other's.
#[test]
fn a_size_unlike_the_servers_is_named_if_no_reply_is_correct() {
    let fixed = "--load closed_threads --clients 1 --loops 1 --timeout 200ms";
    let server = Server::start("epoll", "fields", &["--field-size", "4096"]);
    for size in [1024, 8192] {
        let ran = run(&mut command("fields", server.port, &format!("{fixed} --field-size {size}")));
        let hint = Table::of(&ran.output).line("hint").expect("a hint");
        assert!(ran.status == Some(1) && hint.ends_with(&format!(" --field-size {size}")), "{ran:?}");
    }
    drop(server);
    // Not if another cause is certain: nobody listens, or the first reply was correct.
    let refused = run(&mut command("fields", 1, fixed));
    let port = serve(|mut stream| {
        let _ = stream.read_exact(&mut [0; 8 * 1024]);
        let _ = stream.write_all(&protocol::bytes(8 * 1024).reply);
    });
    // On a busy machine, the first reply may take long.
    let later = "--load closed_threads --clients 1 --connections kept --loops 2 --timeout 20s";
    let later = run(&mut command("fields", port, later));
    for ran in [refused, later] {
        assert!(ran.status == Some(1) && Table::of(&ran.output).line("first error").is_some(), "{ran:?}");
        assert!(!ran.output.contains("--field-size"), "{ran:?}");
    }
}

#[test]
fn the_lines_of_the_sources_client_are_printed_as_they_were() {
    let server = Server::start("thread_per_client", "fields", &["--field-size", "256"]);
    let fixed = "--field-size 256 --loops 7 --original";
    for (options, clients) in [
        ("--load closed_threads --clients 4 --connections kept", 4),
        ("--load closed_connections --clients 3", 3),
        ("--load closed --children 2", 2),
    ] {
        let ran = run(&mut command("fields", server.port, &format!("{fixed} {options}")));
        let right: String = (1..=clients).map(|number| format!("THREAD {number} MESSAGES 7\n")).collect();
        assert_eq!((ran.status, ran.output), (Some(0), right));
    }
    server.stop().is_good();
    let ran = run(&mut command("bytes", 1, "--original"));
    assert!(ran.status == Some(2) && ran.errors.contains("[load.no_original]"), "{ran:?}");
}

/// Returns the bytes of payload and their rate in bits per second from a load's output.
fn printed_payload(port: u16, options: &str) -> [f64; 2] {
    let ran = run(&mut command("fields", port, options));
    assert_eq!(ran.status, Some(0), "{ran:?}");
    let [bytes, rate] = Table::of(&ran.output).row("Payload")[..] else { panic!("{ran:?}") };
    [bytes, rate].map(quantity)
}

/// Neither the warm-up nor a message after the window lowers the rate within it.
#[test]
fn the_rate_of_the_payload_is_that_of_the_window() {
    let server = Server::start("thread_per_client", "fields", &["--field-size", "65536"]);
    let fixed = "--load closed_threads --clients 1 --connections kept --field-size 65536";
    let timed = format!("{fixed} --duration 1s --warm-up 400ms");
    let [bytes, rate] = printed_payload(server.port, &timed);
    let right = bytes * 8.0;
    assert!((rate / right - 1.0).abs() < 0.012, "{bytes} bytes in 1 s are {right} bit/s, not {rate}");
    server.stop().is_good();
    let port = serve(|mut stream| {
        for _ in 0..2 {
            if stream.read_exact(&mut vec![0; 8 * 65_536]).is_ok() {
                let _ = stream.write_all(&protocol::bytes(8 * 65_536).reply);
                std::thread::sleep(Duration::from_secs(3));
            }
        }
    });
    let [bytes, rate] = printed_payload(port, &format!("{fixed} --duration 2s"));
    assert_eq!(bytes, 524e3, "the second message comes too late");
    assert!((rate / (8.0 * 65_536.0 * 8.0 / 2.0) - 1.0).abs() < 0.005, "{rate} bit/s");
}
