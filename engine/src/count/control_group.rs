//! Control groups (cgroups(7)). This program makes groups below its own, in the version 2 hierarchy, and in the version 1
//! hierarchy of memory if the machine has it. It also reads the CPU quotas of its own group and of all groups above.

use std::ffi::OsStr;
use std::fs;
use std::io::ErrorKind;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, anyhow};

use crate::base::proc_file::{self, Mount};
use crate::sys::process::Pid;

/// Prefix of our groups' names. They end with the id of the process that made them.
const PREFIX: &str = "thunderherd-";

/// Minimum age of a group to remove. A younger group may belong to a supervisor in another container, whose process id is unknown
/// here, and which has not yet moved its server into the group.
const SETTLED: Duration = Duration::from_secs(2);

/// Hierarchies in which groups can be made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Hierarchy {
    /// Version 2, which all controllers share.
    Unified,
    /// Version 1 with this controller.
    Controller(&'static str),
}

/// A group. If this value made it, dropping the value removes the group, and its processes return to their former group.
pub struct ControlGroup {
    folder: PathBuf,
    /// Folder of the group above it, if this value made the group.
    parent: Option<PathBuf>,
}

impl ControlGroup {
    /// Makes a group below this process's.
    pub fn new(hierarchy: Hierarchy, name: &str) -> Result<Self> {
        let parent = folder_of(hierarchy, Pid::this())?;
        sweep(&parent);
        let folder = parent.join(format!("{PREFIX}{name}-{}", std::process::id()));
        let made = fs::create_dir(&folder).or_else(|error| {
            if error.kind() != ErrorKind::AlreadyExists || !is_settled(&folder) {
                return Err(error);
            }
            // A killed process that had this process's id has left it. A group with processes cannot be removed.
            fs::remove_dir(&folder)?;
            fs::create_dir(&folder)
        });
        made.with_context(|| {
            let parent = parent.display();
            format!(
                "no control group could be made in {parent} (`systemd-run --user --scope` gives a process a group that \
                 it may change)"
            )
        })?;
        Ok(ControlGroup { folder, parent: Some(parent) })
    }

    /// Returns the group of this program that a process is in, or moves it into a new one.
    pub fn with(hierarchy: Hierarchy, name: &str, process: Pid) -> Result<Self> {
        let folder = folder_of(hierarchy, process)?;
        let last = folder.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        if last.starts_with(PREFIX) && last.ends_with(&format!("-{}", std::process::id())) {
            return Ok(ControlGroup { folder, parent: None });
        }
        let group = Self::new(hierarchy, name)?;
        group.add(process)?;
        Ok(group)
    }

    /// Moves a process without children into the group.
    pub fn add(&self, process: Pid) -> Result<()> {
        let file = self.folder.join("cgroup.procs");
        fs::write(&file, process.to_string()).with_context(|| format!("{} could not be written", file.display()))
    }

    /// Reads one of its files.
    pub fn text(&self, file: &str) -> Result<String> {
        let path = self.folder.join(file);
        fs::read_to_string(&path).with_context(|| format!("{} cannot be read", path.display()))
    }

    /// Reads the number in one of its files.
    pub fn number(&self, file: &str) -> Result<u64> {
        let text = self.text(file)?;
        text.trim().parse().with_context(|| format!("{} contains '{}'", self.folder.join(file).display(), text.trim()))
    }

    /// Reads the number of a line `NAME NUMBER` in one of its files.
    pub fn line(&self, file: &str, name: &str) -> Result<u64> {
        let text = self.text(file)?;
        let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')?.parse().ok());
        line.ok_or_else(|| anyhow!("{file} has no {name}"))
    }

    /// Returns its folder, for messages.
    pub fn folder(&self) -> &Path {
        &self.folder
    }
}

impl Drop for ControlGroup {
    fn drop(&mut self) {
        let Some(parent) = &self.parent else { return };
        // A load that counts itself is still in the group. An empty group holds nothing, and failing to remove it is no reason to
        // fail a run.
        for process in self.text("cgroup.procs").unwrap_or_default().lines() {
            let _ = fs::write(parent.join("cgroup.procs"), process);
        }
        let _ = fs::remove_dir(&self.folder);
    }
}

/// The CPU quotas of this process: those of its groups, and of all groups above them.
pub struct CpuQuotas(Vec<(ControlGroup, Statistic)>);

/// The CPU quotas of this process, from a moment on.
pub struct CpuQuotasSince {
    quotas: CpuQuotas,
    stopped_before: Duration,
}

/// A line of `cpu.stat`: its name, and its unit in nanoseconds.
type Statistic = (&'static str, u64);

impl CpuQuotas {
    /// Finds the quotas. A group without a quota is left out, since reading its times takes the kernel a while.
    pub fn of_this() -> Self {
        let kinds = [
            (Hierarchy::Unified, "cpu.max", "max", ("throttled_usec", 1_000)),
            (Hierarchy::Controller("cpu"), "cpu.cfs_quota_us", "-1", ("throttled_time", 1)),
        ];
        let mut found = Vec::new();
        for (hierarchy, quota, none, statistic) in kinds {
            // In a container, the folders of outer groups may be missing.
            for folder in folder_of(hierarchy, Pid::this()).iter().flat_map(|folder| folder.ancestors()) {
                let group = ControlGroup { folder: folder.to_owned(), parent: None };
                if group.text(quota).is_ok_and(|text| !text.starts_with(none)) {
                    found.push((group, statistic));
                }
            }
        }
        CpuQuotas(found)
    }

    /// Returns for how long the quotas have stopped their groups so far, added up over groups and CPUs.
    pub fn stopped(&self) -> Duration {
        let times = self.0.iter().filter_map(|(group, (name, unit))| Some(group.line("cpu.stat", name).ok()? * unit));
        Duration::from_nanos(times.sum())
    }

    /// Begins now.
    pub fn since_now() -> CpuQuotasSince {
        let quotas = CpuQuotas::of_this();
        let stopped_before = quotas.stopped();
        CpuQuotasSince { quotas, stopped_before }
    }
}

impl CpuQuotasSince {
    /// Returns for how long they have stopped their groups since the beginning, in nanoseconds; `None` without a quota.
    pub fn throttled_ns(&self) -> Option<u64> {
        // A group that was removed meanwhile has no times, so the second reading may be smaller.
        let stopped = self.quotas.stopped().saturating_sub(self.stopped_before);
        (!self.quotas.0.is_empty()).then(|| stopped.as_nanos().try_into().unwrap_or(u64::MAX))
    }
}

/// Removes the groups that a process made which was killed. It was in the same groups as this process.
pub fn remove_made_by(maker: Pid) {
    let maker = maker.to_string();
    for hierarchy in [Hierarchy::Unified, Hierarchy::Controller("memory")] {
        let Ok(parent) = folder_of(hierarchy, Pid::this()) else { continue };
        for (group, _) in made_in(&parent).filter(|(_, by)| *by == maker) {
            let _ = fs::remove_dir(group.path());
        }
    }
}

/// Removes the groups of supervisors that were killed. A group that still holds a process cannot be removed.
fn sweep(parent: &Path) {
    for (group, maker) in made_in(parent) {
        if !Path::new("/proc").join(&maker).exists() && is_settled(&group.path()) {
            let _ = fs::remove_dir(group.path());
        }
    }
}

/// Whether a group is old enough to be removed.
fn is_settled(folder: &Path) -> bool {
    let age = || fs::metadata(folder).ok()?.modified().ok()?.elapsed().ok();
    age().is_some_and(|age| age > SETTLED)
}

/// Lists the groups of this program in a folder, each with the id of the process that made it.
fn made_in(parent: &Path) -> impl Iterator<Item = (fs::DirEntry, String)> {
    fs::read_dir(parent).into_iter().flatten().flatten().filter_map(|entry| {
        let name = entry.file_name();
        let maker = name.to_str()?.strip_prefix(PREFIX)?.rsplit('-').next()?.to_owned();
        Some((entry, maker))
    })
}

/// Returns the folder of a process's group, from the mount of the hierarchy and /proc/PID/cgroup.
fn folder_of(hierarchy: Hierarchy, process: Pid) -> Result<PathBuf> {
    let is_it = |mount: &Mount| match hierarchy {
        Hierarchy::Unified => mount.kind == "cgroup2",
        Hierarchy::Controller(name) => mount.kind == "cgroup" && mount.has(name),
    };
    let mount = proc_file::mounts()?.into_iter().find(is_it).ok_or_else(|| match hierarchy {
        Hierarchy::Unified => anyhow!("no cgroup2 file system is mounted"),
        Hierarchy::Controller(name) => anyhow!("no hierarchy of control groups has the controller {name}"),
    })?;
    let groups = fs::read(format!("/proc/{process}/cgroup"))?;
    let path = path_in(&groups, hierarchy).ok_or_else(|| match hierarchy {
        Hierarchy::Unified => anyhow!("process {process} is in no control group of version 2"),
        Hierarchy::Controller(name) => anyhow!("process {process} is in no control group of the controller {name}"),
    })?;
    Ok(mount.point.join(path))
}

/// Returns the path of a group, without the `/` that it begins with, from the lines of /proc/PID/cgroup.
pub fn path_in(groups: &[u8], hierarchy: Hierarchy) -> Option<&Path> {
    // NUMBER:CONTROLLERS:/PATH; that of version 2 has number 0 and no controllers (cgroups(7)).
    let path = groups.split(|&byte| byte == b'\n').find_map(|line| {
        let mut fields = line.splitn(3, |&byte| byte == b':');
        let (number, controllers, path) = (fields.next()?, fields.next()?, fields.next()?);
        let is_it = match hierarchy {
            Hierarchy::Unified => number == b"0",
            Hierarchy::Controller(name) => controllers.split(|&byte| byte == b',').any(|each| each == name.as_bytes()),
        };
        is_it.then_some(path)
    })?;
    Some(Path::new(OsStr::from_bytes(path.strip_prefix(b"/")?)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_that_a_killed_process_of_the_same_id_has_left_is_made_anew() {
        let Ok(left) = ControlGroup::new(Hierarchy::Unified, "left") else {
            return println!("skipped: no control group can be made here");
        };
        std::mem::forget(left);
        assert!(ControlGroup::new(Hierarchy::Unified, "left").is_err(), "a new one may be that of another container");
        std::thread::sleep(SETTLED + Duration::from_millis(200));
        let again = ControlGroup::new(Hierarchy::Unified, "left").unwrap();
        let folder = again.folder().to_owned();
        assert!(folder.is_dir());
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        again.add(Pid::from_raw(child.id().cast_signed())).unwrap();
        assert!(ControlGroup::new(Hierarchy::Unified, "left").is_err(), "a group with a process is not removed");
        child.kill().unwrap();
        child.wait().unwrap();
        drop(again);
        assert!(!folder.exists());
    }

    #[test]
    fn a_group_of_any_name_is_found() {
        let groups = b"9:cpu,cpuacct:/a\xff:b\r\n\nno line\n1:name=systemd:/\n0::/c d\n";
        let bytes = |hierarchy| path_in(groups, hierarchy).map(|path| path.as_os_str().as_bytes());
        assert_eq!(bytes(Hierarchy::Controller("cpuacct")), Some(&b"a\xff:b\r"[..]));
        assert_eq!(bytes(Hierarchy::Unified), Some(&b"c d"[..]));
        assert_eq!(bytes(Hierarchy::Controller("memory")), None);
    }
}
