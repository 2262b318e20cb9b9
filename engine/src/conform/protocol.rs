//! What clients of each workload say, and what they must get: a second implementation of every protocol, next to the
//! workload's own file. A suite that took correct replies from the workload would accept anything.

use crate::conform::chance::Chance;
use crate::conform::http::reply::{self, HttpReply};
use crate::conform::verdict::{bytes as number_of, quoted};

/// A request and the reply that it must get.
pub struct Exchange {
    /// The bytes that the client sends.
    pub request: Vec<u8>,
    /// The reply.
    pub reply: Reply,
}

/// A correct reply.
pub enum Reply {
    /// These bytes.
    Exactly(Vec<u8>),
    /// Bytes of a form, for a reply that depends on more than the request.
    Form {
        /// The form in words, for a fault.
        words: &'static str,
        /// Judges the bytes so far; the flag says that no more will come.
        judge: fn(&[u8], bool) -> Progress,
    },
}

/// Judgement of the bytes that have come so far.
#[derive(Debug, PartialEq, Eq)]
pub enum Progress {
    /// Right so far, and more must come.
    More,
    /// The reply is complete, and has this length.
    Complete(usize),
    /// This came instead.
    Wrong(String),
}

impl Reply {
    /// Judges the bytes so far. `ended`: no more will come.
    pub fn judge(&self, actual: &[u8], ended: bool) -> Progress {
        let right = match self {
            Reply::Form { judge, .. } => return judge(actual, ended),
            Reply::Exactly(right) => right,
        };
        let compared = actual.len().min(right.len());
        match actual[..compared].iter().zip(right).position(|(seen, right)| seen != right) {
            Some(place) => {
                Progress::Wrong(format!("byte {place} of the reply is {}, not {}", actual[place], right[place]))
            }
            None if compared == right.len() => Progress::Complete(compared),
            None => Progress::More,
        }
    }

    /// Describes it for a fault.
    pub fn in_words(&self) -> String {
        match self {
            Reply::Form { words, .. } => (*words).to_owned(),
            Reply::Exactly(right) if right.len() <= 24 => format!("the reply {}", quoted(right)),
            Reply::Exactly(right) => format!("a reply of {}", number_of(right.len())),
        }
    }
}

/// Makes an exchange: the path of the resource, the number of the exchange, and chance.
type Made = fn(&str, usize, &mut Chance) -> Exchange;

/// All that the cases know of a workload.
pub struct Protocol {
    /// Name of the workload.
    pub name: &'static str,
    /// An exchange with a server that has its default settings. The first numbers have sizes at which servers go wrong.
    pub exchange: Made,
    /// A short exchange, to be cut at every byte.
    pub short: fn(&str, &mut Chance) -> Exchange,
    /// The exchange with the largest reply.
    pub largest: fn(&str) -> Exchange,
    /// Whether another request may follow on the connection, also before the reply has come.
    pub keeps: bool,
    /// Whether part of a request gets no reply. If not, every byte is a request.
    pub framed: bool,
    /// More bytes than a server needs to take as one request.
    pub giant: fn(&str) -> Vec<u8>,
    /// Bytes that break the protocol, or end within a request; of a protocol whose requests have any bytes, those at which
    /// servers go wrong.
    pub garbage: &'static [&'static [u8]],
    /// Further exchanges: messages that end as lines and strings do.
    pub endings: fn() -> Vec<Exchange>,
    /// Requests that a server may read or refuse, with the reply of one that reads them.
    pub lenient: fn() -> Vec<Exchange>,
    /// Whether a reply says that it is the last one of its connection.
    pub is_last: fn(&[u8]) -> bool,
    /// Whether it is HTTP, with cases of its own.
    pub is_http: bool,
}

/// Largest reply and message of a server with default settings.
const LARGEST: usize = 16_384;
/// Largest message of clients that send all of it before they receive.
const LARGEST_ECHO: usize = 5000;
/// Length of the giant request.
const GIANT: usize = 1 << 20;

/// Sizes at which the repeated pattern and powers of two begin anew.
const EDGES: [usize; 6] = [1, LARGEST, 251, 252, 4096, 250];

fn size(number: usize, most: usize, chance: &mut Chance) -> usize {
    EDGES.get(number).map_or_else(|| 1 + chance.below(most), |&edge| edge.min(most))
}

/// All workloads.
pub static PROTOCOLS: &[Protocol] = &[BYTES, ECHO, TOP_PROCESSES, BUCKET, HTTP, STREAM, FIELDS, BLAST];

/// Returns the protocol of a workload.
pub fn find(workload: &str) -> Option<&'static Protocol> {
    PROTOCOLS.iter().find(|protocol| protocol.name == workload)
}

const BYTES: Protocol = Protocol {
    name: "bytes",
    exchange: |_, number, chance| counted(size(number, LARGEST, chance)),
    short: |_, chance| counted(1000 + chance.below(9000)),
    largest: |_| counted(LARGEST),
    keeps: true,
    framed: true,
    giant: |_| vec![b'1'; GIANT],
    garbage: &[b"letters\n", b"-1\n", b"0\n", b"\n", b"40 00\n", b"99999999999999999999\n", b"\xff\xfe\n"],
    endings: Vec::new,
    lenient: number_with_blanks,
    is_last: |_| false,
    is_http: false,
};

/// The exchange of the workload `bytes` for this many bytes: byte i is i % 251.
fn counted(count: usize) -> Exchange {
    Exchange { request: format!("{count}\n").into_bytes(), reply: Reply::Exactly(pattern(count)) }
}

/// Our server reads a number with white space around it, as telnet sends it and `atoi` reads it. The workload does not say that
/// a server must, but what is no number has no other reply.
fn number_with_blanks() -> Vec<Exchange> {
    let requests = [" 6\n", "6 \n", "6\r\n", "006\n"];
    requests.map(|request| Exchange { request: request.into(), ..counted(6) }).into()
}

/// Ends of messages at which servers go wrong that take them for strings or lines.
const ENDS: [&[u8]; 4] = [b"\0", b"\n", b"\r\n", b"\n\0"];

/// Bytes that are no less a request, or the beginning of one, than others.
const ANY_BYTES: &[&[u8]] =
    &[b"\0", b"\n", b"\r\n\r\n", b"GET / HTTP/1.1\r\nHost: h\r\n\r\n", b"quit\n", b"%s%n%d\n", b"\xff\xfe", b"\x04"];

fn pattern(count: usize) -> Vec<u8> {
    (0..251).cycle().take(count).collect()
}

const ECHO: Protocol = Protocol {
    name: "echo",
    exchange: |_, number, chance| {
        let length = size(number, LARGEST_ECHO, chance);
        echoed(chance.bytes(length))
    },
    short: |_, chance| echoed(chance.bytes(20)),
    largest: |_| echoed(pattern(LARGEST_ECHO)),
    keeps: true,
    framed: false,
    giant: |_| pattern(GIANT),
    garbage: ANY_BYTES,
    endings: || ENDS.iter().flat_map(|end| [echoed(end.to_vec()), echoed([b"a", *end].concat())]).collect(),
    lenient: Vec::new,
    is_last: |_| false,
    is_http: false,
};

fn echoed(bytes: Vec<u8>) -> Exchange {
    Exchange { request: bytes.clone(), reply: Reply::Exactly(bytes) }
}

/// The kernel says how many ticks each process has.
pub const TOP_PROCESSES: Protocol = Protocol {
    name: "top_processes",
    exchange: |_, _, _| top_two(),
    short: |_, _| top_two(),
    largest: |_| top_two(),
    keeps: false,
    framed: true,
    giant: |_| vec![0; GIANT],
    garbage: &[b"Requesting top 3 processes", b"r", b"\n", b"Requesting \xff\xfe"],
    endings: Vec::new,
    lenient: Vec::new,
    is_last: |_| false,
    is_http: false,
};

fn top_two() -> Exchange {
    let judge = |actual: &[u8], ended: bool| {
        let text = String::from_utf8_lossy(actual);
        let second = text.split_once("\nProcess 2: PID=").map_or("", |(_, second)| second);
        let ticks = second.rsplit_once("CPU Time=").and_then(|(_, ticks)| ticks.strip_suffix('\n'));
        let is_number = ticks.is_some_and(|ticks| ticks.bytes().all(|byte| byte.is_ascii_digit()));
        match "Process 1: PID=".bytes().zip(actual).find(|(right, seen)| right != *seen) {
            Some(_) => Progress::Wrong(quoted(actual)),
            None if is_number => Progress::Complete(actual.len()),
            None if ended => Progress::Wrong(format!("the end after {}", quoted(actual))),
            None => Progress::More,
        }
    };
    let reply = Reply::Form { words: "two lines, with process, name and CPU time", judge };
    Exchange { request: b"Requesting top 2 processes".to_vec(), reply }
}

/// Delays of 0, so that no reply takes long.
pub const BUCKET: Protocol = Protocol {
    name: "bucket",
    exchange: |_, _, chance| added(0, chance.below(32)),
    short: |_, chance| added(0, 10 + chance.below(20)),
    largest: |_| added(0, 0),
    keeps: false,
    framed: true,
    giant: |_| vec![b'1'; GIANT],
    garbage: &[b"0,32\n", b"-1,0\n", b"0\n", b"0,0,0\n", b"a,b\n", b"\n"],
    endings: Vec::new,
    lenient: Vec::new,
    is_last: |_| false,
    is_http: false,
};

/// The exchange that adds a delay to a bucket.
pub fn added(delay: usize, bucket: usize) -> Exchange {
    let reply = Reply::Form { words: "a number and a newline", judge: |actual, _| number(actual) };
    Exchange { request: format!("{delay},{bucket}\n").into_bytes(), reply }
}

/// Judges a line with a number.
fn number(actual: &[u8]) -> Progress {
    let digits = actual.iter().take_while(|byte| byte.is_ascii_digit()).count();
    match actual.get(digits) {
        None => Progress::More,
        Some(b'\n') if digits > 0 => Progress::Complete(digits + 1),
        Some(_) => Progress::Wrong(quoted(actual)),
    }
}

const HTTP: Protocol = Protocol {
    name: "http",
    exchange: |path, number, chance| match number % 3 {
        0 => got("GET", path),
        1 => got("HEAD", path),
        // A server may have resources of any size, or none.
        _ => of_any_status(&format!("/bytes/{}", 1 + chance.below(LARGEST))),
    },
    short: |path, _| got("GET", path),
    largest: |path| got("GET", path),
    keeps: true,
    framed: true,
    giant: |path| [format!("GET {path}?").into_bytes(), vec![b'x'; GIANT]].concat(),
    garbage: &[b"GET\r\n\r\n", b"\0\0\0\0\r\n\r\n", b"GET / HTTP/9.9.9\r\nHost: h\r\n\r\n", b"\xff\xfe\xfd / \r\n\r\n"],
    endings: Vec::new,
    lenient: Vec::new,
    is_last: reply::is_last,
    is_http: true,
};

/// HTTP for a load that judges statuses by itself: it may expect any of them, such as 404 or 304.
pub static HTTP_OF_ANY_STATUS: Protocol = Protocol {
    exchange: |path, _, _| of_any_status(path),
    short: |path, _| of_any_status(path),
    largest: |path| of_any_status(path),
    ..HTTP
};

fn got(method: &str, path: &str) -> Exchange {
    let judge: fn(&[u8], bool) -> Progress = match method {
        "HEAD" => |actual, ended| web(actual, true, ended, HttpReply::is_success),
        _ => |actual, ended| web(actual, false, ended, HttpReply::is_success),
    };
    let words = "a reply of HTTP with a status of class 2 or 3 (--path, or the URL, names a path that the server has)";
    Exchange { request: asked(method, path), reply: Reply::Form { words, judge } }
}

fn of_any_status(path: &str) -> Exchange {
    let judge = |actual: &[u8], ended| web(actual, false, ended, |reply| reply.status != 400 && reply.status < 500);
    Exchange { request: asked("GET", path), reply: Reply::Form { words: "a reply of HTTP to a valid request", judge } }
}

fn asked(method: &str, path: &str) -> Vec<u8> {
    format!("{method} {path} HTTP/1.1\r\nHost: h\r\n\r\n").into_bytes()
}

/// Judges a reply to a valid request by its status.
fn web(actual: &[u8], head_only: bool, ended: bool, is_right: fn(&HttpReply) -> bool) -> Progress {
    match reply::read(actual, head_only, ended) {
        Err(wrong) => Progress::Wrong(wrong),
        Ok(None) => Progress::More,
        Ok(Some(reply)) if !is_right(&reply) => Progress::Wrong(reply.in_words()),
        Ok(Some(reply)) => Progress::Complete(reply.length),
    }
}

const STREAM: Protocol = Protocol {
    name: "stream",
    exchange: |_, number, chance| {
        let length = size(number, LARGEST, chance);
        if number % 2 == 0 { fetched(length) } else { put(length) }
    },
    short: |_, chance| put(2 + chance.below(8)),
    largest: |_| fetched(LARGEST),
    keeps: true,
    framed: true,
    giant: |_| vec![b'1'; GIANT],
    garbage: &[b"put 2\n\0\0", b"put 0\n", b"get 0\n", b"gut 1\n", b"get many\n", b"get 1ms\n"],
    endings: Vec::new,
    lenient: Vec::new,
    is_last: |_| false,
    is_http: false,
};

fn put(count: usize) -> Exchange {
    let request = [format!("put {count}\n").into_bytes(), pattern(count)].concat();
    Exchange { request, reply: Reply::Exactly(format!("{count}\n").into_bytes()) }
}

fn fetched(count: usize) -> Exchange {
    Exchange { request: format!("get {count}\n").into_bytes(), reply: Reply::Exactly(pattern(count)) }
}

/// A request is as many bytes as all fields have together, of any value.
const FIELDS: Protocol = Protocol {
    name: "fields",
    exchange: |_, _, chance| message(chance.bytes(MESSAGE)),
    short: |_, _| message(vec![b'A'; MESSAGE]),
    largest: |_| message(vec![0; MESSAGE]),
    keeps: true,
    framed: true,
    giant: |_| vec![b'A'; GIANT],
    garbage: ANY_BYTES,
    endings: || ENDS.iter().map(|end| message([&[b'A'; MESSAGE][end.len()..], *end].concat())).collect(),
    lenient: Vec::new,
    is_last: |_| false,
    is_http: false,
};

/// Bytes of a message with fields of the usual size.
const MESSAGE: usize = 8 * 1024;

fn message(request: Vec<u8>) -> Exchange {
    let reply = Reply::Exactly(pattern(request.len()));
    Exchange { request, reply }
}

/// The reply, a number of read calls, depends on how the bytes arrived.
pub const BLAST: Protocol = Protocol {
    name: "blast",
    exchange: |_, _, chance| iterations(1 + chance.below(4)),
    short: |_, _| iterations(1),
    largest: |_| iterations(4),
    keeps: false,
    framed: true,
    giant: |_| vec![b'1'; GIANT],
    garbage: &[b"0\n", b"1000001\n", b"many\n", b"\n", b"\xff\n"],
    endings: Vec::new,
    lenient: Vec::new,
    is_last: |_| false,
    is_http: false,
};

/// The exchange with this many iterations.
pub fn iterations(count: usize) -> Exchange {
    let reply = Reply::Form { words: "the number of reads and a newline", judge: |actual, _| number(actual) };
    Exchange { request: [format!("{count}\n").into_bytes(), vec![b'x'; 1500 * count]].concat(), reply }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workloads::WORKLOADS;

    #[test]
    fn a_path_that_the_server_has_gets_a_status_of_success() {
        for (status, is_right, may_be_expected) in
            [(200, true, true), (204, true, true), (301, true, true), (404, false, true), (418, false, true)]
                .into_iter()
                .chain([(400, false, false), (503, false, false)])
        {
            let reply = format!("HTTP/1.1 {status} X\r\nContent-Length: 0\r\n\r\n");
            let judged = |protocol: &Protocol| {
                let exchange = (protocol.short)("/", &mut Chance::new(1, 1));
                exchange.reply.judge(reply.as_bytes(), false) == Progress::Complete(reply.len())
            };
            assert_eq!((judged(&HTTP), judged(&HTTP_OF_ANY_STATUS)), (is_right, may_be_expected), "{status}");
        }
    }

    #[test]
    fn a_protocol_is_that_of_a_workload_and_has_one_entry() {
        let names: Vec<&str> = PROTOCOLS.iter().map(|protocol| protocol.name).collect();
        let known: Vec<&str> = WORKLOADS.iter().map(|entry| entry.name).filter(|name| names.contains(name)).collect();
        assert_eq!(names, known);
    }

    #[test]
    fn bytes_are_judged_at_the_first_wrong_one() {
        let reply = Reply::Exactly(b"abc".to_vec());
        assert_eq!(reply.judge(b"ab", false), Progress::More);
        assert_eq!(reply.judge(b"abcd", false), Progress::Complete(3));
        assert!(matches!(reply.judge(b"aXc", false), Progress::Wrong(actual) if actual.contains("byte 1")));
    }

    #[test]
    fn numbers_and_the_two_processes_are_judged_by_their_form() {
        assert_eq!(number(b"12"), Progress::More);
        assert_eq!(number(b"12\n3"), Progress::Complete(3));
        assert!(matches!(number(b"\n"), Progress::Wrong(_)));
        let reply = b"Process 1: PID=30, Name=) (x\ny, CPU Time=1000\nProcess 2: PID=2, Name=two, CPU Time=9\n";
        let exchange = top_two();
        for cut in 0..reply.len() {
            assert_eq!(exchange.reply.judge(&reply[..cut], false), Progress::More, "{cut}");
        }
        assert_eq!(exchange.reply.judge(reply, false), Progress::Complete(reply.len()));
        assert!(matches!(exchange.reply.judge(b"Unsupported", false), Progress::Wrong(_)));
    }
}
