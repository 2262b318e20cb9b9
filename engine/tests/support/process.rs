//! Processes as /proc shows them (proc(5)).

use std::collections::BTreeSet;
use std::fs;
use std::net::Ipv4Addr;
use std::path::Path;

use netlink_packet_sock_diag::SockDiagMessage;
use netlink_packet_sock_diag::constants::{AF_INET, IPPROTO_TCP};
use netlink_packet_sock_diag::inet::{ExtensionFlags, InetRequest, SocketId, StateFlags};
use netlink_sys::protocols::NETLINK_SOCK_DIAG;
use nix::errno::Errno;
use nix::sched::{CpuSet, sched_getaffinity};
use nix::sys::signal::{Signal, kill, killpg};
use nix::unistd::{Pid, getpgid};
use thunderherd_engine::net::netlink::Netlink;
use thunderherd_engine::net::socket_diagnosis::{SocketDiagnosis, socket};

use super::eventually;

/// One process at one moment.
#[derive(Debug, Clone)]
pub struct Process {
    /// Its number.
    pub id: i32,
    /// Its parent's number.
    pub parent: i32,
    /// Its process group.
    pub group: i32,
    /// `R`, `S`, `T`, `Z` and so on.
    pub state: char,
    /// How many threads it has.
    pub threads: usize,
}

impl Process {
    /// Reads /proc/ID/stat; `None` if there is no such process.
    pub fn read(id: i32) -> Option<Process> {
        let text = fs::read_to_string(format!("/proc/{id}/stat")).ok()?;
        // The name may hold spaces and parentheses, so the fields begin after the last one. Only the needed ones of some
        // fifty are parsed, since this is called very often.
        let fields: Vec<&str> = text[text.rfind(')')? + 2..].split(' ').take(18).collect();
        Some(Process {
            id,
            state: fields[0].chars().next()?,
            parent: fields[1].parse().ok()?,
            group: fields[2].parse().ok()?,
            threads: fields[17].parse().ok()?,
        })
    }

    /// Whether it has not ended and is no zombie. The first thread of a process may be a zombie while others are still
    /// ending.
    pub fn lives(&self) -> bool {
        !matches!(self.state, 'Z' | 'X') || self.threads > 1
    }
}

/// Lists the numbers of all processes, including zombies.
pub fn numbers() -> impl Iterator<Item = i32> {
    let entries = fs::read_dir("/proc").expect("/proc is mounted");
    entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
}

/// Lists the living processes of a group, by number. Called very often: getpgid(2) costs a fraction of reading
/// /proc/ID/stat.
pub fn of_group(group: i32) -> Vec<Process> {
    if killpg(Pid::from_raw(group), None) == Err(Errno::ESRCH) {
        return Vec::new();
    }
    let is_of_it = |id: &i32| getpgid(Some(Pid::from_raw(*id))) == Ok(Pid::from_raw(group));
    let mut found: Vec<_> = numbers().filter(is_of_it).filter_map(Process::read).filter(Process::lives).collect();
    found.sort_by_key(|process| process.id);
    found
}

/// Lists the living children of a process, by number.
pub fn children(parent: i32) -> Vec<i32> {
    let mut found: Vec<_> = numbers()
        .filter_map(Process::read)
        .filter(|process| process.parent == parent && process.lives())
        .map(|process| process.id)
        .collect();
    found.sort_unstable();
    found
}

/// Lists a process and its living descendants.
pub fn family(ancestor: i32) -> Vec<i32> {
    let processes: Vec<_> = numbers().filter_map(Process::read).collect();
    let mut family = vec![ancestor];
    let mut next = 0;
    while let Some(&parent) = family.get(next) {
        family.extend(
            processes.iter().filter(|process| process.parent == parent && process.lives()).map(|child| child.id),
        );
        next += 1;
    }
    family
}

/// Whether a process lives.
pub fn lives(id: i32) -> bool {
    Process::read(id).is_some_and(|process| process.lives())
}

/// Returns the states of all threads of a process.
pub fn thread_states(id: i32) -> Vec<char> {
    let state = |path: &Path| {
        let text = fs::read_to_string(path.join("stat")).ok()?;
        text[text.rfind(')')? + 2..].chars().next()
    };
    let Ok(tasks) = fs::read_dir(format!("/proc/{id}/task")) else { return Vec::new() };
    tasks.filter_map(|task| state(&task.ok()?.path())).collect()
}

/// Lists the CPUs that a process or thread may use; 0 is this thread (sched_getaffinity(2)).
pub fn allowed_cpus(id: i32) -> Vec<usize> {
    let set = sched_getaffinity(Pid::from_raw(id)).expect("the process lives");
    (0..CpuSet::count()).filter(|&cpu| set.is_set(cpu).expect("a set has room for it")).collect()
}

/// Lists the threads of a process; empty if it has ended.
pub fn threads(id: i32) -> Vec<i32> {
    let names = fs::read_dir(format!("/proc/{id}/task")).into_iter().flatten();
    names.filter_map(|name| name.ok()?.file_name().to_str()?.parse().ok()).collect()
}

/// Returns the number of open descriptors of a process; `None` if it has ended.
pub fn descriptors(id: i32) -> Option<usize> {
    let count = fs::read_dir(format!("/proc/{id}/fd")).ok()?.count();
    lives(id).then_some(count)
}

/// Lists the targets of a process's descriptors, for the message of a failure.
pub fn descriptor_targets(id: i32) -> Vec<String> {
    let Ok(entries) = fs::read_dir(format!("/proc/{id}/fd")) else { return Vec::new() };
    let target = |entry: fs::DirEntry| Some(fs::read_link(entry.path()).ok()?.to_string_lossy().into_owned());
    entries.filter_map(|entry| target(entry.ok()?)).collect()
}

/// Whether a single-threaded process waits in accept; `None` if this machine does not show it (/proc/ID/syscall).
pub fn waits_in_accept(id: i32) -> Option<bool> {
    let text = fs::read_to_string(format!("/proc/{id}/syscall")).ok()?;
    let number: i64 = text.split(' ').next()?.trim().parse().ok()?;
    Some([libc::SYS_accept, libc::SYS_accept4].contains(&number))
}

/// Returns the nanoseconds that a process's only thread has run, even if it is a zombie (/proc/ID/schedstat).
pub fn cpu_nanoseconds(id: i32) -> u64 {
    let text = fs::read_to_string(format!("/proc/{id}/schedstat")).expect("the kernel shows how long a thread has run");
    text.split(' ').next().and_then(|number| number.parse().ok()).expect("schedstat begins with a number")
}

/// Returns how often a single-threaded process gave up its CPU to wait (/proc/ID/status).
pub fn voluntary_switches(id: i32) -> u64 {
    let text = fs::read_to_string(format!("/proc/{id}/status")).expect("the process lives");
    let line = text.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
    line.and_then(|number| number.trim().parse().ok()).expect("the kernel counts context switches")
}

/// Returns the nanoseconds that the living threads of a group have run.
pub fn cpu_nanoseconds_of_group(group: i32) -> u64 {
    let thread = |path: &Path| fs::read_to_string(path.join("schedstat")).ok()?.split(' ').next()?.parse::<u64>().ok();
    let threads = |id| fs::read_dir(format!("/proc/{id}/task")).into_iter().flatten();
    let of = |id| threads(id).filter_map(|task| thread(&task.ok()?.path())).sum::<u64>();
    of_group(group).into_iter().map(|process| of(process.id)).sum()
}

/// Returns the resident memory of a process in KiB, all of it private (/proc/ID/status).
pub fn resident_kib(id: i32) -> u64 {
    let text = fs::read_to_string(format!("/proc/{id}/status")).expect("the process is there");
    let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("the kernel shows resident memory");
    line.trim().trim_end_matches(" kB").parse().expect("a number")
}

/// Sends a signal to a process, which must exist.
pub fn signal(id: i32, signal: Signal) {
    kill(Pid::from_raw(id), signal).unwrap_or_else(|error| panic!("{signal} cannot be sent to {id}: {error}"));
}

/// The same by the signal's number: real-time signals have no name.
pub fn signal_by_number(id: i32, number: i32) {
    // SAFETY: the call takes numbers.
    let sent = unsafe { libc::kill(id, number) };
    assert_eq!(sent, 0, "{number} cannot be sent to {id}: {}", std::io::Error::last_os_error());
}

/// Kills a process and waits until it is gone or a zombie.
pub fn kill_and_wait(id: i32) {
    signal(id, Signal::SIGKILL);
    eventually("a killed process is gone", || (!lives(id)).then_some(()));
}

/// Kills a process group, if there is one.
pub fn kill_group(group: i32) {
    let _ = killpg(Pid::from_raw(group), Signal::SIGKILL);
}

/// Stops all processes of a group, as with Ctrl-Z, and waits until all of their threads have stopped.
pub fn freeze(group: i32) {
    killpg(Pid::from_raw(group), Signal::SIGSTOP).expect("the group is there");
    eventually("a stopped group stands still", || {
        of_group(group).iter().all(|process| thread_states(process.id).iter().all(|&state| state == 'T')).then_some(())
    });
}

/// Continues a stopped group.
pub fn thaw(group: i32) {
    killpg(Pid::from_raw(group), Signal::SIGCONT).expect("the group is there");
}

/// Whether a process listens on a port.
pub fn listens(port: u16) -> bool {
    let listeners = SocketDiagnosis::open().and_then(|mut kernel| kernel.every_listener());
    listeners.expect("the kernel lists its listeners").iter().any(|(address, _)| address.port() == port)
}

/// Returns the ports of connections towards a port at the end that keeps them in TIME_WAIT. Some may belong to an earlier
/// user of the port.
pub fn in_time_wait_towards(port: u16) -> BTreeSet<u16> {
    let mut id = SocketId::new_v4();
    (id.destination_port, id.cookie) = (port, ANY_COOKIE);
    let kept = sock_diag().list(request(id, StateFlags::TIME_WAIT)).expect("the kernel lists its sockets");
    kept.into_iter().filter_map(socket).map(|socket| socket.header.socket_id.source_port).collect()
}

/// Returns the number of connections that the full TIME_WAIT table could not take (net.ipv4.tcp_max_tw_buckets).
pub fn not_kept_in_time_wait() -> u64 {
    let table = fs::read_to_string("/proc/net/netstat").unwrap();
    let mut lines = table.lines().filter(|line| line.starts_with("TcpExt:")).map(str::split_whitespace);
    let (names, mut counts) = (lines.next().unwrap(), lines.next().unwrap());
    let place = names.into_iter().position(|name| name == "TCPTimeWaitOverflow").unwrap();
    counts.nth(place).unwrap().parse().unwrap()
}

/// Returns the inode of the socket of 127.0.0.1 with these local and remote ports.
pub fn socket_inode(local: u16, remote: u16) -> Option<u64> {
    let mut id = SocketId::new_v4();
    (id.source_address, id.destination_address) = (Ipv4Addr::LOCALHOST.into(), Ipv4Addr::LOCALHOST.into());
    (id.source_port, id.destination_port, id.cookie) = (local, remote, ANY_COOKIE);
    let found = sock_diag().get(request(id, StateFlags::all())).ok()?.into_iter().find_map(socket)?;
    // If there is no such connection, the kernel returns the listener.
    (found.header.socket_id.destination_port == remote).then_some(found.header.inode.into())
}

/// Matches every socket (linux/inet_diag.h, INET_DIAG_NOCOOKIE).
const ANY_COOKIE: [u8; 8] = [0xff; 8];

/// Asks the kernel for some sockets (sock_diag(7)). /proc/net/tcp would list all, possibly tens of thousands left by other
/// tests, and may leave some out while others come and go.
fn sock_diag() -> Netlink<SockDiagMessage> {
    Netlink::of_family(NETLINK_SOCK_DIAG).expect("the kernel reports sockets")
}

fn request(socket_id: SocketId, states: StateFlags) -> SockDiagMessage {
    let extensions = ExtensionFlags::empty();
    SockDiagMessage::InetRequest(InetRequest { family: AF_INET, protocol: IPPROTO_TCP, extensions, states, socket_id })
}

/// Whether a process has a socket open.
pub fn has_socket(id: i32, inode: u64) -> bool {
    descriptor_targets(id).contains(&format!("socket:[{inode}]"))
}
