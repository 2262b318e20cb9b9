//! The program's output for tests: lists, and values of its lines.

pub mod schema;

use serde_json::Value;

use crate::support::{engine, run};

/// Returns the list of `list KIND --json`.
pub fn list(kind: &str) -> Vec<Value> {
    serde_json::from_str(&run(engine().args(["list", kind, "--json"])).output).unwrap()
}

/// Returns the designs that can run on this machine. Prints why the others cannot.
pub fn designs() -> Vec<String> {
    let (there, not_there): (Vec<_>, Vec<_>) =
        list("designs").into_iter().partition(|design| design["available"] == true);
    not_there.iter().for_each(|design| println!("skipped: {}: {}", name(design), design["reason"]));
    there.iter().map(|design| name(design).to_owned()).collect()
}

/// Returns the name of a listed entry.
pub fn name(entry: &Value) -> &str {
    entry["name"].as_str().unwrap_or_else(|| panic!("{entry} has no name"))
}

/// Returns a number of a line.
pub fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or_else(|| panic!("{value} is no number"))
}

/// Returns the value of a name in a line, which must be a number.
#[track_caller]
pub fn number_of(line: &Value, name: &str) -> u64 {
    line[name].as_u64().unwrap_or_else(|| panic!("{name} is no number in {line}"))
}

/// Returns the value of a name in a line, which must be a list.
#[track_caller]
pub fn items<'a>(line: &'a Value, name: &str) -> &'a [Value] {
    line[name].as_array().unwrap_or_else(|| panic!("{name} is no list in {line}"))
}

/// Returns the connections for which a server lacked a resource, from its tally.
pub fn resource_limits(snapshot: &Value) -> u64 {
    snapshot["tally"]["errors"]["resource_limit"].as_u64().unwrap_or(0)
}
