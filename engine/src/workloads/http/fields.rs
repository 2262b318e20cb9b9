//! Header fields, in requests and replies.

/// Maximum number of header fields of a request; the server answers a request with more with 431. Replies may have more.
pub const MOST_HEADERS: usize = 64;

/// Parses a Content-Length: digits only.
pub fn content_length(value: &[u8]) -> Option<u64> {
    let digits = std::str::from_utf8(value).ok()?;
    digits.bytes().all(|byte| byte.is_ascii_digit()).then(|| digits.parse().ok())?
}
