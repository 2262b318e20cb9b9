//! CPU time of a process and all that it starts, from a control group of its own.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, anyhow};

use super::{Counter, Reading};
use crate::about::About;
use crate::sys::process::Pid;

pub static ENTRY: Counter = Counter {
    about: About {
        summary: "CPU time of a server's whole process tree at any moment, from a control group of its own",
        source: "Linux, Documentation/admin-guide/cgroup-v2.rst, cpu.stat",
    },
    unit: "nanoseconds",
    available: || ControlGroup::new("probe").map(drop),
    open: None,
};

/// How the names of our groups begin; they end with the number of the process that made them.
const PREFIX: &str = "thunderherd-";

/// A group younger than this may belong to a supervisor of another container, whose number means nothing here, and which
/// has not put its server into it yet.
const SETTLED: Duration = Duration::from_secs(2);

/// A control group that goes with this value.
pub struct ControlGroup {
    folder: PathBuf,
}

impl ControlGroup {
    /// Makes a group below the one of this process, in the version 2 hierarchy.
    pub fn new(name: &str) -> Result<Self> {
        let parent = own_group()?;
        sweep(&parent);
        let folder = parent.join(format!("{PREFIX}{name}-{}", std::process::id()));
        fs::create_dir(&folder).with_context(|| {
            format!("{} could not be made (systemd-run --user --scope gives you a group of your own)", folder.display())
        })?;
        Ok(ControlGroup { folder })
    }

    /// Moves a process, which has started nothing yet, into the group.
    pub fn add(&self, process: Pid) -> Result<()> {
        let file = self.folder.join("cgroup.procs");
        fs::write(&file, process.to_string()).with_context(|| format!("{} could not be written", file.display()))
    }
}

impl Reading for ControlGroup {
    /// Those of ended processes included.
    fn read(&mut self) -> Result<u64> {
        let text = fs::read_to_string(self.folder.join("cpu.stat"))?;
        let microseconds = text
            .lines()
            .find_map(|line| line.strip_prefix("usage_usec "))
            .and_then(|number| number.parse::<u64>().ok())
            .ok_or_else(|| anyhow!("cpu.stat has no usage_usec"))?;
        Ok(microseconds * 1000)
    }
}

impl Drop for ControlGroup {
    fn drop(&mut self) {
        // An empty group holds nothing; one that cannot be removed is not worth failing a run.
        let _ = fs::remove_dir(&self.folder);
    }
}

/// Removes the groups of supervisors that were killed. A group that still holds a process cannot be removed.
fn sweep(parent: &Path) {
    for entry in fs::read_dir(parent).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let owner = name.to_str().filter(|name| name.starts_with(PREFIX)).and_then(|name| name.rsplit('-').next());
        let settled = || Some(entry.metadata().ok()?.modified().ok()?.elapsed().ok()? > SETTLED);
        let ownerless = owner.is_some_and(|owner| !Path::new("/proc").join(owner).exists());
        if ownerless && settled() == Some(true) {
            let _ = fs::remove_dir(entry.path());
        }
    }
}

/// The folder of this process's group: the mount of the version 2 hierarchy and the line `0::` of /proc/self/cgroup.
fn own_group() -> Result<PathBuf> {
    let mounts = fs::read_to_string("/proc/self/mounts")?;
    let mount = mounts
        .lines()
        .map(|line| line.split(' ').collect::<Vec<_>>())
        .find(|fields| fields.get(2) == Some(&"cgroup2"))
        .map(|fields| PathBuf::from(fields[1]))
        .ok_or_else(|| anyhow!("no cgroup2 file system is mounted"))?;
    let groups = fs::read_to_string("/proc/self/cgroup")?;
    let group = groups
        .lines()
        .find_map(|line| line.strip_prefix("0::/"))
        .ok_or_else(|| anyhow!("this process is in no version 2 control group"))?;
    Ok(mount.join(group))
}
