//! Files of /proc with names that other programs choose (proc(5)): of processes, mount points, control groups. A name may have
//! any bytes, and that of a process is cut after 15, perhaps within a character. So these files are not read as UTF-8.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

/// Reads a file as text. Bytes that are not UTF-8 become replacement characters.
pub fn text(path: impl AsRef<Path>) -> io::Result<String> {
    Ok(String::from_utf8_lossy(&fs::read(path)?).into_owned())
}

/// A mounted file system.
#[derive(Debug, PartialEq, Eq)]
pub struct Mount {
    /// Its mount point, whatever bytes that has.
    pub point: PathBuf,
    /// Its type.
    pub kind: String,
    /// Its options, divided by commas.
    pub options: String,
}

impl Mount {
    /// Returns whether it has an option.
    pub fn has(&self, option: &str) -> bool {
        self.options.split(',').any(|each| each == option)
    }
}

/// Lists what is mounted for this process (proc_pid_mounts(5)).
pub fn mounts() -> io::Result<Vec<Mount>> {
    Ok(mounts_in(&fs::read("/proc/self/mounts")?))
}

/// Reads such a table. A line of another form is no mount.
pub fn mounts_in(table: &[u8]) -> Vec<Mount> {
    let lossy = |field: &[u8]| String::from_utf8_lossy(field).into_owned();
    let mount = |line: &[u8]| {
        let mut fields = line.split(|&byte| byte == b' ').skip(1);
        let (point, kind, options) = (fields.next()?, fields.next()?, fields.next()?);
        let point = PathBuf::from(OsString::from_vec(unescaped(point)));
        Some(Mount { point, kind: lossy(kind), options: lossy(options) })
    };
    table.split(|&byte| byte == b'\n').filter_map(mount).collect()
}

/// Returns a path as it is: in tables of mounts, the kernel writes blank, tab, line end and backslash as octal numbers.
fn unescaped(mut field: &[u8]) -> Vec<u8> {
    let mut found = Vec::with_capacity(field.len());
    loop {
        let byte = match field {
            [] => return found,
            [b'\\', a @ b'0'..=b'3', b @ b'0'..=b'7', c @ b'0'..=b'7', ..] => {
                let octal = [a, b, c].into_iter().fold(0u8, |sum, digit| 8 * sum + (digit - b'0'));
                field = &field[4..];
                octal
            }
            [byte, rest @ ..] => {
                field = rest;
                *byte
            }
        };
        found.push(byte);
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::ffi::OsStrExt;

    use super::*;

    #[test]
    fn a_name_that_is_cut_within_a_character_hides_no_line() {
        let seen = std::thread::spawn(|| {
            fs::write("/proc/thread-self/comm", b"within-a-chara\xc3").unwrap();
            assert!(fs::read_to_string("/proc/thread-self/status").is_err(), "it is no UTF-8");
            text("/proc/thread-self/status").unwrap()
        });
        let status = seen.join().unwrap();
        assert!(status.starts_with("Name:\twithin-a-chara\u{fffd}\n"), "{status}");
        assert!(status.lines().any(|line| line.starts_with("Threads:")), "{status}");
    }

    #[test]
    fn mounts_of_any_name_are_read() {
        let table = b"tmpfs /a\\040b\\134040\xff\r tmpfs rw 0 0\nno row\n\n\
                      none /c cgroup rw,cpu,cpuacct 0 0\n/dev/d /d\\ ext4 ro 0 0\n";
        let found = mounts_in(table);
        let points: Vec<&[u8]> = found.iter().map(|mount| mount.point.as_os_str().as_bytes()).collect();
        let expected: [&[u8]; 3] = [b"/a b\\040\xff\r", b"/c", b"/d\\"];
        assert_eq!(points, expected);
        assert_eq!(found[1].kind, "cgroup");
        assert!(found[1].has("cpu") && !found[1].has("cpua") && !found[0].has("cpu"));
    }

    #[test]
    fn proc_itself_is_mounted() {
        assert!(mounts().unwrap().iter().any(|mount| mount.kind == "proc"));
    }
}
