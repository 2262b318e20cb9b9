//! A thread that does nothing.

use anyhow::Context;

use crate::base::about::About;
use crate::base::limit::{Call, Figure, Limit, ONE_CPU};
use crate::sys::thread;

pub static ENTRY: Limit = Limit {
    about: About {
        summary: "Create a thread that ends at once, and join it",
        source: "pthread_create(3), pthread_join(3)",
    },
    figure: Figure::Nanoseconds,
    sizes: &[],
    places: ONE_CPU,
    prepare: |_| Ok(Box::new(Call(|| thread::create_and_join().context("cannot create a thread (ulimit -u)")))),
};
