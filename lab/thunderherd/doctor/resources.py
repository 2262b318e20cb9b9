"""Limits on descriptors, processes, threads and locked memory.

Kernel, user and control group each have limits; the smallest applies.
"""

from __future__ import annotations

import math
import shlex
from collections.abc import Iterator
from dataclasses import dataclass

from thunderherd.doctor.kind import (
    Change,
    Examination,
    Finding,
    Here,
    good,
    may,
    notable,
    raise_limit,
    setting,
    stops,
    sysctl,
    write,
)
from thunderherd.machine import description
from thunderherd.machine.room import (
    MEMORY,
    NEEDED,
    OF_CHARTS,
    PROCESSES,
    in_words,
    limits_here,
    limits_of_groups,
    tasks_of_user,
)
from thunderherd.text.figures import count

CONNECTIONS = 10_000
"""Simultaneous connections to have room for (C10K): each needs a descriptor, and in some designs a thread."""
OTHER_DESCRIPTORS = 64
"""A generous number of descriptors of a process besides its connections."""
LOCKED_BYTES = 8 << 20
"""The default of Linux since 5.16 (RLIMIT_MEMLOCK); before, it was 64 KiB."""
OPTION_BYTES = 128 << 10
"""The default of Linux since 6.7 (net.core.optmem_max); before, it was 20 KiB."""


def open_files(here: Here) -> Iterator[Finding]:
    """Report descriptors of one process."""
    wanted = CONNECTIONS + OTHER_DESCRIPTORS
    yield _of(
        "open files", descriptors(wanted), wanted, f"{CONNECTIONS:,} connections of one process at once"
    )


def processes_and_threads(here: Here) -> Iterator[Finding]:
    """Report processes and threads together: the kernel counts tasks."""
    yield _of(
        "processes, threads",
        tasks(CONNECTIONS),
        CONNECTIONS,
        f"a thread for each of {CONNECTIONS:,} connections",
    )


def threads_of_one_process(here: Here) -> Iterator[Finding]:
    """Report threads of one process, by its memory mappings (proc_sys_vm(5))."""
    capacity = threads_of_a_process(CONNECTIONS)
    yield _of("threads of a process", capacity, CONNECTIONS, f"{CONNECTIONS:,} stacks, each with its guard")


def _of(name: str, capacity: Capacity, wanted: int, what_for: str) -> Finding:
    seen = f"{capacity} by {capacity.bound}"
    if capacity.number >= wanted:
        return good(name, seen, f"room for {what_for}")
    means = f"no room for {what_for}. The list of studies names those that need more"
    return notable(name, seen, means, *capacity.changes)


def memory(here: Here) -> Iterator[Finding]:
    """Report limits that a run with its report may exceed."""
    found = [each for each in limits_here() if each.what != PROCESSES or each.room < NEEDED[each.what]]
    if not found:
        yield good("memory", "no limit", f"a run needs {in_words(MEMORY, NEEDED[MEMORY])}")
    for each in found:
        needed = in_words(each.what, NEEDED[each.what])
        if each.room < NEEDED[each.what]:
            yield stops(each.what, str(each), f"a run needs {needed}, and is refused with less")
        elif each.room < OF_CHARTS.get(each.what, 0):
            needed = in_words(each.what, OF_CHARTS[each.what])
            yield notable(each.what, str(each), f"runs have no report and no charts, which need {needed}")
        else:
            yield good(each.what, str(each), f"a run needs {needed}")


def locked_memory(here: Here) -> Iterator[Finding]:
    """Report memory that io_uring and zero-copy sends pin (getrlimit(2), RLIMIT_MEMLOCK)."""
    soft, hard = limit_of("Max locked memory")
    seen = soft if soft == "unlimited" else count(int(soft), "byte")
    if number_of(soft) >= LOCKED_BYTES or may("IPC_LOCK"):
        means = "enough for io_uring and zero-copy sends"
        yield good("locked memory", seen, means)
        return
    yield notable(
        "locked memory",
        seen,
        "room for few io_uring rings and few simultaneous zero-copy sends; further ones fail and are counted "
        "as errors",
        raise_limit("memlock", LOCKED_BYTES, soft, hard),
    )


def notes_of_sends(here: Here) -> Iterator[Finding]:
    """Report where the kernel notes every zero-copy send (Documentation/networking/msg_zerocopy.rst)."""
    value = int(setting("net.core.optmem_max"))
    seen = count(value, "byte")
    if value >= OPTION_BYTES:
        yield good("optmem_max", seen, "enough for many simultaneous zero-copy sends")
        return
    yield notable(
        "optmem_max",
        seen,
        "fewer zero-copy sends may be in flight than on newer kernels: a sender waits until others complete",
        sysctl("net.core.optmem_max", OPTION_BYTES),
    )


EXAMINATION = Examination(
    title="Limits",
    looks=(
        open_files,
        processes_and_threads,
        threads_of_one_process,
        memory,
        locked_memory,
        notes_of_sends,
    ),
)


UNLIMITED = "unlimited"


@dataclass(frozen=True)
class Capacity:
    """The room under a limit, the name of that limit, and the commands that raise it to the wanted number."""

    number: float
    bound: str
    changes: tuple[Change, ...] = ()

    def __str__(self) -> str:
        return "no limit" if math.isinf(self.number) else f"{self.number:,.0f}"


def limit_of(name: str) -> tuple[str, str]:
    """Return the soft and the hard limit of that name in /proc/self/limits (proc(5))."""
    for line in description.text("proc/self/limits").splitlines():
        if line.startswith(name):
            soft, hard = line.removeprefix(name).split()[:2]
            return soft, hard
    raise description.Unavailable(f"/proc/self/limits has no line {name!r}")


def number_of(limit: str) -> float:
    """Return a limit as a number; infinity without a limit."""
    return math.inf if limit in (UNLIMITED, "max") else float(limit)


def descriptors(wanted: int) -> Capacity:
    """Return the room for descriptors of one process, by the hard limit, which the engine makes its own."""
    soft, hard = limit_of("Max open files")
    changes = [raise_limit("nofile", wanted, soft, hard)]
    if wanted > int(setting("fs.nr_open")):
        changes.insert(0, sysctl("fs.nr_open", wanted))
    return Capacity(number_of(hard), "the hard limit on open files (ulimit -Hn)", tuple(changes))


def tasks(wanted: int) -> Capacity:
    """Return the room for processes and threads together, besides the existing ones."""
    return min(_bounds_of_tasks(wanted), key=lambda each: each.number)


def threads_of_a_process(wanted: int) -> Capacity:
    """Return the room for threads of one process, by its memory mappings: a stack and a guard for each."""
    number = int(setting("vm.max_map_count")) // MAPPINGS_OF_A_THREAD
    return Capacity(number, "vm.max_map_count", (sysctl("vm.max_map_count", MAPPINGS_OF_A_THREAD * wanted),))


MAPPINGS_OF_A_THREAD = 2


def _bounds_of_tasks(wanted: int) -> Iterator[Capacity]:
    running = tasks_of_machine()
    for name in ("kernel.pid_max", "kernel.threads-max"):
        number = int(setting(name))
        yield Capacity(number - running, name, (sysctl(name, running + wanted),))
    soft, hard = limit_of("Max processes")
    # The limit does not apply to processes with these capabilities (getrlimit(2)).
    if not may("SYS_ADMIN", "SYS_RESOURCE") and not math.isinf(number_of(soft)):
        mine = tasks_of_user()
        yield Capacity(
            number_of(soft) - mine,
            "the limit on processes of this user (ulimit -u)",
            (raise_limit("nproc", mine + wanted, soft, hard),),
        )
    for each in limits_of_groups():
        if each.what == PROCESSES:
            raised = write(shlex.quote(each.name.lstrip("/")), str(each.used + wanted), str(each.most))
            yield Capacity(each.room, f"the control group ({each.name})", (raised,))


def tasks_of_machine() -> int:
    """Return the number of existing tasks: the fourth word of /proc/loadavg (proc_loadavg(5))."""
    found = description.text("proc/loadavg")
    try:
        return int(found.split()[3].partition("/")[2])
    except (IndexError, ValueError):
        raise description.Unavailable(f"/proc/loadavg has no number of tasks: {found!r}") from None
