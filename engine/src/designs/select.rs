//! One process waits for many connections with select, and serves the ready ones.
//!
//! A set has room for descriptors below FD_SETSIZE (1,024), and FD_SET does not check. So a larger descriptor is closed
//! and tallied before it gets there. Every wait copies both sets in and out, and scans every descriptor.

use std::os::fd::{AsRawFd, RawFd};

use anyhow::{Result, ensure};
use rustc_hash::FxHashMap;

use crate::base::about::About;
use crate::base::feature::SELECT;
use crate::count::tally::ErrorKind;
use crate::server::connection::{Connection, Turn};
use crate::server::design::{ACCEPTS_IN_A_TURN, Accepted, COMMON, Design, Run};
use crate::server::shares::Shares;
use crate::sys::descriptor::{PollFlags, set_nonblocking};
use crate::sys::readiness::select::{FD_SETSIZE, FdSet, select};
use crate::transfer::primitive::Waits;

pub static ENTRY: Design = Design {
    about: About {
        summary: "One process with a select event loop",
        source: "UNP volume 1, third edition, section 6.8; select(2)",
    },
    waits: Waits::ForReadiness,
    shares: Shares::Turns { accepts: Some(ACCEPTS_IN_A_TURN) },
    serve,
    rests_on: &[&SELECT],
    ..COMMON
};

fn serve(run: &'static Run) -> Result<()> {
    let mut worker = run.worker()?;
    let listener = worker.listener().as_raw_fd();
    set_nonblocking(worker.listener())?;
    ensure!(
        listener < FD_SETSIZE,
        "the listener's descriptor is {listener}, but select accepts only those below {FD_SETSIZE}"
    );
    let (mut reading, mut writing) = (FdSet::zero(), FdSet::zero());
    reading.set(listener);
    let mut accepting = true;
    let mut connections: FxHashMap<RawFd, Connection> = FxHashMap::default();
    while accepting || !connections.is_empty() {
        let (mut readable, mut writable) = (reading, writing);
        let highest = connections.keys().copied().fold(listener, RawFd::max);
        select(highest, &mut readable, &mut writable)?;
        for descriptor in 0..=highest {
            if !readable.is_set(descriptor) && !writable.is_set(descriptor) {
                continue;
            }
            if descriptor == listener {
                for accepted in worker.accept_in_turn(libc::SOCK_NONBLOCK) {
                    match accepted {
                        Accepted::Connection(socket) if socket.as_raw_fd() >= FD_SETSIZE => {
                            run.tally.shared().error(ErrorKind::ResourceLimit);
                        }
                        Accepted::Connection(socket) => {
                            let descriptor = socket.as_raw_fd();
                            if let Some(connection) = worker.open(socket) {
                                reading.set(descriptor);
                                connections.insert(descriptor, connection);
                            }
                        }
                        Accepted::Nothing => worker.woke_for_nothing(),
                        Accepted::Refused => {}
                        Accepted::ShutDown => {
                            reading.clear(listener);
                            accepting = false;
                        }
                    }
                }
                continue;
            }
            let Some(connection) = connections.get_mut(&descriptor) else { continue };
            reading.clear(descriptor);
            writing.clear(descriptor);
            // A socket with an error is readable and writable; select reports errors in no other way.
            match connection.turn(PollFlags::POLLERR) {
                Turn::Blocked(PollFlags::POLLOUT) | Turn::Yields(PollFlags::POLLOUT) => writing.set(descriptor),
                Turn::Blocked(_) | Turn::Yields(_) => reading.set(descriptor),
                Turn::Over => connections.remove(&descriptor).expect("it was there").finish(),
            }
        }
    }
    Ok(())
}
