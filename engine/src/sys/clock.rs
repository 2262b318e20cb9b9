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

/// Converts ticks of the clock in files of /proc into nanoseconds (sysconf(3), _SC_CLK_TCK).
pub fn of_ticks(ticks: u64) -> u64 {
    let a_second = nix::unistd::sysconf(nix::unistd::SysconfVar::CLK_TCK).ok().flatten().unwrap_or(100);
    ticks * 1_000_000_000 / a_second as u64
}
