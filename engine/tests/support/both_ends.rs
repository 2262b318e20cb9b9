//! Both ends of a workload, of the same program or one of them over a plain socket.

use std::net::{TcpListener, TcpStream};
use std::process::Command;

use serde_json::{Value, json};

use super::lines::number;
use super::server::Ending;
use super::{PATIENCE, engine, run};

/// Returns a load of a workload on a port of 127.0.0.1.
pub fn command(workload: &str, port: u16, options: &str) -> Command {
    let mut command = engine();
    command.args(["load", workload, "--connect", &format!("127.0.0.1:{port}")]).args(options.split_whitespace());
    command
}

/// Runs a load that must succeed; returns its last line.
#[track_caller]
pub fn load(workload: &str, port: u16, options: &str) -> Value {
    let ran = run(command(workload, port, options).arg("--json"));
    assert_eq!((ran.status, ran.errors.as_str()), (Some(0), ""), "{workload} {options}: {}", ran.output);
    serde_json::from_str(ran.output.lines().last().unwrap()).unwrap()
}

/// Checks that the sums of both ends agree, and that there was no error.
#[track_caller]
pub fn agree(ending: &Ending, loads: &[Value]) {
    ending.is_good();
    let summary = ending.summary();
    assert_eq!((&summary["account_fault"], &summary["tally"]["errors"]), (&Value::Null, &json!({})), "{summary}");
    for (name, sum) in summary["account"].as_object().unwrap() {
        let asked: u64 = loads.iter().map(|load| number(&load["account"][name])).sum();
        assert_eq!(number(sum), asked, "{name}: {summary}");
    }
}

/// Makes a plain connection without endless waits.
pub fn connect(port: u16) -> TcpStream {
    let stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.set_write_timeout(Some(PATIENCE)).unwrap();
    stream
}

/// Answers every connection in a separate thread for as long as the test runs; returns the port.
pub fn serve(answer: impl Fn(TcpStream) + Send + Clone + 'static) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            let answer = answer.clone();
            std::thread::spawn(move || answer(stream));
        }
    });
    port
}
