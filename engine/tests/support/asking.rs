//! A few requests of any load, with any primitive, whose replies must all be correct.

use serde_json::{Value, json};

use super::lines::{items, name, number};
use super::{engine, run};

/// Whether each of its sends ends in a completion.
pub fn completes(primitive: &&Value) -> bool {
    primitive["completes"] == true
}

/// Whether a load's requests follow a schedule, so that their number is not known beforehand.
pub fn by_schedule(load: &Value) -> bool {
    items(load, "requests").is_empty()
}

/// Makes a few requests with a load, whose replies must all be correct. Their number is the product of the load's settings in
/// `requests`: the last one is set to 5, the others to 2. With a schedule there are some twenty, too few to judge how it was
/// kept.
pub fn ask(port: u16, workload: &str, load: &Value, options: &[&str]) -> Value {
    let timed: &[&str] = if by_schedule(load) { &["--duration=100ms"] } else { &[] };
    let numbers: Vec<(String, u64)> = match items(load, "requests").split_last() {
        Some((each, others)) => {
            let name = |setting: &Value| setting.as_str().unwrap().replace('_', "-");
            others.iter().map(|other| (name(other), 2)).chain([(name(each), 5)]).collect()
        }
        None => vec![("rate".to_owned(), 200)],
    };
    let connect = format!("127.0.0.1:{port}");
    let mut command = engine();
    command.args(["load", workload, "--json", "--connect", &connect, "--load", name(load)]).args(timed).args(options);
    for (setting, number) in &numbers {
        command.arg(format!("--{setting}={number}"));
    }
    let ran = run(&mut command);
    // A busy machine may keep the load from its schedule, but the replies must be correct.
    let was_late =
        by_schedule(load) && ran.errors.ends_with("the load did not measure its server, so the result is not valid\n");
    assert!(was_late || (ran.status, ran.errors.as_str()) == (Some(0), ""), "{command:?}: {ran:?}");
    // A load that ends by time prints its marks before this line.
    let line: Value = serde_json::from_str(ran.output.lines().last().unwrap()).unwrap();
    let asked = number(&line["tally"]["requests"]);
    let requests = if by_schedule(load) { asked.max(1) } else { numbers.iter().map(|(_, number)| number).product() };
    assert_eq!((asked, &line["tally"]["errors"]), (requests, &json!({})), "{line}");
    line
}

/// Checks that every request is at least one send, and that all completions arrived before the load ended. Loopback copies
/// all of them.
pub fn completions_are_complete(primitive: &Value, tally: &Value) {
    let [completions, copied] = [&tally["completions"], &tally["completions_copied"]].map(number);
    let sends = number(&tally["requests"])..=number(&tally["send_calls"]);
    let expected = if completes(&primitive) { sends } else { 0..=0 };
    assert!(expected.contains(&completions) && copied == completions, "{primitive}: {tally}");
}
