//! Two network namespaces joined by a pair of interfaces: their properties, who may enter, and their complete removal.

use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::os::unix::fs::MetadataExt;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use serde_json::Value;

use crate::support::namespaces::{Namespaces, in_use, interfaces_of, refusal};
use crate::support::server::Server;
use crate::support::{ENGINE, Ran, Unprivileged, engine, eventually, process, refused, run};

/// Runs a load with these options in the clients' namespace.
fn load(command: &mut Command, namespaces: &Namespaces, connect: &str, options: &str) -> Ran {
    let command = command.args(["load", "--connect", connect, "--network-namespace", namespaces.path("client")]);
    run(command.args(["--json"]).args(options.split_whitespace()))
}

fn serve(command: &mut Command, namespaces: &Namespaces, listen: &str, options: &[&str]) -> Server {
    let enter = ["--network-namespace", namespaces.path("server")];
    Server::launch_at(listen, command, "prefork", "bytes", &[&enter, options].concat())
}

fn result(ran: &Ran) -> Value {
    serde_json::from_str(&ran.output).unwrap_or_else(|error| panic!("{error}: {ran:?}"))
}

/// Number of sockets in one state in the namespace of a process (/proc/net/sockstat).
fn sockets(process: i32, word: &str) -> u64 {
    let text = fs::read_to_string(format!("/proc/{process}/net/sockstat")).unwrap();
    let line = text.lines().find(|line| line.starts_with("TCP:")).unwrap();
    let mut words = line.split(' ').skip_while(|each| *each != word);
    words.nth(1).unwrap().parse().unwrap()
}

/// All traffic of a server and its clients passes over the pair, over IPv4 and IPv6, for every user who may run `command`.
fn a_server_and_its_clients(mut command: impl FnMut() -> Command) {
    let namespaces = Namespaces::make(&mut command(), &["--sysctls", "net.core.somaxconn,net.core.no_such_setting"]);
    let line = &namespaces.line;
    assert_eq!((&line["line"], &line["pid"]), (&"namespaces".into(), &namespaces.holder().into()), "{line}");
    for side in ["server", "client"] {
        let sysctls = &line[side]["sysctls"];
        assert_eq!(sysctls["net.ipv4.tcp_tw_reuse"], "1", "{line}");
        assert_eq!(sysctls["net.ipv4.ip_local_port_range"], "1024 65535", "{line}");
        assert!(sysctls["net.core.somaxconn"].as_str().unwrap().parse::<u32>().is_ok(), "{line}");
        assert_eq!(sysctls["net.core.no_such_setting"], Value::Null, "{line}");
        assert_eq!(line[side]["mtu"], 1500, "{line}");
    }
    for listen in [namespaces.listen(0), namespaces.listen6(0), "0.0.0.0:0".to_owned()] {
        let server = serve(&mut command(), &namespaces, &listen, &[]);
        let connect = match listen.starts_with('0') {
            true => namespaces.listen(server.port),
            false => server.address().to_owned(),
        };
        let before = sockets(namespaces.holder(), "tw");
        let ran = load(&mut command(), &namespaces, &connect, "bytes --children 2 --loops 20");
        assert_eq!((ran.status, &result(&ran)["tally"]["requests"]), (Some(0), &40.into()), "{ran:?}");
        eventually("connections that clients closed first are in TIME_WAIT in their namespace", || {
            (sockets(namespaces.holder(), "tw") == before + 40).then_some(())
        });
        let own = u64::from(!listen.starts_with('['));
        assert_eq!(sockets(server.first, "inuse"), own, "the server's namespace has only its IPv4 listener");
        assert!(!process::listens(server.port), "and this namespace has no socket of it");
        let ended = server.stop();
        ended.is_good();
        assert_eq!(ended.summary()["tally"]["requests"], 40);
    }
    assert_eq!(namespaces.release(), Some(0));
}

#[test]
fn a_server_and_its_clients_connect_in_them() {
    if refusal().is_none() {
        a_server_and_its_clients(engine);
    }
}

#[test]
fn an_ordinary_user_may_make_them() {
    let Ok(user) = Unprivileged::new().inspect_err(|reason| println!("skipped: {reason}")) else { return };
    let tried = run(user.command(None).args(["list", "--json"]));
    let catalogue: Value = serde_json::from_str(&tried.output).unwrap();
    if let Some(reason) = catalogue["namespace"]["reason"].as_str() {
        return println!("skipped: {reason}");
    }
    a_server_and_its_clients(|| user.command(None));
    // The user keeps their identity, and has privileges in the namespaces that they lack outside.
    let namespaces = Namespaces::make(&mut user.command(None), &[]);
    assert_eq!(namespaces.line["user_namespace"], true);
    let available = fs::read_to_string("/proc/sys/net/ipv4/tcp_available_congestion_control").unwrap();
    for name in available.split_whitespace() {
        let server = serve(&mut user.command(None), &namespaces, &namespaces.listen(0), &["--congestion", name]);
        let options = format!("bytes --children 1 --loops 2 --congestion {name}");
        let ran = load(&mut user.command(None), &namespaces, server.address(), &options);
        assert_eq!(result(&ran)["connection"]["congestion_control"], name, "{ran:?}");
        assert_eq!(server.stop().summary()["connection"]["congestion_control"], name);
    }
    // Another user may not enter.
    let Ok(other) = Unprivileged::new() else { return };
    let ran = load(&mut other.command(None), &namespaces, "10.0.0.1:1", "bytes");
    refused(&ran, "namespace.not_permitted", &["--network-namespace"]);
}

/// If a limit allows no namespaces, the message names that limit.
#[test]
fn the_limit_that_forbids_them_is_named() {
    let inside = "echo 0 > /proc/sys/user/max_net_namespaces && exec \"$0\" \"$@\"";
    let unshared = |arguments: &[&str]| {
        let mut command = Command::new("unshare");
        command.args(["--user", "--map-root-user", "sh", "-c", inside, ENGINE]);
        run(command.args(arguments))
    };
    let listed = unshared(&["list", "--json"]);
    if listed.status != Some(0) {
        return println!("skipped: {}", listed.errors);
    }
    let catalogue: Value = serde_json::from_str(&listed.output).unwrap();
    assert_eq!(catalogue["namespace"]["available"], false, "{catalogue}");
    assert!(catalogue["namespace"]["reason"].as_str().unwrap().contains("user.max_net_namespaces = 0"), "{catalogue}");
    refused(&unshared(&["namespace"]), "namespace.refused", &["user.max_net_namespaces = 0"]);
}

#[test]
fn settings_out_of_range_are_refused() {
    for (options, code, words) in [
        ("--mtu 67", "setting.invalid_value", &["--mtu", "'67'", "68 to 65535"][..]),
        ("--mtu 65536", "setting.invalid_value", &["--mtu", "'65536'", "68 to 65535"]),
        ("--mtu large", "setting.invalid_value", &["--mtu", "'large'"]),
        ("--rate 7999bit", "namespace.rate_too_low", &["7999bit", "8kbit", "0 for no limit"]),
        ("--rate 10", "setting.no_unit", &["10gbit or 10mbit"]),
        ("--loss 100.1%", "setting.invalid_value", &["--loss", "0 to 100%"]),
        ("--sysctls kernel.pid_max", "arguments.invalid_value", &["kernel.pid_max", "net.ipv4.tcp_wmem"]),
        ("--parent 1", "process.not_parent", &["--parent 1"]),
        ("--port 1", "arguments.unknown", &["--port"]),
    ] {
        refused(&run(engine().arg("namespace").args(options.split(' '))), code, words);
    }
}

/// If the kernel has netem, it is configured; otherwise the command is refused before anything is measured.
#[test]
fn delay_and_loss_need_netem() {
    if refusal().is_some() {
        return;
    }
    let listed = run(engine().args(["list", "--json"]));
    let catalogue: Value = serde_json::from_str(&listed.output).unwrap();
    for option in ["delay", "loss"] {
        let (flag, value) = (format!("--{option}"), if option == "loss" { "1%" } else { "10ms" });
        match catalogue["namespace"]["unavailable_settings"][option].as_str() {
            Some(reason) => {
                assert!(reason.contains("netem"), "{reason}");
                let ran = run(engine().args(["namespace", &flag, value, "--rate", "1mbit"]));
                // The reason is the message and its hint.
                let option = format!("{flag} {value}");
                let words: Vec<&str> = reason.split("; ").chain([option.as_str()]).collect();
                refused(&ran, "namespace.no_netem", &words);
            }
            None => drop(Namespaces::make(&mut engine(), &[&flag, value])),
        }
    }
    if catalogue["namespace"]["unavailable_settings"]["delay"].is_null() {
        let namespaces = Namespaces::make(&mut engine(), &["--delay", "20ms"]);
        let server = serve(&mut engine(), &namespaces, &namespaces.listen(0), &[]);
        let ran =
            load(&mut engine(), &namespaces, server.address(), "bytes --load closed_threads --clients 1 --loops 5");
        let mean = result(&ran)["latency"]["mean_ns"].as_f64().unwrap();
        assert!((40e6..80e6).contains(&mean), "a round trip of twice 20 ms took {mean} ns");
    }
}

/// Without --allow-remote, a load connects to no other address, even if it is that of an end in other namespaces.
#[test]
fn a_load_goes_to_an_end_of_its_own_pair_and_nowhere_else() {
    if refusal().is_some() {
        return;
    }
    let namespaces = Namespaces::make(&mut engine(), &[]);
    for elsewhere in ["10.0.0.3:1", "192.0.2.1:1", "[2001:db8::1]:1"] {
        let ran = load(&mut engine(), &namespaces, elsewhere, "bytes");
        refused(&ran, "address.remote", &[elsewhere, "--allow-remote"]);
    }
    let outside = |address: &str| run(engine().args(["load", "bytes", "--connect", address]));
    refused(&outside(&namespaces.listen(1)), "address.remote", &["10.0.0.1:1", "--allow-remote"]);
    // A pair made by another program, with the same address and another interface, may lead anywhere.
    let others = "ip link add name veth0 type veth peer name veth1 && ip address add 10.0.0.2/30 dev veth0 \
                  && ip link set veth0 up && exec \"$0\" load bytes --connect 10.0.0.1:1";
    let ran = run(Command::new("unshare").args(["--net", "sh", "-c", others, ENGINE]));
    if ran.errors.starts_with("thunderherd-engine") {
        refused(&ran, "address.remote", &["10.0.0.1:1", "--allow-remote"]);
    } else {
        println!("skipped in part: {}", ran.errors);
    }
    let inside = |address: String| load(&mut engine(), &namespaces, &address, "bytes --children 1 --loops 1");
    for address in [namespaces.listen(1), namespaces.listen6(1), "10.0.0.2:1".to_owned(), "127.0.0.1:1".to_owned()] {
        let ran = inside(address);
        assert_eq!((ran.status, &result(&ran)["tally"]["errors"]["refused"]), (Some(1), &1.into()), "{ran:?}");
    }
}

/// Addresses in the namespace cannot be seen from outside.
#[test]
fn an_address_of_no_end_is_refused_with_that_of_the_servers() {
    if refusal().is_some() {
        return;
    }
    let namespaces = Namespaces::make(&mut engine(), &[]);
    for (listen, offered) in [("10.0.0.9:80", "--listen: 127.0.0.1, 10.0.0.1"), ("[fd00::9]:80", "fd74:")] {
        let serve = ["serve", "prefork", "--listen", listen, "--network-namespace", namespaces.path("server")];
        refused(&run(engine().args(serve)), "listen.no_such_address", &[offered]);
    }
}

#[test]
fn a_path_that_is_no_network_namespace_is_refused() {
    let pipe = std::env::temp_dir().join(format!("thunderherd-no-namespace-{}", std::process::id()));
    nix::unistd::mkfifo(&pipe, nix::sys::stat::Mode::S_IRWXU).unwrap();
    for wrong in ["/nowhere", "/proc/self/ns/user", "/proc/self/ns", "/proc/self/status", pipe.to_str().unwrap(), ""] {
        let words = ["--network-namespace", wrong];
        let ran = run(engine().args(["serve", "prefork", "--network-namespace", wrong]));
        refused(&ran, "namespace.not_entered", &words);
        let load = ["load", "bytes", "--connect", "127.0.0.1:1", "--network-namespace", wrong];
        refused(&run(engine().args(load)), "namespace.not_entered", &words);
    }
    fs::remove_file(&pipe).unwrap();
}

/// Returns the seconds that a client takes for this many messages of this size on one connection.
fn seconds_for(namespaces: &Namespaces, workload: &str, loops: u64, bytes: u64) -> f64 {
    let enter = ["--network-namespace", namespaces.path("server")];
    let limit = bytes.to_string();
    let own: &[&str] = if workload == "bytes" { &["--limit", &limit] } else { &[] };
    let server = Server::launch_at(&namespaces.listen(0), &mut engine(), "prefork", workload, &[&enter, own].concat());
    let options = format!("{workload} --load closed_threads --connections kept --clients 1");
    let options = format!("{options} --loops {loops} --bytes {bytes}");
    let ran = load(&mut engine(), namespaces, server.address(), &options);
    assert_eq!(ran.status, Some(0), "{ran:?}");
    result(&ran)["elapsed_ns"].as_f64().unwrap() / 1e9
}

/// Messages take as long as the rate implies, in each direction, and much less without a rate.
#[test]
fn a_rate_limits_both_ends() {
    if refusal().is_some() {
        return;
    }
    const RATE: f64 = 5e6;
    const BYTES: u64 = 1_000_000;
    let least = BYTES as f64 * 8.0 / RATE;
    let limited = Namespaces::make(&mut engine(), &["--rate", "5mbit"]);
    let asked = seconds_for(&limited, "bytes", 1, BYTES);
    assert!((0.95 * least..10.0 * least).contains(&asked), "{asked} s at a rate that takes {least} s");
    // Each message returns while it is still being sent, and the next one begins with the burst of a millisecond.
    const MESSAGES: u64 = 40;
    let least_echoed = least / 2.0 - MESSAGES as f64 * 0.001;
    let echoed = seconds_for(&limited, "echo", MESSAGES, BYTES / MESSAGES / 2);
    assert!((0.9 * least_echoed..10.0 * least).contains(&echoed), "{echoed} s for what takes {least_echoed} s");
    let unlimited = Namespaces::make(&mut engine(), &[]);
    let mut fast = f64::INFINITY;
    // On a busy machine it may take as long, but not each time.
    let is_fast = (0..10).any(|_| {
        fast = seconds_for(&unlimited, "bytes", 1, BYTES);
        fast < 0.5 * least
    });
    assert!(is_fast, "{fast} s without a rate");
}

/// The MTU is in effect at both ends and in TCP's segments: without 20 bytes for each header and 12 for timestamps, but at
/// most half of the peer's first window.
#[test]
fn an_mtu_is_in_effect() {
    if refusal().is_some() {
        return;
    }
    for mtu in [68_u64, 1279, 1280, 1500, 9000, 65_535] {
        let namespaces = Namespaces::make(&mut engine(), &["--mtu", &mtu.to_string()]);
        let line = &namespaces.line;
        assert_eq!((&line["server"]["mtu"], &line["client"]["mtu"]), (&mtu.into(), &mtu.into()), "{line}");
        assert_eq!(line["without_ipv6"].is_null(), mtu >= 1280, "{line}");
        assert_eq!(line["server"]["address6"].is_null(), mtu < 1280, "{line}");
        let server = serve(&mut engine(), &namespaces, &namespaces.listen(0), &[]);
        let ran = load(&mut engine(), &namespaces, server.address(), "bytes --children 1 --loops 1 --bytes 4000");
        let segments = [result(&ran)["connection"].clone(), server.stop().summary()["connection"].clone()]
            .map(|connection| connection["segment_bytes"].as_u64().unwrap());
        // The kernel has a minimum segment size (net.ipv4.tcp_min_snd_mss).
        let whole = (mtu - 52).max(36);
        let expected = if mtu == 65_535 { 32_000..=whole } else { whole..=whole };
        assert!(segments.iter().all(|bytes| expected.contains(bytes)), "MTU {mtu}: {segments:?}");
    }
}

/// Kills the holder, the server's supervisor, the load and the holder's starter with SIGKILL during their work. Afterwards
/// the kernel has no trace of the namespaces, once no process is in them.
#[test]
fn after_a_kill_of_anybody_nothing_is_left() {
    if refusal().is_some() {
        return;
    }
    for victim in ["holder", "server", "load", "all"] {
        let namespaces = Namespaces::make(&mut engine(), &[]);
        let inodes = namespaces.inodes();
        assert_ne!(inodes[0], inodes[1]);
        let witness = nix::unistd::geteuid().is_root().then(|| File::open(namespaces.path("client")).unwrap());
        let server = serve(&mut engine(), &namespaces, &namespaces.listen(0), &["--limit", "8000000"]);
        let connect = server.address().to_owned();
        let endless = format!("load bytes --connect {connect} --bytes 8000000 --loops 1000000 --network-namespace");
        let mut load = engine();
        let load = load.args(endless.split(' ')).arg(namespaces.path("client")).stdout(Stdio::null());
        let mut load = load.stderr(Stdio::null()).spawn().unwrap();
        eventually("the load has connections", || (sockets(namespaces.holder(), "inuse") > 1).then_some(()));
        let kill = |id: i32| process::signal(id, Signal::SIGKILL);
        match victim {
            "holder" => kill(namespaces.holder()),
            "server" => kill(server.supervisor()),
            "load" => kill(load.id() as i32),
            _ => [namespaces.holder(), server.supervisor(), load.id() as i32].into_iter().for_each(kill),
        }
        // The others end as at the end of a trial, each by its own process.
        let _ = load.kill();
        load.wait().unwrap();
        drop(server);
        drop(namespaces);
        let own = std::process::id() as i32;
        eventually("nobody is in a namespace or has a descriptor of one", || {
            in_use(&inodes).iter().all(|&(id, _)| id == own && witness.is_some()).then_some(())
        });
        if let Some(witness) = witness {
            // While this test holds the clients' namespace, the pair exists as long as the server's namespace does.
            eventually(&format!("{victim} killed: the server's namespace is gone from the kernel"), || {
                let left = interfaces_of(&witness);
                left.iter().all(|interface| interface.name == "lo").then_some(())
            });
        }
    }
}

/// The holder ends at the end of its input, and by the signal for its parent's death.
#[test]
fn the_holder_ends_with_its_starter() {
    if refusal().is_some() {
        return;
    }
    for parent in ["", "--parent $$"] {
        // A background job would read /dev/null.
        let script = format!("exec 3<&0; {} namespace {parent} <&3 & wait", ENGINE);
        let mut shell = Command::new("sh");
        let mut shell = shell.args(["-c", &script]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(shell.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
        let line: Value = serde_json::from_str(&line).unwrap();
        let holder = line["pid"].as_i64().unwrap() as i32;
        let inode = fs::metadata(format!("/proc/{holder}/ns/net")).unwrap().ino();
        process::signal(shell.id() as i32, Signal::SIGKILL);
        if parent.is_empty() {
            std::thread::sleep(Duration::from_millis(50));
            assert!(process::lives(holder), "the holder's input is still open");
            drop(shell.stdin.take());
        }
        let died = Instant::now();
        eventually("the holder is gone", || (!process::lives(holder)).then_some(()));
        // The signal comes at once, but on a busy machine it waits for a CPU.
        assert!(died.elapsed() < Duration::from_secs(20));
        eventually("the namespace is gone", || in_use(&[inode]).is_empty().then_some(()));
        shell.wait().unwrap();
    }
}

/// Entering another user namespace changes credentials, which may clear the parent-death signal (prctl(2)).
#[test]
fn a_process_that_has_entered_ends_with_its_starter() {
    let Ok(user) = Unprivileged::new().inspect_err(|reason| println!("skipped: {reason}")) else { return };
    if refusal().is_some() {
        return;
    }
    let namespaces = Namespaces::make(&mut user.command(None), &[]);
    let script = format!(
        "exec 3<&0; \"$0\" serve prefork --control --listen {} --network-namespace {} --parent $$ <&3 & wait",
        namespaces.listen(0),
        namespaces.path("server")
    );
    let mut shell = user.shell(&script).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(shell.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
    let ready: Value = serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line}"));
    let supervisor = ready["supervisor_pid"].as_i64().unwrap() as i32;
    let family =
        eventually("the server has its processes", || Some(process::family(supervisor)).filter(|all| all.len() > 2));
    process::signal(shell.id() as i32, Signal::SIGKILL);
    eventually("all of the server is gone", || family.iter().all(|&id| !process::lives(id)).then_some(()));
    shell.wait().unwrap();
}
