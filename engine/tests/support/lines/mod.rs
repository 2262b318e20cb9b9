//! What the program prints, as tests read it: lists, and numbers of its lines.

pub mod schema;

use serde_json::Value;

use crate::support::{engine, run};

/// What `list KIND --json` shows.
pub fn list(kind: &str) -> Vec<Value> {
    serde_json::from_str(&run(engine().args(["list", kind, "--json"])).output).unwrap()
}

/// The designs that can run here; of the others it is said why not.
pub fn designs() -> Vec<String> {
    let (there, not_there): (Vec<_>, Vec<_>) =
        list("designs").into_iter().partition(|design| design["available"] == true);
    not_there.iter().for_each(|design| println!("skipped: {}: {}", name(design), design["reason"]));
    there.iter().map(|design| name(design).to_owned()).collect()
}

/// The name of what is listed.
pub fn name(entry: &Value) -> &str {
    entry["name"].as_str().unwrap_or_else(|| panic!("{entry} has no name"))
}

/// A number of a line.
pub fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or_else(|| panic!("{value} is no number"))
}

/// What a line has under a name, which must be a number.
#[track_caller]
pub fn number_of(line: &Value, name: &str) -> u64 {
    line[name].as_u64().unwrap_or_else(|| panic!("{name} is no number in {line}"))
}

/// What a line has under a name, which must be a list.
#[track_caller]
pub fn items<'a>(line: &'a Value, name: &str) -> &'a [Value] {
    line[name].as_array().unwrap_or_else(|| panic!("{name} is no list in {line}"))
}

/// The connections for which a server lacked something, as its tally has them.
pub fn resource_limits(snapshot: &Value) -> u64 {
    snapshot["tally"]["errors"]["resource_limit"].as_u64().unwrap_or(0)
}
