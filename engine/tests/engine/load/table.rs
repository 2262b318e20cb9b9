//! The table at the end of a load, and the line on a terminal while it runs.

use std::io::{Read, Write};
use std::time::{Duration, Instant};

use crate::support::both_ends::{command, serve};
use crate::support::interactive::run_on_a_terminal;
use crate::support::server::Server;
use crate::support::table::{Table, quantity};
use crate::support::{Ran, engine, run, unserved};

/// Checks that the lines of a table fit into a terminal. Messages and hints go on.
fn fits(ran: &Ran) {
    let is_free = |line: &&str| !line.starts_with("first error: ") && !line.starts_with("hint: ");
    for line in ran.output.lines().filter(is_free) {
        assert!(line.chars().count() <= 80, "{line}");
        assert!(line.chars().all(|each| each.is_ascii() || each == 'µ'), "{line}");
    }
}

#[test]
fn a_load_that_ends_by_count_shows_its_requests_bytes_and_connections() {
    let server = Server::start("prefork", "bytes", &["--pool", "2"]);
    let ran = run(&mut command("bytes", server.port, "--children 2 --loops 600 --bytes 4000"));
    assert_eq!((ran.status, ran.errors.as_str()), (Some(0), ""), "{ran:?}");
    fits(&ran);
    let table = Table::of(&ran.output);
    let [requests, rate, duration] = table.row("Requests")[..] else { panic!("{ran:?}") };
    assert_eq!(requests, "1,200 of 1,200");
    let seconds = quantity(duration.strip_prefix("in ").unwrap()) / 1e9;
    assert!((quantity(rate) * seconds / 1200.0 - 1.0).abs() < 0.01, "{ran:?}");
    let [received, per_second, _] = table.row("Transfer")[..] else { panic!("{ran:?}") };
    assert_eq!(quantity(received), 4.8e6);
    assert!((quantity(per_second) / quantity(rate) / 4000.0 - 1.0).abs() < 0.02, "{ran:?}");
    // Four digits and a newline.
    assert_eq!(quantity(table.below("Transfer")[0]), 6e3, "{ran:?}");
    assert_eq!((table.row("Connections")[0], &table.row("Errors")[..]), ("1,200", &["0"][..]), "{ran:?}");
    assert!(table.is_valid() && table.find("Latency").is_none(), "{ran:?}");
    assert!(ran.output.lines().next().unwrap().contains(&format!("127.0.0.1:{}  ", server.port)), "{ran:?}");
    server.stop().is_good();
}

/// Requests in a window of which the 99th percentile is known. A busy machine needs longer for them.
const ENOUGH: f64 = 1000.0;

#[test]
fn a_closed_load_shows_its_latency_and_a_name_its_address() {
    let server = Server::start("epoll", "http", &[]);
    let options = "--load closed_connections --clients 4 --connections kept --mix GET:/@9,HEAD:/@1 --duration";
    let lasting = |milliseconds: u64| {
        let mut named = engine();
        named.args(["load", "http", "--connect", &format!("localhost:{}", server.port)]);
        let ran = run(named.args(options.split(' ')).arg(format!("{milliseconds}ms")));
        assert_eq!(ran.status, Some(0), "{ran:?}");
        let requests = quantity(Table::of(&ran.output).row("Requests")[0]);
        (requests >= ENOUGH).then_some((ran, requests))
    };
    let (ran, requests) = [300, 2000, 20_000].into_iter().find_map(lasting).expect("enough requests for percentiles");
    fits(&ran);
    let heading = ran.output.lines().next().unwrap();
    assert!(heading.contains(&format!("127.0.0.1:{})", server.port)), "{heading}");
    let table = Table::of(&ran.output);
    let by_kind = ["GET:/", "HEAD:/"].map(|kind| {
        let replies = table.row(kind)[5].split(' ').next().unwrap();
        quantity(replies)
    });
    assert!(by_kind.iter().all(|kind| *kind > 0.0) && by_kind.iter().sum::<f64>() == requests, "{ran:?}");
    let latency = table.percentiles("Latency");
    let names: Vec<&str> = latency.iter().map(|(name, _)| *name).collect();
    assert_eq!(names, ["p50", "p90", "p99", "p99.9", "max"]);
    let known: Vec<f64> = latency.iter().filter_map(|(_, value)| *value).collect();
    assert!(known.len() >= 3 && known.is_sorted(), "{ran:?}");
    // Connections were opened before the window, and are in the heading.
    assert!(table.find("Connections").is_none() && table.find("Service").is_none(), "{ran:?}");
    server.stop().is_good();
}

#[test]
fn an_open_load_shows_its_rate_beside_the_requested_one() {
    let server = Server::start("epoll", "bytes", &[]);
    let options = "--load open --rate 1000 --arrivals constant --clients 16 --duration 500ms";
    let ran = run(&mut command("bytes", server.port, options));
    fits(&ran);
    let table = Table::of(&ran.output);
    let [requests, rate, requested] = table.row("Requests")[..] else { panic!("{ran:?}") };
    let requested = quantity(requested.split(' ').find(|word| word.ends_with("/s")).unwrap());
    assert_eq!(requested, 1000.0, "{ran:?}");
    assert!((quantity(rate) - 2.0 * quantity(requests)).abs() < 1.0, "{ran:?}");
    assert_eq!(table.row("Due")[0], "500", "{ran:?}");
    let [latency, service] = ["Latency", "Service"].map(|label| table.percentiles(label)[0].1.unwrap());
    assert!(latency >= service, "{ran:?}");
    assert!(table.percentiles("Lag")[0].1.is_some(), "{ran:?}");
    // Whether the machine let it keep its schedule, the verdict agrees with the exit status.
    assert_eq!(table.is_valid(), ran.status == Some(0), "{ran:?}");
    server.stop().is_good();
}

/// A server that takes 100 ms for a reply cannot keep up with 200 requests per second over four connections.
#[test]
fn an_overloaded_server_is_told_from_a_slow_load() {
    let port = serve(|mut stream| {
        let mut request = [0; 64];
        while stream.read(&mut request).is_ok_and(|bytes| bytes > 0) {
            std::thread::sleep(Duration::from_millis(100));
            if stream.write_all(&[0]).is_err() {
                return;
            }
        }
    });
    let options = "--load open --rate 200 --clients 4 --connections kept --bytes 1 --duration 1s";
    let ran = run(&mut command("bytes", port, options));
    assert_eq!(ran.status, Some(1), "{ran:?}");
    let table = Table::of(&ran.output);
    assert!(!table.is_valid() && table.row("Errors") == ["0"], "{ran:?}");
    let failed = table.line("failed checks").expect("failed checks");
    assert!(failed.contains("achieved_rate ") && !failed.contains("generator_cpu"), "{ran:?}");
    assert!(table.line("hint").expect("a hint").contains("--rate"), "{ran:?}");
    let [_, rate, _] = table.row("Requests")[..] else { panic!("{ran:?}") };
    assert!(quantity(rate) < 60.0, "{ran:?}");
}

/// A closed load has no rate to keep, so a failed check is no failure of it: the server stops in the middle of the window.
#[test]
fn a_failed_check_of_a_closed_load_is_shown_although_it_succeeds() {
    // If both ends are late, on a busy machine, the server may stop outside the window; then all times are longer.
    let stopped_in_the_window = |times: u64| {
        let port = serve(move |mut stream| {
            let (mut request, mut began, mut has_slept) = ([0; 64], None, false);
            while stream.read(&mut request).is_ok_and(|bytes| bytes > 0) {
                let began = *began.get_or_insert_with(Instant::now);
                if began.elapsed() > Duration::from_millis(200 * times) && !std::mem::replace(&mut has_slept, true) {
                    std::thread::sleep(Duration::from_millis(800 * times));
                }
                if stream.write_all(&[0]).is_err() {
                    return;
                }
            }
        });
        let options = "--load closed_connections --clients 2 --connections kept --bytes 1 --duration";
        let ran = run(&mut command("bytes", port, &format!("{options} {}ms", 600 * times)));
        assert_eq!(ran.status, Some(0), "{ran:?}");
        Table::of(&ran.output).line("failed checks").is_some_and(|checks| checks.contains("little ")).then_some(ran)
    };
    let ran = [1, 3, 9].into_iter().find_map(stopped_in_the_window).expect("a failed check of a closed load");
    fits(&ran);
    let table = Table::of(&ran.output);
    assert!(!table.is_valid() && table.line("hint").is_some() && table.row("Errors") == ["0"], "{ran:?}");
}

#[test]
fn errors_are_shown_by_kind_with_the_first_one_and_a_hint() {
    let (port, _held) = unserved::nobody_listens();
    let ran = run(&mut command("bytes", port, "--load closed_connections --clients 3"));
    assert_eq!(ran.status, Some(1), "{ran:?}");
    fits(&ran);
    let table = Table::of(&ran.output);
    assert_eq!(table.row("Errors"), ["9", "9 refused"], "{ran:?}");
    assert_eq!(table.row("Requests")[..2], ["0 of 1,500", "-"], "{ran:?}");
    assert!(!table.is_valid() && table.line("hint").is_some(), "{ran:?}");
    assert!(table.line("first error").unwrap().contains(&format!("127.0.0.1:{port}")), "{ran:?}");
}

#[test]
fn a_stream_shows_bits_per_second_instead_of_requests() {
    let server = Server::start("thread_per_client", "stream", &[]);
    let ran = run(&mut command("stream", server.port, "--load closed_threads --clients 1 --duration 300ms"));
    assert_eq!(ran.status, Some(0), "{ran:?}");
    fits(&ran);
    let table = Table::of(&ran.output);
    let [bytes, rate, _] = table.row("Transfer")[..] else { panic!("{ran:?}") };
    assert!(rate.ends_with("bit/s") && table.find("Requests").is_none(), "{ran:?}");
    assert!((quantity(rate) / (quantity(bytes) * 8.0 / 0.3) - 1.0).abs() < 0.1, "{ran:?}");
    server.stop().is_good();
}

/// The line is erased before the table, so nothing of it stays on the terminal.
#[test]
fn a_load_on_a_terminal_shows_a_line_while_it_runs_and_no_other_load_does() {
    const ERASE: &str = "\r\u{1b}[K";
    let server = Server::start("epoll", "bytes", &[]);
    for load in
        ["closed_threads --clients 1 --connections kept --duration 2s", "closed --children 1 --loops 30 --think 30ms"]
    {
        let options = format!("--load {load}");
        let began = Instant::now();
        let watched = run_on_a_terminal(command("bytes", server.port, &options).env("TERM", "xterm"));
        assert_eq!(watched.status, Some(0), "{watched:?}");
        let most = 1 + began.elapsed().as_millis() as usize / 250;
        let states: Vec<&str> = watched.errors.split(ERASE).collect();
        let [nothing, shown @ .., rest] = &states[..] else { panic!("{watched:?}") };
        assert_eq!((*nothing, *rest), ("", ""), "{watched:?}");
        // It appears four times a second, unless the machine is busy.
        assert!((1..=most).contains(&shown.len()), "{most}: {watched:?}");
        assert!(shown.iter().all(|state| state.contains("/s ") && !state.contains('\n')), "{watched:?}");
        // Of the last second, if it had enough replies for the median.
        let median = |state: &&str| state.split("  ").find_map(|part| part.strip_prefix("p50 ")).unwrap().to_owned();
        let medians: Vec<String> = shown.iter().map(median).filter(|median| median != "-").collect();
        assert!(medians.iter().all(|median| (1e3..1e9).contains(&quantity(median))), "{watched:?}");
        assert!(!medians.is_empty() || load.contains("--think"), "{watched:?}");
        let piped = run(&mut command("bytes", server.port, &options));
        assert_eq!((piped.status, piped.errors.as_str()), (Some(0), ""));
        // The verdict below the table may differ, on a busy machine.
        let is_verdict = |line: &str| ["Valid", "Caution", "Not valid"].iter().any(|word| line.starts_with(word));
        let labels = |ran: &Ran| -> Vec<String> {
            let label = |line: &str| line.split("  ").next().unwrap_or_default().to_owned();
            ran.output.lines().take_while(|line| !is_verdict(line)).map(label).collect()
        };
        assert_eq!(labels(&watched), labels(&piped));
    }
    // Programs read these outputs, and a dumb terminal cannot erase.
    for (option, terminal) in [("--json", "xterm"), ("--show", "xterm"), ("--original", "dumb")] {
        let mut load = command("fields", server.port, "--load closed_threads --clients 1 --duration 400ms");
        let silent = run_on_a_terminal(load.arg(option).env("TERM", terminal));
        assert!(!silent.errors.contains(ERASE), "{option}: {silent:?}");
    }
    server.stop().is_good();
}
