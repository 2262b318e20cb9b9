//! Header fields of requests and replies alike.

/// The most header fields of a request or a reply; more are answered with 431.
pub const MOST_HEADERS: usize = 64;

/// A Content-Length: digits and nothing else.
pub fn content_length(value: &[u8]) -> Option<u64> {
    let digits = std::str::from_utf8(value).ok()?;
    digits.bytes().all(|byte| byte.is_ascii_digit()).then(|| digits.parse().ok())?
}
