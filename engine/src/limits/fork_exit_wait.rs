//! A process that does nothing.

use anyhow::Context;

use crate::base::about::About;
use crate::base::limit::{Call, Figure, Limit, ONE_CPU};
use crate::sys::process;

pub static ENTRY: Limit = Limit {
    about: About {
        summary: "Fork this small process; the child exits at once, and the parent waits for it",
        source: "fork(2), _exit(2), waitpid(2); lmbench's lat_proc fork (McVoy and Staelin, USENIX 1996)",
    },
    figure: Figure::Nanoseconds,
    sizes: &[],
    places: ONE_CPU,
    prepare: |_| Ok(Box::new(Call(|| process::fork_exit_wait().context("cannot fork a process (ulimit -u)")))),
};
