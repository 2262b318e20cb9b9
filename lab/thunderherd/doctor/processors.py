"""The CPUs that server and clients can be put on, and what they share."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from thunderherd.doctor.kind import (
    Change,
    Examination,
    Finding,
    Here,
    below,
    exists,
    good,
    notable,
    usable_cpus,
    write,
)
from thunderherd.machine import description

CPUS = "sys/devices/system/cpu"


def cpus(here: Here) -> Iterator[Finding]:
    """How many this process may use."""
    usable = usable_cpus()
    seen = f"{len(usable)} usable ({_ranges(usable)})"
    if len(usable) > 1:
        yield good("CPUs", seen, "server and clients have CPUs of their own")
    else:
        yield notable(
            "CPUs",
            seen,
            "server and clients share the one CPU: rates are those of both together, and pinning changes "
            "nothing",
        )


def hypervisor(here: Here) -> Iterator[Finding]:
    """Whether this is a machine of its own."""
    if not description.is_guest():
        yield good("hypervisor", "none", "nobody else has these CPUs")
        return
    try:
        name = description.hypervisor()
    except description.Unavailable:
        name = "one that does not give its name"
    yield notable(
        "hypervisor",
        name,
        "other guests share the host's caches and memory, which no counter here tells; entering the kernel "
        "of the host (interrupts, timers) costs more than on a machine of its own",
    )


def container(here: Here) -> Iterator[Finding]:
    """Whether the host keeps something from this one."""
    name = description.container()
    if name != "none":
        means = "what needs root is to be typed on the host of the container, or allowed as it is started"
        yield notable("container", name, means)


def quota(here: Here) -> Iterator[Finding]:
    """The CPU time that a control group allows (cgroups(7))."""
    allowed = description.cpu_quota()
    if allowed == "max":
        yield good("CPU quota", "none", "never throttled")
        return
    yield notable(
        "CPU quota",
        f"{allowed} (microseconds of each period)",
        "whoever uses more is stopped until the next period, which looks like a slow server: trials in "
        "which that happens are rejected. Give the container no limit of CPU (docker run without --cpus)",
    )


def siblings(here: Here) -> Iterator[Finding]:
    """Hardware threads that share a core."""
    usable = usable_cpus()
    groups = _groups(usable, f"{CPUS}/cpu[0-9]*/topology/thread_siblings_list")
    if not groups:
        raise description.Unavailable("the kernel does not say which CPUs share a core")
    if not any(len(group) > 1 for group in groups):
        yield good("SMT", "no core is shared", "a CPU is a core")
        return
    yield notable(
        "SMT",
        " ".join(_ranges(group) for group in groups),
        "these share a core: with the server on one and clients on the other each slows the other down, and "
        "a share of CPU time is no share of a core. Put both on cores of their own",
        *_pinned(groups),
        *_smt(),
    )


def memory_nodes(here: Here) -> Iterator[Finding]:
    """Parts of the memory that are nearer to some CPUs (numa(7))."""
    usable = usable_cpus()
    groups = _groups(usable, "sys/devices/system/node/node[0-9]*/cpulist")
    if len(groups) < 2:
        yield good("memory nodes", "1", "all memory is equally near")
        return
    yield notable(
        "memory nodes",
        f"{len(groups)}: {'; '.join(_ranges(group) for group in groups)}",
        "what crosses from one node to the other takes longer, and the kernel may move processes between "
        "them: keep server and clients on one",
        *_pinned([[cpu] for cpu in max(groups, key=len)]),
    )


def kinds_of_cores(here: Here) -> Iterator[Finding]:
    """Fast and slow cores in one processor."""
    usable = usable_cpus()
    kinds = {name: f"sys/devices/cpu_{name}/cpus" for name in ("core", "atom")}
    lists = {
        name: description.cpu_list(description.text(path)) for name, path in kinds.items() if exists(path)
    }
    for path in below(f"{CPUS}/cpu[0-9]*/cpu_capacity"):
        number = int(path.removeprefix(f"{CPUS}/cpu").partition("/")[0])
        lists.setdefault(f"capacity {description.text(path)}", []).append(number)
    usable_of = {name: [cpu for cpu in cpus if cpu in usable] for name, cpus in lists.items()}
    present = {name: cpus for name, cpus in usable_of.items() if cpus}
    if len(present) < 2:
        yield good("kinds of cores", "1", "all are alike")
        return
    yield notable(
        "kinds of cores",
        "; ".join(f"{name}: {_ranges(cpus)}" for name, cpus in present.items()),
        "the same work takes longer on some of them, and the kernel moves it between them: keep server and "
        "clients on cores of one kind",
        *_pinned([[cpu] for cpu in next(iter(present.values()))]),
    )


def _pinned(groups: Sequence[Sequence[int]]) -> tuple[Change, ...]:
    """A run with the server on the first CPU of one group, and the clients on that of the next."""
    if len(groups) < 2:
        return ()
    server, client = groups[0][0], groups[1][0]
    words = f"--set 'lab.server_cpus=[{server}]' --set 'lab.client_cpus=[{client}]'"
    return (Change(command=f"thunderherd run unp-ch30 {words}", root=False),)


def _smt() -> Iterator[Change]:
    path = f"{CPUS}/smt/control"
    if exists(path) and description.text(path) == "on":
        yield write(path, "off", "on")


def _groups(usable: Sequence[int], pattern: str) -> list[list[int]]:
    """The usable CPUs that files name together, each group once, in order."""
    lists = [description.cpu_list(description.text(path)) for path in below(pattern)]
    groups = {tuple(cpu for cpu in cpus if cpu in usable) for cpus in lists}
    return sorted(list(group) for group in groups if group)


def _ranges(numbers: Sequence[int]) -> str:
    """`0-3,6`, as the kernel writes lists of CPUs."""
    ranges: list[list[int]] = []
    for number in sorted(numbers):
        if ranges and number == ranges[-1][-1] + 1:
            ranges[-1].append(number)
        else:
            ranges.append([number])
    return ",".join(f"{part[0]}-{part[-1]}" if len(part) > 1 else str(part[0]) for part in ranges)


EXAMINATION = Examination(
    title="CPUs", looks=(cpus, hypervisor, container, quota, siblings, memory_nodes, kinds_of_cores)
)
