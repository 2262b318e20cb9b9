//! Congestion control: chosen for each socket, and reported as in effect on a real connection.

use std::fs;

use serde_json::Value;

use crate::support::interactive::Interactive;
use crate::support::server::Server;
use crate::support::table::Table;
use crate::support::{Unprivileged, engine, refused, run};

fn sysctl(name: &str) -> Vec<String> {
    let text = fs::read_to_string(format!("/proc/sys/net/ipv4/{name}")).unwrap();
    text.split_whitespace().map(str::to_owned).collect()
}

/// Returns the `connection` of the load's line and of the server's summary.
fn connections(design: &str, serve: &[&str], load: &[&str]) -> [Value; 2] {
    let server = Server::start(design, "bytes", serve);
    let mut client = engine();
    let ran = run(client.args(["load", "bytes", "--json", "--connect", server.address()]).args(load));
    let was_late = ran.errors.ends_with("the load did not measure its server, so the result is not valid\n");
    assert!(was_late || ran.status == Some(0), "{ran:?}");
    // A load that ends by time prints its marks before this line.
    let line: Value = serde_json::from_str(ran.output.lines().last().unwrap()).unwrap();
    [line["connection"].clone(), server.stop().summary()["connection"].clone()]
}

/// By default the system's congestion control, for every design and load.
#[test]
fn every_design_and_load_reports_the_congestion_control_in_effect() {
    let default = &sysctl("tcp_congestion_control")[0];
    let listed = run(engine().args(["list", "--json"]));
    let catalogue: Value = serde_json::from_str(&listed.output).unwrap();
    let here = |kind: &str| -> Vec<&Value> {
        catalogue[kind].as_array().unwrap().iter().filter(|entry| entry["available"] != false).collect()
    };
    let loads = here("loads");
    for (design, load) in here("designs").into_iter().zip(loads.iter().cycle()) {
        // Without a number of requests they follow a schedule, with too few requests to judge how it was kept.
        let by_schedule = load["requests"].as_array().unwrap().is_empty();
        let few: &[&str] = if by_schedule { &["--rate", "100", "--duration", "100ms"] } else { &["--loops", "2"] };
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
fn each_side_has_its_own_congestion_control() {
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
fn an_unavailable_congestion_control_is_refused_at_once() {
    for command in ["serve prefork", "load bytes --connect 127.0.0.1:1"] {
        let with = |name: &str| run(engine().args(command.split(' ')).args(["--congestion", name]));
        refused(&with("nosuch"), "congestion.unknown", &["nosuch", "tcp_available_congestion_control", "reno"]);
        refused(&with("a name that is long"), "setting.invalid_value", &["--congestion", "1 to 15"]);
        refused(&with(""), "setting.invalid_value", &["--congestion", "1 to 15"]);
        let allowed = sysctl("tcp_allowed_congestion_control");
        let restricted = sysctl("tcp_available_congestion_control").into_iter().find(|name| !allowed.contains(name));
        let (Some(name), Ok(user)) = (restricted, Unprivileged::new()) else {
            println!("skipped in part: this user may use all of them");
            continue;
        };
        let ran = run(user.command(None).args(command.split(' ')).args(["--congestion", &name]));
        refused(&ran, "congestion.not_permitted", &[&name, &allowed.join(" ")]);
    }
}

/// The output for people warns of a congestion control that slows bulk streams down, at the end that sends them. Requests of
/// a few kilobytes are not slowed down.
#[test]
fn the_end_that_sends_a_stream_warns_of_a_congestion_control_that_slows_it_down() {
    let stream = "stream --stream-size 100000 --loops 1 --direction";
    let [to_client, to_server] = ["to_client", "to_server"].map(|direction| format!("{stream} {direction}"));
    for (load, name, by_server, by_load) in [
        (to_client.as_str(), "reno", false, false),
        (&to_client, "bbr", true, false),
        (&to_server, "bbr", false, true),
        ("fields --loops 1", "bbr", false, false),
    ] {
        if !sysctl("tcp_allowed_congestion_control").contains(&name.to_owned()) {
            println!("skipped in part: {name} is not allowed here");
            continue;
        }
        let workload = load.split(' ').next().unwrap();
        let serve = ["thread_per_client", "--workload", workload, "--congestion", name, "--port", "0"];
        let server = Interactive::start(&serve);
        let mut command = engine();
        command.arg("load").args(load.split(' ')).args(["--congestion", name]);
        let ran = run(command.args(["--connect", &server.address.to_string()]));
        assert_eq!(ran.status, Some(0), "{ran:?}");
        let warns = |output: &str| Table::of(output).line("note").is_some_and(|note| note.contains(name));
        assert_eq!(warns(&ran.output), by_load, "{ran:?}");
        let said = server.interrupt();
        assert_eq!(warns(&said), by_server, "{said}");
    }
}
