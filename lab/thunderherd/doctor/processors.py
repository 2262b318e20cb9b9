"""The CPUs for server and clients, and what they share."""

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
    """Report how many CPUs this process may use, and how many are kept from it."""
    usable = usable_cpus()
    online = description.cpu_list(description.text(f"{CPUS}/online")) if exists(f"{CPUS}/online") else usable
    seen = f"{len(usable)} usable ({_ranges(usable)})"
    means = ""
    if kept := len(set(online) - set(usable)):
        seen += f" of {len(usable) + kept}"
        means = "a cpuset or an affinity (taskset) keeps the others from this process; "
    if len(usable) > 1:
        yield good("CPUs", seen, f"{means}server and clients can have separate CPUs")
    else:
        yield notable(
            "CPUs",
            seen,
            f"{means}server and clients share one CPU: rates include the work of both, and pinning has no "
            "effect",
        )


def hypervisor(here: Here) -> Iterator[Finding]:
    """Report whether this is a virtual machine."""
    if not description.is_guest():
        yield good("hypervisor", "none", "no other machine shares these CPUs")
        return
    try:
        name = description.hypervisor()
    except description.Unavailable:
        name = "yes, of unknown kind"
    yield notable(
        "hypervisor",
        name,
        "other guests share the host's caches and memory, which no counter of this machine shows. Interrupts "
        "and timers enter the host's kernel and cost more than on bare metal",
    )


def container(here: Here) -> Iterator[Finding]:
    """Report whether this is a container, whose host may hide something."""
    name = description.container()
    if name != "none":
        means = (
            "type commands that need root on the container's host, or allow them when starting the container"
        )
        yield notable("container", name, means)


def quota(here: Here) -> Iterator[Finding]:
    """Report the CPU time that a control group allows (cgroups(7))."""
    allowed = description.cpu_quota()
    if allowed == "max":
        yield good("CPU quota", "none", "no throttling")
        return
    yield notable(
        "CPU quota",
        f"{allowed} (microseconds of each period)",
        "processes that use more are stopped until the next period, which looks like a slow server. Trials "
        "that are stopped for more than 1 % of their time are invalid. Give the container no CPU limit "
        "(docker run without --cpus)",
    )


def siblings(here: Here) -> Iterator[Finding]:
    """Report hardware threads that share a core."""
    usable = usable_cpus()
    groups = _groups(usable, f"{CPUS}/cpu[0-9]*/topology/thread_siblings_list")
    if not groups:
        raise description.Unavailable("the kernel does not report which CPUs share a core")
    if not any(len(group) > 1 for group in groups):
        yield good("SMT", "no core is shared", "each CPU is a core")
        return
    yield notable(
        "SMT",
        " ".join(_ranges(group) for group in groups),
        "CPUs listed together share a core. A server on one and clients on the other slow each other down, "
        "and a share of CPU time is not a share of a core. Put them on separate cores",
        *_pinned(groups),
        *_smt(),
    )


def memory_nodes(here: Here) -> Iterator[Finding]:
    """Report memory that is nearer to some CPUs (numa(7))."""
    usable = usable_cpus()
    groups = _groups(usable, "sys/devices/system/node/node[0-9]*/cpulist")
    if len(groups) < 2:
        yield good("memory nodes", "1", "all memory is equally fast")
        return
    yield notable(
        "memory nodes",
        f"{len(groups)}: {'; '.join(_ranges(group) for group in groups)}",
        "access across nodes is slower, and the kernel may move processes between them. Keep server and "
        "clients on one node",
        *_pinned([[cpu] for cpu in max(groups, key=len)]),
    )


def kinds_of_cores(here: Here) -> Iterator[Finding]:
    """Report fast and slow cores in one processor."""
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
        yield good("kinds of cores", "1", "all cores are alike")
        return
    yield notable(
        "kinds of cores",
        "; ".join(f"{name}: {_ranges(cpus)}" for name, cpus in present.items()),
        "the same work takes longer on some cores, and the kernel moves it between them. Keep server and "
        "clients on cores of one kind",
        *_pinned([[cpu] for cpu in next(iter(present.values()))]),
    )


def _pinned(groups: Sequence[Sequence[int]]) -> tuple[Change, ...]:
    """Return the command of a run with the server in one group of CPUs, and the clients in the next."""
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
    """Return the usable CPUs that each file lists together, each group once, in order."""
    lists = [description.cpu_list(description.text(path)) for path in below(pattern)]
    groups = {tuple(cpu for cpu in cpus if cpu in usable) for cpus in lists}
    return sorted(list(group) for group in groups if group)


def _ranges(numbers: Sequence[int]) -> str:
    """Return `0-3,6`, as the kernel writes lists of CPUs."""
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
