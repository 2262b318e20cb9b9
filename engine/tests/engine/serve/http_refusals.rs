//! Refusals of our HTTP servers reach clients that still send, and idle clients leave if the server has a limit.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use crate::support::PATIENCE;
use crate::support::server::Server;

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

#[test]
fn an_idle_client_leaves_after_the_idle_timeout() {
    for design in DESIGNS {
        let server = Server::start(design, "http", &["--bytes", "4", "--idle-timeout", "300ms"]);
        for requests in [0, 1, 3] {
            let began = Instant::now();
            let mut stream = connected(&server);
            for _ in 0..requests {
                stream.write_all(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
                let mut reply = [0; 512];
                assert!(stream.read(&mut reply).unwrap() > 4, "{design}");
                // Active for longer than the limit in total.
                std::thread::sleep(Duration::from_millis(120));
            }
            assert_eq!(stream.read(&mut [0; 16]).unwrap_or_else(|error| panic!("{design}: {error}")), 0, "{design}");
            assert!(began.elapsed() >= Duration::from_millis(300), "{design}");
        }
        let ending = server.stop();
        ending.is_good();
        let tally = &ending.summary()["tally"];
        assert_eq!((&tally["requests"], &tally["errors"]), (&4.into(), &serde_json::json!({})), "{design}: {tally}");
    }
}

/// The limit is for idle clients: one that takes its reply slowly gets all of it.
#[test]
fn a_slow_reader_outlives_the_idle_timeout() {
    const LENGTH: usize = 20_000_000;
    for design in DESIGNS {
        let options = ["--bytes", "4", "--largest-resource", "20MB", "--idle-timeout", "200ms"];
        let server = Server::start(design, "http", &options);
        let mut stream = connected(&server);
        stream.write_all(format!("GET /bytes/{LENGTH} HTTP/1.1\r\nHost: a\r\n\r\n").as_bytes()).unwrap();
        let (mut came, mut part) = (0, vec![0; 1 << 20]);
        came += stream.read(&mut part).unwrap();
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
