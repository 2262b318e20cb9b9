//! One process waits for many connections with poll, and serves the ready ones.
//!
//! The array has no limit on its size, but every wait copies the whole array in and out, and scans every descriptor.

use std::os::fd::{AsRawFd, RawFd};

use anyhow::Result;
use rustc_hash::FxHashMap;

use crate::base::about::About;
use crate::base::feature::Feature;
use crate::server::connection::{Connection, Turn};
use crate::server::design::{ACCEPTS_IN_A_TURN, Accepted, COMMON, Design, Run};
use crate::server::shares::Shares;
use crate::sys::descriptor::{PollFlags, set_nonblocking};
use crate::sys::readiness::poll::{PollFd, poll};
use crate::transfer::primitive::Waits;

pub static ENTRY: Design = Design {
    about: About {
        summary: "One process with a poll event loop",
        source: "UNP volume 1, third edition, section 6.11; poll(2)",
    },
    waits: Waits::ForReadiness,
    shares: Shares::Turns { accepts: Some(ACCEPTS_IN_A_TURN) },
    serve,
    rests_on: &[&POLL],
    ..COMMON
};

const POLL: Feature = Feature::everywhere("poll(2)");

fn serve(run: &'static Run) -> Result<()> {
    let mut worker = run.worker()?;
    let listener = worker.listener().as_raw_fd();
    set_nonblocking(worker.listener())?;
    let mut entries = vec![PollFd::new(listener, PollFlags::POLLIN)];
    let mut accepting = true;
    let mut connections: FxHashMap<RawFd, Connection> = FxHashMap::default();
    while accepting || !connections.is_empty() {
        poll(&mut entries)?;
        let mut over = false;
        for index in 0..entries.len() {
            let (descriptor, ready) = (entries[index].descriptor(), entries[index].ready());
            if ready.is_empty() {
                continue;
            }
            if descriptor == listener {
                for accepted in worker.accept_in_turn(libc::SOCK_NONBLOCK) {
                    match accepted {
                        Accepted::Connection(socket) => {
                            let descriptor = socket.as_raw_fd();
                            if let Some(connection) = worker.open(socket) {
                                entries.push(PollFd::new(descriptor, PollFlags::POLLIN));
                                connections.insert(descriptor, connection);
                            }
                        }
                        Accepted::Nothing => worker.woke_for_nothing(),
                        Accepted::Refused => {}
                        Accepted::ShutDown => {
                            entries[index] = PollFd::unused();
                            over = true;
                            accepting = false;
                        }
                    }
                }
                continue;
            }
            let Some(connection) = connections.get_mut(&descriptor) else { continue };
            match connection.turn(ready) {
                Turn::Blocked(flags) | Turn::Yields(flags) => entries[index] = PollFd::new(descriptor, flags),
                Turn::Over => {
                    entries[index] = PollFd::unused();
                    over = true;
                    connections.remove(&descriptor).expect("it was there").finish();
                }
            }
        }
        if over {
            entries.retain(|entry| entry.descriptor() >= 0);
        }
    }
    Ok(())
}
