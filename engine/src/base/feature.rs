//! Kernel features that designs and primitives need, and whether they are available.
//!
//! An entry names its features in its own file. Features of several entries are in this file; a feature of a single entry is
//! next to that entry.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::{Mutex, PoisonError};

use serde_json::{Value, json};
use socket2::{Domain, Socket, Type};

use crate::sys::descriptor::EventDescriptor;
use crate::sys::readiness::epoll::Epoll;
use crate::sys::ring::{number, sends};
use crate::sys::{call_of, descriptor, named, zero_copy};

/// A feature of the kernel.
pub struct Feature {
    /// Name as in the manual pages.
    pub name: &'static str,
    /// First Linux version with everything that is used of it; `None` if every version has it.
    pub since: Option<&'static str>,
    /// Tries the feature, and returns why it is unavailable; `None` if it is available.
    pub refusal: fn() -> Option<String>,
}

impl Feature {
    /// Makes a feature of every Linux. Without it, this program would not have started.
    pub const fn everywhere(name: &'static str) -> Self {
        Feature { name, since: None, refusal: || None }
    }

    /// Makes a feature that came with some version and that no policy can forbid: flags of calls that every Linux has.
    pub const fn flag(name: &'static str, since: &'static str) -> Self {
        Feature { name, since: Some(since), refusal: || None }
    }

    /// Returns why it is unavailable. Several entries need the same feature, so each process tries it only once.
    fn missing(&self) -> Option<String> {
        let mut tried = TRIED.lock().unwrap_or_else(PoisonError::into_inner);
        tried.entry(self.name).or_insert_with(self.refusal).clone()
    }

    /// Describes it for `list --json`.
    pub fn described(&self) -> Value {
        let reason = self.missing();
        json!({"name": self.name, "since": self.since, "available": reason.is_none(), "reason": reason})
    }
}

/// Results of trying each feature, by name.
static TRIED: Mutex<BTreeMap<&'static str, Option<String>>> = Mutex::new(BTreeMap::new());

/// Features that an entry needs.
pub type RestsOn = &'static [&'static Feature];

/// Returns why one of them is unavailable; `None` if all are available.
pub fn missing(rests_on: RestsOn) -> Option<String> {
    rests_on.iter().find_map(|feature| feature.missing())
}

/// Describes all of them for `list --json`.
pub fn described(rests_on: RestsOn) -> Vec<Value> {
    rests_on.iter().map(|feature| feature.described()).collect()
}

/// Returns why a call that was tried is unavailable. `None` if it succeeded or failed for another reason, such as too few
/// descriptors: code that uses the call reports that. An error of another call, which only prepared this one, has that call's name.
pub fn refused<T>(call: &'static str, tried: io::Result<T>) -> Option<String> {
    let error = tried.err()?;
    let call = call_of(&error).filter(|failed| !call.starts_with(failed)).unwrap_or(call);
    let number = number(&error)?;
    let why = match number {
        libc::EPERM | libc::EACCES => "a policy forbids it, such as a container's seccomp filter",
        libc::ENOSYS | libc::ENOPROTOOPT | libc::EOPNOTSUPP => {
            "this kernel was built without it, or a seccomp filter hides it"
        }
        libc::EINVAL => "this kernel does not know it",
        _ => return None,
    };
    Some(format!("{call}: {}: {why}", io::Error::from_raw_os_error(number)))
}

/// As [`refused`], for a call on a TCP socket without a peer.
pub fn on_tcp_socket(call: &'static str, ask: impl FnOnce(BorrowedFd<'_>) -> io::Result<()>) -> Option<String> {
    let socket = named("socket", Socket::new(Domain::IPV4, Type::STREAM, None));
    refused(call, socket.and_then(|socket| ask(socket.as_fd())))
}

/// accept(2) on a listening socket.
pub const ACCEPT: Feature = Feature::everywhere("accept(2)");
/// Processes.
pub const FORK: Feature = Feature::everywhere("fork(2)");
/// Threads.
pub const THREADS: Feature = Feature::everywhere("pthread_create(3)");
/// Waiting with descriptor sets.
pub const SELECT: Feature = Feature::everywhere("select(2)");
/// Sending.
pub const SEND: Feature = Feature::everywhere("send(2)");
/// Receiving.
pub const RECV: Feature = Feature::everywhere("recv(2)");
/// Writing.
pub const WRITE: Feature = Feature::everywhere("write(2)");
/// Sending from several places.
pub const SENDMSG: Feature = Feature::everywhere("sendmsg(2)");
/// Discarding bytes as they are received.
pub const TRUNCATE: Feature = Feature::flag("recv(2), MSG_TRUNC of TCP", "2.4");

/// Waiting with an epoll instance.
pub const EPOLL: Feature =
    Feature { name: "epoll(7)", since: Some("2.6"), refusal: || refused("epoll_create1", Epoll::create()) };

/// Waking an event loop from another thread.
pub const EVENTFD: Feature =
    Feature { name: "eventfd(2)", since: Some("2.6.22"), refusal: || refused("eventfd", EventDescriptor::new()) };

/// Rings of submissions and completions.
pub const IO_URING: Feature = Feature {
    name: "io_uring(7)",
    since: Some("5.1"),
    refusal: || sends::no_ring().map(|refusal| refusal.to_string()),
};

/// Moving bytes from a pipe into a socket.
pub const SPLICE: Feature =
    Feature { name: "splice(2)", since: Some("2.6.17"), refusal: || refused("splice", spliced()) };

fn spliced() -> io::Result<usize> {
    let ((from, into), (near, _far)) = (descriptor::pipe()?, descriptor::stream_pair()?);
    descriptor::write(into.as_fd(), b"x")?;
    zero_copy::splice(from.as_fd(), near.as_fd(), 1)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicU32;
    use std::sync::atomic::Ordering::Relaxed;

    use super::*;
    use crate::designs::DESIGNS;
    use crate::primitives::PRIMITIVES;

    #[test]
    fn every_entry_rests_on_something_and_a_name_is_that_of_one_feature() {
        let designs = DESIGNS.iter().map(|entry| (entry.name, entry.item.rests_on));
        let primitives = PRIMITIVES.iter().map(|entry| (entry.name, entry.item.rests_on));
        let mut known = BTreeMap::new();
        for (entry, rests_on) in designs.chain(primitives) {
            assert!(!rests_on.is_empty(), "{entry} names no feature of the kernel");
            for feature in rests_on {
                let since = *known.entry(feature.name).or_insert(feature.since);
                assert_eq!(since, feature.since, "{entry}: {}", feature.name);
            }
        }
    }

    #[test]
    fn a_refusal_names_its_cause() {
        let of = |number| refused("splice", Err::<(), _>(io::Error::from_raw_os_error(number)));
        assert!(of(libc::EPERM).unwrap().contains("seccomp"));
        assert!(of(libc::ENOSYS).unwrap().contains("without it"));
        assert!(of(libc::EINVAL).unwrap().contains("does not know"));
        assert_eq!((of(libc::EMFILE), refused("splice", Ok(1))), (None, None));
        let of_call =
            |call| refused("fcntl, F_SETLKW", named(call, Err::<(), _>(io::Error::from_raw_os_error(libc::ENOSYS))));
        assert!(of_call("memfd_create").unwrap().starts_with("memfd_create: "));
        assert!(of_call("fcntl").unwrap().starts_with("fcntl, F_SETLKW: "));
        const GONE: Feature = Feature { name: "gone", since: None, refusal: || Some("it is gone".to_owned()) };
        assert_eq!(missing(&[&FORK, &GONE]), Some("it is gone".to_owned()));
        assert_eq!(described(&[&GONE])[0]["available"], false);
    }

    #[test]
    fn a_feature_is_tried_once_however_many_entries_rest_on_it() {
        static TRIES: AtomicU32 = AtomicU32::new(0);
        const COUNTED: Feature = Feature {
            name: "counted",
            since: None,
            refusal: || Some(format!("try {}", TRIES.fetch_add(1, Relaxed) + 1)),
        };
        for rests_on in [&[&COUNTED][..], &[&FORK, &COUNTED]] {
            assert_eq!(missing(rests_on).unwrap(), "try 1");
            assert_eq!(described(rests_on).last().unwrap()["reason"], "try 1");
        }
    }
}
