//! Widely used clients by other authors: curl, wrk and ab, each against every design. If a client is not installed, its test
//! prints that and passes.

use std::process::{Command, Stdio};

use nix::sys::signal::Signal;

use crate::support::lines::designs;
use crate::support::protocol::bytes;
use crate::support::server::Server;
use crate::support::{Ran, process, run};

/// Whether a client is installed; prints it if not.
fn installed(client: &str, package: &str) -> bool {
    let there = Command::new(client).arg("-V").output().is_ok();
    if !there {
        println!("skipped: {client} is not installed (apt-get install {package})");
    }
    there
}

/// Runs a test with every design, four at a time.
fn with_every_design(test: impl Fn(&str, &mut Server) + Sync) {
    let (designs, test) = (designs(), &test);
    for some in designs.chunks(4) {
        std::thread::scope(|scope| {
            for design in some {
                scope.spawn(move || {
                    let mut server = Server::start(design, "http", &[]);
                    server.settle();
                    test(design, &mut server);
                    let ending = server.stop();
                    assert_eq!(ending.status.code(), Some(0), "{design}: {}", ending.errors);
                });
            }
        });
    }
}

fn curl(server: &Server, arguments: &[&str], path: &str) -> Ran {
    let address = format!("http://127.0.0.1:{}{path}", server.port);
    let fixed = ["--silent", "--show-error", "--noproxy", "*", "--max-time", "10"];
    run(Command::new("curl").args(fixed).args(arguments).arg(address))
}

#[test]
fn curl_gets_all_resources() {
    if !installed("curl", "curl") {
        return;
    }
    with_every_design(|design, server| {
        let status = ["--output", "/dev/null", "--write-out", "%{http_code} %{size_download} %{num_connects}\n"];
        let says = |arguments: &[&str], path: &str, right: &str| {
            let ran = curl(server, &[&status[..], arguments].concat(), path);
            assert_eq!((ran.status, ran.output.trim()), (Some(0), right), "{design} {arguments:?}: {ran:?}");
        };
        says(&[], "/", "200 4000 1");
        says(&["--http1.0"], "/", "200 4000 1");
        says(&["--http1.0", "--header", "Connection: keep-alive"], "/", "200 4000 1");
        says(&["--header", "Connection: close"], "/", "200 4000 1");
        says(&["--head"], "/", "200 0 1");
        says(&[], "/nothing", "404 14 1");
        says(&["--request", "DELETE"], "/", "405 23 1");
        says(&["--data", "a=b"], "/", "405 23 1");
        says(&["--header", "Host:"], "/", "400 16 1");
        says(&["--header", &format!("X: {}", "x".repeat(9000))], "/", "431 36 1");
        // Without an option for its output, curl prints the body to standard output: compared byte by byte, on a connection
        // that serves two requests.
        let body = curl(server, &["--output", "-"], "/[1-2]");
        assert_eq!(body.output, "404 Not Found\n404 Not Found\n", "{design}: {body:?}");
        let body = Command::new("curl")
            .args(["--silent", "--noproxy", "*", &format!("http://127.0.0.1:{}/", server.port)])
            .output()
            .unwrap();
        assert!(body.stdout == bytes(4000).reply, "{design}: {} bytes", body.stdout.len());
        let twice = format!("http://127.0.0.1:{}/", server.port);
        let two = ["--output", "/dev/null", "--write-out", "%{num_connects}", &twice];
        let ran = curl(server, &two, "/");
        assert!(ran.output.ends_with('0') && ran.status == Some(0), "{design}: no second connection: {ran:?}");
    });
}

/// Runs wrk until the server has answered 500 requests. An interrupt ends wrk as its time limit would.
fn wrk(server: &mut Server, options: &[&str]) -> Ran {
    const ANSWERED: u64 = 500;
    let address = format!("http://127.0.0.1:{}/", server.port);
    let mut command = Command::new("wrk");
    command.args(["-t1", "-d60s"]).args(options).arg(address);
    let running =
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it is there");
    server.snapshot_when("requests of wrk", |snapshot| {
        snapshot["tally"]["requests"].as_u64().expect("a count") >= ANSWERED
    });
    process::signal(running.id() as i32, Signal::SIGINT);
    let output = running.wait_with_output().expect("a child can be waited for");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    Ran { status: output.status.code(), output: text(&output.stdout), errors: text(&output.stderr) }
}

#[test]
fn wrk_meets_no_error() {
    if !installed("wrk", "wrk") {
        return;
    }
    with_every_design(|design, server| {
        let ran = wrk(server, &["-c4"]);
        let requests: u64 = ran
            .output
            .split_whitespace()
            .zip(ran.output.split_whitespace().skip(1))
            .find_map(|(number, word)| (word == "requests").then(|| number.parse().ok()).flatten())
            .unwrap_or(0);
        let good = ran.status == Some(0) && requests > 0;
        let errors = ran.output.contains("Socket errors") || ran.output.contains("Non-2xx");
        assert!(good && !errors, "{design}: {ran:?}");
    });
}

#[test]
fn wrk_pipelines() {
    if !installed("wrk", "wrk") {
        return;
    }
    let script = std::env::temp_dir().join(format!("thunderherd-tests-pipeline-{}.lua", std::process::id()));
    let lua = "init = function(args) local r = {} for i = 1, 16 do r[i] = wrk.format() end all = table.concat(r) end\n\
               request = function() return all end\n";
    std::fs::write(&script, lua).unwrap();
    with_every_design(|design, server| {
        let ran = wrk(server, &["-c2", "-s", script.to_str().expect("a text")]);
        let errors = ran.output.contains("Socket errors") || ran.output.contains("Non-2xx");
        assert!(ran.status == Some(0) && !errors && ran.output.contains("requests in"), "{design}: {ran:?}");
    });
    std::fs::remove_file(script).unwrap();
}

#[test]
fn ab_fails_no_request() {
    if !installed("ab", "apache2-utils") {
        return;
    }
    with_every_design(|design, server| {
        // One persistent connection: with several, ab waits for a reply on each. If the server serves one connection at a
        // time, the other replies arrive only after the first is closed.
        for keep in [&["-k", "-c", "1"][..], &["-c", "4"]] {
            let address = format!("http://127.0.0.1:{}/", server.port);
            let ran = run(Command::new("ab").args(["-q", "-n", "200"]).args(keep).arg(&address));
            let says = |name: &str, right: &str| {
                let line = ran.output.lines().find_map(|line| line.strip_prefix(name));
                assert_eq!(line.map(str::trim), Some(right), "{design} {keep:?}: {name} {ran:?}");
            };
            says("Complete requests:", "200");
            says("Failed requests:", "0");
            says("HTML transferred:", "800000 bytes");
            if keep.contains(&"-k") {
                says("Keep-Alive requests:", "200");
            }
        }
    });
}
