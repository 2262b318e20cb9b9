"""How many descriptors, processes and threads there can be, and how much memory may be locked."""

from __future__ import annotations

from collections.abc import Iterator

from thunderherd.doctor.capacity import (
    Capacity,
    descriptors,
    limit_of,
    number_of,
    tasks,
    threads_of_a_process,
)
from thunderherd.doctor.kind import (
    Examination,
    Finding,
    Here,
    good,
    may,
    notable,
    raise_limit,
    setting,
    sysctl,
)
from thunderherd.text.figures import count

CONNECTIONS = 10_000
"""Connections at once that servers are to be tried with (C10K); each a descriptor, and where it has a thread
of its own, a thread."""
OTHER_DESCRIPTORS = 64
"""What a process has open beside its connections, generously."""
LOCKED_BYTES = 8 << 20
"""What Linux gives since 5.16 (RLIMIT_MEMLOCK); it was 64 KiB before."""
OPTION_BYTES = 128 << 10
"""What Linux gives since 6.7 (net.core.optmem_max); it was 20 KiB before."""


def open_files(here: Here) -> Iterator[Finding]:
    """Descriptors of one process."""
    wanted = CONNECTIONS + OTHER_DESCRIPTORS
    yield _of(
        "open files", descriptors(wanted), wanted, f"{CONNECTIONS:,} connections of one process at once"
    )


def processes_and_threads(here: Here) -> Iterator[Finding]:
    """Both together: the kernel counts tasks."""
    yield _of(
        "processes, threads",
        tasks(CONNECTIONS),
        CONNECTIONS,
        f"a thread for each of {CONNECTIONS:,} connections",
    )


def threads_of_one_process(here: Here) -> Iterator[Finding]:
    """By its memory mappings (proc_sys_vm(5))."""
    capacity = threads_of_a_process(CONNECTIONS)
    yield _of("threads of a process", capacity, CONNECTIONS, f"{CONNECTIONS:,} stacks, each with its guard")


def _of(name: str, capacity: Capacity, wanted: int, what_for: str) -> Finding:
    seen = f"{capacity} by {capacity.bound}"
    if capacity.number >= wanted:
        return good(name, seen, f"room for {what_for}")
    means = f"no room for {what_for}; which studies that concerns stands with them"
    return notable(name, seen, means, *capacity.changes)


def locked_memory(here: Here) -> Iterator[Finding]:
    """What rings and sends without copying pin (getrlimit(2), RLIMIT_MEMLOCK)."""
    soft, hard = limit_of("Max locked memory")
    seen = soft if soft == "unlimited" else count(int(soft), "byte")
    if number_of(soft) >= LOCKED_BYTES or may("IPC_LOCK"):
        means = "rings of io_uring and sends without copying have room"
        yield good("locked memory", seen, means)
        return
    yield notable(
        "locked memory",
        seen,
        "few rings of io_uring, and few sends without copying at once: those beyond fail, and are counted "
        "as such",
        raise_limit("memlock", LOCKED_BYTES, soft, hard),
    )


def notes_of_sends(here: Here) -> Iterator[Finding]:
    """Where the kernel keeps a note of every send without copying
    (Documentation/networking/msg_zerocopy.rst)."""
    value = int(setting("net.core.optmem_max"))
    seen = count(value, "byte")
    if value >= OPTION_BYTES:
        yield good("optmem_max", seen, "many sends without copying at once")
        return
    yield notable(
        "optmem_max",
        seen,
        "fewer sends without copying may be under way at once than on newer kernels: a sender waits for the "
        "others",
        sysctl("net.core.optmem_max", OPTION_BYTES),
    )


EXAMINATION = Examination(
    title="Limits",
    looks=(open_files, processes_and_threads, threads_of_one_process, locked_memory, notes_of_sends),
)
