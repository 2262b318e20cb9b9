//! Which end of a load's connections ended them first, by FIN or RST, is told by every load, whoever it asks.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use socket2::SockRef;

use crate::support::both_ends::{command, load, serve};
use crate::support::event_loops::back_ends;
use crate::support::lines::number;
use crate::support::{process, run};

/// What each load tells of a server that does this with every connection, of requests that then fail.
fn each_load_tells(does: fn(TcpStream), mut expected: impl FnMut(&Value, u64)) {
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
        assert!(words.contains("how examined connections ended: "), "{load}: {words}");
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

/// Takes a stream to its end, says how much came, and shuts its own end down after so many milliseconds, or with the count.
fn takes_a_stream(mut stream: TcpStream, later: u64) {
    let mut count = 0;
    let mut buffer = vec![0; 1 << 20];
    while let Ok(bytes @ 1..) = stream.read(&mut buffer) {
        count += bytes;
    }
    // Then the count leaves with the end, and the load has both or neither.
    SockRef::from(&stream).set_tcp_cork(later == 0).unwrap();
    let _ = writeln!(stream, "{}", count - "put\n".len());
    std::thread::sleep(Duration::from_millis(later));
}

/// Whether the table of sockets in TIME_WAIT has room for few or none.
fn time_wait_is_full() -> bool {
    let sockets = std::fs::read_to_string("/proc/net/sockstat").unwrap();
    let mut words = sockets.split_whitespace().skip_while(|word| *word != "tw").skip(1);
    let most = std::fs::read_to_string("/proc/sys/net/ipv4/tcp_max_tw_buckets").unwrap();
    words.next().unwrap().parse::<u64>().unwrap() + 100 >= most.trim().parse().unwrap()
}

/// A stream for a time ends with a shutdown, by FIN, whatever the load does when it closes. That closing resets a connection only
/// which the server has not ended by then.
#[test]
fn a_load_that_is_to_reset_keeps_in_time_wait_what_it_has_shut_down() {
    for back_end in back_ends() {
        for closing in ["fin", "reset"] {
            for later in [0, 5000] {
                let port = serve(move |stream| takes_a_stream(stream, later));
                let before = process::in_time_wait_towards(port);
                let options = "--load closed_connections --clients 3 --milliseconds 100 --message-bytes 1000";
                let line = load("stream", port, &format!("{options} --closing {closing} {back_end}"));
                let closings = &line["closings"];
                let [closed, reset] = ["closed_by_load", "reset_by_load"].map(|name| number(&closings[name]));
                let told = format!("{closing} {later} {back_end}: {closings}");
                assert_eq!(closed + reset, 3, "{told}");
                // A server that has no CPU may end with its count and be late all the same.
                assert!(if closing == "reset" && later > 0 { closed == 0 } else { closed > 0 }, "{told}");
                assert!(closing == "reset" || reset == 0, "{told}");
                assert_eq!(closings["time_wait"], if closed > 0 { json!(["load"]) } else { json!([]) });
                // With FIN, and later, they are not there yet.
                if later == 0 || closing == "reset" {
                    // The server's FIN may still be on its way when the load has ended.
                    let kept = || process::in_time_wait_towards(port).difference(&before).count() as u64;
                    let deadline = Instant::now() + Duration::from_secs(5);
                    while kept() < closed && Instant::now() < deadline {
                        std::thread::sleep(Duration::from_millis(10));
                    }
                    // In a full table of TIME_WAIT, which other tests may fill, the kernel keeps no further one.
                    if !time_wait_is_full() {
                        assert_eq!(kept(), closed, "{told}");
                    }
                }
            }
        }
    }
}
