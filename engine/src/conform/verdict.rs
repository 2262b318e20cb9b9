//! Verdicts of cases, and faults in words.

use std::fmt;

/// Length of bytes that a fault quotes.
const QUOTED: usize = 60;

/// Result of a case that found no fault.
#[derive(Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The server did what it must.
    Passed,
    /// The server did something that is left to it.
    Allowed(String),
    /// The server did not do something that it should.
    Warned(Fault),
    /// The case cannot be judged here, for this reason.
    NotJudged(String),
}

/// What was expected of a server, and what came.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// The right behaviour.
    pub expected: String,
    /// The behaviour seen.
    pub actual: String,
}

impl Fault {
    /// Makes a fault.
    pub fn new(expected: impl Into<String>, actual: impl Into<String>) -> Self {
        Fault { expected: expected.into(), actual: actual.into() }
    }

    /// Adds the moment to what came.
    pub fn when(self, moment: &str) -> Self {
        Fault { actual: format!("{moment}: {}", self.actual), ..self }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "expected {}; actual {}", self.expected, self.actual)
    }
}

/// Writes a number of bytes.
pub fn bytes(count: usize) -> String {
    if count == 1 { "1 byte".to_owned() } else { format!("{count} bytes") }
}

/// Quotes the beginning of some bytes on one line.
pub fn quoted(bytes: &[u8]) -> String {
    let text = bytes.iter().take(QUOTED).flat_map(|&byte| std::ascii::escape_default(byte)).map(char::from);
    let more = if bytes.len() > QUOTED { " ..." } else { "" };
    format!("\"{}\"{more}", text.collect::<String>())
}

/// Quotes the first line of some bytes, or the beginning of it; line ends alone are quoted, too.
pub fn first_line(bytes: &[u8]) -> String {
    let line = bytes.split(|&byte| byte == b'\n').next().unwrap_or_default();
    match line.strip_suffix(b"\r").unwrap_or(line) {
        [] => quoted(bytes),
        line => quoted(line),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_quoted_by_its_first_line() {
        for (request, words) in [
            ("GET / HTTP/1.1\r\nHost: h\r\n\r\n", "\"GET / HTTP/1.1\""),
            ("\r\n\r\n", "\"\\r\\n\\r\\n\""),
            ("a\0\"b\n", "\"a\\x00\\\"b\""),
            (&"1".repeat(100), &format!("\"{}\" ...", "1".repeat(60))),
        ] {
            assert_eq!(first_line(request.as_bytes()), words);
        }
    }
}
