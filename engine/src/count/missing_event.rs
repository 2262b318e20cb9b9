//! Events that a machine lacks, as opposed to those that it refuses, and the nearest that it has.

use std::fs;
use std::io;
use std::path::Path;

/// The machine has no such event. The message names the missing part, where to look, and the nearest name.
#[derive(Debug)]
pub struct MissingEvent(pub String);

impl std::fmt::Display for MissingEvent {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(&self.0)
    }
}

impl std::error::Error for MissingEvent {}

/// Lists the entries of a folder without those that have a dot: `event.scale` belongs to `event`. Empty if there is no such
/// folder.
pub fn names_in(folder: &Path) -> io::Result<Vec<String>> {
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    let names = entries.flatten().filter_map(|entry| entry.file_name().into_string().ok());
    let mut names: Vec<String> = names.filter(|name| !name.contains('.')).collect();
    names.sort();
    Ok(names)
}

/// Returns the name most like a word, if any is similar.
pub fn nearest<'a>(word: &str, known: &'a [String]) -> Option<&'a String> {
    let alike = known.iter().map(|name| (strsim::jaro(word, name), name));
    alike.filter(|(alike, _)| *alike > 0.7).max_by(|one, other| one.0.total_cmp(&other.0)).map(|(_, name)| name)
}

/// Formats `; did you mean it?`, or nothing.
pub fn did_you_mean(near: Option<String>) -> String {
    near.map(|near| format!("; did you mean {near}?")).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_is_near() {
        let known = ["sched_switch", "sched_wakeup", "sched_waking"].map(str::to_owned);
        assert_eq!(nearest("sched_wakup", &known).unwrap(), "sched_wakeup");
        assert_eq!(nearest("xyz", &known), None);
    }
}
