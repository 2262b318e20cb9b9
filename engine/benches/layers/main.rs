//! The cost of each layer of a load: one event loop for connections of different kinds, from a bare socket to everything
//! that the load counts for a request, with the load's own types. `python bench layers` compares it with the whole load.
//!
//! `layers KIND ADDRESS CLIENTS BYTES WARM_UP_MILLISECONDS MILLISECONDS` sends requests to a server of the workload `bytes`,
//! and prints requests, nanoseconds and CPU nanoseconds of the window as a line of JSON. `layers serve LOOP ADDRESS` is a
//! server of that workload with a bare loop (`servers.rs`).

mod servers;

use std::collections::BTreeMap;
use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail};
use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout};
use nix::time::{ClockId, clock_gettime};
use thunderherd_engine::base::about::Entry;
use thunderherd_engine::base::setting::{Settings, Value};
use thunderherd_engine::base::window::Window;
use thunderherd_engine::client::exchange::{Caller, Failure, Progress};
use thunderherd_engine::client::measure::Measure;
use thunderherd_engine::count::tally::Tally;
use thunderherd_engine::protocol::pattern::BYTES;
use thunderherd_engine::protocol::workload::{Client, Workload};
use thunderherd_engine::registry::catalogue::{defaults, find, way};
use thunderherd_engine::sys::clock::now;
use thunderherd_engine::workloads::WORKLOADS;

/// Events of one wait.
const EVENTS: usize = 256;

/// Bytes of one receive.
const BUFFER: usize = 65_536;

/// A connection that always has one request in flight.
trait Connection {
    /// Returns the socket, which is non-blocking.
    fn socket(&self) -> BorrowedFd<'_>;

    /// Sends a request.
    fn send_request(&mut self, shared: &mut Shared) -> Result<()>;

    /// Receives available data; true at the end of the reply.
    fn receive(&mut self, shared: &mut Shared) -> Result<bool>;
}

/// State shared by all connections of a loop.
struct Shared {
    buffer: Box<[u8]>,
    measure: Measure<'static>,
}

/// A socket, a request, and the number of bytes still to arrive.
struct Bare {
    stream: TcpStream,
    request: Box<[u8]>,
    bytes: usize,
    left: usize,
}

impl Connection for Bare {
    fn socket(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }

    fn send_request(&mut self, _shared: &mut Shared) -> Result<()> {
        self.left = self.bytes;
        if self.stream.write(&self.request)? < self.request.len() {
            bail!("a request was cut, which this benchmark does not support");
        }
        Ok(())
    }

    fn receive(&mut self, shared: &mut Shared) -> Result<bool> {
        match self.stream.read(&mut shared.buffer) {
            Ok(0) => bail!("the server has closed"),
            Ok(bytes) => self.left = self.left.checked_sub(bytes).context("more bytes arrived than requested")?,
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            Err(error) => return Err(error.into()),
        }
        Ok(self.left == 0)
    }
}

/// The load's own session: the conversation that makes requests and compares replies, inbox, outbox, primitives, counts.
struct Session(Caller<'static>);

impl Connection for Session {
    fn socket(&self) -> BorrowedFd<'_> {
        self.0.socket()
    }

    fn send_request(&mut self, _shared: &mut Shared) -> Result<()> {
        self.0.send_request().map_err(failed)?;
        if self.0.is_sending() {
            Err(anyhow!("a request was cut, which this benchmark does not support"))
        } else {
            Ok(())
        }
    }

    fn receive(&mut self, _shared: &mut Shared) -> Result<bool> {
        match self.0.advance().map_err(failed)? {
            Progress::Answered { open: false } => Err(anyhow!("the server has closed")),
            Progress::Answered { open: true } => Ok(true),
            Progress::Blocked(_) | Progress::Yields(_) => Ok(false),
        }
    }
}

fn failed(failure: Failure) -> anyhow::Error {
    anyhow!(failure.message)
}

/// In addition, its two readings of the clock, and its histogram.
struct Timed {
    session: Session,
    sent_at: u64,
}

impl Connection for Timed {
    fn socket(&self) -> BorrowedFd<'_> {
        self.session.socket()
    }

    fn send_request(&mut self, shared: &mut Shared) -> Result<()> {
        self.sent_at = now();
        self.session.send_request(shared)
    }

    fn receive(&mut self, shared: &mut Shared) -> Result<bool> {
        let answered = self.session.receive(shared)?;
        if answered {
            shared.measure.answered(None, self.sent_at, now());
        }
        Ok(answered)
    }
}

/// In addition, the number of requests in the system, for checking latencies by Little's law.
struct Checked(Timed);

impl Connection for Checked {
    fn socket(&self) -> BorrowedFd<'_> {
        self.0.socket()
    }

    fn send_request(&mut self, shared: &mut Shared) -> Result<()> {
        self.0.send_request(shared)?;
        shared.measure.comes(self.0.sent_at);
        Ok(())
    }

    fn receive(&mut self, shared: &mut Shared) -> Result<bool> {
        let answered = self.0.session.receive(shared)?;
        if answered {
            let at = now();
            shared.measure.goes(at);
            shared.measure.answered(None, self.0.sent_at, at);
        }
        Ok(answered)
    }
}

/// State of a loop at an edge of its window.
struct Edge {
    at: Instant,
    cpu: Duration,
    requests: u64,
}

impl Edge {
    fn of(requests: u64) -> Result<Self> {
        Ok(Edge { at: Instant::now(), cpu: clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID)?.into(), requests })
    }
}

/// Runs one thread, in which each connection sends again when it is answered.
fn run<C: Connection>(mut connections: Vec<C>, window: &'static Window, times: [Duration; 2]) -> Result<()> {
    let epoll = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC)?;
    let mut shared = Shared { buffer: vec![0; BUFFER].into(), measure: Measure::new(window) };
    let [warm_up, length] = times;
    let starts = now() + warm_up.as_nanos() as u64;
    window.set(starts..starts + length.as_nanos() as u64);
    for (number, connection) in connections.iter_mut().enumerate() {
        epoll.add(connection.socket(), EpollEvent::new(EpollFlags::EPOLLIN, number as u64))?;
        connection.send_request(&mut shared)?;
    }
    let mut events = [EpollEvent::empty(); EVENTS];
    let (began, mut requests, mut first) = (Instant::now(), 0, None);
    let last = loop {
        let ready = epoll.wait(&mut events, EpollTimeout::from(1000_u16))?;
        if ready == 0 {
            bail!("no reply came for a second");
        }
        for event in &events[..ready] {
            let connection = &mut connections[event.data() as usize];
            if connection.receive(&mut shared)? {
                requests += 1;
                connection.send_request(&mut shared)?;
            }
        }
        let passed = began.elapsed();
        if first.is_none() && passed >= warm_up {
            first = Some(Edge::of(requests)?);
        }
        if passed >= warm_up + length {
            break Edge::of(requests)?;
        }
    };
    let first = first.unwrap_or(Edge { at: began, cpu: Duration::ZERO, requests: 0 });
    let line = serde_json::json!({
        "requests": last.requests - first.requests,
        "elapsed_ns": (last.at - first.at).as_nanos() as u64,
        "cpu_ns": (last.cpu - first.cpu).as_nanos() as u64,
    });
    println!("{line}");
    Ok(())
}

/// The client end of the workload, and the state that its connections need.
struct ClientSide {
    settings: Settings,
    client: &'static dyn Client,
    tally: &'static Tally,
    window: &'static Window,
}

impl ClientSide {
    fn new(bytes: u64) -> Result<Self> {
        let workload: &Entry<Workload> = find(WORKLOADS, defaults::WORKLOAD);
        let way = way(defaults::SENDS, defaults::RECEIVES);
        let declared = [workload.item.client_settings, &way.settings()].concat();
        let settings = Settings::new(&declared, &BTreeMap::from([(BYTES.name, Value::Integer(bytes))]));
        let client = Box::leak((workload.item.client)(&settings)?);
        let window = Box::leak(Box::new(Window::to_come()));
        Ok(ClientSide { settings, client, tally: Tally::new(1)?, window })
    }

    fn sessions(&self, streams: Vec<TcpStream>) -> Result<Vec<Session>> {
        let mut openers = way(defaults::SENDS, defaults::RECEIVES).prepare(&self.settings)?;
        let mut session = |stream: TcpStream| {
            let channel = openers.open(OwnedFd::from(stream), self.tally.worker(0))?;
            Ok(Session(Caller::new(channel, self.client, None, self.window, Duration::from_secs(10))))
        };
        streams.into_iter().map(&mut session).collect()
    }
}

fn main() -> Result<()> {
    // `cargo bench` passes this option.
    let words: Vec<String> = std::env::args().skip(1).filter(|word| word != "--bench").collect();
    if let [serve, name, address] = &words[..]
        && serve == "serve"
    {
        return servers::serve(name, address);
    }
    let [kind, address, clients, bytes, warm_up, length] = &words[..] else {
        eprintln!("layers KIND ADDRESS CLIENTS BYTES WARM_UP_MILLISECONDS MILLISECONDS: `python bench layers` runs it");
        return Ok(());
    };
    let bytes: u64 = bytes.parse().context("BYTES")?;
    let mut streams = Vec::new();
    for _ in 0..clients.parse().context("CLIENTS")? {
        let stream = TcpStream::connect(address).with_context(|| format!("connecting to {address}"))?;
        stream.set_nonblocking(true)?;
        stream.set_nodelay(true)?;
        streams.push(stream);
    }
    let milliseconds = |text: &str| text.parse().map(Duration::from_millis).context("milliseconds");
    let times = [milliseconds(warm_up)?, milliseconds(length)?];
    let client_side = ClientSide::new(bytes)?;
    let window = client_side.window;
    let timed = |session| Timed { session, sent_at: 0 };
    match kind.as_str() {
        "bare" => {
            let request: Box<[u8]> = format!("{bytes}\n").into_bytes().into();
            let bytes = bytes as usize;
            let bare = |stream| Bare { stream, request: request.clone(), bytes, left: 0 };
            run(streams.into_iter().map(bare).collect(), window, times)
        }
        "session" => run(client_side.sessions(streams)?, window, times),
        "histogram" => run(client_side.sessions(streams)?.into_iter().map(timed).collect(), window, times),
        "checks" => {
            let checked = client_side.sessions(streams)?.into_iter().map(|session| Checked(timed(session))).collect();
            run(checked, window, times)
        }
        other => bail!("no kind {other:?}; there are bare, session, histogram, checks"),
    }
}
