"""The control groups of a process, and how often they were throttled (cgroups(7))."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from thunderherd.machine import proc


@dataclass(frozen=True)
class Throttling:
    """How often the CPU quotas of control groups stopped their processes, and for how long on all CPUs."""

    periods: int
    seconds: float
    seconds_of_other: float = 0.0
    """The part of `seconds` in groups of the other process that this process is not in."""


def throttled(other: int | None = None) -> Throttling:
    """Return the throttling so far of this process's control groups, and of those of another process."""
    own = _read(_own_cpu_stat_files())
    beside = [each for each in cpu_stat_files(other) if each not in _own_cpu_stat_files()] if other else ()
    of_other = _read(beside)
    return Throttling(own.periods + of_other.periods, own.seconds + of_other.seconds, of_other.seconds)


def _read(files: Iterable[Path]) -> Throttling:
    periods, seconds = 0, 0.0
    for path in files:
        try:
            fields = dict(line.split() for line in path.read_text().splitlines())
            periods += int(fields.get("nr_throttled", 0))
            # The second version counts microseconds, the first nanoseconds.
            seconds += int(fields.get("throttled_usec", 0)) / 1e6 + int(fields.get("throttled_time", 0)) / 1e9
        except (OSError, ValueError):
            continue
    return Throttling(periods, seconds)


@lru_cache(maxsize=1)
def _own_cpu_stat_files() -> tuple[Path, ...]:
    return cpu_stat_files("self")


def cpu_stat_files(process: int | str) -> tuple[Path, ...]:
    """Return `cpu.stat` of a process's control group and all its ancestors, in either version."""
    try:
        groups = proc.text(proc.PROC / str(process) / "cgroup")
        mounts = proc.text(proc.PROC / "self/mountinfo")
    except OSError:
        return ()
    return tuple(path for path in cpu_stat_paths(groups, mounts) if path.exists())


def cpu_stat_paths(groups: str, mounts: str) -> list[Path]:
    """Return the possible places of `cpu.stat`, from the same texts as `control_groups`."""
    return [directory / "cpu.stat" for directory in control_groups(groups, mounts, "cpu")]


def control_groups(groups: str, mounts: str, controller: str) -> list[Path]:
    """Return a process's control group and its ancestors, in the hierarchy of a controller.

    `groups` and `mounts` are the texts of /proc/PID/cgroup and /proc/self/mountinfo (cgroups(7)), as
    `proc.text` returns them. Lines of another form are skipped.
    """
    own: dict[str, str] = {}
    for line in groups.split("\n"):
        _number, _, rest = line.partition(":")
        controllers, colon, path = rest.partition(":")
        if colon and controllers == "":
            own["cgroup2"] = path
        elif colon and controller in controllers.split(","):
            own["cgroup"] = path
    found: list[Path] = []
    for kind, options, root, mount_point in _mounts(mounts):
        if kind not in own or (kind == "cgroup" and controller not in options.split(",")):
            continue
        inner = own[kind].removeprefix(root.rstrip("/")).strip("/")
        directory = mount_point / inner
        while True:
            found.append(directory)
            if directory == mount_point:
                break
            directory = directory.parent
    return found


def _mounts(table: str) -> Iterator[tuple[str, str, str, Path]]:
    """Yield type, options, root and mount point of each mount (proc_pid_mountinfo(5))."""
    for line in table.split("\n"):
        front, _, back = line.partition(" - ")
        # Only single blanks divide fields: a path may have other white space.
        places, about = front.split(" ")[3:5], back.split(" ", 2)
        if len(places) == 2 and len(about) == 3 and places[1].startswith("/"):
            root, mount_point = map(proc.unescaped, places)
            yield about[0], about[2], root, Path(mount_point)
