//! Two namespaces joined by a pair of interfaces, held by the engine, and their traces in the kernel.

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::process::{Child, ChildStdin, Command, Stdio};

use serde_json::Value;
use thunderherd_engine::net::netlink::Netlink;
use thunderherd_engine::net::veth::{Interface, interfaces};
use thunderherd_engine::sys::namespace::enter_network;

use super::{engine, run};

/// Their holder, killed on drop.
pub struct Namespaces {
    holder: Child,
    input: Option<ChildStdin>,
    /// The line `namespaces`.
    pub line: Value,
}

/// Returns why they cannot be made; tests that need them are then skipped.
pub fn refusal() -> Option<String> {
    let listed = run(engine().args(["list", "--json"]));
    let catalogue: Value = serde_json::from_str(&listed.output).expect("list --json prints JSON");
    let reason = catalogue["namespace"]["reason"].as_str()?;
    println!("skipped: {reason}");
    Some(reason.to_owned())
}

impl Namespaces {
    /// Makes them with a command that runs the engine.
    pub fn make(command: &mut Command, options: &[&str]) -> Namespaces {
        let command = command.arg("namespace").args(options);
        let mut holder =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it is started");
        let mut text = String::new();
        BufReader::new(holder.stdout.as_mut().expect("it is piped")).read_line(&mut text).expect("a line comes");
        let Ok(line) = serde_json::from_str(&text) else {
            let mut errors = String::new();
            let _ = holder.stderr.take().expect("it is piped").read_to_string(&mut errors);
            panic!("{command:?} made no namespaces: {errors}");
        };
        Namespaces { input: holder.stdin.take(), holder, line }
    }

    /// Returns the process that holds them.
    pub fn holder(&self) -> i32 {
        self.holder.id() as i32
    }

    /// Returns the path for `--network-namespace` of one side, `server` or `client`.
    pub fn path(&self, side: &str) -> &str {
        self.line[side]["path"].as_str().expect("a path")
    }

    /// Returns an address of the server's end with a port.
    pub fn listen(&self, port: u16) -> String {
        format!("{}:{port}", self.line["server"]["address"].as_str().expect("an address"))
    }

    /// As [`Namespaces::listen`], for IPv6.
    pub fn listen6(&self, port: u16) -> String {
        format!("[{}]:{port}", self.line["server"]["address6"].as_str().expect("an address"))
    }

    /// Returns their inodes in the kernel, the server's and the clients'.
    pub fn inodes(&self) -> [u64; 2] {
        ["server", "client"].map(|side| fs::metadata(self.path(side)).expect("it is there").ino())
    }

    /// Releases them and waits for the holder's end; returns its exit status.
    pub fn release(mut self) -> Option<i32> {
        self.input = None;
        self.holder.wait().expect("a child can be waited for").code()
    }
}

impl Drop for Namespaces {
    fn drop(&mut self) {
        let _ = self.holder.kill();
        let _ = self.holder.wait();
    }
}

/// Lists processes that are in one of these namespaces or have a descriptor of one, including those that `lsns` omits.
pub fn in_use(inodes: &[u64]) -> Vec<(i32, u64)> {
    let mut found = Vec::new();
    for process in super::process::numbers() {
        let folder = format!("/proc/{process}");
        let descriptors = fs::read_dir(format!("{folder}/fd")).into_iter().flatten();
        let descriptors = descriptors.filter_map(|entry| Some(entry.ok()?.path()));
        for path in descriptors.chain([format!("{folder}/ns/net").into()]) {
            let Some(namespace) = fs::read_link(&path).ok() else { continue };
            let text = namespace.to_string_lossy();
            let number = text.strip_prefix("net:[").and_then(|rest| rest.strip_suffix(']')?.parse().ok());
            found.extend(number.filter(|number| inodes.contains(number)).map(|number| (process, number)));
        }
    }
    found
}

/// Lists the interfaces of a namespace from inside, in a separate thread that enters it. Needs root.
pub fn interfaces_of(namespace: &fs::File) -> Vec<Interface> {
    let namespace = namespace.try_clone().expect("a descriptor can be copied");
    let inside = std::thread::spawn(move || {
        enter_network(namespace.as_fd()).expect("root may enter a namespace");
        interfaces(&mut Netlink::open().expect("netlink is there")).expect("the kernel lists interfaces")
    });
    inside.join().expect("the thread does not panic")
}
