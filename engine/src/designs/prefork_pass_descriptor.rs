//! Preforked children; the parent accepts, and passes each connection to the first free child.

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::sync::atomic::Ordering::Relaxed;

use anyhow::{Result, bail};

use crate::base::about::About;
use crate::base::feature::{FORK, Feature, refused};
use crate::count::tally::ErrorKind;
use crate::server::design::{COMMON, Design, POOL, Run, Worker, pool};
use crate::server::pool::{RESPAWN, fork_worker, replace};
use crate::server::shares::Shares;
use crate::sys::descriptor::{self, PollFlags};
use crate::sys::process;
use crate::sys::readiness::poll::{PollFd, poll};
use crate::sys::ring::number;
use crate::sys::socket;
use crate::transfer::primitive::Waits;

pub static ENTRY: Design = Design {
    about: About {
        summary: "Preforked processes; the parent accepts and passes descriptors to them",
        source: "UNP volume 1, third edition, section 30.9; Fig. 30.1 row 5",
    },
    waits: Waits::InTheCall,
    shares: Shares::Workers,
    settings: &[POOL, RESPAWN],
    workers: pool,
    serve,
    rests_on: &[&FORK, &DESCRIPTORS],
    ..COMMON
};

/// Passing descriptors between processes.
const DESCRIPTORS: Feature = Feature {
    name: "unix(7), SCM_RIGHTS",
    since: Some("2.2"),
    refusal: || refused("sendmsg, SCM_RIGHTS", descriptor_passed()),
};

fn descriptor_passed() -> io::Result<()> {
    let (near, far) = descriptor::stream_pair()?;
    descriptor::pass_descriptor(near.as_fd(), near.as_fd())?;
    descriptor::receive_descriptor(far.as_fd()).map(drop)
}

/// The parent's end of the stream pipe to a child.
struct Child {
    channel: OwnedFd,
    free: bool,
    index: usize,
}

fn serve(run: &'static Run) -> Result<()> {
    let mut parent = run.acceptor();
    let mut children = Vec::new();
    let mut waiting = VecDeque::new();
    for index in 0..run.pool() {
        let child = fork_child(run, index, &children, &waiting)?;
        children.push(child);
    }
    let mut entries = watched(run, &children);
    loop {
        // Connections stay in the listener's queue while no child is free.
        let accepting = children.iter().any(|child| child.free);
        let flags = if accepting { PollFlags::POLLIN } else { PollFlags::empty() };
        entries[children.len()] = PollFd::new(run.listener().as_raw_fd(), flags);
        poll(&mut entries)?;

        // A free child sends nothing, so a readable channel means that it has ended. Its place is filled before a
        // connection is passed on.
        let mut lost = Vec::new();
        for (child, _) in children.iter_mut().zip(&entries).filter(|(_, entry)| !entry.ready().is_empty()) {
            // After an error the child lives.
            child.free = descriptor::receive_byte(child.channel.as_fd())?;
            if !child.free {
                lost.push(child.index);
            }
        }
        let listener_ready = !entries[children.len()].ready().is_empty();
        for &index in &lost {
            // The channel closes during the child's exit, just before the child can be waited for.
            process::wait()?;
            children.retain(|child| child.index != index);
            run.tally.general().workers_lost.fetch_add(1, Relaxed);
            if run.settings.boolean(RESPAWN.name)
                && let Some(child) = replace(run, || fork_child(run, index, &children, &waiting))
            {
                children.insert(index.min(children.len()), child);
            }
        }
        if children.is_empty() {
            bail!("all workers of the pool were lost; --respawn true replaces them");
        }
        if !lost.is_empty() {
            entries = watched(run, &children);
        }
        if listener_ready {
            let Some(socket) = parent.accept() else { break };
            run.tally.general().handed_over.fetch_add(1, Relaxed);
            waiting.push_back(socket);
        }
        pass_on(run, &mut waiting, &mut children);
    }
    // Not closed: closing a channel with an unread byte of the child resets the child's end, which then sees an error
    // instead of an end of file.
    children.iter().try_for_each(|child| socket::shutdown(child.channel.as_fd()))?;
    process::wait_for_all()?;
    Ok(())
}

/// What the parent waits for: the channel of each child, then the listener.
fn watched(run: &Run, children: &[Child]) -> Vec<PollFd> {
    let channels = children.iter().map(|child| &child.channel);
    channels.chain([run.listener()]).map(|each| PollFd::new(each.as_raw_fd(), PollFlags::POLLIN)).collect()
}

/// Passes each waiting connection to the first free child, and closes the parent's copy.
fn pass_on(run: &Run, waiting: &mut VecDeque<OwnedFd>, children: &mut [Child]) {
    while let Some(socket) = waiting.front() {
        let Some(child) = children.iter_mut().find(|child| child.free) else { return };
        let passed = descriptor::pass_descriptor(child.channel.as_fd(), socket.as_fd());
        match passed.as_ref().map_err(ErrorKind::of) {
            Ok(()) => child.free = false,
            // A child that has just died does not get the connection; the next poll reports its closed channel.
            Err(ErrorKind::BrokenPipe | ErrorKind::Reset) => {
                child.free = false;
                continue;
            }
            // The connection is lost, the child is not.
            Err(kind) => run.tally.shared().error(kind),
        }
        run.tally.general().handed_over.fetch_sub(1, Relaxed);
        waiting.pop_front();
    }
}

fn fork_child(run: &'static Run, index: usize, others: &[Child], waiting: &VecDeque<OwnedFd>) -> Result<Child> {
    let (channel, child_end) = descriptor::stream_pair()?;
    let enter = || {
        // A copy of another child's channel, or of a client's socket, would hide the end of file from the other end.
        others.iter().for_each(|child| descriptor::close_inherited(&child.channel));
        waiting.iter().for_each(descriptor::close_inherited);
        descriptor::close_inherited(&channel);
        descriptor::close_inherited(run.listener());
    };
    fork_worker(run, index, enter, |worker| serve_passed(worker, &child_end))?;
    Ok(Child { channel, free: true, index })
}

/// Serves in a child: receives a descriptor, serves the connection, and reports that it is free again.
fn serve_passed(worker: &mut Worker, channel: &OwnedFd) -> Result<()> {
    loop {
        match descriptor::receive_descriptor(channel.as_fd()) {
            Ok(None) => return Ok(()),
            Ok(Some(socket)) => worker.serve(socket),
            // The kernel has passed the byte alone. The connection is lost, this child is not.
            Err(error) if number(&error) == Some(libc::EMFILE) => worker.refused(&error),
            Err(error) => return Err(error.into()),
        }
        match descriptor::send_byte(channel.as_fd()) {
            // The parent would take this child for a busy one.
            Err(error) if ErrorKind::of(&error) == ErrorKind::ResourceLimit => return Err(error.into()),
            // If the parent has stopped, the next receive reports this.
            _ => {}
        }
    }
}
