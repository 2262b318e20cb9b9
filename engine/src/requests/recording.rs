//! Recorded traffic: a file with the gap before each request, and its size.
//!
//! CSV with a header, `gap_microseconds,bytes`; either column may be missing. The file is read once, before the first
//! connection, and its size is bounded. Errors name the line. A byte order mark, other line ends, empty last lines,
//! values in quotes and whole numbers with a fraction of 0 (`200.0`) are read, since other programs write them.

use std::io::{BufRead, BufReader, Read};
use std::ops::RangeInclusive;
use std::path::Path;

use anyhow::Result;

use crate::base::mistake::{Blame, mistake, mistake_with_hint};
use crate::base::regular_file::open_regular;

/// Column of gaps: microseconds, fractions allowed. The first gap is that between the load's start and its first
/// request.
pub const GAP: &str = "gap_microseconds";

/// Column of sizes.
pub const BYTES: &str = "bytes";

/// Maximum number of rows: they are kept in memory, 8 bytes per column each.
pub const MOST_ROWS: usize = 1_000_000;

/// Byte order mark, which some programs write before UTF-8 text.
const BYTE_ORDER_MARK: char = '\u{feff}';

/// The longest line, without its end.
const LONGEST_LINE: usize = 100;

/// The longest gap in microseconds: an hour.
const LONGEST_GAP: f64 = 3_600_000_000.0;

/// The origin of a file: the option as typed, and the path.
struct Source<'a> {
    option: &'a str,
    path: &'a str,
}

impl Source<'_> {
    fn refused(&self, why: &str) -> anyhow::Error {
        mistake("recording.unreadable", format!("--{} names the file {}: {why}", self.option, self.path))
            .blaming(&[self.option])
    }

    fn wrong(&self, line: usize, why: &str) -> anyhow::Error {
        mistake("recording.invalid_line", self.at(line, why)).blaming(&[self.option])
    }

    fn not_allowed(&self, line: usize, why: &str, allowed: &str) -> anyhow::Error {
        mistake_with_hint("recording.invalid_line", self.at(line, why), format!("allowed: {allowed}"))
            .blaming(&[self.option])
    }

    fn at(&self, line: usize, why: &str) -> String {
        format!("--{} names the file {}, line {line}: {why}", self.option, self.path)
    }

    /// Returns the values of one column; `None` if the file has no such column.
    fn column<T>(&self, name: &str, read: impl Fn(&str) -> Option<T>, allowed: &str) -> Result<Vec<T>> {
        let file = open_regular(Path::new(self.path)).map_err(|error| self.refused(&error.to_string()))?;
        let mut reader = BufReader::new(file);
        let mut values = Vec::new();
        let mut place = None;
        let mut blank = None;
        for number in 1.. {
            let Some(line) = self.line(&mut reader, number)? else { break };
            let Some(place) = place else {
                place = Some(self.place_of(name, &line)?);
                continue;
            };
            if line.is_empty() {
                blank = blank.or(Some(number));
                continue;
            }
            if let Some(blank) = blank {
                return Err(self.not_allowed(blank, &format!("{name} is ''"), allowed));
            }
            let mut cells = cells(&line);
            let (columns, place): (usize, usize) = place;
            let count = line.split(',').count();
            if count != columns {
                let why = format!("'{line}' has {count} values, but the header names {columns}");
                return Err(self.wrong(number, &why));
            }
            let text = cells.nth(place).unwrap_or_default();
            let value = read(text).ok_or_else(|| self.not_allowed(number, &format!("{name} is '{text}'"), allowed))?;
            if values.len() == MOST_ROWS {
                let why = format!("more than {MOST_ROWS} rows");
                return Err(self.not_allowed(number, &why, &format!("1 to {MOST_ROWS}")));
            }
            values.push(value);
        }
        if values.is_empty() {
            return Err(mistake_with_hint(
                "recording.unreadable",
                format!("--{} names the file {}: it is empty", self.option, self.path),
                format!("write a header ({GAP},{BYTES}) and 1 to {MOST_ROWS} rows"),
            ));
        }
        Ok(values)
    }

    /// Returns the next line without its end; `None` after the last.
    fn line(&self, reader: &mut impl BufRead, number: usize) -> Result<Option<String>> {
        let mut line = Vec::new();
        let most = LONGEST_LINE as u64 + 2;
        reader.take(most).read_until(b'\n', &mut line).map_err(|error| self.wrong(number, &error.to_string()))?;
        if line.is_empty() {
            return Ok(None);
        }
        let end = line.trim_ascii_end().len();
        line.truncate(end);
        if end > LONGEST_LINE {
            let why = format!("more than {LONGEST_LINE} characters");
            return Err(self.not_allowed(number, &why, &format!("up to {LONGEST_LINE}")));
        }
        match String::from_utf8(line) {
            Ok(text) if text.chars().all(|each| !each.is_control()) => Ok(Some(text)),
            _ => Err(self.wrong(number, "it is not a text file with lines")),
        }
    }

    /// Returns the number of columns, and the position of this one.
    fn place_of(&self, name: &str, header: &str) -> Result<(usize, usize)> {
        let names: Vec<&str> = cells(header.trim_start_matches(BYTE_ORDER_MARK)).collect();
        let is_known = |each: &&str| [GAP, BYTES].contains(each);
        if !names.iter().all(is_known) || (names.len() == 2 && names[0] == names[1]) || names.len() > 2 {
            let allowed = format!("{GAP},{BYTES}, or one of the two");
            return Err(self.not_allowed(1, &format!("the header is {}", shown(header)), &allowed));
        }
        let place = names.iter().position(|each| *each == name);
        let why = || {
            self.wrong(
                1,
                &format!("there is no column {name}, which --{} needs; the header is {}", self.option, shown(header)),
            )
        };
        place.map(|place| (names.len(), place)).ok_or_else(why)
    }
}

/// Returns a header in quotes. The first line of any other file may be a secret, and is not shown.
fn shown(header: &str) -> String {
    let is_plain = |each: char| each.is_ascii_alphanumeric() || ",_\" ".contains(each);
    if header.trim_start_matches(BYTE_ORDER_MARK).chars().all(is_plain) {
        format!("'{header}'")
    } else {
        "no list of names".to_owned()
    }
}

/// Returns the values of a line, without blanks and quotes around them. No allowed value has a comma.
fn cells(line: &str) -> impl Iterator<Item = &str> {
    line.split(',').map(|cell| {
        let cell = cell.trim();
        cell.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')).unwrap_or(cell)
    })
}

/// Reads a whole number, which may have a fraction of 0.
fn whole(text: &str) -> Option<u64> {
    let (digits, fraction) = text.split_once('.').unwrap_or((text, ""));
    fraction.bytes().all(|digit| digit == b'0').then(|| digits.parse().ok()).flatten()
}

/// Reads the sizes of a file, for an option; each must be within these bounds.
pub fn sizes(option: &str, path: &str, allowed: RangeInclusive<u64>) -> Result<Vec<u64>> {
    let read = |text: &str| whole(text).filter(|bytes| allowed.contains(bytes));
    let (least, most) = (allowed.start(), allowed.end());
    Source { option, path }.column(BYTES, read, &format!("a whole number from {least} to {most}"))
}

/// Gaps between requests, which repeat when they end.
#[derive(Debug, PartialEq)]
pub struct RecordedGaps {
    /// Time at which each request is due, in nanoseconds from the start.
    ends: Vec<f64>,
}

impl RecordedGaps {
    /// Reads the gaps of a file, for an option.
    pub fn read(option: &str, path: &str) -> Result<Self> {
        let source = Source { option, path };
        let read = |text: &str| text.parse().ok().filter(|gap| (0.0..=LONGEST_GAP).contains(gap));
        let allowed = format!("a number of microseconds from 0 to {LONGEST_GAP}, such as 12.5");
        let gaps = source.column(GAP, read, &allowed)?;
        if gaps.iter().all(|gap| *gap == 0.0) {
            return Err(source.refused("all gaps are 0, so all requests would be due at once"));
        }
        Ok(RecordedGaps::new(&gaps))
    }

    /// Makes gaps from microseconds, at least one of which is positive.
    pub fn new(microseconds: &[f64]) -> Self {
        let sum = |sum: &mut f64, gap: &f64| {
            *sum += gap * 1000.0;
            Some(*sum)
        };
        RecordedGaps { ends: microseconds.iter().scan(0.0, sum).collect() }
    }

    /// Returns the time at which the request with this number, counted from 0, is due: nanoseconds from the start.
    /// Computed without adding over many requests, so that rounding errors do not accumulate.
    pub fn moment(&self, number: u64) -> f64 {
        let rows = self.ends.len() as u64;
        (number / rows) as f64 * self.total() + self.ends[(number % rows) as usize]
    }

    /// Number of requests due within this many nanoseconds from the start, both ends included.
    pub fn within(&self, nanoseconds: f64) -> u64 {
        let rounds = (nanoseconds / self.total()).floor();
        let rest = nanoseconds - rounds * self.total();
        rounds as u64 * self.ends.len() as u64 + self.ends.partition_point(|end| *end <= rest) as u64
    }

    /// Mean gap in nanoseconds.
    pub fn mean(&self) -> f64 {
        self.total() / self.ends.len() as f64
    }

    fn total(&self) -> f64 {
        self.ends.last().copied().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A temporary file, removed on drop.
    struct Written(std::path::PathBuf);

    impl Written {
        fn new(name: &str, text: &[u8]) -> Self {
            let path = std::env::temp_dir().join(format!("recording-{}-{name}.csv", std::process::id()));
            std::fs::write(&path, text).unwrap();
            Written(path)
        }

        fn path(&self) -> &str {
            self.0.to_str().unwrap()
        }
    }

    impl Drop for Written {
        fn drop(&mut self) {
            let _ = std::fs::remove_file(&self.0);
        }
    }

    #[test]
    fn requests_due_within_a_time_include_repetitions_of_the_file() {
        // Three at once after 10 us, and one 30 us later; then the same again.
        let gaps = RecordedGaps::new(&[10.0, 0.0, 0.0, 30.0]);
        let counted = |microseconds: f64| gaps.within(microseconds * 1000.0);
        let expected =
            [(0.0, 0), (9.9, 0), (10.0, 3), (39.9, 3), (40.0, 4), (50.0, 7), (400.0, 40), (4_000_010.0, 400_003)];
        for (microseconds, requests) in expected {
            assert_eq!(counted(microseconds), requests, "{microseconds} us");
            let moments = (0..).take_while(|number| gaps.moment(*number) <= microseconds * 1000.0).count();
            assert_eq!(moments as u64, requests, "{microseconds} us");
        }
    }

    #[test]
    fn either_column_may_be_missing_and_either_may_come_first() {
        for (name, text) in [
            ("both", "gap_microseconds,bytes\n10,64\n0.5,4000\r\n"),
            ("turned", "bytes,gap_microseconds\n64, 10\n4000, 5e-1"),
        ] {
            let file = Written::new(name, text.as_bytes());
            assert_eq!(sizes("sizes", file.path(), 1..=4000).unwrap(), [64, 4000]);
            assert_eq!(RecordedGaps::read("recording", file.path()).unwrap(), RecordedGaps::new(&[10.0, 0.5]));
        }
        let file = Written::new("one", b"bytes\n7\n");
        assert_eq!(sizes("sizes", file.path(), 1..=10).unwrap(), [7]);
        let missing = RecordedGaps::read("recording", file.path()).unwrap_err().to_string();
        assert!(missing.contains("no column gap_microseconds") && missing.contains("'bytes'"), "{missing}");
    }

    #[test]
    fn files_of_other_programs_are_read_alike() {
        let plain = "gap_microseconds,bytes\n10,200\n0.5,4000\n";
        let quoted = "\"gap_microseconds\",\"bytes\"\n\"10\",\"200\"\n\"0.5\",\"4000\"\n";
        for (name, text) in [
            ("mark", format!("\u{feff}{plain}")),
            ("marked-quotes", format!("\u{feff}{quoted}")),
            ("last", format!("{plain}\n")),
            ("ends", format!("{plain}\n\n").replace('\n', "\r\n")),
            ("no-end", plain.trim_end().to_owned()),
            ("quotes", quoted.to_owned()),
            ("fractions", plain.replace("10,200", "10.0,200.0").replace("4000", "4000.")),
        ] {
            let file = Written::new(&format!("alike-{name}"), text.as_bytes());
            assert_eq!(sizes("sizes", file.path(), 1..=4000).unwrap(), [200, 4000], "{name}");
            assert_eq!(RecordedGaps::read("recording", file.path()).unwrap(), RecordedGaps::new(&[10.0, 0.5]));
        }
    }

    #[test]
    fn each_mistake_names_file_line_value_and_allowed_values() {
        let endless = [&b"bytes\n"[..], &b"1".repeat(1000)].concat();
        let faults: [(&str, &[u8], usize, &str); 16] = [
            ("letters", b"bytes\n1\nten\n", 3, "bytes is 'ten'; allowed: a whole number from 1 to 100"),
            ("negative", b"bytes\n-1\n", 2, "bytes is '-1'"),
            ("zero", b"bytes\n0\n", 2, "bytes is '0'"),
            ("many", b"bytes\n101\n", 2, "bytes is '101'"),
            ("fraction", b"bytes\n1.5\n", 2, "bytes is '1.5'"),
            ("dot", b"bytes\n.0\n", 2, "bytes is '.0'"),
            ("quote", b"bytes\n\"7\n", 2, "bytes is '\"7'"),
            ("blank", b"bytes\n1\n\n2\n", 3, "bytes is ''"),
            ("marked", b"\xef\xbb\xbfsize\n1\n", 1, "allowed: gap_microseconds,bytes"),
            ("cells", b"bytes\n1,2\n", 2, "'1,2' has 2 values, but the header names 1"),
            ("header", b"size\n1\n", 1, "the header is 'size'; allowed: gap_microseconds,bytes"),
            ("twice", b"bytes,bytes\n1,1\n", 1, "the header is 'bytes,bytes'"),
            ("secret", b"root:$y$j9T:20000:0:99999:7:::\n", 1, "the header is no list of names"),
            ("more", b"bytes,gap_microseconds,bytes\n1,1,1\n", 1, "the header is"),
            ("binary", b"bytes\n\0\x01\n", 2, "not a text file"),
            ("endless", &endless, 2, "more than 100 characters"),
        ];
        for (name, text, line, words) in faults {
            let file = Written::new(name, text);
            let error = sizes("sizes", file.path(), 1..=100).unwrap_err().to_string();
            assert!(error.contains(&format!("--sizes names the file {}, line {line}: ", file.path())), "{error}");
            assert!(error.contains(words) && !error.contains('\n'), "{error}");
        }
        for (name, text) in [
            ("gap", "gap_microseconds\n-1\n"),
            ("nan", "gap_microseconds\nNaN\n"),
            ("long", "gap_microseconds\n3600000001\n"),
        ] {
            let file = Written::new(name, text.as_bytes());
            let error = RecordedGaps::read("recording", file.path()).unwrap_err().to_string();
            assert!(error.contains("line 2") && error.contains("from 0 to 3600000000"), "{error}");
        }
    }

    #[test]
    fn a_file_without_rows_is_refused() {
        let empty = Written::new("empty", b"");
        let marked = Written::new("marked", b"\xef\xbb\xbfgap_microseconds\n10\n");
        assert_eq!(RecordedGaps::read("recording", marked.path()).unwrap(), RecordedGaps::new(&[10.0]));
        let header = Written::new("only", b"bytes\n");
        let still = Written::new("still", b"gap_microseconds\n0\n0\n");
        for (path, words) in [
            (empty.path(), "it is empty"),
            (header.path(), "it is empty"),
            ("/nowhere/at/all.csv", "No such file"),
            ("/tmp", "not a regular file"),
            ("/dev/zero", "not a regular file"),
        ] {
            let error = sizes("sizes", path, 1..=100).unwrap_err().to_string();
            assert!(error.contains(path) && error.contains(words), "{error}");
        }
        assert!(RecordedGaps::read("recording", still.path()).unwrap_err().to_string().contains("all gaps are 0"));
    }

    #[test]
    fn more_rows_than_are_kept_are_refused_with_the_limit() {
        let rows = |rows: usize| ["bytes\n", &"1\n".repeat(rows)].concat();
        let full = Written::new("full", rows(MOST_ROWS).as_bytes());
        assert_eq!(sizes("sizes", full.path(), 1..=1).unwrap().len(), MOST_ROWS);
        let over = Written::new("over", rows(MOST_ROWS + 1).as_bytes());
        let error = sizes("sizes", over.path(), 1..=1).unwrap_err().to_string();
        assert!(error.contains("line 1000002") && error.contains("1 to 1000000"), "{error}");
    }

    #[test]
    fn gaps_begin_again_without_an_error_that_grows() {
        let gaps = RecordedGaps::new(&[0.1, 0.2, 0.7]);
        assert!((gaps.mean() - 1000.0 / 3.0).abs() < 1e-9);
        for (number, expected) in [(0, 100.0), (1, 300.0), (2, 1000.0), (3, 1100.0), (3_000_000_000, 1e12 + 100.0)] {
            assert!((gaps.moment(number) - expected).abs() < 1e-3, "{number}");
        }
    }
}
