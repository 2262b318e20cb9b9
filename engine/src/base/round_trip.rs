//! Round trips of one byte to another process, for all limits with two ends that sleep and wake each other.

use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

use crate::base::limit::Probe;
use crate::sys::descriptor;
use crate::sys::process::{self, Pid};

/// Descriptors of one end.
pub struct Ends {
    /// Descriptor to read from.
    pub reading: OwnedFd,
    /// Descriptor to write to.
    pub writing: OwnedFd,
}

impl Ends {
    /// Makes an end of a socket, which both reads and writes.
    pub fn of_socket(socket: OwnedFd) -> Result<Self> {
        Ok(Ends { reading: socket.try_clone()?, writing: socket })
    }
}

/// This process's end, and the process at the other end, which sends back each byte that it receives.
pub struct RoundTrip {
    near: Ends,
    other: Pid,
}

impl RoundTrip {
    /// Starts the process at the other end on that CPU. It ends with this thread, or when this value is dropped.
    pub fn with_process(near: Ends, far: Ends, cpu: usize) -> Result<Self> {
        let child = || {
            // With its own copies of this end, it would never see an end of file.
            descriptor::close_inherited(&near.reading);
            descriptor::close_inherited(&near.writing);
            match process::pin(&[cpu]).map_err(anyhow::Error::from).and_then(|()| send_back(&far)) {
                Ok(()) => 0,
                Err(_) => 1,
            }
        };
        let other = process::fork(child).context("the process at the other end could not be forked (ulimit -u)")?;
        drop(far);
        let mut round_trip = RoundTrip { near, other };
        // The first byte is not timed: it waits until the other process runs on its CPU.
        round_trip.round(1)?;
        Ok(round_trip)
    }
}

fn send_back(ends: &Ends) -> Result<()> {
    let mut byte = [0];
    while descriptor::read(ends.reading.as_fd(), &mut byte)? == 1 {
        descriptor::write(ends.writing.as_fd(), &byte)?;
    }
    Ok(())
}

impl Probe for RoundTrip {
    fn round(&mut self, times: u64) -> Result<Duration> {
        let Ends { reading, writing } = &self.near;
        let mut byte = [0];
        let began = Instant::now();
        for _ in 0..times {
            descriptor::write(writing.as_fd(), &byte).context("the other end is gone")?;
            // If the other end closed with the byte unread, the socket is reset.
            let read = descriptor::read(reading.as_fd(), &mut byte).context("the other end is gone")?;
            ensure!(read == 1, "the process at the other end has ended");
        }
        Ok(began.elapsed())
    }
}

impl Drop for RoundTrip {
    fn drop(&mut self) {
        // Later forked children have copies of this end, so closing it would not end the process.
        process::kill_child(self.other);
        let _ = process::wait_for(self.other);
    }
}
