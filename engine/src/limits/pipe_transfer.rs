//! A byte through a pipe within one thread: the cost of a round trip without its context switches.

use std::os::fd::AsFd;

use anyhow::ensure;

use crate::base::about::About;
use crate::base::limit::{Call, Figure, Limit, ONE_CPU};
use crate::sys::descriptor;

pub static ENTRY: Limit = Limit {
    about: About {
        summary: "Write a byte into a pipe and read it back in the same thread, which never waits",
        source: "pipe(7); the overhead that lmbench's lat_ctx subtracts (McVoy and Staelin, USENIX 1996)",
    },
    figure: Figure::Nanoseconds,
    sizes: &[],
    places: ONE_CPU,
    prepare: |_| {
        let (reading, writing) = descriptor::pipe()?;
        Ok(Box::new(Call(move || {
            let written = descriptor::write(writing.as_fd(), &[0])?;
            let read = descriptor::read(reading.as_fd(), &mut [0])?;
            ensure!((written, read) == (1, 1), "a pipe accepted {written} bytes of 1 and returned {read}");
            Ok(())
        })))
    },
};
