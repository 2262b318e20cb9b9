//! What the suite knows of each workload: its exchanges, what breaks its rules, and nothing else. The suite for designs
//! is made from this, so a new workload is tested by an entry here.

/// A request, and the reply that is right for it byte by byte.
#[derive(Debug, Clone)]
pub struct Exchange {
    /// What the client sends.
    pub request: Vec<u8>,
    /// What the server has to answer.
    pub reply: Vec<u8>,
}

/// Bytes for which the server closes the connection that sent them, and no other.
#[derive(Debug, Clone)]
pub struct Wrong {
    /// What is wrong with it, for the name of a test.
    pub name: &'static str,
    /// The bytes.
    pub bytes: Vec<u8>,
}

/// What the suite knows of one workload.
pub struct Protocol {
    /// The name under which the workload is registered.
    pub name: &'static str,
    /// Exchanges that every server takes, several on one connection.
    pub exchanges: fn() -> Vec<Exchange>,
    /// The server's options that allow [`Protocol::large`].
    pub large_options: &'static [&'static str],
    /// An exchange whose reply is larger than all buffers between a server and a client that does not read; none where
    /// the protocol has no such reply.
    pub large: Option<fn() -> Exchange>,
    /// The beginning of a request, and not all of it.
    pub incomplete: &'static [u8],
    /// Bytes that break the protocol.
    pub wrong: fn() -> Vec<Wrong>,
    /// The kinds of error under which breaking the protocol may be tallied.
    pub wrong_kind: &'static [&'static str],
}

/// All workloads. A workload's own file has the protocol's first implementation, this is a second one on purpose: a test
/// that asked the workload what is right would find right whatever it does.
pub static PROTOCOLS: &[Protocol] = &[BYTES];

const BYTES: Protocol = Protocol {
    name: "bytes",
    exchanges: || [4000, 1, 250, 251, 252, 16384, 10].map(bytes).to_vec(),
    large_options: &["--limit", "16777216"],
    large: Some(|| bytes(16 << 20)),
    incomplete: b"40",
    wrong: || {
        let line = |name, text: &str| Wrong { name, bytes: format!("{text}\n").into_bytes() };
        vec![
            line("0", "0"),
            line("-1", "-1"),
            line("99999999999999999999", "99999999999999999999"),
            line("one_over_the_limit", "16385"),
            line("letters", "letters"),
            line("an_empty_line", ""),
            line("two_numbers", "40 00"),
            line("not_utf8", "").with(b"\xff\xfe\n"),
            Wrong { name: "an_endless_line", bytes: vec![b'1'; 256 << 10] },
            Wrong { name: "1_MiB_of_zero_bytes", bytes: vec![0; 1 << 20] },
        ]
    },
    wrong_kind: &["bad_request"],
};

/// The exchange of the workload `bytes` for so many bytes: byte i is i % 251.
pub fn bytes(count: usize) -> Exchange {
    let period: Vec<u8> = (0..251).collect();
    let mut reply = period.repeat(count.div_ceil(period.len()));
    reply.truncate(count);
    Exchange { request: format!("{count}\n").into_bytes(), reply }
}

impl Wrong {
    fn with(self, bytes: &[u8]) -> Wrong {
        Wrong { bytes: bytes.to_vec(), ..self }
    }
}
