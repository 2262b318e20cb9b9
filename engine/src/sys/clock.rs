//! The two clocks of running code (clock_gettime(2)).

use std::time::Duration;

/// Returns the CPU time of the calling thread so far.
pub fn thread_cpu_time() -> Duration {
    nix::time::clock_gettime(nix::time::ClockId::CLOCK_THREAD_CPUTIME_ID).expect("this clock always exists").into()
}

/// Returns nanoseconds of CLOCK_MONOTONIC, which all processes of a machine share.
pub fn now() -> u64 {
    let now = nix::time::clock_gettime(nix::time::ClockId::CLOCK_MONOTONIC).expect("this clock always exists");
    now.tv_sec() as u64 * 1_000_000_000 + now.tv_nsec() as u64
}
