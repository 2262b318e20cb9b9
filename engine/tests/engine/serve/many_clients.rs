//! More clients than in the conformance suite: thousands of silent clients under every design without a worker for each;
//! many clients that never read, and a shortage of descriptors, under designs with a single process.

use std::io::{ErrorKind, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use serde_json::Value;
use socket2::Socket;

use crate::support::client::Client;
use crate::support::lines::list;
use crate::support::protocol::{Exchange, bytes};
use crate::support::server::Server;
use crate::support::{engine_with_descriptors, eventually, process, raise_descriptor_limit};

const DESIGNS: &[&str] = &["io_uring", "tokio", "tokio --runtime multi_thread", "tokio --work blocking_pool"];

const LARGE: usize = 16 << 20;

/// Designs that this machine offers. Prints why it does not offer the others.
fn designs() -> Vec<&'static str> {
    let listed = list("designs");
    let named = |name: &str| listed.iter().find(|design| name.split(' ').next() == design["name"].as_str());
    DESIGNS.iter().filter(|name| is_offered(named(name).expect("it is registered"))).copied().collect()
}

fn is_offered(design: &Value) -> bool {
    let reason = design["reason"].as_str();
    reason.inspect(|reason| println!("{} is skipped: {reason}", design["name"])).is_none()
}

/// Designs without a worker for each connection, with their options. The pools are no larger than needed.
fn event_designs() -> Vec<String> {
    // select's set has room for 1,024 descriptors, which event_loops.rs tests.
    let fits = |design: &&Value| design["waits"] != "in_the_call" && design["name"] != "select";
    let started = |design: &Value| {
        let has_pool = design["settings"].as_array().unwrap().iter().any(|setting| setting["name"] == "pool");
        format!("{}{}", design["name"].as_str().unwrap(), if has_pool { " --pool 3" } else { "" })
    };
    let mut designs: Vec<String> =
        list("designs").iter().filter(fits).filter(|design| is_offered(design)).map(started).collect();
    designs.push("tokio --runtime multi_thread".to_owned());
    designs
}

/// Allows this program this many connections, and as many more for concurrent tests, or prints that it may not have them.
fn may_have_connections(number: usize) -> bool {
    let hard = raise_descriptor_limit();
    let may = hard >= 2 * number as u64;
    if !may {
        println!("skipped: a process may have no more than {hard} descriptors");
    }
    may
}

fn counts(server: &mut Server, name: &str, number: u64) {
    server.snapshot_when(&format!("{name} {number}"), |snapshot| snapshot["tally"][name] == number);
}

fn ask(client: &mut TcpStream, exchange: &Exchange) {
    use std::io::Read;
    client.write_all(&exchange.request).unwrap();
    let mut reply = vec![0; exchange.reply.len()];
    client.read_exact(&mut reply).unwrap();
    assert!(reply == exchange.reply, "a wrong reply");
}

/// No process runs while no client sends requests, unless the design busy-polls. New clients are served at once, and so are
/// the silent ones when they send.
#[test]
fn three_thousand_silent_connections() {
    const CLIENTS: usize = 3_000;
    const NEW: u64 = 20;
    if !may_have_connections(CLIENTS) {
        return;
    }
    for design in event_designs() {
        let began = Instant::now();
        let mut server = Server::start(&design, "bytes", &["--backlog", "4096"]);
        let connect = |_| TcpStream::connect(("127.0.0.1", server.port)).unwrap();
        let mut clients: Vec<TcpStream> = (0..CLIENTS).map(connect).collect();
        counts(&mut server, "connections", CLIENTS as u64);
        server.sleeps();
        let before = process::cpu_nanoseconds_of_group(server.first);
        let runs = || process::cpu_nanoseconds_of_group(server.first) > before;
        if server.spins() {
            // On a busy machine it may wait for a CPU first.
            eventually("a server that spins runs", || runs().then_some(()));
        } else {
            std::thread::sleep(Duration::from_millis(100));
            assert!(!runs(), "{design} runs although nobody asks anything");
        }
        let exchange = bytes(4000);
        (0..NEW).for_each(|_| Client::connect(server.port).exchange(&exchange));
        let served = clients.iter_mut().step_by(100).map(|client| ask(client, &exchange)).count() as u64;
        for client in clients {
            // A reset leaves no port in TIME_WAIT.
            Socket::from(client).set_linger(Some(Duration::ZERO)).unwrap();
        }
        counts(&mut server, "closed", CLIENTS as u64 + NEW);
        let ending = server.stop();
        ending.is_good();
        let tally = &ending.summary()["tally"];
        assert_eq!(tally["requests"], served + NEW, "{design}: {tally}");
        assert_eq!(tally["errors"], serde_json::json!({"reset": CLIENTS}), "{design}: {tally}");
        println!("{design}: {:.1?}", began.elapsed());
    }
}

/// A thread for each of five thousand connections, all made beforehand: each connection has its own thread, and all are
/// served at once.
#[test]
fn five_thousand_connections_with_a_thread_for_each() {
    const CLIENTS: usize = 5_000;
    if !may_have_connections(CLIENTS) {
        return;
    }
    let mut server = Server::start(&format!("prethread --pool {CLIENTS}"), "bytes", &["--backlog", "4096"]);
    server.settle();
    let exchange = bytes(4000);
    let mut clients: Vec<Client> = (0..CLIENTS).map(|_| Client::connect(server.port)).collect();
    clients.iter_mut().for_each(|client| client.exchange(&exchange));
    let snapshot = server.snapshot();
    assert_eq!(snapshot["workers"], serde_json::json!(vec![1; CLIENTS]));
    assert_eq!(snapshot["tally"]["closed"], 0);
    clients.into_iter().for_each(Client::reset);
    counts(&mut server, "closed", CLIENTS as u64);
    server.stop().is_good();
}

/// Each client requests a reply larger than all buffers, never reads, and sends further requests while the server takes
/// them. The server must stop taking them, and its memory must stay bounded.
#[test]
fn clients_that_send_without_end_and_never_read() {
    const CLIENTS: usize = 40;
    const MOST_KIB: u64 = 48 << 10;
    for design in designs() {
        let mut server = Server::start(design, "bytes", &["--limit", "16777216"]);
        Client::connect(server.port).exchange(&bytes(LARGE));
        let before = process::resident_kib(server.first);
        let large = bytes(LARGE);
        let mut clients: Vec<TcpStream> = (0..CLIENTS)
            .map(|_| {
                let mut client = TcpStream::connect(("127.0.0.1", server.port)).unwrap();
                client.write_all(&large.request).unwrap();
                client.set_nonblocking(true).unwrap();
                client
            })
            .collect();
        let lines = b"4000\n".repeat(10_000);
        // Twice with a pause, since the server may only just have made room.
        for _ in 0..2 {
            for client in &mut clients {
                let mut sent = 0;
                loop {
                    match client.write(&lines) {
                        Ok(bytes) => sent += bytes,
                        Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                        Err(error) => panic!("{design}: {error}"),
                    }
                    assert!(sent < LARGE, "{design} takes {sent} bytes of a client that does not read");
                }
            }
            server.sleeps();
        }
        let grown = process::resident_kib(server.first).saturating_sub(before);
        assert!(grown < MOST_KIB, "{design} has grown by {grown} KiB for {CLIENTS} clients that do not read");
        // Clients that read on get the correct bytes.
        let mut reader = clients.pop().unwrap();
        reader.set_nonblocking(false).unwrap();
        ask(&mut reader, &Exchange { request: Vec::new(), reply: large.reply });
        for _ in 0..100 {
            ask(&mut reader, &Exchange { request: Vec::new(), reply: bytes(4000).reply });
        }
        clients.push(reader);
        for client in clients {
            Socket::from(client).set_linger(Some(Duration::ZERO)).unwrap();
        }
        counts(&mut server, "closed", CLIENTS as u64 + 1);
        server.stop().is_good();
    }
}

/// Several clients take a large reply in turns, and get every byte of it, from a single process.
#[test]
fn large_replies_that_are_read_in_turns() {
    const CLIENTS: usize = 8;
    const PART: usize = 1 << 18;
    for design in designs() {
        let mut server = Server::start(design, "bytes", &["--limit", "16777216"]);
        let large = bytes(LARGE);
        let mut clients: Vec<Client> = (0..CLIENTS).map(|_| Client::connect_slow(server.port)).collect();
        clients.iter_mut().for_each(|client| client.send(&large.request));
        for part in large.reply.chunks(PART) {
            clients.iter_mut().for_each(|client| client.receive(part));
        }
        clients.iter_mut().for_each(|client| client.half_close());
        clients.iter_mut().for_each(|client| client.receive_to_end(b""));
        counts(&mut server, "closed", CLIENTS as u64);
        let ending = server.stop();
        ending.is_good();
        let tally = &ending.summary()["tally"];
        assert_eq!((&tally["requests"], &tally["errors"]), (&CLIENTS.into(), &serde_json::json!({})), "{tally}");
    }
}

/// Without a free descriptor, connected clients are served as before, and the server retries accept only now and then.
#[test]
fn a_shortage_of_descriptors_causes_no_busy_polling_and_no_waits() {
    let refusals = |snapshot: &Value| snapshot["tally"]["errors"]["resource_limit"].as_u64().unwrap_or(0);
    for design in designs() {
        let mut server = Server::launch(&mut engine_with_descriptors(40), design, "bytes", &[]);
        let mut client = Client::connect(server.port);
        let exchange = bytes(4000);
        client.exchange(&exchange);
        let silent: Vec<Client> = (0..60).map(|_| Client::connect(server.port)).collect();
        // Before the snapshot, since this thread may wait for a CPU after it.
        let started = Instant::now();
        let first = refusals(&server.snapshot_when("a shortage", |snapshot| refusals(snapshot) > 0));
        for _ in 0..20 {
            client.exchange(&exchange);
            std::thread::sleep(Duration::from_millis(10));
        }
        let seen = refusals(&server.snapshot()) - first;
        // One retry in ten milliseconds, plus those at the edges.
        let most = started.elapsed().as_millis() as u64 / 10 + 2;
        assert!(seen <= most, "{design} was refused {seen} times in {:?}", started.elapsed());
        drop(silent);
        counts(&mut server, "closed", 60);
        Client::connect(server.port).exchange(&exchange);
        drop(client);
        counts(&mut server, "closed", 62);
        server.stop().is_good();
    }
}
