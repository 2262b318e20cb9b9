"""How many descriptors, processes and threads there can still be: limits of the kernel, of the user and of
the control group, of which the least counts.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from thunderherd.doctor.kind import Change, may, raise_limit, setting, sysctl, write
from thunderherd.machine import description, noise

UNLIMITED = "unlimited"


@dataclass(frozen=True)
class Capacity:
    """So many more there can be; what bounds them, and what raises that bound to as many as are wanted."""

    number: float
    bound: str
    changes: tuple[Change, ...] = ()

    def __str__(self) -> str:
        return "no limit" if math.isinf(self.number) else f"{self.number:,.0f}"


def limit_of(name: str) -> tuple[str, str]:
    """The soft and the hard limit of that name, as /proc/self/limits has them (proc(5))."""
    for line in description.text("proc/self/limits").splitlines():
        if line.startswith(name):
            soft, hard = line.removeprefix(name).split()[:2]
            return soft, hard
    raise description.Unavailable(f"/proc/self/limits has no line {name!r}")


def number_of(limit: str) -> float:
    """A limit as a number, infinity where there is none."""
    return math.inf if limit in (UNLIMITED, "max") else float(limit)


def descriptors(wanted: int) -> Capacity:
    """Descriptors of one process: the engine raises its soft limit to the hard one (RLIMIT_NOFILE)."""
    soft, hard = limit_of("Max open files")
    changes = [raise_limit("nofile", wanted, soft, hard)]
    if wanted > int(setting("fs.nr_open")):
        changes.insert(0, sysctl("fs.nr_open", wanted))
    return Capacity(number_of(hard), "the hard limit on open files (ulimit -Hn)", tuple(changes))


def tasks(wanted: int) -> Capacity:
    """Processes and threads together, beside those that there are."""
    return min(_bounds_of_tasks(wanted), key=lambda each: each.number)


def threads_of_a_process(wanted: int) -> Capacity:
    """Threads of one process by its memory mappings: each has its stack and a guard below it."""
    number = int(setting("vm.max_map_count")) // MAPPINGS_OF_A_THREAD
    return Capacity(number, "vm.max_map_count", (sysctl("vm.max_map_count", MAPPINGS_OF_A_THREAD * wanted),))


MAPPINGS_OF_A_THREAD = 2


def _bounds_of_tasks(wanted: int) -> Iterator[Capacity]:
    running = tasks_of_machine()
    for name in ("kernel.pid_max", "kernel.threads-max"):
        number = int(setting(name))
        yield Capacity(number - running, name, (sysctl(name, running + wanted),))
    soft, hard = limit_of("Max processes")
    # The kernel does not hold it against those (getrlimit(2)).
    if not may("SYS_ADMIN", "SYS_RESOURCE") and not math.isinf(number_of(soft)):
        mine = tasks_of_user()
        yield Capacity(
            number_of(soft) - mine,
            "the limit on processes of this user (ulimit -u)",
            (raise_limit("nproc", mine + wanted, soft, hard),),
        )
    places = description.text("proc/self/cgroup"), description.text("proc/self/mountinfo")
    for group in noise.control_groups(*places, "pids"):
        path = str(group / "pids.max").lstrip("/")
        if (description.ROOT / path).exists() and (most := description.text(path)) != "max":
            inside = int(description.text(path.replace("pids.max", "pids.current")))
            raised = write(path, str(inside + wanted), most)
            yield Capacity(int(most) - inside, f"the control group (/{path})", (raised,))


def tasks_of_machine() -> int:
    """The processes and threads that there are, by the fourth word of /proc/loadavg (proc_loadavg(5))."""
    found = description.text("proc/loadavg")
    try:
        return int(found.split()[3].partition("/")[2])
    except (IndexError, ValueError):
        raise description.Unavailable(f"/proc/loadavg is {found!r}, which tells no number of tasks") from None


def tasks_of_user() -> int:
    """The threads of all processes of this user's, as far as /proc shows them."""
    user = description.field("proc/self/status", "Uid").split()[:1]
    count = 0
    for entry in (description.ROOT / "proc").glob("[0-9]*"):
        try:
            status = f"proc/{entry.name}/status"
            if description.field(status, "Uid").split()[:1] == user:
                count += int(description.field(status, "Threads"))
        except (OSError, ValueError, description.Unavailable):
            continue  # it ended meanwhile
    return count
