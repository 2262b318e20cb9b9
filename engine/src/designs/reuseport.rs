//! Children made beforehand, each an event loop with an epoll instance and a listener of its own: the kernel divides the
//! connections among the listeners of the address, by a hash of both ends or by CPU.
//!
//! A connection is given to a listener when it comes, not when a child is free, and waits for that child alone. The
//! listener of a child that is lost and not replaced is shut down, so that the others get its share.

use std::collections::HashMap;
use std::os::fd::{AsFd, AsRawFd, RawFd};

use anyhow::{Context, Result};
use socket2::SockRef;

use crate::about::About;
use crate::connection::{Connection, Turn};
use crate::design::{Accepted, COMMON, Design, POOL, Run, pool};
use crate::feature::{EPOLL, FORK, Feature, on_tcp_socket};
use crate::mistake::mistake;
use crate::pool::{RESPAWN, fork_pool};
use crate::primitive::Waits;
use crate::setting::{Kind, Setting, Settings};
use crate::sys::descriptor::{PollFlags, close_inherited, set_nonblocking};
use crate::sys::epoll::{self, Epoll, EpollFlags};
use crate::sys::process::{allowed_cpus, online_cpus, pin};
use crate::sys::socket::steer_by_cpu;

pub static ENTRY: Design = Design {
    about: About {
        summary: "Processes made beforehand, an epoll loop and a listener each",
        source: "socket(7), SO_REUSEPORT; Linux 3.9",
    },
    waits: Waits::ForReadiness,
    settings: &[POOL, RESPAWN, STEER],
    workers: pool,
    listeners: pool,
    tcp_only: Some("SO_REUSEPORT shares a port (socket(7))"),
    check,
    serve,
    rests_on: &[&FORK, &EPOLL, &REUSEPORT],
    ..COMMON
};

/// Several listeners at one address.
const REUSEPORT: Feature = Feature {
    name: "socket(7), SO_REUSEPORT",
    since: Some("3.9"),
    refusal: || on_tcp_socket("setsockopt, SO_REUSEPORT", |socket| SockRef::from(&socket).set_reuse_port(true)),
};

const STEER: Setting = Setting {
    name: "steer",
    help: "Who gets a connection: by a hash, or the worker that is pinned to the CPU on which the connection came in",
    unit: None,
    kind: Kind::Choice { choices: &["none", "cpu"], default: "none" },
};

fn serve(run: &'static Run) -> Result<()> {
    run.listeners.iter().try_for_each(|listener| set_nonblocking(listener.as_fd()))?;
    let by_cpu = run.settings.word(STEER.name) == "cpu";
    if by_cpu {
        let steered = steer_by_cpu(run.listener().as_fd(), run.pool());
        steered.context("--steer cpu: the kernel refused SO_ATTACH_REUSEPORT_CBPF")?;
    }
    fork_pool(run, |worker| {
        for (index, listener) in run.listeners.iter().enumerate() {
            if listener.as_raw_fd() != worker.listener().as_raw_fd() {
                close_inherited(listener);
            } else if by_cpu {
                pin(&[index])?;
            }
        }
        let listener = worker.listener().as_raw_fd();
        let epoll = Epoll::create()?;
        epoll.add(worker.listener(), EpollFlags::EPOLLIN)?;
        let mut events = epoll::no_events();
        let mut accepting = true;
        let mut connections: HashMap<RawFd, (Connection, PollFlags)> = HashMap::new();
        while accepting || !connections.is_empty() {
            for (descriptor, ready) in epoll.wait(&mut events, true)? {
                if descriptor == listener {
                    match worker.try_accept(libc::SOCK_NONBLOCK) {
                        Accepted::Connection(socket) => {
                            let descriptor = socket.as_raw_fd();
                            if let Err(error) = epoll.add(&socket, EpollFlags::EPOLLIN) {
                                worker.refused(&error);
                            } else if let Some(connection) = worker.open(socket) {
                                connections.insert(descriptor, (connection, PollFlags::POLLIN));
                            }
                        }
                        Accepted::Nothing => worker.woke_for_nothing(),
                        Accepted::Refused => {}
                        Accepted::ShutDown => {
                            epoll.delete(worker.listener())?;
                            accepting = false;
                        }
                    }
                    continue;
                }
                let Some((connection, watched)) = connections.get_mut(&descriptor) else { continue };
                match connection.turn(ready) {
                    Turn::Blocked(flags) | Turn::Yields(flags) if flags == *watched => {}
                    Turn::Blocked(flags) | Turn::Yields(flags) => {
                        epoll.modify(connection.socket(), epoll::flags(flags))?;
                        *watched = flags;
                    }
                    Turn::Over => connections.remove(&descriptor).expect("it was there").0.finish(),
                }
            }
        }
        Ok(())
    })
}

/// The kernel's program can say no more than that a CPU's connections go to the listener of the same number, and it is only
/// of use if that listener's worker runs there. SO_INCOMING_CPU would take any number of workers, but before Linux 6.2
/// a group of SO_REUSEPORT does not heed it.
fn check(settings: &Settings) -> Result<()> {
    if settings.word(STEER.name) == "none" {
        return Ok(());
    }
    let (online, allowed, pool) = (online_cpus()?, allowed_cpus()?, pool(settings));
    if !(0..online).eq(allowed.iter().copied()) {
        return Err(mistake(format!(
            "--steer cpu takes all {online} CPUs, and this server may use {allowed:?}; without --cpus, or: --steer none"
        )));
    }
    if pool != online {
        return Err(mistake(format!(
            "--steer cpu takes one worker for each of the {online} CPUs, and --pool is {pool}: --pool {online}"
        )));
    }
    Ok(())
}
