//! Servers and loads over Unix stream sockets: everything that does not need TCP works, and the rest is refused with the
//! reason.

use std::fs;

use nix::sys::signal::Signal;
use serde_json::Value;

use crate::support::lines::{list, name};
use crate::support::server::Server;
use crate::support::{Ran, engine, eventually, process, refused, run};

fn serve(design: &str, workload: &str, options: &[&str]) -> Server {
    Server::launch_at("unix:@", &mut engine(), design, workload, options)
}

fn load(arguments: &str, connect: &str) -> Ran {
    run(engine().args(["load", "--connect", connect, "--json"]).args(arguments.split_whitespace()))
}

/// Whether the kernel knows a socket of this address in this network namespace (/proc/net/unix).
fn is_known(address: &str) -> bool {
    let path = address.strip_prefix("unix:").unwrap();
    fs::read_to_string("/proc/net/unix").unwrap().lines().any(|line| line.split(' ').next_back() == Some(path))
}

fn answered(ran: &Ran, requests: u64) {
    let line: Value = serde_json::from_str(&ran.output).unwrap_or_else(|error| panic!("{error}: {ran:?}"));
    assert_eq!((ran.status, &line["tally"]["requests"]), (Some(0), &requests.into()), "{ran:?}");
    assert_eq!(line["connection"], Value::Null, "there are no TCP options: {line}");
    assert!(line["settings"].get("nodelay").is_none(), "{line}");
}

#[test]
fn every_design_but_those_that_share_a_port_serves_every_load() {
    for design in list("designs").iter().filter(|design| design["available"] == true) {
        if let Some(reason) = design["tcp_only"].as_str() {
            let ran = run(engine().args(["serve", name(design), "--listen", "unix:@"]));
            refused(&ran, "fit.design_and_socket", &[name(design), reason]);
            continue;
        }
        let server = serve(name(design), "bytes", &["--drain", "100ms"]);
        assert_eq!(server.ready["port"], Value::Null);
        assert_eq!(server.ready["socket"]["congestion_control"], Value::Null);
        let mut requests = 0;
        for options in
            ["closed --children 3", "closed_threads --clients 3", "closed_connections --clients 3 --connections kept"]
        {
            // An iterative server serves one client until the client closes.
            let options =
                if name(design) == "iterative" { options.replace(" kept", " per_request") } else { options.into() };
            answered(&load(&format!("bytes --loops 20 --load {options}"), server.address()), 60);
            requests += 60;
        }
        let address = server.address().to_owned();
        assert!(is_known(&address));
        let ended = server.stop();
        ended.is_good();
        assert_eq!(ended.summary()["tally"]["requests"], requests, "{}", name(design));
        assert_eq!(ended.summary()["tally"]["errors"], serde_json::json!({}), "{}", name(design));
        eventually("the name is gone with its socket", || (!is_known(&address)).then_some(()));
    }
}

#[test]
fn every_primitive_but_those_of_tcp_moves_the_bytes() {
    for primitive in list("primitives").iter().filter(|primitive| primitive["available"] == true) {
        let option = if primitive["moves"] == "out" { "--primitive" } else { "--receive" };
        let way = [option, name(primitive)];
        if let Some(reason) = primitive["tcp_only"].as_str() {
            let ran = run(engine().args(["serve", "prefork", "--listen", "unix:@"]).args(way));
            refused(&ran, "fit.primitive_and_socket", &[name(primitive), reason]);
            let ran = run(engine().args(["load", "bytes", "--connect", "unix:@x"]).args(way));
            refused(&ran, "fit.primitive_and_socket", &[name(primitive), reason]);
            continue;
        }
        // Blocking sockets, and pieces larger than any buffer.
        let server = serve("prefork", "bytes", &[&way[..], &["--limit", "3000000"]].concat());
        for bytes in [1, 4096, 3_000_000] {
            let ran =
                load(&format!("bytes --children 2 --loops 3 --bytes {bytes} {option} {}", way[1]), server.address());
            answered(&ran, 6);
        }
        server.stop().is_good();
    }
}

#[test]
fn options_of_tcp_are_refused() {
    for option in ["--nodelay true", "--congestion reno"] {
        let words = [option.split(' ').next().unwrap()];
        for command in ["serve prefork --listen unix:@", "load bytes --connect unix:@x"] {
            let ran = run(engine().args(command.split(' ')).args(option.split(' ')));
            refused(&ran, "setting.needs_tcp", &words);
        }
    }
}

#[test]
fn an_address_names_a_socket() {
    let server = Server::launch_at("unix:@thunderherd/test.1", &mut engine(), "prefork", "bytes", &[]);
    assert_eq!(server.address(), "unix:@thunderherd/test.1");
    answered(&load("bytes --children 1 --loops 1", server.address()), 1);
    let again = run(engine().args(["serve", "prefork", "--listen", server.address()]));
    refused(&again, "listen.in_use", &[server.address(), "ss -lxp"]);
    for (wrong, code) in [
        ("unix:tmp/socket", "address.invalid_name"),
        ("unix:@a b", "address.invalid_name"),
        ("unix:@", "address.no_name"),
    ] {
        refused(&run(engine().args(["load", "bytes", "--connect", wrong])), code, &["--connect", wrong]);
    }
    for nowhere in ["unix:@thunderherd/nobody", "unix:/none/such"] {
        let nobody = load("bytes --children 1 --loops 1", nowhere);
        assert_eq!(nobody.status, Some(1));
        assert!(nobody.output.contains("\"refused\":1"), "{nobody:?}");
    }
}

/// Where connect(2) over TCP would succeed and leave the rest to the kernel, over a Unix socket it waits, also in event
/// loops.
#[test]
fn clients_wait_where_the_queue_is_full() {
    let server = serve("iterative", "bytes", &["--backlog", "1", "--compute", "2ms"]);
    for kind in ["closed_threads", "closed_connections"] {
        answered(&load(&format!("bytes --load {kind} --clients 12 --loops 3"), server.address()), 36);
    }
    server.stop().is_good();
}

/// Connections in the queue are accepted and served, since the kernel cannot refuse them.
#[test]
fn nothing_is_left_of_a_server_that_is_killed() {
    let server = serve("prefork", "bytes", &[]);
    let (address, family) = (server.address().to_owned(), process::family(server.supervisor()));
    process::signal(server.supervisor(), Signal::SIGKILL);
    eventually("nothing of it lives", || family.iter().all(|&id| !process::lives(id)).then_some(()));
    eventually("the name is gone", || (!is_known(&address)).then_some(()));
    drop(server);
    let again = Server::launch_at(&address, &mut engine(), "prefork", "bytes", &[]);
    again.stop().is_good();
}
