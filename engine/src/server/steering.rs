//! One listener per worker of a pool, all at one address, and how the kernel chooses among them.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use anyhow::{Context, Result};
use socket2::SockRef;

use crate::base::feature::{Feature, on_tcp_socket};
use crate::base::mistake::{Blame, mistake_with_hint};
use crate::base::setting::{Kind, Setting, Settings};
use crate::base::unit::Unit;
use crate::server::design::{POOL, Run, Worker, pool};
use crate::sys::descriptor::close_inherited;
use crate::sys::process::{allowed_cpus, pin};
use crate::sys::socket::steer_by_cpu;

/// Reason why such a design supports only TCP; `tcp_only` of its entry.
pub const ONE_ADDRESS: Option<&str> = Some("SO_REUSEPORT shares a port (socket(7))");

/// Several listeners at one address (SO_REUSEPORT).
pub const REUSEPORT: Feature = Feature {
    name: "socket(7), SO_REUSEPORT",
    since: Some("3.9"),
    refusal: || on_tcp_socket("setsockopt, SO_REUSEPORT", |socket| SockRef::from(&socket).set_reuse_port(true)),
};

/// Rule by which the kernel chooses the listener of a connection.
pub const STEER: Setting = Setting {
    name: "steer",
    help: "How connections are distributed among workers: none, by the kernel's hash; cpu, to the worker pinned to \
           the CPU on which the connection arrived (by the hash if that worker is lost and not replaced)",
    unit: Unit::None,
    kind: Kind::Choice { choices: &["none", "cpu"], default: "none" },
    for_more: None,
};

fn is_by_cpu(settings: &Settings) -> bool {
    settings.word(STEER.name) == "cpu"
}

/// Configures the kernel's choice among the listeners, before the first worker is forked. Returns the CPU of each
/// worker, if workers are pinned.
pub fn steer(run: &Run) -> Result<Option<Vec<usize>>> {
    if !is_by_cpu(&run.settings) {
        return Ok(None);
    }
    let cpus = allowed_cpus()?;
    // A single listener forms no group, and gets all connections.
    if run.listeners.len() > 1 {
        let group: Vec<usize> = (0..run.listeners.len()).collect();
        steer_group(&group, run.listener().as_fd(), &cpus)?;
    }
    Ok(Some(cpus))
}

/// Updates the kernel's choice after the listener of a worker has left the group. `group` lists the workers whose
/// listeners remain, in the kernel's order.
pub fn left(run: &Run, group: &mut Vec<usize>, worker: usize) -> Result<()> {
    let is_steered = run.settings.values().contains_key(STEER.name) && is_by_cpu(&run.settings);
    if !is_steered {
        return Ok(());
    }
    steer_without(worker, group, &run.listeners, &allowed_cpus()?)
}

/// The last listener of the group moves to the place of the one that left (socket(7)). Without an update, it would get
/// the connections of that listener's CPU instead of its own.
fn steer_without(worker: usize, group: &mut Vec<usize>, listeners: &[OwnedFd], cpus: &[usize]) -> Result<()> {
    if let Some(place) = group.iter().position(|&other| other == worker) {
        group.swap_remove(place);
    }
    let Some(&any) = group.first() else { return Ok(()) };
    steer_group(group, listeners[any].as_fd(), cpus)
}

/// `cpus` has the CPU of each worker.
fn steer_group(group: &[usize], listener: BorrowedFd<'_>, cpus: &[usize]) -> Result<()> {
    let theirs: Vec<usize> = group.iter().filter_map(|&worker| cpus.get(worker)).copied().collect();
    steer_by_cpu(listener, &theirs).context("--steer cpu: the kernel refused SO_ATTACH_REUSEPORT_CBPF")
}

/// Prepares a worker after the fork: keeps only its own listener, and pins it to the CPU whose connections go to that
/// listener.
pub fn keep_own_listener(run: &Run, worker: &Worker, cpus: Option<&[usize]>) -> Result<()> {
    for (index, listener) in run.listeners.iter().enumerate() {
        if listener.as_raw_fd() != worker.listener().as_raw_fd() {
            close_inherited(listener);
        } else if let Some(cpus) = cpus {
            pin(&cpus[index..=index])?;
        }
    }
    Ok(())
}

/// Refuses settings that `--steer cpu` does not support; for `check` of such a design.
///
/// The kernel's program can only map a CPU to a listener, which is only useful if that listener's worker runs on this
/// CPU. SO_INCOMING_CPU would support any number of workers, but groups of SO_REUSEPORT ignore it before Linux 6.2.
pub fn check(settings: &Settings) -> Result<()> {
    if !is_by_cpu(settings) {
        return Ok(());
    }
    let (cpus, pool) = (allowed_cpus()?, pool(settings));
    if pool != cpus.len() {
        return Err(mistake_with_hint(
            "steering.pool_is_not_cpus",
            format!("--steer cpu needs one worker for each of the server's CPUs {cpus:?}, but --pool is {pool}"),
            format!("use --pool {}", cpus.len()),
        )
        .blaming(&[POOL.name, STEER.name])
        .only_here());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::net::{SocketAddr, TcpListener, TcpStream};

    use socket2::{Domain, Socket, Type};

    use super::*;
    use crate::sys::socket;

    /// Makes this many listeners at one address, in a group.
    fn group_of(count: usize) -> Vec<OwnedFd> {
        let mut address = SocketAddr::from(([127, 0, 0, 1], 0));
        let mut listeners = Vec::new();
        for _ in 0..count {
            let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
            socket.set_reuse_port(true).unwrap();
            socket.bind(&address.into()).unwrap();
            socket.listen(128).unwrap();
            address = socket.local_addr().unwrap().as_socket().unwrap();
            listeners.push(socket.into());
        }
        listeners
    }

    /// Counts how many of this thread's connections each listener gets.
    fn share_of(listeners: &[&OwnedFd]) -> Vec<usize> {
        let own = |listener: &OwnedFd| TcpListener::from(listener.try_clone().unwrap());
        let address = own(listeners[0]).local_addr().unwrap();
        let clients: Vec<TcpStream> = (0..EACH).map(|_| TcpStream::connect(address).unwrap()).collect();
        let accepted = |listener: &&OwnedFd| {
            let listener = own(listener);
            listener.set_nonblocking(true).unwrap();
            listener.incoming().map_while(Result::ok).count()
        };
        let shares = listeners.iter().map(accepted).collect();
        drop(clients);
        shares
    }

    const EACH: usize = 40;

    /// Three listeners, because with two, one would get everything once the other has left. Only one of the CPUs has to
    /// exist.
    #[test]
    fn those_that_are_left_keep_their_cpus() {
        let comes = || {
            let cpu = allowed_cpus().unwrap()[0];
            pin(&[cpu]).unwrap();
            for own in 0..3 {
                let mut cpus = [900, 901, 902];
                cpus[own] = cpu;
                for lost in 0..3 {
                    let (mut group, listeners) = (vec![0, 1, 2], group_of(3));
                    steer_group(&group, listeners[0].as_fd(), &cpus).unwrap();
                    assert_eq!(share_of(&listeners.iter().collect::<Vec<_>>())[own], EACH);
                    socket::shutdown(listeners[lost].as_fd()).unwrap();
                    steer_without(lost, &mut group, &listeners, &cpus).unwrap();
                    let left: Vec<usize> = (0..3).filter(|&worker| worker != lost).collect();
                    let shares = share_of(&left.iter().map(|&worker| &listeners[worker]).collect::<Vec<_>>());
                    assert_eq!(shares.iter().sum::<usize>(), EACH, "{own} has the CPU, {lost} is lost");
                    match left.iter().position(|&worker| worker == own) {
                        Some(place) => assert_eq!(shares[place], EACH, "{own} has the CPU, {lost} is lost"),
                        None => assert!(shares.iter().all(|&share| share > 0), "the hash gave {shares:?}"),
                    }
                }
            }
        };
        // In a separate thread, which is pinned.
        std::thread::spawn(comes).join().unwrap();
    }
}
