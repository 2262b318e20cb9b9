//! Every load reports which end closed its connections first, and whether by FIN or RST.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use socket2::SockRef;

use crate::support::both_ends::{command, load, serve};
use crate::support::event_loops::back_ends;
use crate::support::lines::number;
use crate::support::table::{Table, quantity};
use crate::support::{process, run};

/// Checks the report of each load on a server that does this with every connection, so that requests fail.
fn each_load_reports(does: fn(TcpStream), mut expected: impl FnMut(&Value, u64)) {
    let port = serve(does);
    let event_loops =
        back_ends().into_iter().map(|back_end| format!("--load closed_connections --clients 3 {back_end}"));
    for load in ["--load closed --children 3", "--load closed_threads --clients 3"]
        .map(str::to_owned)
        .into_iter()
        .chain(event_loops)
    {
        let ran =
            run(command("bytes", port, &format!("--loops 4 --bytes 100 --json {load}")).arg("--check").arg("count"));
        let line: Value = serde_json::from_str(ran.output.lines().last().unwrap()).unwrap();
        expected(&line["closings"], line["tally"]["connections"].as_u64().unwrap());
        let words = run(&mut command("bytes", port, &format!("--loops 4 --bytes 100 --check count {load}"))).output;
        let table = Table::of(&words);
        assert_eq!(
            quantity(table.row("Connections")[0]),
            number(&line["tally"]["connections"]) as f64,
            "{load}: {words}"
        );
        assert!(table.row("Connections").len() > 2, "{load}: {words}");
    }
}

#[test]
fn a_server_that_closes_before_its_load_keeps_connections_in_time_wait() {
    let closes = |mut stream: TcpStream| {
        if stream.read(&mut [0; 100]).is_ok_and(|bytes| bytes > 0) {
            stream.write_all(b"half").unwrap();
        }
    };
    each_load_reports(closes, |closings, connections| {
        let told = json!({
            "closed_by_load": 0, "closed_by_server": connections, "reset_by_load": 0, "reset_by_server": 0,
            "time_wait": ["server"],
        });
        assert_eq!(closings, &told);
    });
}

#[test]
fn connections_reset_by_a_server_leave_no_time_wait() {
    let resets = |mut stream: TcpStream| {
        SockRef::from(&stream).set_linger(Some(Duration::ZERO)).unwrap();
        let _ = stream.read(&mut [0; 100]);
    };
    each_load_reports(resets, |closings, connections| {
        let told = json!({
            "closed_by_load": 0, "closed_by_server": 0, "reset_by_load": 0, "reset_by_server": connections,
            "time_wait": [],
        });
        assert_eq!(closings, &told);
    });
}

/// Receives a stream to its end, and replies with its length. Shuts down its own end after this many milliseconds, or
/// together with the count.
fn takes_a_stream(mut stream: TcpStream, later: u64) {
    let mut count = 0;
    let mut buffer = vec![0; 1 << 20];
    while let Ok(bytes @ 1..) = stream.read(&mut buffer) {
        count += bytes;
    }
    // The count and the end arrive together, so the load has both or neither.
    SockRef::from(&stream).set_tcp_cork(later == 0).unwrap();
    let _ = writeln!(stream, "{}", count - "put\n".len());
    std::thread::sleep(Duration::from_millis(later));
}

/// A stream for a time ends with a shutdown, by FIN, however the load closes its connections. Closing with a reset only
/// resets a connection that the server has not ended by then.
#[test]
fn a_resetting_load_keeps_connections_that_it_shut_down_in_time_wait() {
    // At once, since a server may wait for five seconds.
    std::thread::scope(|scope| {
        for back_end in back_ends() {
            for (closing, later) in [("fin", 0), ("fin", 5000), ("reset", 0), ("reset", 5000)] {
                scope.spawn(move || shuts_down_a_stream(back_end, closing, later));
            }
        }
    });
}

fn shuts_down_a_stream(back_end: &str, closing: &str, later: u64) {
    let port = serve(move |stream| takes_a_stream(stream, later));
    let (before, lost_before) = (process::in_time_wait_towards(port), process::not_kept_in_time_wait());
    let options = "--load closed_connections --clients 3 --duration 100ms --message-size 1000";
    let line = load("stream", port, &format!("{options} --closing {closing} {back_end}"));
    let closings = &line["closings"];
    let [closed, reset] = ["closed_by_load", "reset_by_load"].map(|name| number(&closings[name]));
    let told = format!("{closing} {later} {back_end}: {closings}");
    // A load that gets no CPU may end before it has connected all of its clients.
    let connections = number(&line["tally"]["connections"]);
    assert!((1..=3).contains(&connections), "{line}");
    assert_eq!(closed + reset, connections, "{told}");
    // A server that gets no CPU may be late even if it ends together with its count.
    assert!(if closing == "reset" && later > 0 { closed == 0 } else { closed > 0 }, "{told}");
    assert!(closing == "reset" || reset == 0, "{told}");
    assert_eq!(closings["time_wait"], if closed > 0 { json!(["load"]) } else { json!([]) });
    // With FIN, and later, they are not there yet.
    if later == 0 || closing == "reset" {
        // The server's FIN may still be on its way when the load has ended.
        let kept = || process::in_time_wait_towards(port).difference(&before).count() as u64;
        let is_full = || process::not_kept_in_time_wait() > lost_before;
        let deadline = Instant::now() + Duration::from_secs(30);
        while kept() < closed && !is_full() && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(10));
        }
        // Other tests may fill the TIME_WAIT table, and then the kernel keeps no further connection.
        if !is_full() {
            assert_eq!(kept(), closed, "{told}");
        }
    }
}
