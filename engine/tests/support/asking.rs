//! A few requests of any load, with any primitive, whose replies all come and are right.

use serde_json::{Value, json};

use super::lines::{items, name, number};
use super::{engine, run};

/// Whether each of its sends ends in a completion.
pub fn completes(primitive: &&Value) -> bool {
    primitive["completes"] == true
}

/// Whether a load makes its requests by a schedule: then their number is not known beforehand.
pub fn by_schedule(load: &Value) -> bool {
    items(load, "requests").is_empty()
}

/// A few requests of a load, whose replies all come and are right; of each of its clients five, and of whatever else their
/// number is a multiple of, as the load says itself, two. By a schedule some twenty, too few to judge how it was kept.
pub fn ask(port: u16, workload: &str, load: &Value, options: &[&str]) -> Value {
    let numbers: Vec<(String, u64)> = match items(load, "requests").split_last() {
        Some((each, others)) => {
            let name = |setting: &Value| setting.as_str().unwrap().replace('_', "-");
            others.iter().map(|other| (name(other), 2)).chain([(name(each), 5)]).collect()
        }
        None => vec![("rate".to_owned(), 200), ("milliseconds".to_owned(), 100)],
    };
    let connect = format!("127.0.0.1:{port}");
    let mut command = engine();
    command.args(["load", workload, "--json", "--connect", &connect, "--load", name(load)]).args(options);
    for (setting, number) in &numbers {
        command.arg(format!("--{setting}={number}"));
    }
    let ran = run(&mut command);
    // Whether a busy machine let it keep its schedule is no matter here: what comes must be right.
    let was_late =
        by_schedule(load) && ran.errors.ends_with("the load did not measure its server, so the result is not valid\n");
    assert!(was_late || (ran.status, ran.errors.as_str()) == (Some(0), ""), "{command:?}: {ran:?}");
    // Before it a load that ends by time prints its marks.
    let line: Value = serde_json::from_str(ran.output.lines().last().unwrap()).unwrap();
    let asked = number(&line["tally"]["requests"]);
    let requests = if by_schedule(load) { asked.max(1) } else { numbers.iter().map(|(_, number)| number).product() };
    assert_eq!((asked, &line["tally"]["errors"]), (requests, &json!({})), "{line}");
    line
}

/// A request is a send at least, and all completions have been seen when the load ends; loopback copies all of them.
pub fn completions_are_complete(primitive: &Value, tally: &Value) {
    let [completions, copied] = [&tally["completions"], &tally["completions_copied"]].map(number);
    let sends = number(&tally["requests"])..=number(&tally["send_calls"]);
    let expected = if completes(&primitive) { sends } else { 0..=0 };
    assert!(expected.contains(&completions) && copied == completions, "{primitive}: {tally}");
}
