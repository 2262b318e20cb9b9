"""The resource limits of this process on memory and processes, and what a run needs of each resource.

Kernel, user and control group each have limits; the smallest applies (getrlimit(2), cgroups(7)).
"""

from __future__ import annotations

import os
import resource
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from thunderherd.errors import UserError
from thunderherd.machine import proc
from thunderherd.machine.control_groups import control_groups
from thunderherd.text.printable import printable_name

__all__ = [
    "NEEDED",
    "OF_CHARTS",
    "Limit",
    "NoRoomError",
    "check_room",
    "limits_here",
    "limits_of_groups",
    "tasks_of_user",
]

MEGABYTE = 10**6
ADDRESS_SPACE, DATA, MEMORY = "address space", "data segment", "memory"
PROCESSES = "processes and threads"
NEEDED = {
    ADDRESS_SPACE: 4_000 * MEGABYTE,
    DATA: 1_500 * MEGABYTE,
    MEMORY: 256 * MEGABYTE,
    PROCESSES: 24 + 4 * len(os.sched_getaffinity(0)),
}
"""What a run needs of each resource, found by runs under smaller and smaller limits: bytes, and a number of
processes. Libraries for tables and charts start threads for each CPU, and reserve much more memory than they
use."""
OF_CHARTS = {ADDRESS_SPACE: 72_000 * MEGABYTE}
"""What drawing charts needs: the library reserves this address space for the JavaScript that draws."""
UNLIMITED = 2**60
"""More than any machine has. The first version of control groups writes such a number for no limit."""
OF_PROCESS = {"Max address space": (ADDRESS_SPACE, "ulimit -v"), "Max data size": (DATA, "ulimit -d")}
OF_GROUPS = (
    ("memory", "memory.max", None, MEMORY),
    ("memory", "memory.limit_in_bytes", None, MEMORY),
    ("pids", "pids.max", "pids.current", PROCESSES),
)
"""Controller, file with the limit, file with the usage, and resource. None: no usage is subtracted."""


@dataclass(frozen=True)
class Limit:
    """A resource limit that is set, and what it leaves."""

    what: str
    """A key of `NEEDED`."""
    most: int
    name: str
    """Where it is set: `ulimit -v`, or a file of a control group."""
    used: int = 0

    @property
    def room(self) -> int:
        """What the limit leaves."""
        return self.most - self.used

    def __str__(self) -> str:
        """Return `90 MB of memory (/sys/fs/cgroup/x/memory.max)`."""
        return f"{in_words(self.what, self.room)} ({self.name})"


def in_words(what: str, number: int) -> str:
    """Return `90 MB of memory` or `20 processes and threads`."""
    return f"{number:,} {what}" if what == PROCESSES else f"{number / MEGABYTE:,.0f} MB of {what}"


def limits_here() -> list[Limit]:
    """Return all limits on address space, memory and processes that are set for this process."""
    return [*_of_process(), *_of_user(), *limits_of_groups()]


class NoRoomError(UserError):
    """A limit leaves less than something needs."""


def check_room(needed: Mapping[str, int] = NEEDED, what: str = "a run") -> None:
    """Raise `NoRoomError` if a limit leaves less than a run needs: the run would fail, perhaps at its end."""
    for each in limits_here():
        if each.room < needed.get(each.what, 0):
            raise NoRoomError(
                f"only {each}; {what} needs {in_words(each.what, needed[each.what])}",
                code="run.too_little_room",
                hint="raise this limit; `thunderherd doctor` lists all of them",
            )


def _of_process() -> Iterator[Limit]:
    try:
        lines = (proc.PROC / "self/limits").read_text().splitlines()
    except OSError:
        return
    for line in lines:
        for head, (what, name) in OF_PROCESS.items():
            soft = line.removeprefix(head).split()[0] if line.startswith(head) else "unlimited"
            if soft != "unlimited":
                yield Limit(what, int(soft), name)


def _of_user() -> Iterator[Limit]:
    """Yield the limit on the processes and threads of this user, which root does not have."""
    soft = resource.getrlimit(resource.RLIMIT_NPROC)[0]
    if soft == resource.RLIM_INFINITY or os.geteuid() == 0:
        return
    yield Limit(PROCESSES, soft, "ulimit -u", tasks_of_user())


def tasks_of_user() -> int:
    """Return the threads of all processes of this user, as far as /proc shows them."""
    user, _ = _user_and_threads(proc.PROC / "self")
    found = (_user_and_threads(each) for each in proc.PROC.glob("[0-9]*"))
    return sum(threads for owner, threads in found if owner == user)


def _user_and_threads(process: Path) -> tuple[str, int]:
    """Return the real user of a process, and its number of threads, which count against that user's limit.

    The number is 0 if the process has ended.
    """
    try:
        lines = proc.lines(process / "status")
        fields = dict(line.split(":", 1) for line in lines if line.startswith(("Uid:", "Threads:")))
        return fields["Uid"].split()[0], int(fields["Threads"])
    except (OSError, KeyError, ValueError, IndexError):
        return "", 0


def limits_of_groups() -> Iterator[Limit]:
    """Yield the limits of this process's control groups on memory and on processes, the innermost first."""
    try:
        groups, mounts = (proc.text(proc.PROC / "self" / name) for name in ("cgroup", "mountinfo"))
    except OSError:
        return
    for controller, limit, used, what in OF_GROUPS:
        for group in control_groups(groups, mounts, controller):
            most = _number(group / limit)
            if most is not None and most < UNLIMITED:
                inside = _number(group / used) if used else 0
                yield Limit(what, most, printable_name(str(group / limit)), inside or 0)


def _number(file: Path) -> int | None:
    """Return the number in a file of a control group, below the same root as /proc; None if it has none."""
    try:
        return int((proc.PROC.parent / file.relative_to("/")).read_text())
    except (OSError, ValueError):
        return None
