//! Shared code of the tests: the real binary, its processes as /proc shows them, and clients that misbehave.

// Two test programs use parts of this; clients and protocols are mostly used by conformance.
#![allow(dead_code)]

pub mod asking;
pub mod both_ends;
pub mod client;
pub mod event_loops;
pub mod gated;
pub mod interactive;
pub mod lines;
pub mod made_processes;
pub mod namespaces;
pub mod process;
pub mod protocol;
pub mod seccomp;
pub mod server;
pub mod table;
pub mod unserved;

use std::os::unix::process::CommandExt;
use std::process::Command;
use std::time::{Duration, Instant};

use nix::sys::resource::{Resource, getrlimit, setrlimit};

/// Maximum wait of any test. Only failures take this long.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// The program under test.
pub const ENGINE: &str = env!("CARGO_BIN_EXE_thunderherd-engine");

/// A command that runs the program under test.
pub fn engine() -> Command {
    Command::new(ENGINE)
}

/// Returns everything that is registered: `list --json`.
pub fn catalogue() -> serde_json::Value {
    let listed = run(engine().args(["list", "--json"]));
    assert_eq!(listed.status, Some(0), "{listed:?}");
    serde_json::from_str(&listed.output).expect("list --json prints JSON")
}

/// Repeats a look until it finds something, and returns that.
///
/// # Panics
/// If it finds nothing within [`PATIENCE`].
pub fn eventually<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    eventually_within(PATIENCE, what, &mut look)
}

/// As [`eventually`], with another maximum wait.
pub fn eventually_within<T>(patience: Duration, what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + patience;
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(Instant::now() < deadline, "not within {patience:?}: {what}");
        std::thread::sleep(Duration::from_millis(3));
    }
}

/// Result of a program that ran to its end.
#[derive(Debug)]
pub struct Ran {
    /// Exit status; `None` if a signal ended the program.
    pub status: Option<i32>,
    /// Standard output.
    pub output: String,
    /// Standard error.
    pub errors: String,
}

/// Runs a program to its end, without standard input.
///
/// # Panics
/// If it has not ended within [`PATIENCE`]. Then it is killed, with all that it started.
pub fn run(command: &mut Command) -> Ran {
    use std::process::Stdio;
    let child = command
        .process_group(0)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program can be started");
    let group = child.id() as i32;
    let (sender, receiver) = std::sync::mpsc::channel();
    std::thread::spawn(move || sender.send(child.wait_with_output()));
    let Ok(output) = receiver.recv_timeout(PATIENCE) else {
        process::kill_group(group);
        panic!("{command:?} had not ended after {PATIENCE:?}");
    };
    let output = output.expect("a child can be waited for");
    Ran {
        status: output.status.code(),
        output: String::from_utf8_lossy(&output.stdout).into_owned(),
        errors: String::from_utf8_lossy(&output.stderr).into_owned(),
    }
}

/// Runs the engine with arguments that are separated by spaces.
pub fn with(arguments: &str) -> Ran {
    run(engine().args(arguments.split_whitespace()))
}

/// Checks that arguments are refused with this code, and that message and hint name these values.
#[track_caller]
pub fn mistake(arguments: &str, code: &str, words: &[&str]) {
    refused(&with(arguments), code, words);
}

/// Checks a refusal with this code: exit status 2, message and code in one line, and the hint, if any, in a second one. With
/// `--json` a line on standard output has the same content.
#[track_caller]
pub fn refused(ran: &Ran, code: &str, words: &[&str]) {
    let mut lines = ran.errors.lines();
    let message = lines.next().unwrap_or_default();
    assert!(message.ends_with(&format!(" [{code}]")), "the code is not {code}: {ran:?}");
    let hint = lines.next().map(|line| line.strip_prefix("hint: ").unwrap_or_else(|| panic!("no hint: {ran:?}")));
    assert_eq!(lines.next(), None, "{ran:?}");
    if !ran.output.is_empty() {
        let line: serde_json::Value = serde_json::from_str(&ran.output).expect("one JSON line");
        assert_eq!((&line["line"], &line["code"]), (&"refused".into(), &code.into()), "{ran:?}");
        assert_eq!(line["hint"].as_str(), hint, "{ran:?}");
    }
    assert_eq!(ran.status, Some(2), "{ran:?}");
    has_words(ran, words);
}

/// Checks for one line with all of these words, no panic, nothing on standard output, and this exit status. A refusal
/// (status 2) has a line that ends in a code, and at most one more line with a hint.
#[track_caller]
pub fn one_line(ran: &Ran, status: i32, words: &[&str]) {
    if status == 2 {
        let first = ran.errors.lines().next().unwrap_or_default();
        let code = first.rsplit_once('[').and_then(|(_, code)| code.strip_suffix(']'));
        return refused(ran, code.unwrap_or_else(|| panic!("no code: {ran:?}")), words);
    }
    assert_eq!(ran.errors.trim_end().lines().count(), 1, "not one line: {ran:?}");
    has_words(ran, words);
    assert_eq!(ran.output, "", "standard output must be empty");
    assert_eq!(ran.status, Some(status), "{ran:?}");
}

#[track_caller]
fn has_words(ran: &Ran, words: &[&str]) {
    for word in words {
        assert!(ran.errors.contains(word), "'{word}' is not in: {}", ran.errors);
    }
    assert!(ran.errors.starts_with("thunderherd-engine: "), "{ran:?}");
    for word in ["panicked", "RUST_BACKTRACE", "Error {", "Os {", "\u{1b}"] {
        assert!(!ran.errors.contains(word), "'{word}' is in: {}", ran.errors);
    }
}

/// A copy of the program that every user may run, and a user without other processes, for tests of users who are not root,
/// and of limits on a user's processes.
pub struct Unprivileged {
    folder: std::path::PathBuf,
    user: u32,
}

impl Unprivileged {
    /// Makes the copy. The error is the reason why that is impossible.
    pub fn new() -> Result<Self, String> {
        use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
        static USERS: AtomicU32 = AtomicU32::new(0);
        if !nix::unistd::geteuid().is_root() {
            return Err("only root can become a user without other processes".to_owned());
        }
        for tool in ["setpriv", "prlimit"] {
            if Command::new(tool).arg("--version").output().is_err() {
                return Err(format!("{tool} (util-linux) is not installed"));
            }
        }
        // Process numbers are below 2^22, and a test program needs fewer than 64 users.
        let user = 100_000_000 + std::process::id() * 64 + USERS.fetch_add(1, Relaxed);
        let folder = std::env::temp_dir().join(format!("thunderherd-tests-{user}"));
        // A leftover of a killed test program with the same number.
        let _ = std::fs::remove_dir_all(&folder);
        std::fs::create_dir(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
        let this = Unprivileged { folder, user };
        let made = std::fs::set_permissions(&this.folder, std::os::unix::fs::PermissionsExt::from_mode(0o755))
            .and_then(|()| {
                std::fs::hard_link(ENGINE, this.program()).or_else(|_| std::fs::copy(ENGINE, this.program()).map(drop))
            });
        made.map_err(|error| format!("{ENGINE} cannot be copied to {}: {error}", this.folder.display()))?;
        let tried = run(this.command(Some(100)).arg("--version"));
        if tried.status == Some(0) { Ok(this) } else { Err(tried.errors.trim().to_owned()) }
    }

    fn program(&self) -> std::path::PathBuf {
        self.folder.join("thunderherd-engine")
    }

    /// Returns a command that runs the program as that user, with a limit on the user's processes and threads.
    pub fn command(&self, processes: Option<u32>) -> Command {
        let mut command = Command::new("prlimit");
        if let Some(processes) = processes {
            command.arg(format!("--nproc={processes}:{processes}"));
        }
        command.arg("setpriv").args(self.identity()).arg(self.program());
        command
    }

    /// Returns a command that runs the program as that user, who may sample whole CPUs (CAP_PERFMON), but lock no more
    /// memory for it than other users.
    pub fn sampling(&self) -> Command {
        let mut command = Command::new("prlimit");
        command.args(["--memlock=0:0", "setpriv"]).args(self.identity());
        command.args(["--inh-caps=+perfmon", "--ambient-caps=+perfmon"]).arg(self.program());
        command
    }

    /// Returns a shell of that user, in which `$0` is the program.
    pub fn shell(&self, script: &str) -> Command {
        let mut command = Command::new("setpriv");
        command.args(self.identity()).args(["sh", "-c", script]).arg(self.program());
        command
    }

    /// Lowers the limit on the user's processes for a running process.
    pub fn limit_processes(&self, process: i32, processes: u32) {
        let mut command = Command::new("setpriv");
        command.args(self.identity()).arg("prlimit");
        let ran = run(command.args([format!("--pid={process}"), format!("--nproc={processes}:{processes}")]));
        assert_eq!(ran.status, Some(0), "{}", ran.errors);
    }

    fn identity(&self) -> [String; 3] {
        [format!("--reuid={}", self.user), format!("--regid={}", self.user), "--clear-groups".to_owned()]
    }
}

impl Drop for Unprivileged {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

/// Returns the maximum descriptors that a process may allow itself without privilege.
pub fn most_descriptors() -> u64 {
    getrlimit(Resource::RLIMIT_NOFILE).expect("limits can be read").1
}

/// Allows this test program the maximum descriptors; returns their number.
pub fn raise_descriptor_limit() -> u64 {
    let most = most_descriptors();
    setrlimit(Resource::RLIMIT_NOFILE, most, most).expect("a limit can be raised to the hard one");
    most
}

/// Returns a command that runs the program with a limit on the descriptors of each process.
pub fn engine_with_descriptors(limit: u32) -> Command {
    let mut command = Command::new("sh");
    command.args(["-c", &format!("ulimit -n {limit} && exec \"$0\" \"$@\""), ENGINE]);
    command
}
