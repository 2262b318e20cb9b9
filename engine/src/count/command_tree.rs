//! Processes of servers that are not ours, as /proc shows them (proc(5)).
//!
//! Such a server may fork from any thread and wait for its children itself, so neither the short list of
//! [`super::process_tree`] nor our sums of ended processes suffice.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use crate::base::proc_file;
use crate::count::counter::{Figure, Reading};
use crate::net::socket_diagnosis::SocketDiagnosis;
use crate::sys::clock;
use crate::sys::process::{self, Pid, Reaped};

/// Time limit for the end of all processes that are killed.
const KILL: Duration = Duration::from_secs(5);

/// Some processes and all their descendants.
pub struct CommandTree {
    roots: Vec<Pid>,
    /// Sums of what ended children of this process used.
    reaped: Option<&'static Reaped>,
}

impl CommandTree {
    /// Returns the tree of a child of this process.
    pub fn of_child(child: Pid, reaped: &'static Reaped) -> Self {
        CommandTree { roots: vec![child], reaped: Some(reaped) }
    }

    /// Returns the tree of processes that were running before.
    pub fn of_running(roots: Vec<Pid>) -> Self {
        CommandTree { roots, reaped: None }
    }

    /// Lists its processes, living or not yet reaped, each once.
    pub fn processes(&self) -> Vec<Pid> {
        let mut found = Vec::new();
        let mut seen = BTreeSet::new();
        let mut next = self.roots.clone();
        while let Some(process) = next.pop() {
            if seen.insert(process) {
                found.push(process);
                next.extend(children(process));
            }
        }
        found
    }

    /// Returns the CPU time so far. Exact for living processes; that of ended ones is in ticks of the clock.
    pub fn cpu_nanoseconds(&self) -> Result<u64> {
        let processes = self.processes();
        let times: Vec<u64> = processes.iter().filter_map(|&process| cpu_time(process).ok()).collect();
        if times.is_empty() && self.reaped.is_none() {
            bail!("the server has ended");
        }
        let reaped = self.reaped.map(Reaped::usage).unwrap_or_default();
        Ok(times.iter().sum::<u64>() + (reaped.user + reaped.system).as_nanos() as u64)
    }
}

impl Reading for CommandTree {
    fn read(&mut self) -> Result<Vec<Figure>> {
        Ok(vec![Figure::whole(self.cpu_nanoseconds()?)])
    }
}

/// Kills every descendant of this process, which is their subreaper, and a process group that one of them led. Returns how many
/// there were.
pub fn end_descendants(group: Pid) -> Result<usize> {
    let left = descendants().len();
    let deadline = Instant::now() + KILL;
    loop {
        process::kill_group(group);
        let living = descendants();
        living.iter().for_each(|&process| process::kill_child(process));
        while process::wait_without_hanging()?.is_some() {}
        if living.is_empty() {
            return Ok(left);
        }
        if Instant::now() > deadline {
            bail!("{} processes of the command could not be killed", living.len());
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Lists all descendants of this process, living or not yet reaped.
pub fn descendants() -> Vec<Pid> {
    let own = Pid::this();
    CommandTree::of_running(vec![own]).processes().into_iter().filter(|&process| process != own).collect()
}

/// Lists the processes that listen at an address. Fails with the reason if they cannot be found.
pub fn listening_at(address: SocketAddr) -> Result<Vec<Pid>> {
    let inodes = SocketDiagnosis::open()?.listeners(address)?;
    if inodes.is_empty() {
        bail!("no process of this machine and its network namespace listens at {address}");
    }
    let found = holders(&inodes)?;
    if found.is_empty() {
        bail!("the process that listens at {address} belongs to another user; root can see it");
    }
    Ok(found)
}

/// Lists the addresses at which some processes listen, in order. Unknown ones are left out.
pub fn addresses_of(processes: &[Pid]) -> Vec<SocketAddr> {
    let Ok(every) = SocketDiagnosis::open().and_then(|mut kernel| kernel.every_listener()) else { return Vec::new() };
    let is_theirs = |inode: u32| processes.iter().any(|&process| has_socket(process, &[socket_link(inode)]));
    let found: BTreeSet<_> = every.into_iter().filter(|&(_, inode)| is_theirs(inode)).map(|(at, _)| at).collect();
    found.into_iter().collect()
}

/// Lists the processes that have a descriptor of one of these sockets. Processes of other users cannot be examined without
/// privilege.
fn holders(inodes: &[u32]) -> Result<Vec<Pid>> {
    let wanted: Vec<PathBuf> = inodes.iter().copied().map(socket_link).collect();
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc").context("/proc cannot be read")?.flatten() {
        let Some(process) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else { continue };
        let process = Pid::from_raw(process);
        if has_socket(process, &wanted) {
            found.push(process);
        }
    }
    Ok(found)
}

/// What a descriptor of a socket links to.
fn socket_link(inode: u32) -> PathBuf {
    PathBuf::from(format!("socket:[{inode}]"))
}

/// Whether a process has a descriptor of one of these sockets. Unknown is no.
fn has_socket(process: Pid, wanted: &[PathBuf]) -> bool {
    let Ok(descriptors) = fs::read_dir(format!("/proc/{process}/fd")) else { return false };
    descriptors.flatten().any(|each| fs::read_link(each.path()).is_ok_and(|link| wanted.contains(&link)))
}

/// Lists the children of all threads of a process. A process that has ended has none.
fn children(process: Pid) -> Vec<Pid> {
    let threads = fs::read_dir(format!("/proc/{process}/task")).into_iter().flatten().flatten();
    let lists = threads.filter_map(|thread| fs::read_to_string(thread.path().join("children")).ok());
    lists
        .flat_map(|list| list.split_whitespace().filter_map(|id| id.parse().ok()).collect::<Vec<_>>())
        .map(Pid::from_raw)
        .collect()
}

/// CPU time of a process with its ended threads, and of the ended children that it has waited for.
fn cpu_time(process: Pid) -> io::Result<u64> {
    let stat = proc_file::text(format!("/proc/{process}/stat"))?;
    Ok(process::cpu_nanoseconds(process)? + clock::of_ticks(ticks_of_children(&stat)))
}

/// Returns the ticks of the ended children that a process has waited for, from its stat file (proc_pid_stat(5)).
pub fn ticks_of_children(stat: &str) -> u64 {
    // The name, in parentheses, may contain anything.
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
    let ticks = |field: usize| fields.get(field).and_then(|text| text.parse::<u64>().ok()).unwrap_or_default();
    const CUTIME: usize = 13;
    ticks(CUTIME).saturating_add(ticks(CUTIME + 1))
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader};
    use std::net::TcpListener;
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn the_cpu_time_of_a_tree_includes_children_that_it_waited_for() {
        let script = "sh -c 'i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done'; read line";
        let mut shell = Command::new("sh").args(["-c", script]).stdin(Stdio::piped()).spawn().expect("a shell exists");
        let root = Pid::from_raw(shell.id() as i32);
        let tree = CommandTree::of_running(vec![root]);
        let busy = (0..1000).find_map(|_| {
            std::thread::sleep(std::time::Duration::from_millis(10));
            let alone = tree.processes() == [root];
            let used = tree.cpu_nanoseconds().unwrap();
            (alone && used > process::cpu_nanoseconds(root).unwrap()).then_some(used)
        });
        drop(shell.stdin.take());
        shell.wait().unwrap();
        assert!(busy.is_some_and(|used| used >= 20_000_000), "{busy:?}");
        assert!(tree.cpu_nanoseconds().is_err(), "it has ended");
    }

    #[test]
    fn a_process_whose_name_is_cut_within_a_character_has_its_cpu_time() {
        let script = "printf 'within-a-chara\\303' > /proc/$$/comm; sh -c \
                      'i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done'; echo ready; read line";
        let mut shell =
            Command::new("sh").args(["-c", script]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let root = Pid::from_raw(shell.id() as i32);
        let mut ready = String::new();
        BufReader::new(shell.stdout.as_mut().unwrap()).read_line(&mut ready).unwrap();
        let name = fs::read(format!("/proc/{root}/comm")).unwrap();
        let used = CommandTree::of_running(vec![root]).cpu_nanoseconds();
        drop(shell.stdin.take());
        shell.wait().unwrap();
        assert_eq!((ready.as_str(), name.as_slice()), ("ready\n", &b"within-a-chara\xc3\n"[..]));
        assert!(used.as_ref().is_ok_and(|&used| used >= 20_000_000), "{used:?}");
    }

    #[test]
    fn the_holders_of_a_listener_are_found_by_its_address() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let inodes = SocketDiagnosis::open().unwrap().listeners(listener.local_addr().unwrap()).unwrap();
        assert_eq!(inodes.len(), 1);
        assert!(holders(&inodes).unwrap().contains(&Pid::this()));
        assert!(addresses_of(&[Pid::this()]).contains(&listener.local_addr().unwrap()));
        let free = { TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap() };
        assert!(SocketDiagnosis::open().unwrap().listeners(free).unwrap().is_empty());
    }
}
