//! Namespaces: a separate network for a process, and the user namespace in which an ordinary user may make one
//! (namespaces(7), network_namespaces(7), user_namespaces(7)).

use std::fs::{self, File};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::os::unix::fs::MetadataExt;

use nix::sched::{CloneFlags, setns, unshare};
use nix::unistd::{getegid, geteuid};

use super::check;

/// NS_GET_USERNS and NS_GET_NSTYPE of linux/nsfs.h (ioctl_ns(2)), which the libc crate lacks.
const GET_OWNER: libc::Ioctl = 0xb701;
const GET_TYPE: libc::Ioctl = 0xb703;

const OWN_NETWORK: &str = "/proc/self/ns/net";
const OWN_USER: &str = "/proc/self/ns/user";

/// Puts this process, which must have one thread, into a new user namespace. It keeps its user and group, and has every
/// capability over objects of that namespace.
pub fn unshare_user() -> io::Result<()> {
    // Read beforehand: until the maps are written, every id reads as the overflow id.
    let (user, group) = (geteuid(), getegid());
    unshare(CloneFlags::CLONE_NEWUSER)?;
    // Without outside privilege, a process may map a group only after it gave up setgroups.
    fs::write("/proc/self/setgroups", "deny")?;
    fs::write("/proc/self/uid_map", format!("{user} {user} 1"))?;
    fs::write("/proc/self/gid_map", format!("{group} {group} 1"))
}

/// Puts this process into a new network namespace. It has only a loopback interface, which is down.
pub fn unshare_network() -> io::Result<()> {
    unshare(CloneFlags::CLONE_NEWNET).map_err(io::Error::from)
}

/// Opens a descriptor of this process's network namespace, which exists as long as somebody holds such a descriptor.
pub fn own_network() -> io::Result<OwnedFd> {
    Ok(File::open(OWN_NETWORK)?.into())
}

/// Returns whether a descriptor belongs to a network namespace, not to a file or another kind of namespace.
pub fn is_network(namespace: BorrowedFd<'_>) -> bool {
    // SAFETY: the call takes a descriptor and a number.
    let kind = unsafe { libc::ioctl(namespace.as_raw_fd(), GET_TYPE) };
    kind == libc::CLONE_NEWNET
}

/// Puts this process into a network namespace. If that belongs to another user namespace, the process enters that first, and
/// then must have one thread. Allowed to root and to the maker of that user namespace.
pub fn enter_network(namespace: BorrowedFd<'_>) -> io::Result<()> {
    // SAFETY: the call takes a descriptor and a number.
    let owner = check(unsafe { libc::ioctl(namespace.as_raw_fd(), GET_OWNER) })?;
    // SAFETY: the kernel has just made this descriptor for us.
    let owner = File::from(unsafe { OwnedFd::from_raw_fd(owner) });
    if owner.metadata()?.ino() != fs::metadata(OWN_USER)?.ino() {
        setns(owner.as_fd(), CloneFlags::CLONE_NEWUSER)?;
    }
    setns(namespace, CloneFlags::CLONE_NEWNET).map_err(io::Error::from)
}
