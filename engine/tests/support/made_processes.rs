//! Made-up processes: files in a folder that takes the place of /proc (proc(5)).

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// Such files, readable by every user. They must exist before servers start on them, until all of these have ended; they are
/// removed on drop. A test program has at most one set at a time.
pub struct MadeProcesses(());

impl MadeProcesses {
    /// Makes them at [`path`].
    pub fn make() -> Self {
        let folder = PathBuf::from(path());
        fs::create_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
        let made = MadeProcesses(());
        open_to_all(&folder);
        for (entry, name, user, kernel) in
            [("1", "one", 4, 4), ("2", "two", 0, 9), ("3", "three", 9, 0), ("30", ") (x\ny", 400, 600)]
        {
            let process = folder.join(entry);
            let stat = format!("{entry} ({name}) S 0 1 1 0 -1 4194560 1 2 3 4 {user} {kernel} 5 6 20 0 1 0 7 8 9\n");
            fs::create_dir(&process).expect("a folder can be made in a temporary one");
            fs::write(process.join("stat"), stat).expect("a file can be written");
            open_to_all(&process);
            open_to_all(&process.join("stat"));
        }
        made
    }
}

impl Drop for MadeProcesses {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(path());
    }
}

/// Returns their path in this program.
pub fn path() -> String {
    let folder = std::env::temp_dir().join(format!("thunderherd-tests-proc-{}", std::process::id()));
    folder.into_os_string().into_string().expect("the path of the temporary folder is a text")
}

fn open_to_all(path: &Path) {
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).expect("permissions can be set");
}
