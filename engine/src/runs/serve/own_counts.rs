//! What a server that is not ours counts itself: lines that it writes to a descriptor, of which the last one counts.

use std::collections::BTreeMap;
use std::io::{self, BufRead, BufReader, Read};
use std::os::fd::OwnedFd;
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

/// Environment variable with the number of the descriptor.
pub const VARIABLE: &str = "COUNTS_FD";
/// Time for the last line to be read once every process of the server has ended.
const LAST: Duration = Duration::from_secs(1);
/// Most bytes of a line.
const LONGEST: u64 = 1 << 16;

/// The count that every line has.
const REQUESTS: &str = "requests";

/// Counts by name, such as `requests`.
pub type OwnCounts = BTreeMap<String, u64>;

/// Lines that a server writes.
pub struct OwnCountsReader {
    read: Receiver<Result<Option<OwnCounts>, String>>,
}

impl OwnCountsReader {
    /// Begins to read, in a thread of its own.
    pub fn new(from: OwnedFd) -> io::Result<Self> {
        let (to, read) = channel();
        std::thread::Builder::new().spawn(move || to.send(last_line(std::fs::File::from(from))))?;
        Ok(OwnCountsReader { read })
    }

    /// Returns the counts once every process of the server has ended, `requests` among them. `None` if it wrote no line.
    pub fn counts(&self) -> Result<Option<OwnCounts>, String> {
        let open = || format!("a process that it did not start has its {VARIABLE} open");
        self.read.recv_timeout(LAST).unwrap_or_else(|_| Err(open()))
    }
}

/// Reads to the end, and returns the counts of the last line.
pub fn last_line(from: impl Read) -> Result<Option<OwnCounts>, String> {
    let mut from = BufReader::new(from);
    let mut last = None;
    loop {
        let mut line = Vec::new();
        match (&mut from).take(LONGEST).read_until(b'\n', &mut line) {
            Ok(0) => break,
            Err(error) => return Err(format!("what it wrote to {VARIABLE} could not be read: {error} (read)")),
            Ok(_) if line.trim_ascii().is_empty() => {}
            Ok(_) => last = Some(line),
        }
    }
    let Some(line) = last else { return Ok(None) };
    let fault = |what| {
        let shown: String = String::from_utf8_lossy(line.trim_ascii()).chars().take(80).collect();
        // A terminal would obey its escape sequences.
        format!("its last line at {VARIABLE} {what}: {}", shown.replace(char::is_control, "\u{fffd}"))
    };
    let counts: OwnCounts =
        serde_json::from_slice(&line).map_err(|_| fault("is no JSON object of whole numbers".to_owned()))?;
    if counts.contains_key(REQUESTS) { Ok(Some(counts)) } else { Err(fault(format!("has no `{REQUESTS}`"))) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_line_counts() {
        let counts = last_line(&b"{\"requests\": 1}\n\n{\"requests\": 20, \"cached\": 3}\n\n"[..]).unwrap().unwrap();
        assert_eq!(counts, OwnCounts::from([("cached".to_owned(), 3), ("requests".to_owned(), 20)]));
        assert_eq!(last_line(&b""[..]).unwrap(), None);
    }

    #[test]
    fn other_lines_are_faults() {
        let long = vec![b'1'; 3 * LONGEST as usize];
        for line in [
            &b"12"[..],
            b"{\"requests\": -1}",
            b"{\"requests\": 1.5}",
            b"\xff\x1b[31m",
            b"{\"requests\": 1",
            b"{\"request\": 1}",
            b"{}",
            &long,
        ] {
            let fault = last_line(line).unwrap_err();
            assert!(fault.len() < 300 && !fault.contains('\x1b'), "{fault}");
        }
    }
}
