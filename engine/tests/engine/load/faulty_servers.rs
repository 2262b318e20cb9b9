//! Every load against servers that fail in different ways: each failure is counted under its kind, the run ends in time, its
//! result is not valid, the exit status is not 0, and memory stays bounded however much a server sends.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};
use socket2::{SockRef, Socket};

use crate::support::event_loops::{back_ends, count, load, serve};
use crate::support::{Ran, protocol, unserved};

/// Bytes of a reply's payload.
const BYTES: usize = 64;

/// How long a load waits for progress, in milliseconds, for a server that replies slowly.
const SHORT: u64 = 300;

/// The same for a server that replies at once unless the machine is busy.
const LONG: u64 = 20_000;

/// Maximum resident memory of a load's process. A server that sends until it is stopped sends more than this within a tenth
/// of a second.
const MOST_RESIDENT: u64 = 96 << 20;

/// A workload, and its correct messages.
#[derive(Clone, Copy)]
struct Spoken {
    workload: &'static str,
    /// Options of its load.
    options: &'static str,
    /// Bytes of a request.
    request: usize,
    reply: fn() -> Vec<u8>,
}

const SPOKEN: [Spoken; 3] = [
    Spoken { workload: "bytes", options: SIZE, request: "64\n".len(), reply: || protocol::bytes(BYTES).reply },
    Spoken { workload: "echo", options: SIZE, request: BYTES, reply: || protocol::bytes(BYTES).reply },
    Spoken {
        workload: "http",
        options: SIZE,
        // Up to the empty line.
        request: 0,
        reply: || {
            let mut reply = format!("HTTP/1.1 200 OK\r\nContent-Length: {BYTES}\r\n\r\n").into_bytes();
            reply.extend(protocol::bytes(BYTES).reply);
            reply
        },
    },
];

/// Requests [`BYTES`].
const SIZE: &str = "--bytes 64";

/// The other workloads, and options with which a request is short. Their servers send no byte.
const OTHERS: [(&str, &str); 5] = [
    ("top_processes", "--closes client"),
    ("bucket", "--keep-connections true"),
    ("stream", "--stream-size 3000"),
    ("fields", "--field-size 8"),
    ("blast", "--repetitions 1 --keep-connections true"),
];

impl Spoken {
    /// Takes one request; returns whether one arrived.
    fn takes(self, stream: &mut TcpStream) -> bool {
        let (mut taken, mut byte) = (Vec::new(), [0]);
        while self.request == 0 || taken.len() < self.request {
            match stream.read(&mut byte) {
                Ok(1) => taken.push(byte[0]),
                _ => return false,
            }
            if self.request == 0 && taken.ends_with(b"\r\n\r\n") {
                return true;
            }
        }
        true
    }
}

/// One fault of a server.
struct Fault {
    name: &'static str,
    /// The kind that must be counted.
    kind: &'static str,
    /// Kinds that may also be counted: errors of a client that sends while the connection ends.
    beside: &'static [&'static str],
    /// How long the load waits for progress, in milliseconds.
    timeout: u64,
    /// Whether some requests are answered.
    answers: bool,
    port: u16,
    /// Values that must live as long as the test.
    _listener: Option<Socket>,
}

const ENDING: &[&str] = &["reset", "broken_pipe", "truncated"];

/// Every server is the same for all loads.
fn faults(spoken: Spoken) -> Vec<Fault> {
    // HTTP shows by its first bytes that it is spoken.
    let of_garbage = if spoken.workload == "http" { "other_protocol" } else { "wrong_reply" };
    let fault = |name, kind, timeout, each: Box<dyn Fn(TcpStream) + Send + Sync>| Fault {
        name,
        kind,
        beside: &[],
        timeout,
        answers: false,
        port: serve(each),
        _listener: None,
    };
    let after_request = move |act: fn(TcpStream, Vec<u8>)| -> Box<dyn Fn(TcpStream) + Send + Sync> {
        Box::new(move |mut stream| {
            stream.set_nodelay(true).unwrap();
            if spoken.takes(&mut stream) {
                act(stream, (spoken.reply)());
            }
        })
    };
    fn until_closed(mut stream: TcpStream) {
        let _ = std::io::copy(&mut stream, &mut std::io::sink());
    }
    fn endless(mut stream: TcpStream, part: &[u8]) {
        let many = part.repeat((64 << 10) / part.len());
        while stream.write_all(&many).is_ok() {}
    }
    let reset = |stream: TcpStream| SockRef::from(&stream).set_linger(Some(Duration::ZERO)).unwrap();
    let (refusing, held) = unserved::nobody_listens();
    let (port, listener) = unserved::nobody_accepts();
    vec![
        Fault { port: refusing, _listener: Some(held), ..fault("refuses", "refused", LONG, Box::new(drop)) },
        Fault { port, _listener: Some(listener), ..fault("accepts nobody", "timed_out", SHORT, Box::new(drop)) },
        Fault { beside: ENDING, ..fault("resets at once", "reset", LONG, Box::new(reset)) },
        fault(
            "resets instead of a reply",
            "reset",
            LONG,
            after_request(|stream, _| {
                SockRef::from(&stream).set_linger(Some(Duration::ZERO)).unwrap();
            }),
        ),
        Fault { beside: ENDING, ..fault("closes at once", "truncated", LONG, Box::new(drop)) },
        fault("closes early", "truncated", LONG, after_request(|stream, _| drop(stream))),
        fault(
            "answers short",
            "truncated",
            LONG,
            after_request(|mut stream, reply| {
                let _ = stream.write_all(&reply[..reply.len() - 1]);
            }),
        ),
        Fault {
            port: serve(move |mut stream| {
                stream.set_nodelay(true).unwrap();
                let mut reply = (spoken.reply)();
                reply.push(0xff);
                while spoken.takes(&mut stream) && stream.write_all(&reply).is_ok() {}
            }),
            ..fault("answers too much", "surplus", LONG, Box::new(drop))
        },
        fault("stalls for ever", "timed_out", SHORT, after_request(|stream, _| until_closed(stream))),
        fault(
            "stalls within a reply",
            "timed_out",
            SHORT,
            after_request(|mut stream, reply| {
                let _ = stream.write_all(&reply[..reply.len() / 2]);
                until_closed(stream);
            }),
        ),
        fault(
            "sends a wrong byte",
            "wrong_reply",
            LONG,
            after_request(|mut stream, mut reply| {
                *reply.last_mut().unwrap() ^= 1;
                let _ = stream.write_all(&reply);
                until_closed(stream);
            }),
        ),
        fault(
            "sends garbage",
            of_garbage,
            LONG,
            after_request(|mut stream, _| {
                let _ = stream.write_all(&b"\xff\x80rubbish".repeat(3));
                until_closed(stream);
            }),
        ),
        fault(
            "sends garbage without end",
            of_garbage,
            LONG,
            after_request(|stream, _| endless(stream, b"\xff\x80rubbish")),
        ),
        fault(
            "sends a head without end",
            // To the loads of our own protocols, that is another one.
            if spoken.workload == "http" { "wrong_reply" } else { "other_protocol" },
            LONG,
            after_request(|mut stream, _| {
                let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nX: ");
                endless(stream, b"x");
            }),
        ),
        Fault {
            beside: &["wrong_reply"],
            ..fault(
                "answers without end",
                "surplus",
                LONG,
                after_request(|mut stream, reply| {
                    let _ = stream.write_all(&[&reply[..], &reply[..]].concat());
                    endless(stream, &reply);
                }),
            )
        },
        Fault {
            port: vanishes(spoken),
            beside: ENDING,
            answers: true,
            ..fault("vanishes", "refused", LONG, Box::new(drop))
        },
    ]
}

/// Answers some requests correctly, so few that even a busy machine gets further in time, and then closes its listener and
/// all its connections.
fn vanishes(spoken: Spoken) -> u16 {
    const ANSWERED: usize = 3;
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let (answered, open) = (Arc::new(AtomicUsize::new(0)), Arc::new(Mutex::new(Vec::new())));
    let accepting = listener.try_clone().unwrap();
    std::thread::spawn(move || {
        for mut stream in accepting.incoming().map_while(Result::ok) {
            let (answered, open) = (Arc::clone(&answered), Arc::clone(&open));
            let listener = listener.try_clone().unwrap();
            open.lock().unwrap().push(stream.try_clone().unwrap());
            std::thread::spawn(move || {
                stream.set_nodelay(true).unwrap();
                while spoken.takes(&mut stream) {
                    if answered.fetch_add(1, SeqCst) >= ANSWERED {
                        // Wakes the accepting thread, which refuses from then on.
                        let _ = SockRef::from(&listener).shutdown(Shutdown::Both);
                        for stream in open.lock().unwrap().drain(..) {
                            let _ = stream.shutdown(Shutdown::Both);
                        }
                        return;
                    }
                    if stream.write_all(&(spoken.reply)()).is_err() {
                        return;
                    }
                }
            });
        }
    });
    port
}

/// Every load, with 4 clients that give up after three failures, how it ends, and its duration in milliseconds if it is known.
fn loads() -> Vec<(String, Option<u64>)> {
    let mut loads = vec![("--load closed --children 4 --loops 20".to_owned(), None)];
    for kept in ["kept", "per_request"] {
        let clients = format!("--clients 4 --connections {kept}");
        loads.push((format!("--load closed_threads {clients} --loops 20"), None));
        loads.push((format!("--load closed_threads {clients} --duration 400ms"), Some(400)));
        // A polling load needs a whole CPU for as long as it runs.
        for back_end in back_ends().iter().filter(|back_end| kept == "kept" || !back_end.contains("polling")) {
            loads.push((format!("--load closed_connections {clients} --loops 20 {back_end}"), None));
            loads.push((format!("--load closed_connections {clients} --duration 400ms {back_end}"), Some(400)));
            let open = format!("--load open {clients} --rate 2000 --duration 400ms {back_end}");
            loads.push((format!("{open} --threads 2"), Some(400)));
            if kept == "kept" {
                loads.push((format!("{open} --pipeline 3"), Some(400)));
            }
            // Without primitives, nothing is gathered.
            if kept == "kept" && back_end.is_empty() {
                loads.push((format!("{open} --pipeline 3 --primitive writev --messages-at-once 3"), Some(400)));
            }
        }
    }
    loads.into_iter().map(|(options, lasts)| (options + " --give-up 3", lasts)).collect()
}

/// Answers on every connection, except those made in the second part of each load: it closes them at once.
#[test]
fn a_server_that_comes_back_is_met_again() {
    for (which, _) in loads().into_iter().filter(|(options, lasts)| lasts.is_some() && options.contains("kept")) {
        let made = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&made);
        let port = serve(move |mut stream| {
            let number = counted.fetch_add(1, SeqCst);
            if (4..12).contains(&number) {
                return;
            }
            let mut left = if number < 4 { 5 } else { usize::MAX };
            while left > 0 && SPOKEN[0].takes(&mut stream) && stream.write_all(&(SPOKEN[0].reply)()).is_ok() {
                left -= 1;
            }
        });
        for (options, meets) in [("--give-up never", true), ("--give-up 1", false)] {
            made.store(0, SeqCst);
            // Time for all of these connections, also on a busy machine.
            let which = which.replace("--duration 400ms", "--duration 1s");
            let options = format!("{} --bytes {BYTES}", which.replace("--give-up 3", options));
            let (ran, line) = load(SPOKEN[0].workload, port, &options);
            let errors = line["tally"]["errors"].as_object().unwrap();
            assert_eq!((ran.status, errors.is_empty()), (Some(1), false), "{options}: {line}");
            let cut = line["validity"]["checks"].as_array().unwrap().iter().find(|check| check["name"] == "cut_window");
            assert_eq!(cut.unwrap()["holds"], json!(meets), "{options}: {line}");
            assert_eq!(made.load(SeqCst) > 12, meets, "{options}: {line}");
        }
    }
}

/// However busy the machine is, a load that takes this much longer than allowed does not end by itself.
const GRACE: u64 = 15_000;

#[track_caller]
fn has_failed_as_it_should(fault: &Fault, options: &str, asks: Option<u64>, ran: &Ran, line: &Value) {
    let about = format!("{}: {options}: {ran:?}", fault.name);
    assert_eq!(ran.status, Some(1), "{about}");
    assert_eq!(ran.errors.lines().count(), 1, "{about}");
    let errors = line["tally"]["errors"].as_object().unwrap();
    let pipelined = options.contains("--pipeline");
    // Requests in flight after the failed one fail as the connection ends, and surplus bytes begin the next reply.
    let also = |kind: &str| pipelined && (ENDING.contains(&kind) || fault.kind == "surplus" && kind == "wrong_reply");
    let known = |kind: &str| kind == fault.kind || fault.beside.contains(&kind) || also(kind);
    let expected = |kind: &String| kind == fault.kind || fault.beside.contains(&kind.as_str());
    assert!(errors.keys().any(|kind| expected(kind) || pipelined && also(kind)), "{about}");
    assert!(errors.keys().all(|kind| known(kind)), "{about}");
    // Replies before the first wrong byte are correct.
    assert!((count(line, "tally.requests") > 0) == fault.answers || pipelined, "{about}");
    assert_eq!((&line["validity"]["valid"], &line["interrupted"]), (&json!(false), &json!(false)), "{about}");
    let failed = line["validity"]["checks"].as_array().unwrap().iter().find(|check| check["name"] == "errors").unwrap();
    assert_eq!((&failed["holds"], failed["value"].as_f64().unwrap() > 0.0), (&json!(false), true), "{about}");
    assert!(line["first_error"].as_str().is_some_and(|first| !first.is_empty()), "{about}");
    // A client gives up after three failures in a row. Each timeout takes the full time allowed.
    let waits = if fault.timeout == SHORT { 4 * SHORT } else { 0 };
    let most = asks.unwrap_or_default() + waits + GRACE;
    assert!(count(line, "elapsed_ns") / 1_000_000 < most, "{about}");
    match line["memory"]["peak_resident_bytes"].as_u64() {
        Some(peak) => assert!(peak < MOST_RESIDENT, "{about}"),
        None => assert!(options.contains("--load closed ") && line["memory"].is_null(), "{about}"),
    }
}

/// The [`loads`] that differ in how they receive and check replies. When a load ends, and whether it keeps connections, does not
/// depend on the workload.
fn loads_by_receiving() -> Vec<(String, Option<u64>)> {
    let differs = |(options, asks): &(String, Option<u64>)| {
        let is_open = options.contains("--load open");
        if is_open {
            !options.contains("--connections kept --rate 2000 --duration 400ms --threads")
        } else {
            asks.is_none()
        }
    };
    loads().into_iter().filter(differs).collect()
}

/// Faults of servers that send no byte of a reply, which are the same in every workload.
const WITHOUT_REPLY: [&str; 5] = ["refuses", "accepts nobody", "resets at once", "closes at once", "stalls for ever"];

fn every_fault_has_its_kind_with_every_load(spoken: Spoken) {
    every_fault_has_its_kind(spoken, faults(spoken), &loads());
}

/// Tests only faults and loads whose outcome depends on the workload's replies.
fn faults_of_replies_have_their_kind(spoken: Spoken) {
    let mut faults = faults(spoken);
    let all = faults.len();
    faults.retain(|fault| !WITHOUT_REPLY.contains(&fault.name));
    assert_eq!(faults.len() + WITHOUT_REPLY.len(), all);
    every_fault_has_its_kind(spoken, faults, &loads_by_receiving());
}

fn every_fault_has_its_kind(spoken: Spoken, faults: Vec<Fault>, loads: &[(String, Option<u64>)]) {
    for fault in faults {
        // A server that vanishes does so only once, so each load gets its own.
        std::thread::scope(|scope| {
            for (options, asks) in loads {
                let fault = &fault;
                // A polling load takes a CPU until its timeouts; one that ends by count is enough.
                if fault.timeout == SHORT && options.contains("polling") && asks.is_some() {
                    continue;
                }
                scope.spawn(move || {
                    let port = if fault.answers { vanishes(spoken) } else { fault.port };
                    let all = format!("{} {options} --timeout {}ms", spoken.options, fault.timeout);
                    let (ran, line) = load(spoken.workload, port, &all);
                    has_failed_as_it_should(fault, options, *asks, &ran, &line);
                });
            }
        });
    }
}

#[test]
fn every_fault_of_a_server_of_bytes_has_its_kind() {
    every_fault_has_its_kind_with_every_load(SPOKEN[0]);
}

#[test]
#[ignore = "ten seconds, and like those of a server of bytes: make test-thorough"]
fn faults_of_replies_of_a_server_that_echoes_have_their_kind() {
    faults_of_replies_have_their_kind(SPOKEN[1]);
}

#[test]
fn faults_of_replies_of_a_server_of_http_have_their_kind() {
    faults_of_replies_have_their_kind(SPOKEN[2]);
}

/// A server of any workload may send no byte of a reply. When a load ends does not depend on the workload, so each is loaded
/// with a few requests. Nothing here knows how long these are: a server that stalls reads until the load closes.
#[test]
fn faults_without_a_reply_have_their_kind_in_the_other_workloads() {
    let mut loads = loads();
    loads.retain(|(options, asks)| asks.is_none() && !options.contains("--back-end"));
    assert!(loads.len() > 3, "{loads:?}");
    std::thread::scope(|scope| {
        for (workload, options) in OTHERS {
            let loads = &loads;
            scope.spawn(move || {
                let spoken = Spoken { workload, options, request: usize::MAX, reply: Vec::new };
                let mut faults = faults(spoken);
                faults.retain(|fault| WITHOUT_REPLY.contains(&fault.name));
                assert_eq!(faults.len(), WITHOUT_REPLY.len());
                every_fault_has_its_kind(spoken, faults, loads);
            });
        }
    });
}

/// A redirection is a wrong reply, and no load follows it.
#[test]
fn a_redirection_is_not_followed() {
    let elsewhere = TcpListener::bind("127.0.0.1:0").unwrap();
    elsewhere.set_nonblocking(true).unwrap();
    let to = elsewhere.local_addr().unwrap();
    let port = serve(move |mut stream| {
        while SPOKEN[2].takes(&mut stream) {
            let head = format!("HTTP/1.1 302 Found\r\nLocation: http://{to}/\r\nContent-Length: 0\r\n\r\n");
            let _ = stream.write_all(head.as_bytes());
        }
    });
    for (options, _) in loads_by_receiving() {
        let (ran, line) = load("http", port, &options);
        assert_eq!((ran.status, &line["tally"]["requests"]), (Some(1), &0.into()), "{ran:?}");
        let replies = &line["statuses"]["302"];
        assert_eq!(
            (&replies["replies"], &line["tally"]["errors"]),
            (&replies["errors"], &json!({"error_status": replies["errors"]})),
            "{line}"
        );
        assert!(line["first_error"].as_str().unwrap().contains("--expect 200,302"), "{line}");
    }
    assert!(elsewhere.accept().is_err(), "a client followed it");
}

/// A server whose accept queue is full and stays full: the kernel drops new connections, and TCP retries. In a load of many
/// clients, not every client tries in turn.
#[test]
fn clients_that_cannot_connect_give_up_together() {
    let (port, _listener) = unserved::nobody_accepts();
    let _first = TcpStream::connect(("127.0.0.1", port)).unwrap();
    for back_end in back_ends() {
        for asks in ["closed_connections --loops 1", "closed_connections --duration 100ms", "open --duration 100ms"] {
            let options = format!("--load {asks} --clients 1000 --connections kept --threads 2 --timeout 300ms");
            let (ran, line) = load("bytes", port, &format!("{options} {back_end}"));
            assert_eq!((ran.status, &line["validity"]["valid"]), (Some(1), &json!(false)), "{asks}: {ran:?}");
            let errors = line["tally"]["errors"].as_object().unwrap();
            assert_eq!(errors.keys().collect::<Vec<_>>(), ["timed_out"], "{asks}: {ran:?}");
            // The clients that tried: a share of 64 for each thread.
            assert!((1..=128).contains(&count(&line, "tally.errors.timed_out")), "{asks}: {line}");
        }
    }
}

/// A server that replies drop by drop always makes progress, but does not delay the end of a load that ends by time.
#[test]
fn a_reply_that_comes_drop_by_drop_is_not_awaited_for_ever() {
    const DROP: Duration = Duration::from_millis(20);
    let port = serve(|mut stream| {
        stream.set_nodelay(true).unwrap();
        while SPOKEN[1].takes(&mut stream) {
            for byte in protocol::bytes(2000).reply {
                std::thread::sleep(DROP);
                if stream.write_all(&[byte]).is_err() {
                    return;
                }
            }
        }
    });
    let takes = 2000 * DROP.as_millis() as u64;
    std::thread::scope(|scope| {
        // In a load that ends by count, a reply may take ten times the allowed time without progress, and a client may have
        // three of these.
        for (options, _) in loads().into_iter().filter(|(_, asks)| asks.is_none()) {
            scope.spawn(move || {
                let all = format!("--bytes 2000 {options} --timeout 200ms");
                let (ran, line) = load("echo", port, &all);
                let errors = line["tally"]["errors"].as_object().unwrap();
                assert_eq!(ran.status, Some(1), "{options}: {ran:?}");
                assert_eq!(errors.keys().collect::<Vec<_>>(), ["timed_out"], "{options}: {ran:?}");
                assert!(count(&line, "elapsed_ns") / 1_000_000 < takes / 2, "{options}: {ran:?}");
            });
        }
        // One polling load is enough, since each takes a CPU for seconds.
        let is_tried = |options: &String| !options.contains("polling") || options.contains("--threads 2");
        let timed = loads().into_iter().filter_map(|(options, asks)| Some((options, asks?)));
        for (options, asks) in timed.filter(|(options, _)| is_tried(options)) {
            scope.spawn(move || {
                // On a busy machine a drop may be later than the load waits: both count as timeouts.
                let all = format!("--bytes 2000 {options} --timeout 2s");
                let (ran, line) = load("echo", port, &all);
                let about = format!("{options}: {ran:?}");
                assert_eq!((ran.status, &line["validity"]["valid"]), (Some(1), &json!(false)), "{about}");
                let errors = line["tally"]["errors"].as_object().unwrap();
                assert_eq!(errors.keys().collect::<Vec<_>>(), ["timed_out"], "{about}");
                assert!(count(&line, "elapsed_ns") / 1_000_000 < asks + takes / 2, "{about}");
            });
        }
    });
}
