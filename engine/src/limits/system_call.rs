//! Entering and leaving the kernel.

use std::hint::black_box;

use crate::base::about::About;
use crate::base::limit::{Call, Figure, Limit, ONE_CPU};
use crate::sys::process;

pub static ENTRY: Limit = Limit {
    about: About {
        summary: "A minimal system call: getppid",
        source: "getppid(2); lmbench's lat_syscall null (McVoy and Staelin, USENIX 1996)",
    },
    figure: Figure::Nanoseconds,
    sizes: &[],
    places: ONE_CPU,
    prepare: |_| {
        Ok(Box::new(Call(|| {
            black_box(process::parent());
            Ok(())
        })))
    },
};
