"""Events that can be counted, and by whom: of the kernel and the processor, samples, tracepoints."""

from __future__ import annotations

import shlex
from collections.abc import Iterator

from thunderherd.doctor.kind import (
    Examination,
    Finding,
    Here,
    as_root,
    below,
    exists,
    good,
    has,
    is_root,
    may,
    notable,
    readable,
    setting,
    stops,
    sysctl,
)
from thunderherd.machine import description, proc
from thunderherd.text.printable import printable_name

PARANOID = "kernel.perf_event_paranoid"

ALLOWED = {
    -1: "every user may count everything, and read raw tracepoints",
    0: "ordinary users may count whole CPUs, kernel included, but not read raw tracepoints",
    1: "ordinary users may count and sample their own processes, kernel included",
    2: "ordinary users may count and sample their own processes in user mode only",
    3: "ordinary users may not open any event (a level that distributions added)",
}
"""The rights at each level (Linux, Documentation/admin-guide/sysctl/kernel.rst; 3 and above: Debian,
Android)."""

ENOUGH = 1

NOT_OF_THE_PROCESSOR = {"software", "tracepoint", "breakpoint", "kprobe", "uprobe", "msr", "power"}
"""Event sources that are not the processor's counters."""

TRACEFS = "/sys/kernel/tracing"
A_NUMBER = "events/raw_syscalls/sys_enter/id"
FOR_THIS_USER = "mode=755,gid=$(id -g)"
"""Mount options with which an ordinary user can read the files of the mount."""


def permission(here: Here) -> Iterator[Finding]:
    """Report kernel.perf_event_paranoid, which CAP_PERFMON overrides (capabilities(7))."""
    value = int(setting(PARANOID))
    allowed = ALLOWED[max(-1, min(value, max(ALLOWED)))]
    if value <= ENOUGH:
        yield good("perf_event_paranoid", str(value), allowed)
    elif may("PERFMON", "SYS_ADMIN"):
        means = f"{allowed}; this process is exempt (CAP_PERFMON)"
        yield good("perf_event_paranoid", f"{value}, exempt", means)
    else:
        means = f"{allowed}. Work of the kernel, which is most of a server's time, is then not counted"
        yield notable("perf_event_paranoid", str(value), means, sysctl(PARANOID, ENOUGH))


def counters(here: Here) -> Iterator[Finding]:
    """Report the counters that the engine can read here, and why it cannot read the others."""
    known = here.catalogue.counters
    usable = [each.name for each in known if each.available]
    yield good("counters", f"{len(usable)} of {len(known)}", f"{', '.join(usable) or 'none'}")
    missing = {each.name: each.reason or "" for each in known if not each.available}
    for reason in dict.fromkeys(missing.values()):
        alike = [name for name, why in missing.items() if why == reason]
        yield stops("not counted", ", ".join(alike), reason)


def processor_events(here: Here) -> Iterator[Finding]:
    """Report whether the processor's counters are available: cycles, instructions, cache misses."""
    sources = [path.rpartition("/")[2] for path in below("sys/bus/event_source/devices/*")]
    found = [name for name in sources if name not in NOT_OF_THE_PROCESSOR and name.startswith(("cpu", "arm"))]
    if found:
        yield good("hardware events", ", ".join(found), "the processor's counters are available")
        return
    how = (
        ". A guest has them if its host passes them on (QEMU: -cpu host,pmu=on), and bare metal has them"
        if description.is_guest()
        else ". The kernel has no driver for this processor's counters"
    )
    yield notable(
        "hardware events",
        "none",
        "no cycles, instructions or cache misses: costs are CPU time only, and claims about these events are "
        f"not testable here{how}",
    )


CHEAP = 1.05
"""Counting is cheap up to this ratio of CPU times; beyond, counted requests are not comparable with
others."""


def price_of_counting(here: Here) -> Iterator[Finding]:
    """Report the cost of counting the processor's events on a virtual machine.

    It is measured with a small server and its clients.
    """
    tried = here.counting
    if tried is None:
        return
    in_runs = (
        "A run whose trials count such events measures this with its own contenders and reports it next to "
        "its figures; `thunderherd table DIR --counters` shows it"
    )
    if (cost := tried.cost) is None:
        means = f"this is a virtual machine, whose hypervisor may trap each access to its counters. {in_runs}"
        yield notable("price of counting", f"unknown: {tried.reason}", means)
        return
    names = " and ".join(tried.events)
    seen = f"{cost.value:.1f} times the CPU time ({cost.least:.1f} to {cost.most:.1f})"
    of = f"per request with a new thread, when {names} are counted, in {cost.pairs} pairs"
    if cost.value <= CHEAP:
        yield good("price of counting", seen, of)
        return
    means = (
        f"{of}. This is a virtual machine, whose hypervisor may trap each access to the CPU's counters. "
        f"Times and cycles of counted trials are those of a program slowed down by this factor. {in_runs}"
    )
    yield notable("price of counting", seen, means)


SAMPLE_RATE, SYMBOLS = "kernel.perf_event_max_sample_rate", "kernel.kptr_restrict"
SCOPES = {"cpus": "on whole CPUs", "tree": "in its own processes only"}


def profiles(here: Here) -> Iterator[Finding]:
    """Report what a profile would sample (`run --profile`), as the engine has tried it."""
    profile = here.profile
    paranoid = int(setting(PARANOID))
    if profile.scope is None:
        yield stops(
            "profiles",
            profile.reason or "none",
            "profiles are unavailable: nothing shows where the kernel and the program spend their time",
            *((sysctl(PARANOID, ENOUGH),) if paranoid > ENOUGH and not may("PERFMON", "SYS_ADMIN") else ()),
        )
        return
    seen = f"{profile.event}, {SCOPES[profile.scope]}"
    clock = (
        f". Without cycles ({profile.why_not_cycles}), time with interrupts off is attributed to the "
        "function that re-enables them"
        if profile.why_not_cycles
        else ""
    )
    if profile.scope == "cpus":
        yield good("profiles", seen, f"profiles show where time goes, kernel included{clock}")
        return
    yield notable(
        "profiles",
        seen,
        "profiles miss processes and threads that live shorter than the time between two samples, such as "
        f"those made for each connection ({profile.why_not_cpus}){clock}",
        *((sysctl(PARANOID, 0),) if paranoid > 0 else ()),
    )


def sample_rate(here: Here) -> Iterator[Finding]:
    """Report kernel.perf_event_max_sample_rate, which the kernel lowers if samples take too long."""
    value, wanted = int(setting(SAMPLE_RATE)), here.profile.frequency_hertz
    if value >= wanted:
        yield good("perf_event_max_sample_rate", str(value), f"a profile takes {wanted} samples a second")
        return
    yield stops(
        "perf_event_max_sample_rate",
        str(value),
        f"a profile takes {wanted} samples a second and is refused. The kernel lowers this limit by itself "
        "if samples take too long",
        sysctl(SAMPLE_RATE, MOST_SAMPLES),
    )


MOST_SAMPLES = 100_000
"""The kernel's default of kernel.perf_event_max_sample_rate."""


def kernel_symbols(here: Here) -> Iterator[Finding]:
    """Report whether the kernel's functions have names in a profile (/proc/kallsyms).

    Without CAP_SYSLOG, they have if neither kptr_restrict nor perf_event_paranoid forbids it.
    """
    why = here.profile.kernel_symbols
    if why is True:
        yield good("kernel symbols", "in /proc/kallsyms", "profiles name the kernel's functions")
        return
    forbids = ((SYMBOLS, 0), (PARANOID, ENOUGH))
    yield notable(
        "kernel symbols",
        str(why),
        "profiles do not name the kernel's functions, so the share of copying is unknown",
        *(sysctl(name, most) for name, most in forbids if has(name) and int(setting(name)) > most),
    )


def frame_pointers(here: Here) -> Iterator[Finding]:
    """Report whether the callers of the engine's functions are visible, which depends on its build."""
    if (why := here.profile.frame_pointers) is not True:
        yield notable("frame pointers", str(why), "stacks in profiles lack most of the engine's functions")


def tracepoints(here: Here) -> Iterator[Finding]:
    """Report where the kernel names its tracepoints (tracefs), for counts of system calls by name."""
    mounts = (line.split(" ") for line in proc.lines(description.ROOT / "proc/self/mounts"))
    mounted = [proc.unescaped(fields[1]) for fields in mounts if fields[2:3] == ["tracefs"]]
    shown = printable_name(mounted[0]) if mounted else ""
    # Only root and the group of the mount can read its files, whatever the folder's mode is.
    if mounted and (is_root() or readable(f"{mounted[0].lstrip('/')}/{A_NUMBER}")):
        yield good("tracepoints", shown, "system calls can be counted by name")
    elif mounted:
        word = shlex.quote(shown)
        change = as_root(
            f"mount -o remount,{FOR_THIS_USER} {word}", f"mount -o remount,mode=700,gid=0 {word}"
        )
        yield notable(
            "tracepoints", f"{shown}, for root only", "system calls cannot be counted by name", change
        )
    elif exists(TRACEFS.lstrip("/")) and may("SYS_ADMIN"):
        means = "system calls can be counted by name: the engine mounts tracefs for itself (fsmount(2))"
        yield good("tracepoints", "not mounted", means)
    elif exists(TRACEFS.lstrip("/")):
        yield notable(
            "tracepoints",
            "not mounted",
            "system calls cannot be counted by name",
            as_root(f"mount -t tracefs -o {FOR_THIS_USER} tracefs {TRACEFS}", f"umount {TRACEFS}"),
        )
    else:
        yield notable(
            "tracepoints",
            "none",
            "this kernel was built without CONFIG_TRACING, or a container hides tracefs: system calls cannot "
            "be counted by name",
        )


def bpf(here: Here) -> Iterator[Finding]:
    """Report whether tools such as bpftrace can trace the kernel during a run (bpf(2))."""
    types, allowed = exists("sys/kernel/btf/vmlinux"), may("BPF", "SYS_ADMIN")
    if types and allowed:
        yield good("BPF", "with the kernel's types (BTF)", "bpftrace works during a run")
        return
    lacks = [] if types else ["the kernel was built without its types (CONFIG_DEBUG_INFO_BTF)"]
    lacks += [] if allowed else ["root is needed (CAP_BPF)"]
    yield notable(
        "BPF", "; ".join(lacks), "bpftrace does not work during a run; counters and studies do not need it"
    )


EXAMINATION = Examination(
    title="Counters",
    looks=(
        permission,
        counters,
        processor_events,
        price_of_counting,
        profiles,
        sample_rate,
        kernel_symbols,
        frame_pointers,
        tracepoints,
        bpf,
    ),
)
