//! HTTP servers that do not know the length of a reply in advance: it arrives in chunks, or ends with its connection.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

use serde_json::{Value, json};

use crate::support::event_loops::{back_ends, count, load, serve};
use crate::support::protocol;
use crate::support::server::Server;
use crate::support::{engine, refused, run, with};

/// Bytes of a reply's body.
const BYTES: usize = 4000;

/// Rest of a head after its status, and the form of the body.
#[derive(Clone, Copy)]
struct Form {
    version: &'static str,
    fields: &'static str,
    in_chunks: bool,
    /// The server closes after it.
    closes: bool,
}

const CHUNKED: &str = "Transfer-Encoding: chunked\r\n";

const FORMS: [Form; 5] = [
    Form { version: "1.1", fields: CHUNKED, in_chunks: true, closes: false },
    Form {
        version: "1.1",
        fields: "Transfer-Encoding: chunked\r\nConnection: close\r\n",
        in_chunks: true,
        closes: true,
    },
    Form { version: "1.1", fields: "Connection: close\r\n", in_chunks: false, closes: true },
    Form { version: "1.1", fields: "Server: any\r\n", in_chunks: false, closes: true },
    Form { version: "1.0", fields: "", in_chunks: false, closes: true },
];

/// Sends a reply whose body has these bytes, piece by piece, like a program that generates a page.
fn say(stream: &mut TcpStream, form: Form, body: &[u8]) -> std::io::Result<()> {
    let Form { version, fields, in_chunks, .. } = form;
    stream.write_all(format!("HTTP/{version} 200 OK\r\n{fields}\r\n").as_bytes())?;
    for piece in body.chunks(1234) {
        if in_chunks {
            let framed = [format!("{:X};a=b\r\n", piece.len()).as_bytes(), piece, b"\r\n"].concat();
            stream.write_all(&framed)?;
        } else {
            stream.write_all(piece)?;
        }
    }
    stream.write_all(if in_chunks { b"0\r\nServer-Timing: a;dur=1\r\n\r\n" } else { b"" })
}

/// Answers requests up to the last one, with bodies of this length.
fn answers(form: Form, bytes: usize) -> impl Fn(TcpStream) + Send + Sync + 'static {
    move |mut stream| {
        stream.set_nodelay(true).unwrap();
        let body = protocol::bytes(bytes).reply;
        let (mut came, mut buffer) = (Vec::new(), [0; 4096]);
        loop {
            while let Some(end) = came.windows(4).position(|window| window == b"\r\n\r\n") {
                came.drain(..end + 4);
                if say(&mut stream, form, &body).is_err() || form.closes {
                    return;
                }
            }
            match stream.read(&mut buffer) {
                Ok(length @ 1..) => came.extend_from_slice(&buffer[..length]),
                _ => return,
            }
        }
    }
}

#[test]
fn every_load_accepts_replies_of_any_form() {
    let loops = back_ends().into_iter().map(|back_end| format!("--load closed_connections {back_end}"));
    let loads: Vec<String> = loops.chain(["--load closed_threads".to_owned()]).collect();
    for form in FORMS {
        let port = serve(answers(form, BYTES));
        let about = form.fields;
        for which in &loads {
            for connections in ["kept", "per_request"] {
                let options = format!("{which} --connections {connections} --clients 3 --loops 20");
                let (ran, line) = load("http", port, &options);
                assert_eq!((ran.status, count(&line, "tally.requests")), (Some(0), 60), "{about} {options}: {line}");
                let made = if connections == "kept" && !form.closes { 3 } else { 60 };
                assert_eq!(count(&line, "tally.connections"), made, "{about} {options}: {line}");
            }
        }
        // For a path that our servers do not have, any length is correct.
        let (ran, line) = load("http", port, "--load closed --children 2 --loops 5 --path /page?id=7");
        assert_eq!((ran.status, count(&line, "tally.requests")), (Some(0), 10), "{about}: {line}");
    }
}

/// They are reopened again and again although they should persist, and no request is in flight meanwhile.
#[test]
fn connections_that_the_server_closes_do_not_always_have_a_request_in_flight() {
    let port = serve(answers(FORMS[4], BYTES));
    let mut tries = (0..5).map(|_| {
        let (_, line) = load("http", port, "--load closed_connections --connections kept --clients 2 --duration 400ms");
        assert_eq!(line["tally"]["errors"], json!({}), "{line}");
        let checks = line["validity"]["checks"].as_array().unwrap();
        checks.iter().find(|check| check["name"] == "little").unwrap()["holds"].clone()
    });
    // On a busy machine, a load is not always steady, or nothing can be judged.
    assert!(tries.any(|holds| holds != false), "in none of five tries");
}

#[test]
fn chunks_of_several_replies_may_follow_each_other() {
    let port = serve(answers(FORMS[0], BYTES));
    for back_end in back_ends() {
        let options =
            format!("--load closed_connections --connections kept --pipeline 8 --clients 2 --loops 80 {back_end}");
        let (ran, line) = load("http", port, &options);
        assert_eq!((ran.status, count(&line, "tally.requests")), (Some(0), 160), "{back_end}: {line}");
        assert_eq!(count(&line, "tally.connections"), 2, "{back_end}: {line}");
    }
}

#[test]
fn a_reply_of_another_length_is_wrong() {
    for (form, kind) in [(FORMS[0], "wrong_reply"), (FORMS[4], "truncated")] {
        let port = serve(answers(form, BYTES - 1));
        let (ran, line) = load("http", port, "--load closed_connections --clients 1 --loops 1");
        assert_eq!((ran.status, &line["tally"]["errors"]), (Some(1), &json!({kind: 1})), "{line}");
        let error = line["first_error"].as_str().unwrap();
        assert!(error.contains("3999") && error.contains("4000"), "{error}");
        let (ran, line) =
            load("http", port, "--load closed_connections --clients 1 --loops 1 --bytes 3999 --check count");
        assert_eq!(ran.status, Some(0), "{line}");
    }
}

/// Each load counts the same replies as the server, over connections that persist where HTTP lets them.
#[test]
fn errors_that_a_status_reports_are_counted_by_status_and_keep_their_connections() {
    let server = Server::start("epoll", "http", &["--bytes", "300"]);
    let mix = "--bytes 300 --mix GET:/@1,GET:/missing@1";
    let loads = ["open --rate 500 --duration 300ms", "closed_connections --loops 50", "closed_threads --loops 50"];
    let (mut replies, mut made) = (0, 0);
    for which in loads {
        let options = format!("--load {which} --connections kept --clients 2 {mix}");
        let (ran, line) = load("http", server.port, &options);
        assert_eq!((ran.status, count(&line, "tally.connections")), (Some(1), 2), "{which}: {line}");
        let [right, errors] = ["200", "404"].map(|status| line["statuses"][status].clone());
        assert_eq!((&right["errors"], &right["replies"]), (&json!(0), &line["tally"]["requests"]), "{which}: {line}");
        assert_eq!(line["tally"]["errors"], json!({"error_status": errors["replies"]}), "{which}: {line}");
        assert!(right["latency"]["requests"].as_u64() > Some(0) && errors["latency"]["requests"].as_u64() > Some(0));
        let (ran, line) = load("http", server.port, &format!("{options} --expect 404,200"));
        assert_eq!((ran.status == Some(0) || which.starts_with("open"), &line["tally"]["errors"]), (true, &json!({})));
        replies += count(&line, "statuses.200.replies") + count(&line, "statuses.404.replies");
        replies += right["replies"].as_u64().unwrap() + errors["replies"].as_u64().unwrap();
        made += 4;
    }
    let (ran, line) = load("http", server.port, &format!("--children 2 --loops 20 {mix}"));
    assert_eq!(count(&line, "tally.requests") + count(&line, "statuses.404.errors"), 40, "{ran:?}");
    let ending = server.stop();
    ending.is_good();
    let seen = ["requests", "connections"].map(|name| ending.summary()["tally"][name].as_u64());
    assert_eq!(seen, [Some(replies + 40), Some(made + 40)]);
}

/// A server of POST requests: it answers with the length of the body, and with whether the client waited for 100 Continue.
fn posts(stream: TcpStream) {
    let mut reader = std::io::BufReader::new(stream);
    loop {
        let (mut length, mut expects, mut line) = (0, false, String::new());
        while std::io::BufRead::read_line(&mut reader, &mut line).is_ok_and(|bytes| bytes > 2) {
            if let Some(value) = line.trim().strip_prefix("Content-Length: ") {
                length = value.parse().unwrap();
            }
            expects |= line.trim() == "Expect: 100-continue";
            line.clear();
        }
        if line.is_empty() {
            return;
        }
        if expects {
            assert!(reader.buffer().is_empty(), "the body did not wait");
            reader.get_mut().write_all(b"HTTP/1.1 100 Continue\r\n\r\n").unwrap();
        }
        let mut body = vec![0; length];
        if reader.read_exact(&mut body).is_err() {
            return;
        }
        let status = if body.iter().all(|byte| *byte == b'b') { "200 OK" } else { "400 Bad Request" };
        let reply = format!("HTTP/1.1 {status}\r\nContent-Length: {length}\r\n\r\n");
        reader.get_mut().write_all(&[reply.as_bytes(), &body].concat()).unwrap();
    }
}

#[test]
fn bodies_of_any_size_arrive_at_once_or_when_the_server_is_ready() {
    let path = std::env::temp_dir().join(format!("thunderherd-body-{}", std::process::id()));
    std::fs::write(&path, vec![b'b'; 3_000_000]).unwrap();
    let port = serve(posts);
    let loops = back_ends().into_iter().map(|back_end| format!("closed_connections {back_end}"));
    for which in loops.chain(["closed_threads".to_owned()]) {
        for body in ["--body bbb".to_owned(), format!("--body-file {}", path.display())] {
            let bytes = if body.ends_with("bbb") { 3 } else { 3_000_000 };
            for expects in [false, true] {
                let mut command = engine();
                command.args(["load", "http", "--connect", &format!("127.0.0.1:{port}"), "--json", "--method", "PUT"]);
                command
                    .args(format!("--load {which} --connections kept --clients 2 --loops 5 {body}").split_whitespace());
                if expects {
                    command.args(["-H", "Expect: 100-continue"]);
                }
                let ran = run(&mut command);
                let line: Value = serde_json::from_str(ran.output.lines().last().unwrap()).unwrap();
                assert_eq!((ran.status, count(&line, "tally.requests")), (Some(0), 10), "{which} {expects}: {line}");
                assert_eq!(count(&line, "tally.connections"), 2, "{which}: {line}");
                assert!(count(&line, "tally.bytes_sent") > 10 * bytes, "{which}: {line}");
            }
        }
    }
    std::fs::remove_file(path).unwrap();
}

/// The same options as wrk(1) and wrk2: connections of all threads together, seconds, threads, requests per second.
#[test]
fn a_url_with_short_options_is_a_load() {
    let server = Server::start("epoll", "http", &["--bytes", "4KiB"]);
    for (more, kind) in [("-t 2", "closed_connections"), ("-R 1k", "open")] {
        let url = format!("http://127.0.0.1:{}/", server.port);
        let mut command = engine();
        command.args(["load", &url, "-c", "4", "-d", "200ms", "--bytes", "4KiB", "--json"]).args(more.split(' '));
        let ran = run(&mut command);
        let line: Value = serde_json::from_str(ran.output.lines().last().unwrap()).unwrap();
        assert_eq!((line["workload"].as_str(), line["load"].as_str()), (Some("http"), Some(kind)), "{ran:?}");
        let settings = &line["settings"];
        assert_eq!([&settings["path"], &settings["connections"]], ["/", "kept"]);
        assert_eq!([&settings["clients"], &settings["duration"]], [4, 200_000_000]);
        assert!(line["tally"]["requests"].as_u64() > Some(0) && line["tally"]["errors"] == json!({}), "{line}");
    }
    server.stop().is_good();
}

#[test]
fn a_workload_may_follow_the_design() {
    let ran = run(engine().args(["serve", "epoll", "http", "--dry-run", "--json"]));
    assert_eq!(ran.status, Some(0), "{ran:?}");
    let ran = run(engine().args(["serve", "epoll", "htpp", "--dry-run"]));
    refused(&ran, "arguments.invalid_value", &["htpp", "http"]);
}

/// What a server does after its first reply on a connection.
#[derive(Clone, Copy)]
enum After {
    /// It closes.
    Closes,
    /// It closes when the next request comes.
    ClosesAtARequest,
    /// It begins another reply, and closes.
    Breaks,
}

fn once(after: After) -> u16 {
    serve(move |mut stream| {
        let head = |stream: &mut TcpStream| {
            let (mut came, mut byte) = (Vec::new(), [0]);
            while !came.ends_with(b"\r\n\r\n") {
                match stream.read(&mut byte) {
                    Ok(1) => came.push(byte[0]),
                    _ => return false,
                }
            }
            true
        };
        let reply = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
        if !head(&mut stream) || stream.write_all(reply).is_err() || matches!(after, After::Closes) {
            return;
        }
        if head(&mut stream) && matches!(after, After::Breaks) {
            let _ = stream.write_all(&reply[..9]);
        }
    })
}

/// A client cannot see that a server closes just now: it sends its request again, once.
#[test]
fn a_request_that_meets_a_closing_connection_is_sent_again() {
    let loops = back_ends().into_iter().map(|back_end| format!("closed_connections {back_end}"));
    for which in loops.chain(["closed_threads".to_owned()]) {
        let options = format!("--load {which} --connections kept --clients 2 --loops 10 --path /page");
        let (ran, line) = load("http", once(After::ClosesAtARequest), &options);
        assert_eq!((ran.status, count(&line, "tally.requests")), (Some(0), 20), "{which}: {line}");
        assert_eq!((count(&line, "tally.sent_again"), count(&line, "tally.connections")), (18, 20), "{which}: {line}");
        // The client has time to see it, also on a busy machine, but perhaps not each time.
        let (ran, line) = load("http", once(After::Closes), &format!("{options} --think 100ms"));
        assert_eq!((ran.status, count(&line, "tally.requests")), (Some(0), 20), "{which}: {line}");
        let [idle, again] = ["tally.closed_idle", "tally.sent_again"].map(|name| count(&line, name));
        assert!(idle + again >= 18 && again <= 3, "{which}: {line}");
        // A client that may send one of its requests twice does so for no other.
        let mix = "--connections kept --clients 2 --loops 40 --mix GET:/page@1,POST:/page@1 --check count";
        let (ran, line) = load("http", once(After::ClosesAtARequest), &format!("--load {which} {mix}"));
        let [again, failed] = ["tally.sent_again", "tally.errors.not_repeated"].map(|name| count(&line, name));
        assert_eq!(
            (ran.status, &line["tally"]["errors"]),
            (Some(1), &json!({"not_repeated": failed})),
            "{which}: {line}"
        );
        assert!(again > 0, "{which}: {line}");
        // A byte of the reply has come: the server may have done what was requested.
        let (ran, line) = load("http", once(After::Breaks), &options);
        assert_eq!((ran.status, count(&line, "tally.sent_again")), (Some(1), 0), "{which}: {line}");
        assert!(count(&line, "tally.errors.truncated") > 0, "{which}: {line}");
    }
}

/// Its server closed a connection that had had no request, however young it is, perhaps with a 408. One that was made for its
/// request is no such connection: nothing is sent over a third one.
#[test]
fn a_request_that_meets_the_closing_of_an_unused_connection_is_sent_again() {
    let of_server = |closing: usize, farewell: &'static str| {
        let made = AtomicUsize::new(0);
        serve(move |mut stream| {
            let closes = made.fetch_add(1, SeqCst) < closing;
            // No later connection may have the number of one that was opened first.
            while made.load(SeqCst) < 3 {
                std::thread::sleep(std::time::Duration::from_millis(1));
            }
            while stream.read(&mut [0; 1024]).is_ok_and(|bytes| bytes > 0) && !closes {
                let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
            }
            let _ = stream.write_all(farewell.as_bytes());
        })
    };
    let timeout = "HTTP/1.1 408 Request Timeout\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
    // These end by count, or send what is due even if they are late. Threads open connections before a window only.
    let loops = back_ends().into_iter().flat_map(|back_end| {
        ["closed_connections --loops 20", "open --rate 200 --duration 300ms"].map(|load| format!("{load} {back_end}"))
    });
    for which in loops.chain(["closed_threads --duration 300ms".to_owned()]) {
        let options = format!("--load {which} --connections kept --clients 3 --path /page");
        // On a busy machine, a thread may have no request in a short window.
        let all_ask = |closing, farewell, more: &str| {
            let tries = [&options, &options.replace("300ms", "5s")].map(|options| format!("{options}{more}"));
            let mut ran = tries.iter().map(|options| load("http", of_server(closing, farewell), options));
            ran.find(|(_, line)| count(line, "tally.connections") == 6).expect("six connections")
        };
        for farewell in ["", timeout] {
            let (ran, line) = all_ask(3, farewell, "");
            assert_eq!(line["tally"]["errors"], json!({}), "{which}: {ran:?} {line}");
            assert_eq!(count(&line, "tally.sent_again"), 3, "{which}: {line}");
            assert_eq!(line["statuses"].as_object().unwrap().keys().collect::<Vec<_>>(), ["200"], "{which}: {line}");
        }
        let (_, line) = all_ask(usize::MAX, "", " --give-up 1");
        let errors = line["tally"]["errors"].as_object().unwrap();
        assert_eq!(errors.keys().collect::<Vec<_>>(), ["truncated"], "{which}: {line}");
        assert_eq!(count(&line, "tally.sent_again"), 3, "{which}: {line}");
        assert_eq!(line["tally"]["errors"]["truncated"], 3, "{which}: {line}");
    }
}

/// Clients that pause for the rest of the window send one request each, at its start.
#[test]
fn the_first_requests_of_a_window_are_in_its_transfer() {
    let server = Server::start("epoll", "http", &["--bytes", "4KiB"]);
    let loops = back_ends().into_iter().map(|back_end| format!("closed_connections {back_end}"));
    for which in loops.chain(["closed_connections --threads 2".to_owned(), "closed_threads".to_owned()]) {
        let options = format!("--load {which} --connections kept --clients 4 --bytes 4KiB --duration 1s --think 1h");
        let (ran, line) = load("http", server.port, &options);
        assert_eq!((ran.status, count(&line, "window.requests")), (Some(0), 4), "{which}: {line}");
        let [all, counted] = ["tally", "window.counted"].map(|part| count(&line, &format!("{part}.bytes_sent")));
        assert_eq!(all, counted, "{which}: {line}");
    }
    server.stop().is_good();
}

/// The hint names the option by which this load, with these settings, would open connections anew, if there is one.
#[test]
fn the_hint_against_broken_connections_names_an_option_that_the_load_has() {
    let made = AtomicUsize::new(0);
    let port = serve(move |mut stream| {
        let parts: &[&[u8]] = if made.fetch_add(1, SeqCst).is_multiple_of(2) {
            &[b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"]
        } else {
            &[b"HTTP/1.1 200 OK\r\n"]
        };
        let _ = stream.read(&mut [0; 1024]);
        parts.iter().for_each(|part| drop(stream.write_all(part)));
    });
    for (options, named) in [
        ("--load closed_connections --connections kept", Some("--requests-per-connection")),
        ("--load closed_threads --connections kept", Some("--connections per-request")),
        ("--load closed_connections --connections per-request", None),
        ("--load closed --children 1", None),
    ] {
        let ran = with(&format!("load http --connect 127.0.0.1:{port} --path /page --loops 20 {options}"));
        let lines = ran.output.lines().chain(ran.errors.lines());
        let hint: Vec<&str> = lines.filter(|line| line.starts_with("hint: ")).collect();
        assert_eq!((ran.status, hint.len()), (Some(1), 1), "{options}: {ran:?}");
        for option in ["--requests-per-connection", "--connections per-request"] {
            assert_eq!(hint[0].contains(option), named == Some(option), "{options}: {ran:?}");
        }
    }
}

/// Replies take longer than the window: none comes in it, and the hint names a window that would do.
#[test]
fn a_window_without_a_reply_is_not_valid() {
    let port = serve(|mut stream| {
        while stream.read(&mut [0; 1024]).is_ok_and(|bytes| bytes > 0) {
            std::thread::sleep(std::time::Duration::from_millis(200));
            let _ = stream.write_all(b"HTTP/1.1 204 No Content\r\n\r\n");
        }
    });
    for which in ["closed_connections", "closed_threads", "open --rate 100"] {
        let options = format!("--load {which} --connections kept --clients 2 --path /slow --expect 204");
        let (ran, line) = load("http", port, &format!("{options} --duration 100ms"));
        let checks = line["validity"]["checks"].as_array().unwrap();
        let none = checks.iter().find(|check| check["name"] == "no_reply").unwrap();
        assert_eq!(
            (ran.status, &none["holds"], &line["tally"]["errors"]),
            (Some(1), &json!(false), &json!({})),
            "{line}"
        );
        // Ten times a reply's time in whole seconds; on a busy machine replies take longer.
        let words = none["words"].as_str().unwrap();
        assert!((2..60).any(|seconds| words.contains(&format!(" {seconds}s"))), "{none}");
        let (_, line) = load("http", port, &format!("{options} --duration 1500ms"));
        let checks = line["validity"]["checks"].as_array();
        assert!(checks.is_none_or(|checks| checks.iter().all(|check| check["name"] != "no_reply")), "{line}");
    }
}

/// nginx and others send such heads if they are configured so.
#[test]
fn heads_with_many_fields_or_folded_lines_are_read() {
    let port = serve(|mut stream| {
        while stream.read(&mut [0; 1024]).is_ok_and(|bytes| bytes > 0) {
            let fields = "Set-Cookie: a=b;\r\n path=/\r\n".repeat(200);
            let _ = stream.write_all(format!("HTTP/1.1 200 OK\r\n{fields}Content-Length: 2\r\n\r\nok").as_bytes());
        }
    });
    let (ran, line) = load("http", port, "--load closed_connections --connections kept --loops 10 --path /page");
    assert_eq!((ran.status, count(&line, "tally.requests"), count(&line, "tally.connections")), (Some(0), 40, 4));
}

#[test]
fn replies_of_any_length_are_correct_with_check_count() {
    let server = Server::start("epoll", "http", &["--bytes", "77"]);
    for what in ["--path /", "--method HEAD", "--mix GET:/@1,HEAD:/@1"] {
        let options = format!("--load closed_connections --connections kept --loops 10 {what}");
        let (ran, line) = load("http", server.port, &format!("{options} --check count"));
        assert_eq!((ran.status, count(&line, "tally.requests")), (Some(0), 40), "{what}: {line}");
        let (ran, line) = load("http", server.port, &options);
        assert!(ran.status == Some(1) && count(&line, "tally.errors.wrong_reply") > 0, "{what}: {line}");
    }
    server.stop().is_good();
}

/// A program behind a proxy listens there.
#[test]
fn a_unix_socket_with_a_path_and_an_address_with_a_zone_are_servers() {
    let path = std::env::temp_dir().join(format!("thunderherd-socket-{}", std::process::id()));
    let listener = std::os::unix::net::UnixListener::bind(&path).unwrap();
    let heads = std::sync::Arc::new(std::sync::Mutex::new(Vec::new()));
    let seen = std::sync::Arc::clone(&heads);
    std::thread::spawn(move || {
        for mut stream in listener.incoming().map_while(Result::ok) {
            let mut buffer = [0; 1024];
            let bytes = stream.read(&mut buffer).unwrap();
            seen.lock().unwrap().push(String::from_utf8_lossy(&buffer[..bytes]).into_owned());
            stream.write_all(b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nhello").unwrap();
        }
    });
    for which in ["closed --children 1", "closed_threads --clients 1", "closed_connections --clients 1"] {
        let mut command = engine();
        command.args(["load", "http", "--json", "--connect", &format!("unix:{}", path.display()), "--path", "/page"]);
        let ran = run(command.args(format!("--loops 3 --load {which}").split(' ')));
        let line: Value = serde_json::from_str(ran.output.lines().last().unwrap()).unwrap();
        assert_eq!((ran.status, count(&line, "tally.requests")), (Some(0), 3), "{ran:?}");
        assert_eq!(line["address"], format!("unix:{}", path.display()));
    }
    // What the report begins with can be typed, and has no fragment.
    let mut url = format!("http://unix:{}:/page?a#b", path.display());
    for _ in 0..2 {
        let ran = run(engine().args(["load", &url, "--load", "closed", "--loops", "3"]));
        assert_eq!(ran.status, Some(0), "{ran:?}");
        url = ran.output.split_whitespace().next().unwrap().to_owned();
        assert_eq!(url, format!("http://unix:{}:/page?a", path.display()));
    }
    std::fs::remove_file(path).unwrap();
    assert!(heads.lock().unwrap().iter().all(|head| head.contains("\r\nHost: localhost\r\n")));
    let server = Server::launch_at("[::1]:0", &mut engine(), "epoll", "http", &[]);
    let mut command = engine();
    command.args(["load", "http", "--json", "--connect", &format!("[::1%lo]:{}", server.port), "--loops", "3"]);
    let ran = run(&mut command);
    assert_eq!(ran.status, Some(0), "{ran:?}");
    server.stop().is_good();
}

#[test]
fn our_servers_do_not_leave_a_file_behind() {
    let ran = run(engine().args(["serve", "epoll", "--listen", "unix:/tmp/thunderherd", "--dry-run", "--json"]));
    refused(&ran, "address.path_to_listen", &["unix:/tmp/thunderherd"]);
}
