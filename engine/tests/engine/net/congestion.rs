//! Congestion control: chosen for each socket, and told as it is in force on a real connection.

use std::fs;

use serde_json::Value;

use crate::support::interactive::Interactive;
use crate::support::server::Server;
use crate::support::{Unprivileged, engine, refused, run};

fn sysctl(name: &str) -> Vec<String> {
    let text = fs::read_to_string(format!("/proc/sys/net/ipv4/{name}")).unwrap();
    text.split_whitespace().map(str::to_owned).collect()
}

/// The `connection` of the load's line and of the server's summary.
fn connections(design: &str, serve: &[&str], load: &[&str]) -> [Value; 2] {
    let server = Server::start(design, "bytes", serve);
    let mut client = engine();
    let ran = run(client.args(["load", "bytes", "--json", "--connect", server.address()]).args(load));
    let was_late = ran.errors.ends_with("the load did not measure its server, so the result is not valid\n");
    assert!(was_late || ran.status == Some(0), "{ran:?}");
    // Before it a load that ends by time prints its marks.
    let line: Value = serde_json::from_str(ran.output.lines().last().unwrap()).unwrap();
    [line["connection"].clone(), server.stop().summary()["connection"].clone()]
}

/// Without being asked for, the system's own; in every design, whatever it does with its connections.
#[test]
fn every_design_and_load_tells_what_is_in_force() {
    let default = &sysctl("tcp_congestion_control")[0];
    let listed = run(engine().args(["list", "--json"]));
    let catalogue: Value = serde_json::from_str(&listed.output).unwrap();
    let here = |kind: &str| -> Vec<&Value> {
        catalogue[kind].as_array().unwrap().iter().filter(|entry| entry["available"] != false).collect()
    };
    let loads = here("loads");
    for (design, load) in here("designs").into_iter().zip(loads.iter().cycle()) {
        // Without a number of requests they come by a schedule: too few to judge how it was kept.
        let by_schedule = load["requests"].as_array().unwrap().is_empty();
        let few: &[&str] = if by_schedule { &["--rate", "100", "--milliseconds", "100"] } else { &["--loops", "2"] };
        let [design, load] = [design, load].map(|entry| entry["name"].as_str().unwrap());
        for connection in connections(design, &[], &[&["--load", load], few].concat()) {
            assert_eq!(connection["congestion_control"], **default, "{design}, {load}: {connection}");
            assert_eq!(connection["nodelay"], true, "{design}, {load}: {connection}");
            assert!(connection["segment_bytes"].as_u64().unwrap() > 500, "{design}, {load}: {connection}");
            assert_eq!(connection["remark"].is_string(), default == "bbr", "{design}, {load}: {connection}");
        }
    }
}

#[test]
fn each_side_has_what_was_chosen_for_it() {
    let allowed = sysctl("tcp_allowed_congestion_control");
    for one in &allowed {
        for other in &allowed {
            let [client, server] = connections(
                "prefork",
                &["--congestion", one, "--nodelay", "false"],
                &["--congestion", other, "--loops", "2"],
            );
            assert_eq!(server["congestion_control"], **one);
            assert_eq!(client["congestion_control"], **other);
            assert_eq!((&server["nodelay"], &client["nodelay"]), (&false.into(), &true.into()));
        }
    }
}

#[test]
fn what_cannot_be_had_is_refused_before_anything_is_done() {
    for command in ["serve prefork", "load bytes --connect 127.0.0.1:1"] {
        let with = |name: &str| run(engine().args(command.split(' ')).args(["--congestion", name]));
        refused(&with("nosuch"), "congestion.unknown", &["nosuch", "tcp_available_congestion_control", "reno"]);
        refused(&with("a name that is long"), "setting.invalid_value", &["--congestion", "1 to 15"]);
        refused(&with(""), "setting.invalid_value", &["--congestion", "1 to 15"]);
        let allowed = sysctl("tcp_allowed_congestion_control");
        let restricted = sysctl("tcp_available_congestion_control").into_iter().find(|name| !allowed.contains(name));
        let (Some(name), Ok(user)) = (restricted, Unprivileged::new()) else {
            println!("skipped in part: whoever runs this may have all that there are");
            continue;
        };
        let ran = run(user.command(None).args(command.split(' ')).args(["--congestion", &name]));
        refused(&ran, "congestion.not_permitted", &[&name, &allowed.join(" ")]);
    }
}

/// Where it is known to slow bulk streams down, people are told.
#[test]
fn a_load_in_words_says_which_it_was() {
    let server = Server::start("prefork", "bytes", &["--congestion", "reno"]);
    for (name, warned) in [("reno", false), ("bbr", true)] {
        if !sysctl("tcp_allowed_congestion_control").contains(&name.to_owned()) {
            continue;
        }
        let ran = run(engine().args(["load", "bytes", "--connect", server.address(), "--congestion", name]));
        assert!(ran.output.contains(&format!("congestion control: {name}")), "{ran:?}");
        assert_eq!(ran.output.contains("slows bulk streams"), warned, "{ran:?}");
    }
}

/// So does a server as it ends: what it sent to clients, its own congestion control paced, not theirs.
#[test]
fn a_server_in_words_says_which_it_was() {
    let load_of = |workload: &str| match workload {
        "stream" => "stream --direction to_client --stream-bytes 100000 --loops 1",
        _ => "fields --loops 1",
    };
    for (workload, name, warned) in
        [("stream", "reno", false), ("stream", "bbr", true), ("fields", "bbr", true), ("fields", "reno", false)]
    {
        if !sysctl("tcp_allowed_congestion_control").contains(&name.to_owned()) {
            println!("skipped in part: {name} is not allowed here");
            continue;
        }
        let serve = ["thread_per_client", "--workload", workload, "--congestion", name, "--port", "0"];
        let server = Interactive::start(&serve);
        let mut load = engine();
        load.arg("load").args(load_of(workload).split(' ')).args(["--congestion", "reno"]);
        let ran = run(load.args(["--connect", &server.address.to_string()]));
        assert_eq!(ran.status, Some(0), "{ran:?}");
        let said = server.interrupt();
        let line = said.lines().find(|line| line.starts_with("congestion control: ")).expect(&said);
        assert!(line.starts_with(&format!("congestion control: {name}")), "{said}");
        assert_eq!(line.contains("slows bulk streams"), warned, "{said}");
    }
    let nobody_came = Interactive::start(&["prefork", "--port", "0"]).interrupt();
    assert!(!nobody_came.contains("congestion control"), "{nobody_came}");
}
