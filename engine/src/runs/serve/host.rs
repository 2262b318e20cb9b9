//! Servers that are not ours: one that is started from a command, as `serve` starts a design, or one that is running already.
//!
//! Both print the lines of `serve`, without a tally; of a server that keeps running there is no summary. A command runs in a
//! process group of its own and in a control group, so that the CPU time of all its processes is known, and none of them is left
//! behind. If this process is killed, its keeper ends them ([`crate::runs::keeper`]).

use std::collections::VecDeque;
use std::ffi::OsString;
use std::io::{self, ErrorKind};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use crate::base::about::Entry;
use crate::base::mistake::{failure, mistake_with_hint};
use crate::count::command_tree::{addresses_of, descendants, end_descendants, listening_at};
use crate::count::control_group::CpuQuotas;
use crate::count::counter::{Counter, Counting, Readout, Subject};
use crate::count::process_tree::{Beginning, Tree};
use crate::count::tally::Tally;
use crate::lines::{Line, Ready, SCHEMA, SettingValues, Snapshot, Summary};
use crate::net::address::{self, Address};
use crate::net::socket_diagnosis::{Ends, SocketDiagnosis};
use crate::runs::serve::cpu_time::CpuTime;
use crate::runs::serve::own_counts::{self, OwnCountsReader};
use crate::runs::serve::supervision::{self, Ending, Supervised, line};
use crate::sys::clock;
use crate::sys::descriptor;
use crate::sys::process::{self, Ended, Pid};
use crate::sys::signal::{Signal, SignalDescriptor};
use crate::sys::user::User;

/// Placeholder in a command for the port to listen on. The environment has it as `PORT`, too.
const PORT: &str = "{port}";
/// Placeholder for the address to listen on, without the port; `HOST` in the environment.
const HOST: &str = "{host}";

/// Time limit for a command to accept connections.
const READY: Duration = Duration::from_secs(10);
/// Interval of looking for the listening socket of a command.
const RETRY: Duration = Duration::from_millis(5);
/// Interval of trying to connect to a command whose listening socket is not found.
const CONNECT: Duration = Duration::from_millis(250);
/// Time for a command to end after SIGTERM, before it is killed.
const TERM: Duration = Duration::from_secs(5);
/// Maximum output of a command in its life.
const MOST_OUTPUT: u64 = 16 << 20;
/// Time for the last output of a process that has ended to be read.
const LAST_OUTPUT: Duration = Duration::from_millis(200);
/// Length of the end of the output that messages show.
const TAIL: usize = 400;
/// What is missing without a thread that reads.
const UNREAD: &str = "a thread that reads from the command could not be created (ulimit -u)";
/// Exit status of a process that a shell reports as ended by SIGTERM.
const TERMINATED: i32 = 128 + Signal::SIGTERM as i32;

/// The server to host.
pub struct Plan {
    /// Command to run with its arguments; empty: the server is running already.
    pub command: Vec<OsString>,
    /// `HOST:PORT`: where the command is to listen, with a free port if it is 0; or where the running server listens.
    pub address: String,
    /// Part of a line of the command's output that reports that it is ready. `None`: it is ready when it accepts.
    pub ready_line: Option<String>,
    /// CPUs to which this process and the command are pinned.
    pub cpus: Option<Vec<usize>>,
    /// User that the command runs as; `None`: this process's.
    pub user: Option<User>,
    /// Requested counters.
    pub counters: Vec<&'static Entry<Counter>>,
}

/// Hosts a server until it is asked to stop.
pub fn host(plan: &Plan) -> Result<ExitCode> {
    if plan.command.is_empty() { watch_running(plan) } else { run_command(plan) }
}

fn run_command(plan: &Plan) -> Result<ExitCode> {
    let descriptor_limit = process::raise_descriptor_limit().context("the limit on descriptors cannot be raised")?;
    let signals = SignalDescriptor::of_children_and_interrupts()?;
    process::become_subreaper()?;
    let quotas = CpuQuotas::since_now();
    let mut hosted = Hosted::start(plan, &signals)?;
    hosted.await_ready(plan, &signals)?;
    line(&Line::Ready(Ready {
        server_pid: Some(hosted.child.as_raw()),
        cpu_source_reason: hosted.cpu_time.reason.clone(),
        descriptor_limit,
        counters: hosted.counting.reasons(),
        ..ready(hosted.address, &hosted.cpu_time, plan)
    }))?;
    let ending = supervision::watch(&mut hosted, &signals, true)?;
    let left = hosted.end()?;
    let (counts, unreadable) = match hosted.own_counts.counts() {
        Ok(counts) => (counts, None),
        Err(fault) => (None, Some(fault)),
    };
    let died = hosted.fault(ending, left).or(unreadable);
    let used = process::usage_of_children()?;
    line(&Line::Summary(Box::new(Summary {
        cpu_ns: hosted.cpu_time.read()?.unwrap_or_default(),
        used: (&used).into(),
        server_process: None,
        dead_children: None,
        max_resident_kib: used.max_resident_kib,
        tally: None,
        counts,
        workers: None,
        listen_drops: None,
        throttled_ns: quotas.throttled_ns(),
        readout: hosted.counting.read()?,
        account: Default::default(),
        account_fault: None,
        connection: None,
        died,
    })))?;
    Ok(ExitCode::SUCCESS)
}

/// A command that runs.
struct Hosted {
    child: Pid,
    address: SocketAddr,
    cpu_time: CpuTime,
    counting: Counting,
    output: Arc<Mutex<Output>>,
    own_counts: OwnCountsReader,
    /// True if every process was reaped, so that process ids may be reused.
    ended: bool,
}

impl Hosted {
    /// Forks the command, and starts it once its CPU time is counted.
    fn start(plan: &Plan, signals: &SignalDescriptor) -> Result<Self> {
        let address = free_address(&plan.address)?;
        let words = filled_in(&plan.command, address);
        let reaped = &Tally::new(0)?.general().reaped;
        process::count_reaped(reaped);
        let (gate, opener) = descriptor::pipe()?;
        let (from_child, to_parent) = descriptor::pipe()?;
        let (counts_from_child, counts) = descriptor::pipe()?;
        let child = process::fork(|| {
            descriptor::close_inherited(&opener);
            descriptor::close_inherited(signals);
            become_command(&words, address, plan.user.as_ref(), &gate, to_parent, &counts)
        })
        .context("the command could not be forked (ulimit -u)")?;
        process::lead_group(child)?;
        let tree = Tree { root: child, from: Beginning::Now, reaped };
        let cpu_time = CpuTime::of_command(child, reaped);
        let counting = Counting::begin(&plan.counters, Subject::new(tree, Some(Ends::of_server(address.port()))));
        let output = Arc::default();
        // From here on this process has further threads, which only read.
        read_all(from_child, Arc::clone(&output), child).context(UNREAD)?;
        let own_counts = OwnCountsReader::new(counts_from_child).context(UNREAD)?;
        descriptor::write(opener.as_fd(), b"\n")?;
        Ok(Hosted { child, address, cpu_time, counting, output, own_counts, ended: false })
    }

    /// Waits until the command accepts connections, or has printed its line.
    fn await_ready(&self, plan: &Plan, signals: &SignalDescriptor) -> Result<()> {
        let deadline = Instant::now() + READY;
        let mut listens = Listens::at(self.address);
        loop {
            while let Some(signal) = signals.read()? {
                if signal != Signal::SIGCHLD {
                    bail!("stopped before the command was ready");
                }
                if let Some(ended) = supervision::reap(Some(self.child))? {
                    if self.output().is_too_long() {
                        bail!("the command {}", too_long());
                    }
                    return Err(self.ended_early(&ended));
                }
            }
            let is_ready = match &plan.ready_line {
                Some(text) => self.output().seen(text),
                None => listens.by_now(),
            };
            if is_ready {
                return Ok(());
            }
            if self.output().is_too_long() {
                bail!("the command {}", too_long());
            }
            if Instant::now() > deadline {
                return Err(self.not_ready(plan, listens.prevented));
            }
            descriptor::poll(&[(signals.as_fd(), descriptor::PollFlags::POLLIN)], Some(RETRY))?;
        }
    }

    /// Returns the error of a command that ended before it listened.
    fn ended_early(&self, ended: &Ended) -> anyhow::Error {
        // Its output is read first: the descendants may still print.
        let tail = self.tail();
        if matches!(ended, Ended::Exited(0)) && !descendants().is_empty() {
            let message = format!("the command {ended} before it listened, and left processes running{tail}");
            return failure("host.in_background", message, "run the server in the foreground, not as a daemon");
        }
        let hint = format!("try the command by hand, with a port in place of {PORT}");
        failure("host.ended_early", format!("the command {ended} before it listened{tail}"), hint)
    }

    /// Returns the error of a command that is not ready in time.
    fn not_ready(&self, plan: &Plan, prevented: Option<io::Error>) -> anyhow::Error {
        let (seconds, tail) = (READY.as_secs(), self.tail());
        if let Some(text) = &plan.ready_line {
            let message = format!("the command did not print '{text}' within {seconds} s{tail}");
            return failure("host.no_ready_line", message, "without ready_line, it is ready when it listens");
        }
        if let Some(error) = prevented {
            let what = format!("connecting to {}, to see whether the command listens, failed", self.address);
            return anyhow::Error::new(error).context(what);
        }
        let addresses: Vec<_> = addresses_of(&descendants()).iter().map(ToString::to_string).collect();
        let listens = match addresses.as_slice() {
            [] => String::new(),
            known => format!(", but listens at {}", known.join(", ")),
        };
        let message = format!("the command did not listen at {} within {seconds} s{listens}{tail}", self.address);
        failure(
            "host.not_listening",
            message,
            format!("give it its port: {PORT} in its arguments, or the variable PORT"),
        )
    }

    /// Kills every process that is left. Returns how many there were after the first process had ended.
    fn end(&mut self) -> Result<usize> {
        if std::mem::replace(&mut self.ended, true) {
            return Ok(0);
        }
        end_descendants(self.child)
    }

    /// Returns what was wrong with the ending of the command.
    fn fault(&self, ending: Ending, left: usize) -> Option<String> {
        let tail = self.tail();
        if self.output().is_too_long() {
            return Some(too_long());
        }
        match ending.first {
            Some(Ended::Exited(0)) if !ending.stopped && left > 0 => Some(format!(
                "its first process exited with status 0 by itself, and left processes running: run it in the \
                 foreground{tail}"
            )),
            Some(ended) if !ending.stopped => Some(format!("its first process {ended} by itself{tail}")),
            _ if ending.killed => Some(format!("it did not end within {} s of SIGTERM{tail}", TERM.as_secs())),
            Some(Ended::Exited(0 | TERMINATED) | Ended::Killed(Signal::SIGTERM)) | None if left > 0 => {
                Some(format!("{left} of its processes outlived its first one after SIGTERM"))
            }
            Some(Ended::Exited(0 | TERMINATED) | Ended::Killed(Signal::SIGTERM)) | None => None,
            Some(ended) => Some(format!("after SIGTERM it {ended}{tail}")),
        }
    }

    fn output(&self) -> std::sync::MutexGuard<'_, Output> {
        self.output.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the end of its output, for the end of a message. Processes that are left may keep it open.
    fn tail(&self) -> String {
        let deadline = Instant::now() + LAST_OUTPUT;
        while !self.output().has_ended && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(1));
        }
        // A terminal would obey its escape sequences.
        let text = self.output().tail().replace(|each: char| each.is_control() && each != '\n', "\u{fffd}");
        if text.is_empty() { String::new() } else { format!("; its output ends: {text}") }
    }
}

impl Supervised for Hosted {
    fn first(&self) -> Option<Pid> {
        Some(self.child)
    }

    fn snapshot(&mut self) -> Result<Snapshot> {
        let monotonic_ns = clock::now();
        Ok(snapshot(monotonic_ns, self.cpu_time.read()?, self.counting.read()?))
    }

    fn stop(&mut self) -> Result<Duration> {
        process::pass_on(Signal::SIGTERM, self.child);
        Ok(TERM)
    }

    fn kill(&mut self) {
        process::kill_group(self.child);
    }
}

impl Drop for Hosted {
    /// After any failure, no process of the command may outlive its supervisor.
    fn drop(&mut self) {
        let _ = self.end();
    }
}

/// Whether a server listens. Its socket is looked up in the kernel, since a connection would be the first that the server sees,
/// and one without a byte. Only a socket in another network namespace, as of a container, is found by a connection.
struct Listens {
    address: SocketAddr,
    kernel: Option<SocketDiagnosis>,
    connects: Instant,
    /// What has kept this process from connecting, and is no answer of the server's host.
    prevented: Option<io::Error>,
}

impl Listens {
    fn at(address: SocketAddr) -> Self {
        Listens { address, kernel: SocketDiagnosis::open().ok(), connects: Instant::now() + CONNECT, prevented: None }
    }

    fn by_now(&mut self) -> bool {
        if self.kernel.as_mut().is_some_and(|kernel| kernel.accepts(self.address)) {
            return true;
        }
        if Instant::now() < self.connects {
            return false;
        }
        self.connects = Instant::now() + CONNECT;
        let connected = TcpStream::connect_timeout(&self.address, READY);
        let is_answer = |error: &io::Error| matches!(error.kind(), ErrorKind::ConnectionRefused | ErrorKind::TimedOut);
        let listens = connected.is_ok();
        self.prevented = connected.err().filter(|error| !is_answer(error));
        listens
    }
}

/// Returns the address with a free port if it has none. Another process may take the port before the command does.
fn free_address(text: &str) -> Result<SocketAddr> {
    let Some(Address::Tcp(address)) = address::resolve("--listen", text)?.into_iter().next() else {
        return Err(mistake_with_hint(
            "host.needs_tcp",
            format!("{text}: a command is reached by TCP only"),
            "give HOST:PORT, such as 127.0.0.1:0",
        ));
    };
    let free = TcpListener::bind(address).and_then(|listener| listener.local_addr());
    free.with_context(|| format!("listening on {address} failed"))
}

/// Returns the command with the address in place of its placeholders.
fn filled_in(command: &[OsString], address: SocketAddr) -> Vec<OsString> {
    let host = match address {
        SocketAddr::V4(address) => address.ip().to_string(),
        SocketAddr::V6(address) => format!("[{}]", address.ip()),
    };
    let fill = |word: &OsString| match word.to_str() {
        Some(text) => text.replace(PORT, &address.port().to_string()).replace(HOST, &host).into(),
        None => word.clone(),
    };
    command.iter().map(fill).collect()
}

/// Waits at the gate, and becomes the command. Returns only if that fails; the command's output then has the reason.
fn become_command(
    words: &[OsString],
    address: SocketAddr,
    user: Option<&User>,
    gate: &OwnedFd,
    output: OwnedFd,
    counts: &OwnedFd,
) -> i32 {
    const NOT_STARTED: i32 = 127;
    let passed = match descriptor::read(gate.as_fd(), &mut [0]) {
        // The supervisor has given up, and prints the reason.
        Ok(0) => return 0,
        Ok(_) => Ok(()),
        Err(error) => Err(error).context("its start gate could not be read (read)"),
    };
    let reason = passed.map_or_else(|reason| reason, |()| not_replaced(words, address, user, &output, counts));
    let _ = io::Write::write_all(&mut std::fs::File::from(output), format!("{reason:#}\n").as_bytes());
    NOT_STARTED
}

/// Replaces this process by the command. Returns only with the reason why that is impossible.
fn not_replaced(
    words: &[OsString],
    address: SocketAddr,
    user: Option<&User>,
    output: &OwnedFd,
    counts: &OwnedFd,
) -> anyhow::Error {
    let copies = || Ok((output.try_clone()?, output.try_clone()?));
    let copies: io::Result<_> = copies();
    let (shown, errors) = match copies.context("its output could not be duplicated (fcntl)") {
        Ok(copies) => copies,
        Err(reason) => return reason,
    };
    if let Err(error) = descriptor::keep_over_exec(counts) {
        return error.into();
    }
    if let Some(Err(error)) = user.map(User::assume) {
        return anyhow::Error::new(error).context("it cannot run as another user");
    }
    let error = Command::new(&words[0])
        .args(&words[1..])
        .env("PORT", address.port().to_string())
        .env("HOST", address.ip().to_string())
        .env(own_counts::VARIABLE, counts.as_raw_fd().to_string())
        .stdin(Stdio::null())
        .stdout(shown)
        .stderr(errors)
        .exec();
    anyhow::Error::new(error).context(words[0].display().to_string())
}

/// The output of a command: its length and its end.
#[derive(Default)]
struct Output {
    bytes: u64,
    end: VecDeque<u8>,
    /// Everything until the server is ready, to look for its line.
    beginning: Vec<u8>,
    /// True if no process can write any more.
    has_ended: bool,
}

impl Output {
    fn add(&mut self, piece: &[u8]) {
        self.bytes += piece.len() as u64;
        self.end.extend(piece);
        let too_many = self.end.len().saturating_sub(TAIL);
        self.end.drain(..too_many);
        if self.beginning.len() < MOST_OUTPUT as usize {
            self.beginning.extend_from_slice(piece);
        }
    }

    fn seen(&self, text: &str) -> bool {
        self.beginning.split(|&byte| byte == b'\n').any(|line| String::from_utf8_lossy(line).contains(text))
    }

    fn is_too_long(&self) -> bool {
        self.bytes > MOST_OUTPUT
    }

    fn tail(&self) -> String {
        let bytes: Vec<u8> = self.end.iter().copied().collect();
        let text = String::from_utf8_lossy(&bytes);
        let lines: Vec<&str> = text.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
        lines.join(" / ")
    }
}

fn too_long() -> String {
    format!("printed more than {} MiB", MOST_OUTPUT >> 20)
}

/// Reads the output in a thread until its end. A command that prints too much is killed.
fn read_all(from: OwnedFd, output: Arc<Mutex<Output>>, child: Pid) -> io::Result<()> {
    let read = move || {
        let mut buffer = [0; 65536];
        loop {
            let read = descriptor::read(from.as_fd(), &mut buffer);
            let mut output = output.lock().unwrap_or_else(PoisonError::into_inner);
            match read {
                Ok(0) => break,
                Ok(bytes) => output.add(&buffer[..bytes]),
                Err(error) => {
                    output.add(format!("\nno more of its output could be read: {error}\n").as_bytes());
                    break;
                }
            }
            if output.is_too_long() {
                process::kill_group(child);
                break;
            }
        }
        output.lock().unwrap_or_else(PoisonError::into_inner).has_ended = true;
    };
    std::thread::Builder::new().spawn(read).map(drop)
}

// A server that is running ------------------------------------------------------------------------------------------------

fn watch_running(plan: &Plan) -> Result<ExitCode> {
    let signals = SignalDescriptor::of_children_and_interrupts()?;
    let addresses = address::resolve("--listen", &plan.address)?;
    let accepts = addresses.iter().find_map(|each| match each {
        Address::Tcp(address) => {
            let listens = SocketDiagnosis::open().is_ok_and(|mut kernel| kernel.accepts(*address));
            (listens || TcpStream::connect_timeout(address, READY).is_ok()).then_some(*address)
        }
        Address::Unix(_) | Address::UnixPath(_) => None,
    });
    let address = accepts.ok_or_else(|| {
        mistake_with_hint(
            "host.not_running",
            format!("nothing accepts at {}", plan.address),
            "start the server first; ss -ltn shows who listens",
        )
    })?;
    let processes = listening_at(address);
    let first = processes.as_ref().ok().and_then(|processes| processes.first()).copied();
    let mut running = Running { cpu_time: CpuTime::of_running(processes) };
    let not_ours = "it counts a server that this run has started";
    let counters = plan.counters.iter().map(|entry| (entry.name.to_owned(), Some(not_ours.to_owned()))).collect();
    line(&Line::Ready(Ready {
        server_pid: first.map(Pid::as_raw),
        cpu_source_reason: running.cpu_time.reason.clone(),
        counters,
        ..ready(address, &running.cpu_time, plan)
    }))?;
    // It keeps running, so there is no account of its life.
    supervision::watch(&mut running, &signals, true)?;
    Ok(ExitCode::SUCCESS)
}

/// A server that was running before.
struct Running {
    cpu_time: CpuTime,
}

impl Supervised for Running {
    fn first(&self) -> Option<Pid> {
        None
    }

    fn snapshot(&mut self) -> Result<Snapshot> {
        Ok(snapshot(clock::now(), self.cpu_time.read()?, Readout::default()))
    }

    fn stop(&mut self) -> Result<Duration> {
        Ok(Duration::ZERO)
    }

    fn kill(&mut self) {}
}

// The lines of both -------------------------------------------------------------------------------------------------------

fn ready(address: SocketAddr, cpu_time: &CpuTime, plan: &Plan) -> Ready {
    Ready {
        schema: SCHEMA,
        address: address.to_string(),
        port: Some(address.port()),
        supervisor_pid: Pid::this().as_raw(),
        server_pid: None,
        design: None,
        primitive: None,
        receive: None,
        workload: None,
        settings: SettingValues::new(),
        spins: false,
        cpu_source: cpu_time.source(),
        cpu_source_reason: None,
        socket: None,
        cpus: plan.cpus.clone(),
        descriptor_limit: process::descriptor_limits().map_or(0, |(soft, _)| soft),
        counters: Default::default(),
    }
}

fn snapshot(monotonic_ns: u64, cpu_ns: Option<u64>, readout: Readout) -> Snapshot {
    Snapshot {
        monotonic_ns,
        cpu_ns,
        tally: None,
        workers: None,
        listen_drops: None,
        listen_queue: None,
        readout,
        read_ns: clock::now(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn placeholders_become_the_address() {
        let words = ["serve".into(), "--listen={host}:{port}".into(), "{port}".into()];
        let filled = filled_in(&words, "127.0.0.2:81".parse().unwrap());
        assert_eq!(filled, ["serve", "--listen=127.0.0.2:81", "81"].map(OsString::from));
        let filled = filled_in(&words, "[::1]:81".parse().unwrap());
        assert_eq!(filled[1], OsString::from("--listen=[::1]:81"));
    }

    #[test]
    fn output_keeps_its_end_and_finds_lines_of_its_beginning() {
        let mut output = Output::default();
        output.add(b"star");
        output.add(b"ted on 80\n");
        output.add(&[b'x'; 2 * TAIL]);
        assert!(output.seen("started on"));
        assert!(!output.seen("80\nx"));
        assert_eq!(output.tail().len(), TAIL);
        assert!(!output.is_too_long());
        output.bytes = MOST_OUTPUT + 1;
        assert!(output.is_too_long());
    }
}
