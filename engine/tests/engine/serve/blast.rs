//! The workload `blast`: its source's client and server implemented again over plain sockets, the reported reads compared
//! with traced system calls, and peers that break off or report wrong numbers.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Barrier};
use std::time::Duration;

use serde_json::{Value, json};

use crate::support::both_ends::{command, connect, load, serve};
use crate::support::client::Client;
use crate::support::lines::{designs, list, number};
use crate::support::server::Server;
use crate::support::table::{Table, quantity};
use crate::support::{ENGINE, protocol, run};

/// The client of css503-p4: sends the count, writes every buffer separately, and receives the number of reads.
fn original_blast(port: u16, iterations: usize, buffers: usize) -> u64 {
    let mut stream = connect(port);
    stream.write_all(format!("{iterations}\n").as_bytes()).unwrap();
    for _ in 0..iterations {
        for _ in 0..buffers {
            stream.write_all(&vec![b'x'; 1500 / buffers]).unwrap();
        }
    }
    let mut reply = String::new();
    stream.read_to_string(&mut reply).unwrap();
    reply.strip_suffix('\n').expect("a line").parse().unwrap()
}

#[test]
fn every_design_reports_its_reads_to_the_sources_client_of_blast() {
    for design in designs() {
        let server = Server::start(&design, "blast", &[]);
        for buffers in [15, 1] {
            let reads = original_blast(server.port, 200, buffers);
            let bounds = if design == "io_uring" { 1..=300_000 } else { 200..=300_000 };
            assert!(bounds.contains(&reads), "{design}: {reads} reads of 200 iterations");
        }
        server.stop().is_good();
    }
}

/// The source's server: reads byte by byte to the newline, then the 1500 bytes of each iteration.
fn original_blast_server(stream: TcpStream) -> Option<()> {
    let mut stream = stream;
    let (mut line, mut byte) = (Vec::new(), [0]);
    while stream.read(&mut byte).ok()? == 1 && byte[0] != b'\n' {
        line.push(byte[0]);
    }
    let iterations: usize = String::from_utf8(line).ok()?.parse().ok()?;
    let (mut reads, mut buffer) = (0, [0; 1500]);
    for _ in 0..iterations {
        let mut read = 0;
        while read < 1500 {
            let bytes = stream.read(&mut buffer[read..]).ok()?;
            assert!(bytes > 0, "the client ended early");
            (read, reads) = (read + bytes, reads + 1);
        }
    }
    assert!(stream.set_nonblocking(true).is_ok() && stream.read(&mut byte).is_err(), "more came than was announced");
    stream.set_nonblocking(false).ok()?;
    stream.write_all(format!("{reads}\n").as_bytes()).ok()
}

#[test]
fn the_sources_server_of_blast_works_with_every_send_primitive() {
    let port = serve(|stream| {
        let _ = original_blast_server(stream);
    });
    let ways = list("primitives").into_iter().filter(|entry| entry["moves"] == "out" && entry["available"] == true);
    for primitive in ways.map(|entry| entry["name"].as_str().unwrap().to_owned()) {
        let iterations = 100;
        for (buffers, size) in [(15, 100), (1, 1500), (100, 15)] {
            for load in ["closed --children 2", "closed_threads --clients 2", "closed_connections --clients 2"] {
                let options = format!(
                    "--load {load} --loops 2 --repetitions {iterations} --buffers {buffers} --buffer-size {size} \
                     --primitive {primitive} --json"
                );
                let ran = run(&mut command("blast", port, &options));
                if ran.errors.contains("[fit.") && ran.status == Some(2) {
                    // A hole of the matrix, which has a reason.
                    continue;
                }
                assert_eq!((ran.status, ran.errors.as_str()), (Some(0), ""), "{options}: {}", ran.output);
                let line: Value = serde_json::from_str(ran.output.lines().last().unwrap()).unwrap();
                let (tally, figures) = (&line["tally"], &line["figures"]);
                let payload = 4 * iterations * 1500;
                assert_eq!(tally["bytes_sent"], payload + 4 * 4, "{options}: {line}");
                assert_eq!((&figures["requests"], &figures["payload_bytes"]), (&4.into(), &payload.into()), "{line}");
                assert!(number(&figures["server_reads"]) >= 4 * iterations, "{line}");
                let times = ["sending_ns", "round_trip_ns"].map(|name| number(&figures[name]));
                assert!(0 < times[0] && times[0] < times[1] && times[1] < 4 * number(&line["elapsed_ns"]), "{line}");
            }
        }
    }
}

/// One call for each piece, for each iteration, or for as many as can be gathered. The count has a separate call.
#[test]
fn send_primitives_make_the_expected_number_of_calls() {
    let server = Server::start("thread_per_client", "blast", &[]);
    for (options, calls) in [
        ("--primitive write_each --buffers 15 --buffer-size 100", 15 * 400),
        ("--primitive writev --buffers 15 --buffer-size 100", 400),
        ("--primitive write_once --buffers 15 --buffer-size 100", 400),
        ("--primitive write_once --buffers 1500 --buffer-size 1", 400),
        // 43 iterations are put into the outbox at a time.
        ("--primitive write_once --messages-at-once 1024", 400u64.div_ceil(43)),
        ("--primitive sendmsg --messages-at-once 4", (400 / 43) * 11 + (400u64 % 43).div_ceil(4)),
    ] {
        let line =
            load("blast", server.port, &format!("--load closed --children 1 --loops 1 --repetitions 400 {options}"));
        let seen = number(&line["tally"]["send_calls"]) - 1;
        // A socket without room takes a part.
        assert!((calls..calls + calls / 10 + 10).contains(&seen), "{options}: {seen} calls, not {calls}");
    }
    server.stop().is_good();
}

/// Returns a folder for traces of this name; `None`, with a printed reason, if nothing can be traced.
fn traces(name: &str) -> Option<PathBuf> {
    // strace(1) may be installed but not allowed to trace.
    let why = match Command::new("strace").args(["-o", "/dev/null", "true"]).output() {
        Ok(ran) if ran.status.success() => {
            return Some(std::env::temp_dir().join(format!("thunderherd-tests-{name}-{}", std::process::id())));
        }
        Ok(ran) => format!("strace may not trace: {}", String::from_utf8_lossy(&ran.stderr)),
        Err(error) => format!("strace cannot be run: {error} (apt-get install strace)"),
    };
    println!("skipped: {why}");
    None
}

/// Starts a server of blast whose reads are traced into an existing folder.
fn traced(folder: &Path, design: &str, receive: &str) -> Server {
    let mut strace = Command::new("strace");
    // The server is traced, not its parent, so that signals and the end are as usual. Each thread has a file.
    strace.args(["-D", "-ff", "-e", "trace=recvfrom,readv,getsockopt", "-o"]).arg(folder.join("trace")).arg(ENGINE);
    Server::launch(&mut strace, design, "blast", &["--receive", receive])
}

/// strace(1) sees each thread's system calls. The reported number includes all from the count's newline on. A request for
/// mappable pages (recv_zerocopy) is a read: these data have none, so other calls receive all of their bytes.
#[test]
fn reported_reads_are_the_traced_system_calls() {
    let Some(folder) = traces("reads") else { return };
    for design in ["thread_per_client", "epoll", "epoll_edge", "poll", "tokio", "epoll_offload"] {
        for receive in
            ["recv", "recv_exact", "readv", "recv_truncate", "recv_zerocopy", "busy_poll", "busy_poll_truncate"]
        {
            std::fs::create_dir_all(&folder).unwrap();
            let design_waits = design == "thread_per_client";
            if receive.starts_with("busy_poll") && !design_waits {
                continue;
            }
            let server = traced(&folder, design, receive);
            let options = "--load closed --children 1 --loops 1 --repetitions 60 --primitive write_each";
            let told = number(&load("blast", server.port, options)["account"]["server_reads"]);
            let by_hand = original_blast(server.port, 60, 30);
            let ending = server.stop();
            ending.is_good();
            assert_eq!(number(&ending.summary()["account"]["server_reads"]), told + by_hand, "{design}, {receive}");
            assert_eq!(reads_traced(&folder, 60, 2), told + by_hand, "{design}, {receive}");
            std::fs::remove_dir_all(&folder).unwrap();
        }
    }
}

/// A busy-polling server makes a system call each time. All of them are reads, as strace(1) sees them, and as the source's
/// server with a non-blocking socket would count them.
#[test]
fn all_reads_of_a_busy_polling_server_are_reported() {
    let Some(folder) = traces("spins") else { return };
    std::fs::create_dir_all(&folder).unwrap();
    let server = traced(&folder, "thread_per_client", "busy_poll");
    let slowly = || {
        let mut stream = connect(server.port);
        stream.write_all(b"60\n").unwrap();
        for _ in 0..2 {
            // Less than the time it busy-polls, and not so long that it could read everything meanwhile.
            std::thread::sleep(Duration::from_millis(5));
            stream.write_all(&[b'x'; 30 * 1500]).unwrap();
        }
        let mut reply = String::new();
        stream.read_to_string(&mut reply).unwrap();
        reply.trim_end().parse::<u64>().unwrap()
    };
    // On a busy machine the server may look only long after the bytes have arrived, but not each time.
    let mut each = vec![slowly()];
    while each.len() < 50 && each.iter().all(|told| *told < 60 + 10) {
        each.push(slowly());
    }
    let ending = server.stop();
    ending.is_good();
    assert!(each.iter().any(|told| *told >= 60 + 10), "{each:?} reads: it has not spun");
    let told: u64 = each.iter().sum();
    assert_eq!(reads_traced(&folder, 60, each.len()), told);
    assert!(number(&ending.summary()["tally"]["receive_calls"]) > told, "the line is read, too");
    std::fs::remove_dir_all(&folder).unwrap();
}

/// Returns the calls in all files of a trace that received iterations, or nothing while some were due. Expects this many
/// requests, each a line and this many iterations.
fn reads_traced(folder: &Path, iterations: usize, expected: usize) -> u64 {
    let (mut counted, mut requests) = (0, 0);
    for entry in std::fs::read_dir(folder).unwrap() {
        let file = BufReader::new(std::fs::File::open(entry.unwrap().path()).unwrap());
        // By connection: bytes left of the line, and of the iterations.
        let (mut line_left, mut data_left) = (0, 0);
        for call in file.lines().map(Result::unwrap) {
            let asks_for_bytes = |call: &str| call.starts_with("re") || call.contains("TCP_ZEROCOPY_RECEIVE");
            let Some((call, result)) = call.rsplit_once(" = ").filter(|(call, _)| asks_for_bytes(call)) else {
                continue;
            };
            let bytes: usize = result.split(' ').next().unwrap().parse().unwrap_or(0);
            if line_left == 0 && data_left == 0 {
                if bytes == 0 {
                    // The end of a connection, or no data yet.
                    continue;
                }
                assert!(call.contains('6') && bytes == 1, "the line is read byte by byte: {call} = {result}");
                (line_left, data_left, requests) = ("60\n".len() - 1, iterations * 1500, requests + 1);
            } else if line_left > 0 {
                line_left -= bytes;
            } else {
                data_left -= bytes;
                counted += 1;
            }
        }
        assert_eq!((line_left, data_left), (0, 0), "a request was not read to its end");
    }
    assert_eq!(requests, expected);
    counted
}

#[test]
fn clients_of_blast_that_break_off_are_tallied_and_harm_nobody() {
    for design in ["thread_per_client", "epoll", "io_uring", "prefork"] {
        let mut server = Server::start(design, "blast", &["--keep-connections", "true"]);
        let cases: [(&[u8], &str); 6] = [
            (b"10\n", "truncated"),
            (b"1", "truncated"),
            (b"0\n", "bad_request"),
            (b"1000001\n", "bad_request"),
            (b"letters\n", "bad_request"),
            (&[b'1'; 100], "bad_request"),
        ];
        let mut expected = BTreeMap::new();
        for (bytes, kind) in cases {
            let mut client = Client::connect(server.port);
            client.send_in_vain(&[bytes, &[b'x'; 700][..if bytes == b"10\n" { 700 } else { 0 }]].concat());
            if kind == "truncated" {
                client.half_close();
            }
            client.receive_until_cut(b"");
            *expected.entry(kind).or_insert(0) += 1;
        }
        // Bytes beyond the announced number are parsed as the next count, which is invalid.
        let mut client = Client::connect(server.port);
        client.send(&[b"1\n", &[b'x'; 1501][..], b"\n"].concat());
        client.receive_until_cut(b"1\n");
        *expected.entry("bad_request").or_insert(0) += 1;
        server.snapshot_when("the errors", |snapshot| snapshot["tally"]["errors"] == json!(expected));
        load("blast", server.port, "--load closed --children 1 --loops 2 --repetitions 10");
        server.stop().is_good();
    }
}

#[test]
fn servers_of_blast_that_break_off_or_lie_are_detected() {
    let options = "--load closed_threads --clients 1 --loops 1 --timeout 20s --json";
    for (reply, kinds, word) in [
        (&b""[..], &["truncated", "reset", "broken_pipe"][..], ""),
        (b"0\n", &["wrong_reply"], "in 0 reads"),
        (b"many\n", &["wrong_reply"], "not a number"),
        (b"4000000000\n", &["wrong_reply"], "in 4000000000 reads"),
        (b"20000\nmore", &["surplus"], "4 more bytes"),
    ] {
        let port = serve(move |mut stream| {
            if reply.is_empty() {
                // Ends in the middle of an iteration.
                let _ = stream.read_exact(&mut [0; 10_000]);
                return;
            }
            let _ = stream.read_exact(&mut vec![0; "20000\n".len() + 20_000 * 1500]);
            let _ = stream.write_all(reply);
            let _ = stream.read(&mut [0]);
        });
        let ran = run(&mut command("blast", port, options));
        assert_eq!(ran.status, Some(1), "{ran:?}");
        let line: Value = serde_json::from_str(&ran.output).unwrap();
        let errors = line["tally"]["errors"].as_object().unwrap();
        assert!(errors.len() == 1 && errors.keys().all(|kind| kinds.contains(&kind.as_str())), "{line}");
        assert!(line["first_error"].as_str().unwrap().contains(word), "{word}: {line}");
        assert_eq!(line["figures"]["requests"], 0, "{line}");
    }
}

#[test]
fn both_forms_of_the_count_work_and_must_agree() {
    for form in ["little_endian", "big_endian"] {
        let server = Server::start("epoll", "blast", &["--count-form", form]);
        let options = format!("--load closed --children 1 --loops 1 --repetitions 50 --count-form {form}");
        let line = load("blast", server.port, &options);
        let mut raw = connect(server.port);
        let one: u32 = 1;
        raw.write_all(&if form == "big_endian" { one.to_be_bytes() } else { one.to_le_bytes() }).unwrap();
        raw.write_all(&[7; 1500]).unwrap();
        let mut reply = Vec::new();
        raw.read_to_end(&mut reply).unwrap();
        let reads: [u8; 4] = reply.try_into().unwrap();
        let reads = if form == "big_endian" { u32::from_be_bytes(reads) } else { u32::from_le_bytes(reads) };
        let ending = server.stop();
        let told = number(&line["account"]["server_reads"]) + u64::from(reads);
        assert_eq!(number(&ending.summary()["account"]["server_reads"]), told);
        ending.is_good();
    }
}

#[test]
fn the_line_of_the_sources_client_is_printed_as_it_was() {
    let server = Server::start("thread_per_client", "blast", &[]);
    for (primitive, test) in [("write_each", "1"), ("writev", "2"), ("write_once", "3"), ("sendmsg", "sendmsg")] {
        let options =
            format!("--load closed --children 1 --loops 1 --repetitions 100 --primitive {primitive} --original");
        let ran = run(&mut command("blast", server.port, &options));
        assert_eq!((ran.status, ran.errors.as_str()), (Some(0), ""));
        let words: Vec<&str> = ran.output.split_whitespace().collect();
        let [head, number, "time", "=", time, "usec,", "#reads", "=", reads, "throughput", rate, "Gbps"] = words[..]
        else {
            panic!("{ran:?}")
        };
        assert_eq!((head, number), ("Test", format!("({test}):").as_str()));
        let [time, reads, rate]: [f64; 3] = [time, reads.trim_end_matches(','), rate].map(|text| text.parse().unwrap());
        assert!(time > 0.0 && reads >= 100.0, "{ran:?}");
        let implied = 100.0 * 1500.0 * 8.0 / (time * 1000.0);
        assert!((rate - implied).abs() < 0.001 + implied / 10.0, "{rate} is not {implied}: {ran:?}");
    }
    // Its throughput always comes with the copied share, which the source does not print.
    let options = "--load closed --children 1 --loops 1 --repetitions 100 --primitive zerocopy --original";
    let ran = run(&mut command("blast", server.port, options));
    assert_eq!((ran.status, ran.output.lines().count(), ran.errors.lines().count()), (Some(0), 1, 1), "{ran:?}");
    assert!(ran.errors.contains("(100.0 %)"), "{ran:?}");
    server.stop().is_good();
}

/// Takes one request, and answers it some time after those of all others have arrived.
fn answer_late(mut stream: TcpStream, all_are_here: &Barrier) -> Option<()> {
    let (mut line, mut reader) = (String::new(), BufReader::new(stream.try_clone().ok()?));
    reader.read_line(&mut line).ok()?;
    let count: u64 = line.trim_end().parse().ok()?;
    std::io::copy(&mut reader.take(1500 * count), &mut std::io::sink()).ok()?;
    all_are_here.wait();
    std::thread::sleep(LATE);
    stream.write_all(line.as_bytes()).ok()
}

const LATE: Duration = Duration::from_millis(200);

/// Returns the duration of a load, and the minimum and maximum duration of its payload by its rate, in seconds.
fn times_in_words(words: &str) -> [f64; 3] {
    let table = Table::of(words);
    let seconds = quantity(table.row("Requests")[2].strip_prefix("in ").expect(words)) / 1e9;
    let [bytes, rate] = table.row("Payload")[..] else { panic!("{words}") };
    let payload = quantity(bytes) * 8.0 / quantity(rate);
    // Each figure has three digits.
    [seconds * 1.005, payload * 0.99, payload * 1.01]
}

/// The requests of one client follow each other, and time between them is not part of its rate, as in the source. Four
/// clients have requests in flight at once, whose payload takes no longer than the load.
#[test]
fn the_rate_is_the_payload_by_its_time() {
    for (clients, loops) in [(1, 3), (4, 1)] {
        let all_are_here = Arc::new(Barrier::new(clients));
        let port = serve(move |stream| {
            let _ = answer_late(stream, &all_are_here);
        });
        let options = format!("--load closed --children {clients} --loops {loops} --repetitions 4000 --think 100ms");
        let line = load("blast", port, &options);
        let figure = |name: &str| number(&line["figures"][name]);
        let (elapsed, late) = (number(&line["elapsed_ns"]), LATE.as_nanos() as u64);
        let between = figure("payload_ended_ns") - figure("payload_began_ns");
        assert_eq!(figure("payload_ns"), figure("round_trip_ns"), "{line}");
        assert!(figure("payload_ns") >= (clients * loops) as u64 * late, "{line}");
        assert!((late..elapsed).contains(&between), "{line}");
        assert!(figure("payload_began_ns") > number(&line["started_monotonic_ns"]), "{line}");

        let ran = run(&mut command("blast", port, &options));
        let [elapsed, least, most] = times_in_words(&ran.output);
        let late = loops as f64 * LATE.as_secs_f64();
        assert!(most > late && least < elapsed, "{clients}: {}", ran.output);
        // One client waits twice.
        assert!(clients > 1 || least < elapsed - 0.2, "{}", ran.output);
    }
}

/// The server closes a connection that announces more, without a reason.
#[test]
fn a_limit_of_the_server_is_named_if_no_reply_arrives() {
    let server = Server::start("thread_per_client", "blast", &["--repetition-limit", "1000"]);
    let one = "--load closed --children 1 --loops 1 --repetitions";
    let ran = run(&mut command("blast", server.port, &format!("{one} 2000")));
    let hint = Table::of(&ran.output).line("hint").expect("a hint");
    assert!(ran.status == Some(1) && hint.contains("--repetition-limit 2000 "), "{ran:?}");
    let ran = run(&mut command("blast", server.port, &format!("{one} 1000")));
    assert!(ran.status == Some(0) && !ran.output.contains("--repetition-limit"), "{ran:?}");
}

#[test]
fn pieces_that_do_not_fit_are_refused_before_anything_is_sent() {
    let ran = run(&mut command("blast", 1, "--buffers 15 --buffer-size 99"));
    assert!(ran.status == Some(2) && ran.errors.contains("[blast.not_an_iteration]"), "{ran:?}");
    assert!(ran.errors.contains("1485") && ran.errors.contains("--buffers 15 --buffer-size 100"), "{ran:?}");
}

/// The conformance suite accepts any number of reads within bounds, which are wide for a busy-polling server.
#[test]
fn a_miscount_is_not_accepted() {
    let alike =
        |seen: u32, right: u32, spins| (protocol::of("blast").alike)(&seen.to_be_bytes(), &right.to_be_bytes(), spins);
    for (seen, right) in [(1, 1), (1500, 1), (1, 2), (3000, 2)] {
        assert!(alike(seen, right, false) && alike(seen, right, true), "{seen} reads of {right} iterations");
    }
    for (seen, right) in [(1501, 1), (10_000, 1), (3001, 2)] {
        assert!(!alike(seen, right, false) && alike(seen, right, true), "{seen} reads of {right} iterations");
    }
    for seen in [0, 1 << 24] {
        assert!(!alike(seen, 1, false) && !alike(seen, 1, true), "{seen} reads");
    }
}
