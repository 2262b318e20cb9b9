//! Events that have a name on this machine alone: tracepoints (`subsystem:name`, in tracefs) and those that a PMU lists in
//! sysfs (`pmu/event/`). What they mean is written down nowhere else than there.

use std::fs;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use anyhow::{Context, Error, Result, anyhow};
use perf_event::events::{Dynamic, Tracepoint};
use rustix::mount::{FsMountFlags, FsOpenFlags, MountAttrFlags, fsconfig_create, fsmount, fsopen};

/// Where PMUs are (perf_event_open(2)).
const PMUS: &str = "/sys/bus/event_source/devices";

/// Where tracefs is mounted of old: where tracing is on its own, and where it is a part of debugfs.
const USUAL: [&str; 2] = ["/sys/kernel/tracing", "/sys/kernel/debug/tracing"];

/// Whether a word has the form of such a name.
pub fn has_form(name: &str) -> bool {
    parts(name).is_some()
}

/// That this machine has an event of that name, as far as can be told: where its names cannot be read, the reason comes when
/// it is opened. The error has the nearest name.
pub fn check(name: &str) -> Result<(), String> {
    let Some((folder, event)) = parts(name) else { return Err(format!("'{name}' is no name of an event; {FORMS}")) };
    let (whole, within) = match is_tracepoint(name) {
        true => match events_folder() {
            Ok(events) => (events, None),
            Err(_) => return Ok(()),
        },
        false => (PathBuf::from(PMUS), Some("events")),
    };
    let inside = |folder: &str| within.map_or(whole.join(folder), |within| whole.join(folder).join(within));
    let spelled = |folder: &str, event: &str| {
        if within.is_some() { format!("{folder}/{event}/") } else { format!("{folder}:{event}") }
    };
    let folders = match names_in(&whole) {
        Ok(folders) => folders,
        Err(_) => return Ok(()),
    };
    if !folders.iter().any(|known| known == folder) {
        let what = if within.is_some() { "PMU" } else { "subsystem" };
        // Mostly it is the event's name that one knows.
        let elsewhere = folders.iter().find(|known| inside(known).join(event).exists());
        let near = elsewhere.or_else(|| nearest(folder, &folders));
        let near = near.map(|near| format!("; did you mean {}?", spelled(near, event))).unwrap_or_default();
        return Err(format!("this kernel has no {what} '{folder}'{near} ({} lists them)", whole.display()));
    }
    let here = inside(folder);
    let events = match names_in(&here) {
        Ok(events) => events,
        Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
        Err(_) => return Ok(()),
    };
    if events.iter().any(|known| known == event) {
        return Ok(());
    }
    let near = nearest(event, &events).map(|near| format!("; did you mean {}?", spelled(folder, near)));
    Err(format!("'{folder}' has no event '{event}'{} ({} lists them)", near.unwrap_or_default(), here.display()))
}

/// How such names are written.
pub const FORMS: &str = "a tracepoint is subsystem:name, such as sched:sched_switch; an event of a PMU is pmu/event/, such as \
                         cpu/cache-misses/";

fn is_tracepoint(name: &str) -> bool {
    name.contains(':')
}

/// Subsystem and name, PMU and event. Neither has a dot, which stands between a counter and a part of its figures.
fn parts(name: &str) -> Option<(&str, &str)> {
    let (folder, event) = match name.split_once(':') {
        Some(parts) => parts,
        None => name.split_once('/').map(|(pmu, event)| (pmu, event.strip_suffix('/').unwrap_or(event)))?,
    };
    let is_word =
        |word: &str| !word.is_empty() && word.chars().all(|each| each.is_ascii_alphanumeric() || "_-".contains(each));
    (is_word(folder) && is_word(event)).then_some((folder, event))
}

/// A tracepoint by its name.
pub fn tracepoint(name: &str) -> Result<Tracepoint> {
    let (subsystem, event) = parts(name).ok_or_else(|| anyhow!("{FORMS}"))?;
    let file = events_folder()?.join(subsystem).join(event).join("id");
    let text = fs::read_to_string(&file).map_err(|error| unreadable(error, &file))?;
    let id = text
        .trim()
        .parse()
        .with_context(|| format!("{} says '{}', which is no number", file.display(), text.trim()))?;
    Ok(Tracepoint::with_id(id))
}

/// The folder of all tracepoints; once found it stays where it is.
fn events_folder() -> Result<PathBuf> {
    static FOUND: OnceLock<PathBuf> = OnceLock::new();
    if let Some(found) = FOUND.get() {
        return Ok(found.clone());
    }
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap_or_default();
    let mounted = mounts.lines().map(|line| line.split(' ').collect::<Vec<_>>());
    let mounted = mounted.filter(|fields| fields.get(2) == Some(&"tracefs")).map(|fields| PathBuf::from(fields[1]));
    let folders: Vec<PathBuf> = mounted.chain(USUAL.map(PathBuf::from)).map(|folder| folder.join("events")).collect();
    for folder in &folders {
        match fs::read_dir(folder) {
            Ok(_) => return Ok(FOUND.get_or_init(|| folder.clone()).clone()),
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => return Err(unreadable(error, folder)),
            Err(_) => {}
        }
    }
    match own_mount() {
        Ok(folder) => Ok(FOUND.get_or_init(|| folder).clone()),
        Err(error) => Err(anyhow!(
            "tracepoints are not to be had: tracefs is mounted nowhere, nor is it at {}, and cannot be mounted for this \
             process alone ({error}); as root: mount -t tracefs tracefs {} (a kernel without CONFIG_TRACING has none)",
            USUAL.join(" or "),
            USUAL[0]
        )),
    }
}

/// The tracepoints of a mount in no place of the file system, which nobody else sees and which ends with this process and its
/// children (fsmount(2)); for root alone.
fn own_mount() -> io::Result<PathBuf> {
    static MOUNT: OnceLock<OwnedFd> = OnceLock::new();
    let mount = match MOUNT.get() {
        Some(mount) => mount,
        None => {
            let context = fsopen("tracefs", FsOpenFlags::FSOPEN_CLOEXEC)?;
            fsconfig_create(&context)?;
            let mount = fsmount(&context, FsMountFlags::FSMOUNT_CLOEXEC, MountAttrFlags::MOUNT_ATTR_RDONLY)?;
            MOUNT.get_or_init(|| mount)
        }
    };
    Ok(PathBuf::from(format!("/proc/self/fd/{}/events", mount.as_raw_fd())))
}

fn unreadable(error: io::Error, path: &Path) -> Error {
    let what = match error.kind() {
        io::ErrorKind::PermissionDenied => {
            "is not for this user: be root, or as root: mount -o remount,mode=755,gid=GROUP /sys/kernel/tracing"
        }
        io::ErrorKind::NotFound => {
            "is not there: this kernel has no such tracepoint (CONFIG_FTRACE_SYSCALLS for syscalls:)"
        }
        _ => "cannot be read",
    };
    Error::new(error).context(format!("{} {what}", path.display()))
}

/// An event of a PMU by its name.
pub fn of_pmu(name: &str) -> Result<Dynamic> {
    let (pmu, event) = parts(name).ok_or_else(|| anyhow!("{FORMS}"))?;
    let builder = || -> Result<Dynamic> { Ok(Dynamic::builder(pmu)?.event(event)?.build()?) };
    builder().with_context(|| format!("{PMUS}/{pmu} does not offer '{event}'"))
}

/// The names of a folder's entries; of a PMU's events without what tells their units (`event.scale`).
fn names_in(folder: &Path) -> io::Result<Vec<String>> {
    let names = fs::read_dir(folder)?.flatten().filter_map(|entry| entry.file_name().into_string().ok());
    let mut names: Vec<String> = names.filter(|name| !name.contains('.')).collect();
    names.sort();
    Ok(names)
}

/// The one that is most like a word, if any is.
fn nearest<'a>(word: &str, known: &'a [String]) -> Option<&'a String> {
    let alike = known.iter().map(|name| (strsim::jaro(word, name), name));
    alike.filter(|(alike, _)| *alike > 0.7).max_by(|one, other| one.0.total_cmp(&other.0)).map(|(_, name)| name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_have_two_parts_and_no_dot() {
        for name in ["sched:sched_wakeup", "cpu/cache-misses/", "cpu/cache-misses", "msr/tsc/"] {
            assert!(has_form(name), "{name}");
        }
        for name in [
            "cpu_cycles",
            "",
            ":",
            "sched:",
            ":wake",
            "/tsc/",
            "msr//",
            "a:b:c",
            "a/b/c/",
            "a:b.c",
            "../x:y",
            "a:../id",
        ] {
            assert!(!has_form(name), "{name}");
        }
    }

    #[test]
    fn the_nearest_is_near() {
        let known = ["sched_switch", "sched_wakeup", "sched_waking"].map(str::to_owned);
        assert_eq!(nearest("sched_wakup", &known).unwrap(), "sched_wakeup");
        assert_eq!(nearest("xyz", &known), None);
    }
}
