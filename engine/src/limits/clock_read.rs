//! Reading the clock that times all measurements.

use std::hint::black_box;

use crate::base::about::About;
use crate::base::limit::{Call, Figure, Limit, ONE_CPU};
use crate::sys::clock;

pub static ENTRY: Limit = Limit {
    about: About {
        summary: "Read CLOCK_MONOTONIC; no system call if the vDSO provides it",
        source: "clock_gettime(2), vdso(7)",
    },
    figure: Figure::Nanoseconds,
    sizes: &[],
    places: ONE_CPU,
    prepare: |_| {
        Ok(Box::new(Call(|| {
            black_box(clock::now());
            Ok(())
        })))
    },
};
