//! Everything that the suite knows of each workload: its exchanges, and violations of its rules. The suite for designs is
//! made from this, so a new workload is tested by an entry here.

use std::collections::BTreeMap;
use std::sync::{LazyLock, Mutex};

use super::made_processes;

/// A request, and the correct reply, byte by byte.
#[derive(Debug, Clone)]
pub struct Exchange {
    /// The bytes that the client sends.
    pub request: Vec<u8>,
    /// The bytes of the reply.
    pub reply: Vec<u8>,
}

/// Bytes for which the server closes the connection that sent them, and no other.
#[derive(Debug, Clone)]
pub struct Wrong {
    /// Description of the fault, for the name of a test.
    pub name: &'static str,
    /// The bytes.
    pub bytes: Vec<u8>,
    /// Bytes that the server sends before it closes, if any.
    pub reply: Vec<u8>,
}

/// A size larger than all buffers between a server and a client that does not read: twice the maximum of the kernel's send
/// buffer (tcp(7), tcp_wmem), as the text of an option.
pub static LARGE: LazyLock<String> = LazyLock::new(|| {
    let limits = std::fs::read_to_string("/proc/sys/net/ipv4/tcp_wmem").expect("the kernel shows its limits");
    let most = limits.split_whitespace().nth(2).and_then(|most| most.parse::<usize>().ok());
    (2 * most.expect("the third of the limits is the most")).max(1 << 20).to_string()
});

/// Options with which the two ends of a workload have little to do.
#[derive(Debug, Clone, Copy)]
pub struct Brief {
    /// Options of `serve`.
    pub server: &'static [&'static str],
    /// Options of `load`.
    pub load: &'static [&'static str],
}

/// Everything that the suite knows of one workload.
pub struct Protocol {
    /// The name under which the workload is registered.
    pub name: &'static str,
    /// Options with which a server has the exchanges below.
    pub options: fn() -> Vec<String>,
    /// Options of a server and a load of this program with which no request takes long.
    pub brief: Brief,
    /// Options of a server with which the outcome of a connection depends on its bytes alone: not on how they arrive, and not
    /// on earlier requests. No request takes long.
    pub exact: &'static [&'static str],
    /// Whether boundaries of requests are independent of how bytes arrive, so that the tally's number of requests is known.
    pub framed: bool,
    /// Exchanges that every server serves, several on one connection. The reply of the first does not depend on
    /// [`Protocol::large_option`].
    pub exchanges: fn() -> Vec<Exchange>,
    /// The server's option for the length of the largest reply, as [`Protocol::large`] needs it; empty if there is none.
    pub large_option: &'static str,
    /// An exchange whose reply has [`LARGE`] bytes; `None` if the protocol has no such reply.
    pub large: Option<fn(usize) -> Exchange>,
    /// The beginning of a request; empty if every byte is a request.
    pub incomplete: &'static [u8],
    /// Bytes that break the protocol; empty if nothing does. The first ones and the reply to them fit into any buffer.
    pub wrong: fn() -> Vec<Wrong>,
    /// Kinds of errors that may be tallied if the protocol is broken.
    pub wrong_kind: &'static [&'static str],
    /// Whether replies are computed, which a design may do elsewhere.
    pub computes: bool,
    /// Whether a reply needs descriptors: without a free one there is no reply.
    pub opens_files: bool,
    /// Whether a received reply is equivalent to the expected one, from a server that busy-polls or not. Replies that depend
    /// on how the request arrived may differ.
    pub alike: fn(&[u8], &[u8], bool) -> bool,
}

/// All workloads. This is deliberately a second implementation of each protocol, next to the workload's own file: a test
/// that took correct replies from the workload would accept anything.
pub static PROTOCOLS: &[Protocol] = &[BYTES, ECHO, TOP_PROCESSES, BUCKET, HTTP, STREAM, FIELDS, BLAST];

impl Protocol {
    /// Returns the server's options that allow the large exchange.
    pub fn large_options(&self) -> Vec<&'static str> {
        if self.large_option.is_empty() { Vec::new() } else { vec![self.large_option, &LARGE] }
    }

    /// Returns the large exchange, if there is one. It has megabytes, so it is made once for all tests.
    pub fn large_exchange(&self) -> Option<&'static Exchange> {
        static MADE: Mutex<BTreeMap<&str, &Exchange>> = Mutex::new(BTreeMap::new());
        let large = self.large?;
        let make = || &*Box::leak(Box::new(large(LARGE.parse().expect("it is a number"))));
        Some(MADE.lock().expect("nobody panics with it").entry(self.name).or_insert_with(make))
    }

    /// Returns the violations of its rules. They are many, some with megabytes, so they are made once for all tests.
    pub fn wrongs(&self) -> &'static [Wrong] {
        static MADE: Mutex<BTreeMap<&str, &[Wrong]>> = Mutex::new(BTreeMap::new());
        MADE.lock().expect("nobody panics with it").entry(self.name).or_insert_with(|| (self.wrong)().leak())
    }
}

/// Returns the protocol of a registered workload.
///
/// # Panics
/// If this file has none.
pub fn of(workload: &str) -> &'static Protocol {
    let found = PROTOCOLS.iter().find(|protocol| protocol.name == workload);
    found.unwrap_or_else(|| panic!("tests/support/protocol.rs does not say what the exchanges of {workload} are"))
}

/// Defaults shared by most protocols: an entry ends with `..COMMON`.
const COMMON: Protocol = Protocol {
    name: "",
    options: Vec::new,
    brief: Brief { server: &[], load: &[] },
    exact: &[],
    framed: true,
    exchanges: Vec::new,
    large_option: "",
    large: None,
    incomplete: b"",
    wrong: Vec::new,
    wrong_kind: &["bad_request"],
    computes: false,
    opens_files: false,
    alike: |seen, right, _spins| seen == right,
};

const BYTES: Protocol = Protocol {
    name: "bytes",
    exchanges: || [4000, 1, 250, 251, 252, 16384, 10].map(bytes).to_vec(),
    large_option: "--limit",
    large: Some(bytes),
    incomplete: b"40",
    wrong: || {
        vec![
            Wrong::closed("0", b"0\n"),
            Wrong::closed("-1", b"-1\n"),
            Wrong::closed("99999999999999999999", b"99999999999999999999\n"),
            Wrong::closed("one_over_the_limit", b"16385\n"),
            Wrong::closed("letters", b"letters\n"),
            Wrong::closed("an_empty_line", b"\n"),
            Wrong::closed("two_numbers", b"40 00\n"),
            Wrong::closed("not_utf8", b"\xff\xfe\n"),
            Wrong::closed("an_endless_line", &[b'1'; 256 << 10]),
            Wrong::closed("1_MiB_of_zero_bytes", &[0; 1 << 20]),
        ]
    },
    ..COMMON
};

/// Any bytes are a request, and nothing breaks the protocol. There is no large reply: a client that sends that much without
/// reading waits for ever, by the protocol's nature.
const ECHO: Protocol = Protocol {
    name: "echo",
    framed: false,
    exchanges: || {
        let echo = |bytes: &[u8]| Exchange { request: bytes.to_vec(), reply: bytes.to_vec() };
        vec![echo(b"echo"), echo(b"\n"), echo(b"\0\xff\r\n"), echo(&[b'x'; 5000])]
    },
    ..COMMON
};

/// Reads made-up processes, so that the reply is known byte by byte. `tests/engine/serve/workloads.rs` tests with real ones.
const TOP_PROCESSES: Protocol = Protocol {
    name: "top_processes",
    options: || vec!["--closes".to_owned(), "client".to_owned(), "--proc".to_owned(), made_processes::path()],
    exchanges: || {
        let reply = b"Process 1: PID=30, Name=) (x\ny, CPU Time=1000\nProcess 2: PID=2, Name=two, CPU Time=9\n";
        let exchange = |request: &[u8]| Exchange { request: request.to_vec(), reply: reply.to_vec() };
        vec![exchange(b"Requesting top 2 processes"), exchange(b"Requesting top 2 processes\n")]
    },
    incomplete: b"Requesting top",
    wrong: || {
        let unsupported = |name, bytes: &[u8]| Wrong::answered(name, bytes, b"Unsupported request");
        vec![
            unsupported("another_number", b"Requesting top 3 processes"),
            unsupported("the_first_byte", b"r"),
            unsupported("an_empty_line", b"\n"),
            unsupported("not_utf8", b"Requesting \xff\xfe"),
            unsupported("1_MiB_of_zero_bytes", &[0; 1 << 20]),
        ]
    },
    computes: true,
    opens_files: true,
    ..COMMON
};

/// Delays of 0, so that no reply depends on earlier requests. `tests/engine/serve/workloads.rs` tests buckets that grow.
const BUCKET: Protocol = Protocol {
    name: "bucket",
    options: || vec!["--keep-connections".to_owned(), "true".to_owned()],
    brief: Brief { server: &["--unit", "1us"], load: &[] },
    exact: &["--delay-limit", "0"],
    exchanges: || {
        let exchange = |request: &[u8]| Exchange { request: request.to_vec(), reply: b"0\n".to_vec() };
        vec![exchange(b"0,0\n"), exchange(b"0,31\n"), exchange(b"000,1\r\n")]
    },
    incomplete: b"0,",
    wrong: || {
        vec![
            Wrong::closed("a_bucket_too_many", b"0,32\n"),
            Wrong::closed("a_negative_delay", b"-1,0\n"),
            Wrong::closed("too_long_a_delay", b"1001,0\n"),
            Wrong::closed("one_number", b"0\n"),
            Wrong::closed("three_numbers", b"0,0,0\n"),
            Wrong::closed("letters", b"a,b\n"),
            Wrong::closed("an_endless_line", &[b'1'; 256 << 10]),
        ]
    },
    computes: true,
    ..COMMON
};

const HTTP: Protocol = Protocol {
    name: "http",
    exchanges: || {
        let request = |line: &str| format!("{line} HTTP/1.1\r\nHost: h\r\n\r\n").into_bytes();
        let exchange = |line, reply| Exchange { request: request(line), reply };
        let head = http_head("200 OK", "application/octet-stream", 4000, "keep-alive");
        vec![
            exchange("GET /x", http_error("404 Not Found", "keep-alive", "")),
            exchange("GET /", [head.clone(), bytes(4000).reply].concat()),
            exchange("HEAD /", head),
            exchange("PUT /", http_error("405 Method Not Allowed", "keep-alive", "Allow: GET, HEAD\r\n")),
        ]
    },
    large_option: "--bytes",
    large: Some(|count| {
        let head = http_head("200 OK", "application/octet-stream", count, "keep-alive");
        let request = b"GET / HTTP/1.1\r\nHost: h\r\n\r\n".to_vec();
        Exchange { request, reply: [head, bytes(count).reply].concat() }
    }),
    incomplete: b"GET / HTTP/1.1\r\nHo",
    wrong: || {
        let bad_request = http_error("400 Bad Request", "close", "");
        let body = "Content-Length: 24\r\n\r\nGET / HTTP/1.0\r\nHost: h\r\n\r\n";
        vec![
            Wrong::answered("garbage", b"GET\r\n\r\n", &bad_request),
            Wrong::answered("no_host", b"GET / HTTP/1.1\r\n\r\n", &bad_request),
            Wrong::answered(
                "a_body",
                format!("GET / HTTP/1.1\r\nHost: h\r\n{body}").as_bytes(),
                &http_error("413 Content Too Large", "close", ""),
            ),
            Wrong::answered(
                "an_endless_head",
                &[b'x'; 256 << 10],
                &http_error("431 Request Header Fields Too Large", "close", ""),
            ),
            Wrong::answered("1_MiB_of_zero_bytes", &[0; 1 << 20], &bad_request),
        ]
    },
    ..COMMON
};

/// One direction: received bytes are counted, and sent bytes are those of `bytes`, of any requested length.
const STREAM: Protocol = Protocol {
    name: "stream",
    brief: Brief { server: &[], load: &["--stream-size", "300000"] },
    exact: &["--verify", "all"],
    exchanges: || vec![put(5), get(4000), put(1), get(1), put(3000)],
    large: Some(get),
    incomplete: b"put 5\n\0\x01",
    wrong: || {
        vec![
            Wrong::closed("a_wrong_byte", b"put 2\n\0\0"),
            Wrong::closed("put_nothing", b"put 0\n"),
            Wrong::closed("get_nothing", b"get 0\n"),
            Wrong::closed("another_word", b"gut 1\n"),
            Wrong::closed("letters", b"get many\n"),
            Wrong::closed("another_unit", b"get 1ms\n"),
            Wrong::closed("more_than_a_day", b"get 86400000001us\n"),
            Wrong::closed("an_endless_line", &[b'1'; 256 << 10]),
            Wrong::closed("1_MiB_of_zero_bytes", &[0; 1 << 20]),
        ]
    },
    ..COMMON
};

fn put(count: usize) -> Exchange {
    let request = [format!("put {count}\n").into_bytes(), bytes(count).reply].concat();
    Exchange { request, reply: format!("{count}\n").into_bytes() }
}

fn get(count: usize) -> Exchange {
    // Byte i is i % 65,536 % 251.
    let mut reply = bytes(65_536).reply.repeat(count.div_ceil(65_536));
    reply.truncate(count);
    Exchange { request: format!("get {count}\n").into_bytes(), reply }
}

/// A request is as many bytes as all fields have together, of any value: nothing breaks the protocol.
const FIELDS: Protocol = Protocol {
    name: "fields",
    options: || ["--field-size", "9"].map(str::to_owned).to_vec(),
    exchanges: || [b'A', 0, 0xff].map(|byte| Exchange { request: vec![byte; 72], reply: bytes(72).reply }).to_vec(),
    incomplete: b"AAAA",
    ..COMMON
};

/// The reply depends on how the iterations arrived: there are at least as many reads as iterations, and at most one for each
/// byte, but a busy-polling server makes many that return nothing. The count of 4 bytes has the same length for every
/// number. `tests/engine/serve/blast.rs` tests the other form.
const BLAST: Protocol = Protocol {
    name: "blast",
    options: || ["--keep-connections", "true", "--count-form", "big_endian"].map(str::to_owned).to_vec(),
    brief: Brief { server: &[], load: &["--repetitions", "50"] },
    exchanges: || {
        let exchange = |count: u8| {
            let request = [&[0, 0, 0, count][..], &vec![b'x'; 1500 * usize::from(count)]].concat();
            Exchange { request, reply: vec![0, 0, 0, count] }
        };
        vec![exchange(1), exchange(2)]
    },
    incomplete: &[0, 0, 0, 1, b'x'],
    wrong: || {
        vec![
            Wrong::closed("no_iterations", &[0; 4]),
            Wrong::closed("more_than_the_limit", &1_000_001u32.to_be_bytes()),
            Wrong::closed("the_other_order_of_bytes", &[1, 0, 0, 0]),
            Wrong::closed("1_MiB_of_zero_bytes", &[0; 1 << 20]),
        ]
    },
    alike: |seen, right, spins| {
        let reads = |four: &[u8]| u32::from_be_bytes(four.try_into().expect("four bytes"));
        // A connection may have been cut in the middle of a number.
        let all = seen.chunks_exact(4).zip(right.chunks_exact(4));
        // In the wrong byte order the number would be larger than this.
        let most = |right: u32| if spins { (1 << 24) - 1 } else { 1500 * right };
        // Operations of a ring take all arrived bytes, possibly two iterations at once.
        let in_bounds = |seen: u32, right: u32| (1..=most(right)).contains(&seen);
        seen.len() == right.len()
            && all.map(|(seen, right)| (reads(seen), reads(right))).all(|(seen, right)| in_bounds(seen, right))
    },
    ..COMMON
};

fn http_head(status: &str, kind: &str, length: usize, connection: &str) -> Vec<u8> {
    let fields = format!("Content-Type: {kind}\r\nContent-Length: {length}\r\nConnection: {connection}\r\n\r\n");
    format!("HTTP/1.1 {status}\r\n{fields}").into_bytes()
}

fn http_error(status: &str, connection: &str, more: &str) -> Vec<u8> {
    let mut head = http_head(status, "text/plain", status.len() + 1, connection);
    head.splice(head.len() - 2..head.len() - 2, more.bytes());
    [head, format!("{status}\n").into_bytes()].concat()
}

/// The exchange of the workload `bytes` for this many bytes: byte i is i % 251.
pub fn bytes(count: usize) -> Exchange {
    let period: Vec<u8> = (0..251).collect();
    let mut reply = period.repeat(count.div_ceil(period.len()));
    reply.truncate(count);
    Exchange { request: format!("{count}\n").into_bytes(), reply }
}

impl Wrong {
    /// Bytes after which the connection is closed without a reply.
    pub fn closed(name: &'static str, bytes: &[u8]) -> Wrong {
        Wrong::answered(name, bytes, b"")
    }

    /// Bytes after which the server replies with an error, and closes the connection.
    pub fn answered(name: &'static str, bytes: &[u8], reply: &[u8]) -> Wrong {
        Wrong { name, bytes: bytes.to_vec(), reply: reply.to_vec() }
    }
}
