//! Tracepoints: points of the kernel's code that have a name, `subsystem:name`, and a number in tracefs.

use std::fs;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use anyhow::{Context, Error, Result, anyhow};
use perf_event::events::Tracepoint;
use rustix::mount::{FsMountFlags, FsOpenFlags, MountAttrFlags, fsconfig_create, fsmount, fsopen};

use crate::base::proc_file;
use crate::count::missing_event::{MissingEvent, did_you_mean, names_in, nearest};

/// Usual mounts of tracefs: separate, and as part of debugfs.
const USUAL: [&str; 2] = ["/sys/kernel/tracing", "/sys/kernel/debug/tracing"];

/// Finds a tracepoint by its name. The error is [`MissingEvent`] if this kernel has none of that name.
pub fn tracepoint(subsystem: &str, event: &str) -> Result<Tracepoint> {
    let events = events_folder()?;
    let file = events.join(subsystem).join(event).join("id");
    let text = match fs::read_to_string(&file) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Err(absent(&events, subsystem, event)?.into()),
        Err(error) => return Err(unreadable(error, &file)),
    };
    let id = text
        .trim()
        .parse()
        .with_context(|| format!("{} contains '{}', which is not a number", file.display(), text.trim()))?;
    Ok(Tracepoint::with_id(id))
}

/// The error for an unknown tracepoint, with the nearest name.
fn absent(events: &Path, subsystem: &str, event: &str) -> Result<MissingEvent> {
    let read = |folder: &Path| names_in(folder).map_err(|error| unreadable(error, folder));
    let subsystems = read(events)?;
    if subsystems.iter().any(|known| known == subsystem) {
        let here = events.join(subsystem);
        let known = read(&here)?;
        let near = did_you_mean(nearest(event, &known).map(|near| format!("{subsystem}:{near}")));
        return Ok(MissingEvent(format!("'{subsystem}' has no event '{event}'{near} ({} lists them)", here.display())));
    }
    // Users mostly know the event's name.
    let elsewhere = subsystems.iter().find(|known| events.join(known).join(event).exists());
    let near =
        did_you_mean(elsewhere.or_else(|| nearest(subsystem, &subsystems)).map(|near| format!("{near}:{event}")));
    let option = if subsystem == "syscalls" { " (CONFIG_FTRACE_SYSCALLS)" } else { "" };
    Ok(MissingEvent(format!(
        "this kernel has no subsystem '{subsystem}'{option}{near} ({} lists them)",
        events.display()
    )))
}

/// Finds the folder of all tracepoints, which does not change.
fn events_folder() -> Result<PathBuf> {
    static FOUND: OnceLock<PathBuf> = OnceLock::new();
    if let Some(found) = FOUND.get() {
        return Ok(found.clone());
    }
    let mounts = proc_file::mounts().unwrap_or_default();
    let mounted = mounts.into_iter().filter(|mount| mount.kind == "tracefs").map(|mount| mount.point);
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
            "tracepoints are unavailable: tracefs is mounted nowhere, nor is it at {}, and cannot be mounted for this \
             process alone ({error}); as root: mount -t tracefs tracefs {} (a kernel without CONFIG_TRACING has none)",
            USUAL.join(" or "),
            USUAL[0]
        )),
    }
}

/// Mounts tracefs outside the file system, visible to no other process. The mount ends with this process and its children
/// (fsmount(2)). Needs root.
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
        _ => "cannot be read",
    };
    Error::new(error).context(format!("{} {what}", path.display()))
}
