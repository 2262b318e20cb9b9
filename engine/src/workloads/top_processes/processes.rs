//! Reads every process of the machine from the proc file system, and finds the two that have used the most CPU time.

use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::Path;

/// One process. The default stands for no process.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Process {
    /// Field 1 of its stat file.
    pub id: u64,
    /// Field 2: any bytes, including spaces, newlines and parentheses.
    pub name: Vec<u8>,
    /// Field 14: ticks in user mode.
    pub user: u64,
    /// Field 15: ticks in kernel mode.
    pub kernel: u64,
}

impl Process {
    /// Total ticks.
    pub fn total(&self) -> u64 {
        self.user.saturating_add(self.kernel)
    }

    /// Returns whether it ranks before another: more ticks, or as many ticks and a lower number.
    fn before(&self, other: &Process) -> bool {
        (self.total(), other.id) > (other.total(), self.id)
    }
}

/// Reads all processes, and returns the two that have used the most CPU time, in order. If there are fewer,
/// [`Process::default`] fills the places.
///
/// Skips a process that ends during the read, or whose stat may not be read. Returns an error if the processes cannot
/// be listed, or if reading lacks a resource (a descriptor, memory): a reply without them would be wrong.
pub fn top_two(proc: &Path) -> io::Result<[Process; 2]> {
    let mut top: [Option<Process>; 2] = [None, None];
    let mut path = String::new();
    let mut stat = [0; LONGEST_STAT];
    for entry in fs::read_dir(proc)? {
        let name = entry?.file_name();
        let Some(number) = name.to_str().filter(|name| name.bytes().all(|byte| byte.is_ascii_digit())) else {
            continue;
        };
        path.clear();
        write!(path, "{}/{number}/stat", proc.display()).expect("a string takes what is written");
        let length = match File::open(&path).and_then(|mut file| file.read(&mut stat)) {
            Ok(length) => length,
            Err(error) if is_shortage(&error) => return Err(error),
            Err(_) => continue,
        };
        let Some(process) = parse(&stat[..length]) else { continue };
        for place in 0..top.len() {
            if top[place].as_ref().is_none_or(|other| process.before(other)) {
                top[place..].rotate_right(1);
                top[place] = Some(process);
                break;
            }
        }
    }
    Ok(top.map(Option::unwrap_or_default))
}

/// Room for a name and fifty numbers of twenty digits. The first read returns the whole stat if the buffer has room.
const LONGEST_STAT: usize = 4096;

/// Returns whether the error is a lack of resources, independent of the file.
pub fn is_shortage(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EMFILE | libc::ENFILE | libc::ENOMEM))
}

/// Parses a stat file (proc_pid_stat(5)). The name ends at the last parenthesis, since it may contain others.
pub fn parse(stat: &[u8]) -> Option<Process> {
    let opening = stat.iter().position(|&byte| byte == b'(')?;
    let closing = stat.iter().rposition(|&byte| byte == b')').filter(|&closing| closing > opening)?;
    let number = |field: &[u8]| std::str::from_utf8(field).ok()?.parse().ok();
    let mut fields = stat[closing + 1..].split(u8::is_ascii_whitespace).filter(|field| !field.is_empty());
    Some(Process {
        id: number(stat[..opening].trim_ascii())?,
        name: stat[opening + 1..closing].to_vec(),
        // The first field after the name is field 3.
        user: number(fields.nth(14 - 3)?)?,
        kernel: number(fields.next()?)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;
    use std::path::PathBuf;
    use std::process::{Child, Command, Stdio};

    fn stat(id: u64, name: &str, user: u64, kernel: u64) -> String {
        format!("{id} ({name}) S 1 2 2 0 -1 4194560 5 6 7 8 {user} {kernel} 9 10 20 0 1 0 11 12 13\n")
    }

    /// A temporary folder, removed on drop.
    struct Folder(PathBuf);

    impl Folder {
        fn new(name: &str) -> Self {
            let path = std::env::temp_dir().join(format!("thunderherd-{name}-{}", std::process::id()));
            let _ = fs::remove_dir_all(&path);
            fs::create_dir_all(&path).unwrap();
            Folder(path)
        }

        fn add(&self, entry: &str, stat: &str) {
            fs::create_dir(self.0.join(entry)).unwrap();
            fs::write(self.0.join(entry).join("stat"), stat).unwrap();
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    struct Killed(Child);

    impl Drop for Killed {
        fn drop(&mut self) {
            let _ = self.0.kill();
            let _ = self.0.wait();
        }
    }

    #[test]
    fn a_name_ends_at_the_last_parenthesis() {
        for name in ["cat", "", ") (x", "a b\nc", "((()))", ") S 1 2 3 4 5", "\t) 9 (\n"] {
            let process = Process { id: 7, name: name.into(), user: 123, kernel: 45 };
            assert_eq!(parse(stat(7, name, 123, 45).as_bytes()), Some(process), "{name:?}");
        }
        let bytes = [b"7 (\xff\xfe) ", &stat(7, "", 1, 2).as_bytes()[5..]].concat();
        assert_eq!(parse(&bytes).unwrap().name, b"\xff\xfe");
        for wrong in ["", "7", "7 (cat", "7 )cat(", "7 (cat) S 1 2 3", "x (cat) S 1 2 2 0 -1 4 5 6 7 8 9 10"] {
            assert_eq!(parse(wrong.as_bytes()), None, "{wrong:?}");
        }
    }

    #[test]
    fn ticks_decide_and_then_the_number() {
        let folder = Folder::new("ticks");
        assert_eq!(top_two(&folder.0).unwrap(), [Process::default(), Process::default()]);
        folder.add("30", &stat(30, "c", 0, 0));
        let ids = |folder: &Folder| top_two(&folder.0).unwrap().map(|process| process.id);
        assert_eq!(ids(&folder), [30, 0]);
        folder.add("20", &stat(20, "b", 0, 0));
        assert_eq!(ids(&folder), [20, 30]);
        folder.add("100", &stat(100, "d", 3, 4));
        folder.add("200", &stat(200, "e", 7, 0));
        assert_eq!(ids(&folder), [100, 200]);
        folder.add("300", &stat(300, "f", 0, 8));
        assert_eq!(ids(&folder), [300, 100]);
        // Neither of these is a process, and they cannot be read.
        folder.add("self", &stat(1, "g", 1000, 1000));
        folder.add("12x", &stat(1, "g", 1000, 1000));
        folder.add("400", "nonsense");
        fs::create_dir(folder.0.join("500")).unwrap();
        assert_eq!(ids(&folder), [300, 100]);
    }

    #[test]
    fn thousands_of_processes_are_read() {
        let folder = Folder::new("thousands");
        for id in 1..=5000 {
            folder.add(&id.to_string(), &stat(id, "sleep", id * 7919 % 5003, 0));
        }
        let mut all: Vec<u64> = (1..=5000).map(|id| id * 7919 % 5003).collect();
        all.sort_unstable();
        assert_eq!(top_two(&folder.0).unwrap().map(|process| process.total()), [all[4999], all[4998]]);
    }

    #[test]
    fn real_processes_under_any_name() {
        let (programs, folder) = (Folder::new("programs"), Folder::new("view"));
        // The name of a process is that of its program's file, cut to 15 bytes. This process sleeps, so its ticks do
        // not change.
        let sleeper = |name: &str| {
            let program = programs.0.join(name);
            symlink("/bin/sh", &program).unwrap();
            let child = Killed(Command::new(&program).args(["-c", "read x"]).stdin(Stdio::piped()).spawn().unwrap());
            symlink(format!("/proc/{}", child.0.id()), folder.0.join(child.0.id().to_string())).unwrap();
            child
        };
        let names = [") (x\ny", "a) R 1 2 3 4 5 6"];
        let children = names.map(sleeper);
        let mut found = top_two(&folder.0).unwrap();
        found.sort_by_key(|process| process.id);
        let mut expected = [0, 1].map(|index| (u64::from(children[index].0.id()), names[index].as_bytes()));
        expected[1].1 = &expected[1].1[..15];
        expected.sort_unstable();
        for (process, (id, name)) in found.iter().zip(expected) {
            assert_eq!((process.id, process.name.as_slice()), (id, name));
        }
    }

    #[test]
    fn processes_may_vanish_while_they_are_read() {
        let churn = std::thread::spawn(|| {
            for _ in 0..60 {
                let children: Vec<_> = (0..5).map(|_| Command::new("true").spawn().unwrap()).collect();
                assert!(children.into_iter().all(|mut child| child.wait().is_ok()));
            }
        });
        let mut read = 0;
        while !churn.is_finished() || read == 0 {
            let [first, second] = top_two(Path::new("/proc")).unwrap();
            assert!(first.id > 0 && second.id > 0 && first.id != second.id);
            assert!(first.total() >= second.total());
            read += 1;
        }
        churn.join().unwrap();
    }

    #[test]
    fn a_folder_that_is_not_there_is_an_error() {
        assert_eq!(top_two(Path::new("/proc/nothing")).unwrap_err().kind(), io::ErrorKind::NotFound);
    }
}
