//! Which end of a load's connections ended them first, by FIN or RST, is told by every load, whoever it asks.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use serde_json::{Value, json};
use socket2::SockRef;

use crate::support::both_ends::{command, serve};
use crate::support::crowd::back_ends;
use crate::support::run;

/// What each load tells of a server that does this with every connection, of requests that then fail.
fn each_load_tells(does: fn(TcpStream), mut expected: impl FnMut(&Value, u64)) {
    let port = serve(does);
    let crowds = back_ends().into_iter().map(|back_end| format!("--load closed_connections --clients 3 {back_end}"));
    for load in
        ["--load closed --children 3", "--load closed_threads --clients 3"].map(str::to_owned).into_iter().chain(crowds)
    {
        let ran =
            run(command("bytes", port, &format!("--loops 4 --bytes 100 --json {load}")).arg("--check").arg("count"));
        let line: Value = serde_json::from_str(ran.output.lines().last().unwrap()).unwrap();
        expected(&line["closings"], line["tally"]["connections"].as_u64().unwrap());
        let words = run(&mut command("bytes", port, &format!("--loops 4 --bytes 100 --check count {load}"))).output;
        assert!(words.contains("connections that were looked at as they ended: "), "{load}: {words}");
    }
}

#[test]
fn a_server_that_closes_before_its_load_keeps_connections_in_time_wait() {
    let closes = |mut stream: TcpStream| {
        if stream.read(&mut [0; 100]).is_ok_and(|bytes| bytes > 0) {
            stream.write_all(b"half").unwrap();
        }
    };
    each_load_tells(closes, |closings, connections| {
        let told = json!({
            "closed_by_load": 0, "closed_by_server": connections, "reset_by_load": 0, "reset_by_server": 0,
            "time_wait": ["server"],
        });
        assert_eq!(closings, &told);
    });
}

#[test]
fn nobody_keeps_connections_in_time_wait_that_a_server_resets() {
    let resets = |mut stream: TcpStream| {
        SockRef::from(&stream).set_linger(Some(Duration::ZERO)).unwrap();
        let _ = stream.read(&mut [0; 100]);
    };
    each_load_tells(resets, |closings, connections| {
        let told = json!({
            "closed_by_load": 0, "closed_by_server": 0, "reset_by_load": 0, "reset_by_server": connections,
            "time_wait": [],
        });
        assert_eq!(closings, &told);
    });
}
