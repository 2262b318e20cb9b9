//! Requests that are not all alike: sizes from a distribution, mixes, and recorded traffic, over real sockets.

use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Instant;

use serde_json::{Value, json};

use crate::support::event_loops::{back_ends, count, field, load, serve};
use crate::support::server::Server;
use crate::support::unserved::Untouched;
use crate::support::{engine, run};

/// A separate folder of a test, removed on drop.
pub struct Folder(pub PathBuf);

impl Folder {
    pub fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("thunderherd-traffic-{}-{name}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Folder(path)
    }

    pub fn write(&self, name: &str, text: &str) -> String {
        let path = self.0.join(name);
        std::fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Every load, each with 120 requests by a different number of clients.
fn loads() -> Vec<String> {
    let mut loads: Vec<String> = ["closed --children 3 --loops 40", "closed --children 1 --loops 120"]
        .into_iter()
        .chain(["closed_threads --clients 4 --loops 30", "closed_threads --clients 2 --loops 60 --connections kept"])
        .map(|load| format!("--load {load}"))
        .collect();
    for back_end in back_ends() {
        for rest in ["--clients 6 --loops 20", "--clients 4 --loops 30 --connections kept --pipeline 5 --threads 2"] {
            loads.push(format!("--load closed_connections {rest} {back_end}"));
        }
    }
    loads
}

#[test]
fn every_load_and_design_gets_the_same_sizes() {
    let (workloads, designs) =
        (["bytes", "echo", "http"], ["epoll", "io_uring", "prefork", "thread_per_client", "tokio"]);
    for (workload, options) in workloads.into_iter().zip([&[][..], &[], &["--largest-resource", "16384"]]) {
        let mut means = Vec::new();
        for design in designs {
            let server = Server::start(design, workload, options);
            for load_options in loads() {
                // A design with a process for each of a few clients serves no more persistent connections.
                if design == "prefork" && load_options.contains("kept") {
                    continue;
                }
                let sizes = format!("{load_options} --sizes lognormal:2000,1 --request-seed 5");
                let (ran, line) = load(workload, server.port, &sizes);
                assert_eq!(
                    (ran.status, &line["tally"]["requests"]),
                    (Some(0), &120.into()),
                    "{design} {sizes}: {ran:?}"
                );
                assert_eq!(line["settings"].get("bytes"), None, "{line}");
                let traffic = &line["traffic"];
                assert_eq!((&traffic["seed"], &traffic["requests"]), (&5.into(), &120.into()), "{traffic}");
                assert_eq!(traffic["sizes"]["distribution"], "lognormal:2000,1");
                assert_eq!(traffic["sizes"]["largest"], 16384);
                means.push(traffic["sizes"]["mean_bytes"].as_f64().unwrap());
            }
            server.stop().is_good();
        }
        assert!(means.iter().all(|mean| *mean == means[0]) && (1000.0..8000.0).contains(&means[0]), "{means:?}");
    }
}

#[test]
fn the_drawn_sizes_are_sent() {
    let server = Server::start("epoll", "bytes", &[]);
    for options in ["--load closed_connections --clients 1 --loops 50", "--load closed --children 1 --loops 50"] {
        let (_, line) = load("bytes", server.port, &format!("{options} --sizes weighted:100@3,7@1"));
        let received = count(&line, "tally.bytes_received") as f64;
        assert_eq!(received / 50.0, field(&line, "traffic.sizes.mean_bytes").as_f64().unwrap(), "{line}");
        assert!(received > 50.0 * 7.0 && received < 50.0 * 100.0);
    }
    let (_, line) = load("bytes", server.port, "--load closed --children 1 --loops 5 --sizes fixed:9");
    assert_eq!(line["traffic"]["requests"], Value::Null);
    assert_eq!((count(&line, "tally.bytes_received"), &line["traffic"]["sizes"]["mean_bytes"]), (45, &json!(9.0)));
    let (_, line) = load("bytes", server.port, "--load closed --children 1 --loops 5 --bytes 9");
    assert_eq!((&line["traffic"], &line["settings"]["sizes"]), (&Value::Null, &json!("none")));
}

#[test]
fn kinds_are_counted_and_timed_separately_and_each_is_checked() {
    let server = Server::start("epoll", "http", &["--largest-resource", "1000"]);
    let mix = "--mix GET:/@6,HEAD:/@2,GET=404:/missing@1,GET+77:/bytes/77@1";
    let kept = "--connections kept --pipeline 4";
    for (options, is_timed) in [
        ("--load closed --children 2 --loops 500".to_owned(), false),
        ("--load closed_threads --clients 2 --loops 500 --connections kept".to_owned(), true),
        (format!("--load closed_connections --clients 2 --loops 500 {kept} --threads 2"), true),
        (format!("--load open --rate 2000 --arrivals constant --clients 2 {kept} --duration 500ms"), true),
    ] {
        let (_, line) = load("http", server.port, &format!("{options} {mix}"));
        assert_eq!((&line["tally"]["errors"], &line["tally"]["requests"]), (&json!({}), &1000.into()), "{line}");
        let kinds = line["traffic"]["kinds"].as_array().unwrap();
        // In an open loop, a reply after the window's end does not count there, but is timed.
        let is_open = options.contains("open");
        let requests = |kind: &Value| count(kind, if is_open { "latency.requests" } else { "requests" });
        assert_eq!(kinds.iter().map(requests).sum::<u64>(), 1000, "{kinds:?}");
        for (kind, (text, weight)) in
            kinds.iter().zip([("GET:/", 6), ("HEAD:/", 2), ("GET=404:/missing", 1), ("GET+77:/bytes/77", 1)])
        {
            assert_eq!((&kind["request"], &kind["weight"]), (&json!(text), &json!(weight)));
            let share = weight as f64 / 10.0;
            let off = (requests(kind) as f64 - 1000.0 * share).abs();
            assert!(off < 4.0 * (1000.0 * share * (1.0 - share)).sqrt(), "{kind}");
            assert_eq!(kind["latency"].is_object(), is_timed, "{kind}");
            if is_timed {
                assert_eq!(count(kind, "latency.requests"), requests(kind), "{kind}");
            }
        }
        assert_eq!(line["settings"].get("path"), None);
    }
    for (mix, kind, words) in [
        ("GET=404:/@1", "error_status", "status is 200"),
        ("GET:/missing@1", "error_status", "status is 404"),
        ("HEAD+5:/@1", "wrong_reply", "expected 5"),
    ] {
        let (ran, line) = load("http", server.port, &format!("--load closed --children 1 --loops 1 --mix {mix}"));
        assert_eq!((ran.status, &line["tally"]["errors"]), (Some(1), &json!({kind: 1})), "{line}");
        assert!(line["first_error"].as_str().unwrap().contains(words), "{line}");
    }
    let sized = "--load closed_connections --clients 2 --loops 50 --sizes uniform:1..1000 --mix GET:/bytes/{bytes}@1,GET+4000:/@1";
    let (ran, line) = load("http", server.port, sized);
    assert_eq!((ran.status, &line["traffic"]["requests"]), (Some(0), &100.into()), "{ran:?}");
    let mean = field(&line, "traffic.sizes.mean_bytes").as_f64().unwrap();
    assert!((350.0..650.0).contains(&mean), "the mean is that of the requests with a size: {mean}");
    server.stop().is_good();
}

/// Times and sizes of a server's requests.
type Asked = Arc<Mutex<Vec<(Instant, u64)>>>;

/// Starts a server that records the time and size of each request.
fn noting() -> (u16, Asked) {
    let seen = Asked::default();
    let noted = Arc::clone(&seen);
    let port = serve(move |mut stream| {
        stream.set_nodelay(true).unwrap();
        let mut lines = BufReader::new(stream.try_clone().unwrap());
        let mut line = String::new();
        while lines.read_line(&mut line).is_ok_and(|bytes| bytes > 0) {
            let size: u64 = line.trim().parse().unwrap();
            noted.lock().unwrap().push((Instant::now(), size));
            if stream.write_all(&vec![0; size as usize]).is_err() {
                return;
            }
            line.clear();
        }
    });
    (port, seen)
}

#[test]
fn a_recording_is_replayed_gap_by_gap_and_size_by_size() {
    let folder = Folder::new("replay");
    let rows = [(20_000, 10), (40_000, 20), (10_000, 30), (70_000, 40), (30_000, 50)];
    let text: String = rows.iter().map(|(gap, bytes)| format!("{gap},{bytes}\n")).collect();
    let file = folder.write("recording.csv", &format!("gap_microseconds,bytes\n{text}"));
    for (threads, back_end) in back_ends().into_iter().flat_map(|back_end| [(1, back_end), (2, back_end)]) {
        for (rate, factor) in [("", 1.0_f64), ("--rate 59", 1e6_f64 / 59.0 / 34_000.0)] {
            let mut attempts = 0;
            let line = loop {
                let (port, seen) = noting();
                let options = format!(
                    "--load open --arrivals recorded --recording {file} --sizes file:{file} --check count --clients 4 \
                     --connections kept --threads {threads} --duration 850ms {rate} {back_end}"
                );
                let (ran, line) = load("bytes", port, &options);
                assert_eq!(line["tally"]["errors"], json!({}), "{ran:?}");
                let seen = seen.lock().unwrap();
                // Requests due in the window: five rounds of 170 ms less a gap at the end, or ten of half that length.
                let due = (850_000.0 / factor / 170_000.0 * 5.0).floor() as u64;
                assert!(count(&line, "scheduled.due").abs_diff(due) <= 1, "{due} {line}");
                let sizes: Vec<u64> = seen.iter().map(|(_, size)| *size).collect();
                let expected: Vec<u64> = rows.iter().cycle().map(|(_, size)| *size).take(sizes.len()).collect();
                let elsewhere = sizes.iter().zip(&expected).filter(|(seen, expected)| seen != expected).count();
                assert_eq!(
                    sorted(sizes.clone()),
                    sorted(expected),
                    "each arrival has its own size, however late it is"
                );
                // An eighth of all gaps are within 3 ms of the recording, half of all arrivals within 40 ms of the earliest, and
                // most arrive in order. A busy machine may delay too many, so several attempts are made.
                let (mut off, mut late) = (Vec::new(), vec![0.0]);
                for place in 1..seen.len() {
                    let gap = seen[place].0.duration_since(seen[place - 1].0).as_secs_f64() * 1e6;
                    let more = gap - f64::from(rows[place % 5].0) * factor;
                    off.push(more.abs());
                    late.push(late[place - 1] + more);
                }
                off.sort_by(f64::total_cmp);
                late.sort_by(f64::total_cmp);
                let in_time = off[off.len() / 8] < 3000.0 && late[late.len() / 2] - late[0] < 40_000.0;
                if elsewhere <= sizes.len() / 4 && in_time {
                    break line;
                }
                attempts += 1;
                assert!(attempts < 15, "{threads} threads: {sizes:?} {off:?} {late:?}");
            };
            let asked = field(&line, "scheduled.offered_per_second").as_f64().unwrap();
            assert!((asked - 1e6 / 34_000.0 / factor).abs() < 1e-6, "{asked}");
            assert_eq!(line["settings"].get("rate").is_some(), !rate.is_empty(), "{line}");
            assert_eq!(line["traffic"]["sizes"]["distribution"], format!("file:{file}"));
            if threads == 1 {
                let mean = field(&line, "scheduled.gap_due_mean_ns").as_f64().unwrap();
                assert!((mean / (34e6 * factor) - 1.0).abs() < 0.1, "{line}");
            }
        }
    }
}

/// The check of the gaps uses the due times of a recording: bursts are no fault of the load.
#[test]
fn gaps_are_compared_with_the_recording() {
    let folder = Folder::new("bursts");
    let rows = "0\n0\n0\n40000\n".repeat(10);
    let file = folder.write("bursts.csv", &format!("gap_microseconds\n{rows}"));
    let server = Server::start("epoll", "bytes", &[]);
    let options =
        format!("--load open --arrivals recorded --recording {file} --clients 8 --connections kept --duration 2s");
    let mut line = Value::Null;
    // On a busy machine requests may be late, but not each time.
    let holds = (0..10).any(|_| {
        line = load("bytes", server.port, &options).1;
        assert_eq!(line["tally"]["errors"], json!({}));
        // Every fourth gap is 40 ms, and the others are 0: the root of 3.
        let variation = field(&line, "scheduled.gap_due_variation").as_f64().unwrap();
        assert!((variation - 3.0_f64.sqrt()).abs() < 0.05, "{line}");
        let checks = line["validity"]["checks"].as_array().unwrap();
        ["gap_mean", "gap_variation"].iter().all(|name| {
            let check = checks.iter().find(|check| check["name"] == *name).unwrap();
            check["holds"] != json!(false)
        })
    });
    assert!(holds, "{line}");
    server.stop().is_good();
}

/// Requests due at the same moment are sent one after another, so each is late by the sends before it.
#[test]
fn the_calls_of_a_burst_make_its_later_requests_late() {
    let folder = Folder::new("burst");
    let burst = "0\n".repeat(63);
    let file = folder.write("burst.csv", &format!("gap_microseconds\n20000\n{burst}"));
    let server = Server::start("epoll", "echo", &[]);
    let options = format!(
        "--load open --arrivals recorded --recording {file} --bytes 16384 --check count --clients 1 --connections kept \
         --pipeline 64 --wait spin --duration 500ms"
    );
    let mut line = Value::Null;
    // On a busy machine most requests may wait for a reply; their lag does not include the calls before them.
    let shows = (0..20).any(|_| {
        line = load("echo", server.port, &options).1;
        assert_eq!(line["tally"]["errors"], json!({}));
        // 32 times 16 KiB are copied before half of them are sent, at no less than 1 us each.
        count(&line, "scheduled.send_lag.p50_ns") >= 32_000
    });
    assert!(shows, "{line}");
    server.stop().is_good();
}

fn sorted(mut sizes: Vec<u64>) -> Vec<u64> {
    sizes.sort_unstable();
    sizes
}

#[test]
fn sizes_go_with_arrivals_of_a_schedule() {
    let seen = |threads: u32, seed: u64| {
        let (port, seen) = noting();
        let options = format!(
            "--load open --arrivals constant --rate 100 --sizes uniform:1..9999 --request-seed {seed} --check count \
             --clients 4 --connections kept --threads {threads} --duration 300ms"
        );
        let (ran, line) = load("bytes", port, &options);
        assert_eq!(line["tally"]["errors"], json!({}), "{ran:?}");
        let seen = seen.lock().unwrap();
        // Neighbours may be swapped if a thread of the server is delayed: each connection has its own thread.
        sorted(seen.iter().map(|(_, size)| *size).collect::<Vec<u64>>())
    };
    let first = seen(1, 1);
    assert_eq!((first.len(), &first), (30, &seen(2, 1)));
    assert_ne!(first, seen(1, 2));
}

#[test]
fn sizes_beyond_a_servers_limit_cause_a_remark_beforehand() {
    let server = Server::start("epoll", "bytes", &["--limit", "100000"]);
    let common = "--load closed --children 1 --loops 20";
    let (ran, _) = load("bytes", server.port, &format!("{common} --sizes uniform:1..100000"));
    assert_eq!(ran.status, Some(0), "{ran:?}");
    assert!(ran.errors.contains("--limit 100000"), "{ran:?}");
    let (ran, _) = load("bytes", server.port, &format!("{common} --sizes uniform:1..16384"));
    assert_eq!((ran.status, ran.errors.as_str()), (Some(0), ""));
    let small = Server::start("epoll", "bytes", &["--limit", "10"]);
    let mut command = engine();
    command.args(["load", "bytes", "--connect", &format!("127.0.0.1:{}", small.port)]);
    let ran = run(command.args(format!("{common} --sizes fixed:11").split(' ')));
    assert!(ran.output.contains("--limit 11 "), "{ran:?}");
    let (ran, _) = load("http", small.port, &format!("{common} --sizes uniform:1..9 --timeout 300ms"));
    assert!(ran.errors.contains("--largest-resource 9 "), "{ran:?}");
}

#[test]
fn impossible_settings_are_refused_before_the_first_connection() {
    let folder = Folder::new("refused");
    let bad = folder.write("bad.csv", "gap_microseconds,bytes\n10,64\n-10,64\n");
    let sizes = folder.write("sizes.csv", "bytes\n64\n");
    let server = Untouched::new();
    let refused = |workload: &str, options: &str, code: &str, words: &[&str]| {
        let options: Vec<&str> = options.split_whitespace().collect();
        for only_read in [&[][..], &["--dry-run"]] {
            server.refuses(code, workload, &[only_read, &options].concat(), words);
        }
    };
    let good = format!("--dry-run --load open --duration 10ms --sizes file:{sizes}");
    let ran = server.load("bytes", &good.split(' ').collect::<Vec<_>>());
    assert_eq!((ran.status, ran.output.as_str(), ran.errors.as_str()), (Some(0), "accepted: load bytes\n", ""));
    server.is_untouched("a load that is only read");
    refused("bytes", "--sizes 4000", "sizes.invalid", &["--sizes", "'4000'", "fixed:BYTES", "uniform:LEAST..MOST"]);
    refused("bytes", "--bytes 4000 --sizes fixed:4000", "workload.contradiction", &["--sizes", "--bytes"]);
    refused("http", "--path /x --mix GET:/@1", "workload.contradiction", &["--mix", "--path"]);
    refused("echo", "--sizes uniform:1..65537", "sizes.invalid", &["'65537'", "1 to 64KiB"]);
    refused(
        "bytes",
        &format!("--sizes file:{}", folder.0.join("none.csv").display()),
        "recording.unreadable",
        &["none.csv", "No such file"],
    );
    refused("fields", "--sizes fixed:1", "setting.unknown", &["--sizes", "load bytes"]);
    refused("http", "--mix post:/@1", "http.invalid_mix", &["--mix", "'post'", "METHOD:PATH@WEIGHT"]);
    refused(
        "bytes",
        "--sizes uniform:1..9 --primitive vmsplice",
        "fit.primitive_and_new_messages",
        &["--sizes", "--primitive vmsplice"],
    );
    refused("bytes", "--request-seed x", "setting.invalid_value", &["--request-seed", "'x'"]);
    let open = "--load open --duration 10ms";
    refused(
        "bytes",
        &format!("{open} --arrivals recorded"),
        "schedule.no_recording",
        &["--arrivals recorded", "--recording PATH"],
    );
    refused(
        "bytes",
        &format!("{open} --recording {bad}"),
        "schedule.not_recorded",
        &["--recording", "--arrivals recorded"],
    );
    let recorded = format!("{open} --arrivals recorded --recording");
    let dense = folder.write("dense.csv", "gap_microseconds\n0.09\n");
    refused(
        "bytes",
        &format!("{recorded} {dense}"),
        "schedule.rate_too_high",
        &["--recording", "11111111", "10000000", "--rate"],
    );
    refused(
        "bytes",
        &format!("{recorded} {bad}"),
        "recording.invalid_line",
        &["bad.csv", "line 3", "gap_microseconds", "'-10'"],
    );
    refused("bytes", &format!("{recorded} {sizes}"), "recording.invalid_line", &["sizes.csv", "gap_microseconds"]);
    refused("bytes", &format!("{recorded} /dev/zero"), "recording.unreadable", &["/dev/zero"]);
}
