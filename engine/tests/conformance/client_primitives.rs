//! Primitives at the client's end, for every workload and load. Combinations that do not fit are refused.
//!
//! A test's name is `clients_of::workload::ask_with_every_primitive_that_fits`.

use libtest_mimic::Trial;
use serde_json::Value;

use crate::support::asking::{ask, by_schedule, completions_are_complete};
use crate::support::lines::{items, name, number};
use crate::support::server::Server;
use crate::support::{engine, one_line, protocol, run};

/// Makes a test for each workload with known exchanges. For other workloads the designs' tests fail.
pub fn trials(catalogue: &Value) -> Vec<Trial> {
    let known = |workload: &&Value| protocol::PROTOCOLS.iter().any(|protocol| protocol.name == name(workload));
    let of = |workload: &Value| {
        let (catalogue, workload) = (catalogue.clone(), workload.clone());
        let title = format!("clients_of::{}::ask_with_every_primitive_that_fits", name(&workload));
        Trial::test(title, move || {
            ask_with_every_primitive_that_fits(&catalogue, &workload);
            Ok(())
        })
    };
    items(catalogue, "workloads").iter().filter(known).map(of).collect()
}

fn option(primitive: &Value) -> &'static str {
    if primitive["moves"] == "out" { "--primitive" } else { "--receive" }
}

/// Returns why a primitive does not fit this load, or the client's end of this workload.
fn hole<'a>(holes: &'a [Value], primitive: &Value, load: &Value, workload: &Value) -> Option<&'a str> {
    let fits = |hole: &&Value| {
        let of_client = hole["workload"] == workload["name"] && hole["end"] == "client";
        hole["primitive"] == primitive["name"] && (hole["load"] == load["name"] || of_client)
    };
    holes.iter().find(fits).map(|hole| hole["reason"].as_str().unwrap())
}

fn ask_with_every_primitive_that_fits(catalogue: &Value, workload: &Value) {
    let brief = protocol::of(name(workload)).brief;
    let mut server = Server::start("epoll", name(workload), brief.server);
    let (mut asked, mut refused) = (0, 0);
    for load in items(catalogue, "loads") {
        for primitive in items(catalogue, "primitives") {
            let by = [option(primitive), name(primitive)];
            if let Some(reason) = hole(items(catalogue, "holes"), primitive, load, workload) {
                let connect = ["--connect", "127.0.0.1:1", "--load", name(load)];
                let ran = run(engine().args(["load", name(workload)]).args(connect).args(by));
                one_line(&ran, 2, &[reason, "list --matrix"]);
                refused += 1;
            } else if by_schedule(load) && workload["measured_by"] != "requests" {
                // A request takes as long as the load, so there is nothing to schedule.
            } else if primitive["available"] == true {
                let before = server.snapshot()["tally"]["bytes_received"].clone();
                let line = ask(server.port, name(workload), load, &[&by[..], brief.load].concat());
                let sent = number(&line["tally"]["bytes_sent"]);
                server.snapshot_when("all bytes of the client have come", |snapshot| {
                    number(&snapshot["tally"]["bytes_received"]) == number(&before) + sent
                });
                completions_are_complete(primitive, &line["tally"]);
                assert_eq!(line[if by[0] == "--receive" { "receive" } else { "primitive" }], by[1], "{line}");
                asked += 1;
            } else {
                println!("skipped: {}: {}", by[1], primitive["reason"]);
            }
        }
    }
    server.stop().is_good();
    println!("{}: {asked} asked, {refused} refused", name(workload));
    assert!(asked > 10 && refused > 0, "{asked} asked, {refused} refused");
}
