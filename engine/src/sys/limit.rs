//! Limits on what a process may have (getrlimit(2)).

use std::io;

use nix::sys::resource::{Resource, getrlimit, setrlimit};

/// Raises the soft limit on descriptors to what is wanted, as far as the hard limit allows; returns the limit in force.
pub fn raise_descriptors(wanted: u64) -> io::Result<u64> {
    let (soft, hard) = getrlimit(Resource::RLIMIT_NOFILE)?;
    let limit = soft.max(wanted.min(hard));
    if limit > soft {
        setrlimit(Resource::RLIMIT_NOFILE, limit, hard)?;
    }
    Ok(limit)
}
