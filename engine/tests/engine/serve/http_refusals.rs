//! Refusals of our HTTP servers reach clients that still send, and idle clients leave if the server has a limit.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use crate::support::server::Server;
use crate::support::{PATIENCE, process};

/// Designs that differ in how they wait for their sockets.
const DESIGNS: [&str; 9] = [
    "iterative",
    "fork_per_client",
    "thread_per_client",
    "prefork",
    "select",
    "epoll",
    "epoll_edge",
    "tokio",
    "polling",
];

fn connected(server: &Server) -> TcpStream {
    let stream = TcpStream::connect(("127.0.0.1", server.port)).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream
}

/// The client sends its whole body before it reads: if the server closed with unread data, the kernel would reset the
/// connection, and the client would lose the reply.
#[test]
fn a_refusal_reaches_a_client_that_sends_its_body_first() {
    for design in DESIGNS {
        let server = Server::start(design, "http", &[]);
        for (method, status) in [("POST", "405"), ("GET", "413")] {
            let mut stream = connected(&server);
            let body = vec![b'x'; 3_000_000];
            let head = format!("{method} / HTTP/1.1\r\nHost: a\r\nContent-Length: {}\r\n\r\n", body.len());
            stream.write_all(head.as_bytes()).unwrap();
            stream.write_all(&body).unwrap_or_else(|error| panic!("{design}: {error}"));
            let mut reply = String::new();
            stream.read_to_string(&mut reply).unwrap_or_else(|error| panic!("{design}: {error}"));
            assert!(reply.starts_with(&format!("HTTP/1.1 {status} ")), "{design}: {reply}");
            assert!(reply.contains("\r\nConnection: close\r\n"), "{design}: {reply}");
        }
        let ending = server.stop();
        ending.is_good();
        let tally = &ending.summary()["tally"];
        assert_eq!((&tally["requests"], &tally["errors"]["bad_request"]), (&0.into(), &2.into()), "{design}: {tally}");
    }
}

/// As the server's option has it.
const IDLE_TIMEOUT: Duration = Duration::from_millis(300);

/// Sends so many requests, a pause after each, and waits for the end. Returns how many were answered, and whether the
/// client was never idle for as long as the limit before: on a busy machine it may be.
fn active_then_idle(server: &Server, requests: u64, design: &str) -> (u64, bool) {
    let began = Instant::now();
    let mut stream = connected(server);
    let mut last = began;
    for answered in 0..requests {
        // The server may read the request at once.
        let sending = Instant::now();
        let sent = stream.write_all(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n");
        let in_time = last.elapsed() < IDLE_TIMEOUT;
        assert!(sent.is_ok() || !in_time, "{design}: {sent:?}");
        last = sending;
        match stream.read(&mut [0; 512]) {
            Ok(bytes) if bytes > 4 => {}
            other if in_time => panic!("{design}: {other:?} instead of a reply"),
            _ => return (answered, false),
        }
        // Active for longer than the limit in total.
        std::thread::sleep(Duration::from_millis(120));
    }
    assert_eq!(stream.read(&mut [0; 16]).unwrap_or_else(|error| panic!("{design}: {error}")), 0, "{design}");
    assert!(began.elapsed() >= IDLE_TIMEOUT, "{design}");
    (requests, true)
}

#[test]
fn an_idle_client_leaves_after_the_idle_timeout() {
    for design in DESIGNS {
        let server = Server::start(design, "http", &["--bytes", "4", "--idle-timeout", "300ms"]);
        let mut total = 0;
        for requests in [0, 1, 3] {
            let done = (0..20).any(|_| {
                let (answered, done) = active_then_idle(&server, requests, design);
                total += answered;
                done
            });
            assert!(done, "{design}: the client was late 20 times");
        }
        let ending = server.stop();
        ending.is_good();
        let tally = &ending.summary()["tally"];
        let (requests, errors) = (&tally["requests"], &tally["errors"]);
        assert_eq!((requests, errors), (&total.into(), &serde_json::json!({})), "{design}: {tally}");
    }
}

/// A server that gets no CPU time for longer than the limit must not take its clients for idle.
#[test]
fn a_request_that_waits_for_a_late_server_is_answered() {
    for design in ["iterative", "thread_per_client", "epoll", "tokio", "polling", "io_uring"] {
        // Frozen before the limit. The busier the machine, the longer the limit has to be.
        let frozen_in_time = |limit: u64| {
            let server = Server::start(design, "http", &["--bytes", "4", "--idle-timeout", &format!("{limit}s")]);
            let began = Instant::now();
            let stream = connected(&server);
            server.sleeps();
            process::freeze(server.first);
            if began.elapsed() < Duration::from_millis(900 * limit) {
                return Some((server, stream, limit));
            }
            process::thaw(server.first);
            None
        };
        let (server, mut stream, limit) =
            [1, 1, 2, 4, 8, 16].into_iter().find_map(frozen_in_time).expect("the machine has time for this test");
        stream.write_all(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
        std::thread::sleep(Duration::from_millis(1200 * limit));
        process::thaw(server.first);
        let bytes = stream.read(&mut [0; 512]).unwrap_or_else(|error| panic!("{design}: {error}"));
        assert!(bytes > 4, "{design}: {bytes} bytes");
        drop(stream);
        server.stop().is_good();
    }
}

/// The limit is for idle clients: one that takes its reply slowly gets all of it.
#[test]
fn a_slow_reader_outlives_the_idle_timeout() {
    const LENGTH: usize = 20_000_000;
    for design in DESIGNS {
        let options = ["--bytes", "4", "--largest-resource", "20MB", "--idle-timeout", "200ms"];
        let server = Server::start(design, "http", &options);
        let mut part = vec![0; 1 << 20];
        // A client that comes late on a busy machine is idle before its request.
        let mut begun = || {
            let mut stream = connected(&server);
            stream.write_all(format!("GET /bytes/{LENGTH} HTTP/1.1\r\nHost: a\r\n\r\n").as_bytes()).ok()?;
            let came = stream.read(&mut part).ok()?;
            (came > 0).then_some((stream, came))
        };
        let (mut stream, mut came) = (0..20).find_map(|_| begun()).expect("the server begins a reply");
        std::thread::sleep(Duration::from_millis(700));
        while came < LENGTH {
            match stream.read(&mut part).unwrap_or_else(|error| panic!("{design}: {error}")) {
                0 => panic!("{design}: the end after {came} bytes"),
                bytes => came += bytes,
            }
        }
        drop(stream);
        server.stop().is_good();
    }
}
