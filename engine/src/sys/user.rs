//! The user that measured processes run as, if this program runs as root.

use std::fs;
use std::io;

use nix::sys::prctl;
use nix::unistd::{Gid, Uid, geteuid, getppid, setgid, setgroups, setuid};

use super::process;

/// The users of this machine (passwd(5)).
const PASSWORDS: &str = "/etc/passwd";

/// A user of this machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct User {
    user: Uid,
    group: Gid,
}

impl User {
    /// Finds a user by name, or by number; `None` if there is none. Reads the file, since a static program has no other
    /// directory of users (nsswitch.conf(5)).
    pub fn find(name: &str) -> io::Result<Option<Self>> {
        Ok(Self::listed(&fs::read(PASSWORDS)?, name))
    }

    /// Finds a user in such a file. The full name of a user may be in any encoding.
    pub fn listed(passwords: &[u8], name: &str) -> Option<Self> {
        passwords.split(|&byte| byte == b'\n').find_map(|line| {
            let fields: Vec<&[u8]> = line.split(|&byte| byte == b':').collect();
            let number = |field: usize| std::str::from_utf8(fields.get(field)?).ok()?.parse::<u32>().ok();
            let (user, group) = (number(2)?, number(3)?);
            let is_it = fields[0] == name.as_bytes() || name.parse() == Ok(user);
            is_it.then(|| User { user: Uid::from_raw(user), group: Gid::from_raw(group) })
        })
    }

    /// Makes this process and its future children run as this user, in the user's group alone. Needs root; there is no way
    /// back. The kernel forgets the parent-death signal, and hides files of /proc/self, so both are set again (prctl(2),
    /// PR_SET_PDEATHSIG and PR_SET_DUMPABLE).
    pub fn assume(&self) -> io::Result<()> {
        let (parent, signal) = (getppid(), prctl::get_pdeathsig()?);
        setgroups(&[self.group])?;
        setgid(self.group)?;
        setuid(self.user)?;
        prctl::set_dumpable(true)?;
        signal.map_or(Ok(()), |signal| process::end_with_parent(parent, signal))
    }
}

/// Returns whether this process may become another user.
pub fn may_change() -> bool {
    geteuid().is_root()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_are_found_by_name_and_by_number() {
        let passwords = b"root:x:0:0:Ren\xe9:/root:/bin/sh\nbroken\nnobody:x:65534:65533:\xff:/:/bin/false\n";
        let nobody = Some(User { user: Uid::from_raw(65_534), group: Gid::from_raw(65_533) });
        assert_eq!(User::listed(passwords, "nobody"), nobody);
        assert_eq!(User::listed(passwords, "65534"), nobody);
        assert_eq!(User::listed(passwords, "no"), None);
        assert_eq!(User::listed(passwords, "broken"), None);
    }
}
