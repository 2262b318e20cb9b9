//! Both ends of every workload, by the same program, under every design. Where the conformance suite cannot know the bytes,
//! because they depend on the machine or on earlier requests, the clients check them, and both ends account for sums.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::symlink;
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use serde_json::Value;

use crate::support::both_ends::{self, agree};
use crate::support::client::Client;
use crate::support::lines::{designs, list, name};
use crate::support::made_processes::{self, MadeProcesses};
use crate::support::server::Server;
use crate::support::{PATIENCE, engine, engine_with_descriptors, eventually, process, protocol, run};

/// Held by the test that fills the machine with processes, and by those that read all processes, so that they do not
/// overlap.
static PROCESSES: Mutex<()> = Mutex::new(());

/// Runs a load of 4 children with 25 requests each, and checks that all replies arrive and are correct.
fn load(port: u16, workload: &str, options: &[&str]) -> Value {
    let line = both_ends::load(workload, port, &format!("--children 4 --loops 25 {}", options.join(" ")));
    assert_eq!((&line["tally"]["requests"], &line["tally"]["errors"]), (&100.into(), &serde_json::json!({})), "{line}");
    line
}

/// Every design meets every other workload, its neighbour in the list the rest. The conformance suite has all pairs.
#[test]
fn both_ends_agree_under_every_design() {
    let _alone = PROCESSES.lock();
    for (place, design) in designs().into_iter().enumerate() {
        for workload in list("workloads").into_iter().skip(place % 2).step_by(2) {
            let brief = protocol::of(name(&workload)).brief;
            let server = Server::start(&design, name(&workload), brief.server);
            let result = load(server.port, name(&workload), brief.load);
            let ending = server.stop();
            agree(&ending, &[result]);
            let tally = &ending.summary()["tally"];
            assert_eq!((&tally["connections"], &tally["requests"]), (&100.into(), &100.into()), "{design}: {workload}");
        }
    }
}

/// Every lock and both forms of busy work, with threads and with processes: each delay is in its bucket.
#[test]
fn no_bucket_loses_anything() {
    for design in ["prefork", "prethread", "fork_per_client", "thread_per_client"] {
        for lock in ["one", "per_bucket", "atomic"] {
            for busy in [["--busy", "wall_clock", "--unit", "1us"], ["--busy", "fixed_work", "--unit-iterations", "7"]]
            {
                let server =
                    Server::start(design, "bucket", &[&["--lock", lock, "--buckets", "2"], &busy[..]].concat());
                let options = ["--buckets", "2", "--delay-minimum", "0", "--delay-maximum", "20"];
                let loads =
                    ["1", "2"].map(|seed| load(server.port, "bucket", &[&options[..], &["--seed", seed]].concat()));
                assert_ne!(loads[0]["account"], loads[1]["account"]);
                let ending = server.stop();
                agree(&ending, &loads);
            }
        }
    }
}

/// The same seed makes the same requests, whatever the server.
#[test]
fn every_server_gets_the_same_delays() {
    let mut sums = Vec::new();
    for design in ["iterative", "prefork", "thread_per_client"] {
        let server = Server::start(design, "bucket", &["--unit", "1us"]);
        sums.push(load(server.port, "bucket", &[])["account"].clone());
        server.stop().is_good();
    }
    assert!(sums.iter().all(|sum| *sum == sums[0] && sum["delay_sum"].as_u64() > Some(100)), "{sums:?}");
}

/// Workers are killed at any point, even while they hold a lock. Nobody waits for them for ever, and the sums, which allow
/// for a worker that died between two entries, raise no false alarm.
#[test]
fn killed_workers_leave_consistent_sums() {
    for lock in ["one", "per_bucket", "atomic"] {
        let options =
            ["--pool", "4", "--respawn", "true", "--lock", lock, "--buckets", "1", "--keep-connections", "true"];
        let mut server = Server::start("prefork", "bucket", &[&options[..], &["--unit", "1us"]].concat());
        server.settle();
        let (port, over) = (server.port, AtomicBool::new(false));
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    while !over.load(Relaxed) {
                        let Ok(mut stream) = TcpStream::connect(("127.0.0.1", port)) else { continue };
                        stream.set_read_timeout(Some(PATIENCE)).unwrap();
                        while !over.load(Relaxed) && stream.write_all(b"1,0\n").is_ok() {
                            match stream.read(&mut [0; 32]) {
                                Ok(count) if count > 0 => {}
                                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {
                                    panic!("{lock}: no reply within {:?}", PATIENCE)
                                }
                                _ => break,
                            }
                        }
                    }
                });
            }
            for round in 0..40 {
                let before = server.snapshot()["tally"]["requests"].as_u64();
                server.snapshot_when("further requests", |snapshot| snapshot["tally"]["requests"].as_u64() > before);
                if let Some(&worker) = server.workers().get(round % 4) {
                    process::signal(worker, nix::sys::signal::Signal::SIGKILL);
                }
            }
            over.store(true, Relaxed);
        });
        let ending = server.stop();
        ending.is_good();
        let summary = ending.summary();
        assert_eq!(summary["account_fault"], Value::Null, "{summary}");
        let (sum, requests) = (&summary["account"]["delay_sum"], &summary["tally"]["requests"]);
        // Each delay is 1: every answered request is in its bucket, and everything in a bucket was answered except by killed
        // workers.
        let unanswered = sum.as_u64().unwrap() - requests.as_u64().unwrap();
        assert!(unanswered <= summary["tally"]["workers_lost"].as_u64().unwrap(), "{summary}");
    }
}

/// Real processes with names that are hard to parse. The server sees no others.
#[test]
fn names_of_real_processes_are_unchanged() {
    let folder = std::env::temp_dir().join(format!("thunderherd-tests-names-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let names = [") (x\ny", "two words"];
    let mut children = names.map(|name| {
        let program = folder.join(name);
        symlink("/bin/sh", &program).unwrap();
        let child = Command::new(&program).args(["-c", "read x"]).stdin(Stdio::piped()).spawn().unwrap();
        symlink(format!("/proc/{}", child.id()), folder.join(child.id().to_string())).unwrap();
        child
    });
    let server = Server::start("prefork", "top_processes", &["--proc", folder.to_str().unwrap(), "--form", "long"]);
    let mut client = TcpStream::connect(("127.0.0.1", server.port)).unwrap();
    client.write_all(b"Requesting top 2 processes").unwrap();
    let mut reply = String::new();
    // The design waits in the call, so the server closes.
    client.read_to_string(&mut reply).unwrap();
    for (child, name) in children.iter_mut().zip(names) {
        let line = format!("PID={}, Name={name}, User Time=", child.id());
        assert!(reply.contains(&line), "{line:?} is not in {reply:?}");
        child.kill().unwrap();
        child.wait().unwrap();
    }
    let ended = run(engine()
        .args(["load", "top_processes", "--form", "long", "--loops", "1", "--children", "1"])
        .args(["--connect", &format!("127.0.0.1:{}", server.port)]));
    assert_eq!(ended.status, Some(0), "the server replies even if there is no process: {ended:?}");
    server.stop().is_good();
    std::fs::remove_dir_all(folder).unwrap();
}

/// Some thousand processes, some of which start and end during the read.
#[test]
fn a_machine_full_of_processes_is_read() {
    const CROWD: usize = 2000;
    let _alone = PROCESSES.lock();
    let script = format!(
        "i=0; while [ $i -lt {CROWD} ]; do sleep 600 & i=$((i+1)); done; echo made; while :; do /bin/true; done"
    );
    let mut command = Command::new("sh");
    std::os::unix::process::CommandExt::process_group(&mut command, 0);
    let mut crowd = command.args(["-c", &script]).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    struct Group(i32);
    impl Drop for Group {
        fn drop(&mut self) {
            process::kill_group(self.0);
        }
    }
    let group = Group(crowd.id() as i32);
    let mut made = [0; 5];
    crowd.stdout.take().unwrap().read_exact(&mut made).unwrap();
    let sleeping = process::of_group(group.0).len();
    if sleeping < CROWD / 2 {
        println!("skipped in part: only {sleeping} processes could be made here (ulimit -u)");
    }
    for design in ["prefork", "prethread"] {
        let server = Server::start(design, "top_processes", &[]);
        // Each request reads all of them.
        both_ends::load("top_processes", server.port, "--children 4 --loops 5");
        server.stop().is_good();
    }
    drop(group);
    crowd.wait().unwrap();
}

/// The server closes if its design or the setting says so, otherwise the client.
#[test]
fn the_right_end_closes_a_connection_of_top_processes() {
    let waits = |design: &str| list("designs").iter().find(|entry| name(entry) == design).unwrap()["waits"].clone();
    let made = MadeProcesses::make();
    for design in designs() {
        for (closes, by_server) in [("by_design", waits(&design) == "in_the_call"), ("server", true), ("client", false)]
        {
            let options = ["--proc", &made_processes::path(), "--closes", closes];
            let server = Server::start(&design, "top_processes", &options);
            let mut client = Client::connect(server.port);
            let exchange = (protocol::of("top_processes").exchanges)().swap_remove(0);
            if by_server {
                client.send(&exchange.request);
                client.receive_to_end(&exchange.reply);
            } else {
                client.exchange(&exchange);
                client.exchange(&exchange);
                client.half_close();
                client.receive_to_end(b"");
            }
            drop(client);
            let ending = server.stop();
            assert_eq!(ending.errors, "", "{design} --closes {closes}");
            ending.is_good();
        }
    }
    drop(made);
}

/// Descriptors run out while a request needs one: that connection is closed and tallied, and the server continues.
#[test]
fn a_request_that_finds_no_descriptor_is_tallied() {
    let mut command = engine_with_descriptors(24);
    let options = ["--closes", "client"];
    let mut server = Server::launch(&mut command, "thread_per_client", "top_processes", &options);
    let mut clients: Vec<Client> = (0..40).map(|_| Client::connect(server.port)).collect();
    server.snapshot_when("a shortage", |snapshot| snapshot["tally"]["errors"]["resource_limit"].as_u64() > Some(0));
    clients[0].send(b"Requesting top 2 processes");
    clients[0].receive_to_end(b"");
    drop(clients);
    eventually("the server answers again", || {
        let mut stream = TcpStream::connect(("127.0.0.1", server.port)).ok()?;
        stream.write_all(b"Requesting top 2 processes").ok()?;
        stream.shutdown(std::net::Shutdown::Write).ok()?;
        let mut reply = String::new();
        stream.read_to_string(&mut reply).ok()?;
        reply.starts_with("Process 1: PID=").then_some(())
    });
    server.stop().is_good();
}
