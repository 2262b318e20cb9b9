"""What can be counted, and by whom: events of the kernel and of the processor, samples, tracepoints."""

from __future__ import annotations

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
from thunderherd.machine import description

PARANOID = "kernel.perf_event_paranoid"

ALLOWED = {
    -1: "everybody may count everything, and read raw tracepoints",
    0: "an ordinary user may count whole CPUs, kernel included, but read no raw tracepoints",
    1: "an ordinary user may count and sample processes of his own, kernel included",
    2: "an ordinary user may count and sample his own processes in user mode alone",
    3: "an ordinary user may open no event (a setting of distributions)",
}
"""What each level allows (Linux, Documentation/admin-guide/sysctl/kernel.rst; 3 and above: Debian,
Android)."""

ENOUGH = 1

NOT_OF_THE_PROCESSOR = {"software", "tracepoint", "breakpoint", "kprobe", "uprobe", "msr", "power"}
"""Sources of events that are no processor's counters."""

TRACEFS = "/sys/kernel/tracing"
A_NUMBER = "events/raw_syscalls/sys_enter/id"
FOR_THIS_USER = "mode=755,gid=$(id -g)"
"""With which the mount's files can be read by a user who is not root."""


def permission(here: Here) -> Iterator[Finding]:
    """kernel.perf_event_paranoid, which CAP_PERFMON overrules (capabilities(7))."""
    value = int(setting(PARANOID))
    allowed = ALLOWED[max(-1, min(value, max(ALLOWED)))]
    if value <= ENOUGH:
        yield good("perf_event_paranoid", str(value), allowed)
    elif may("PERFMON", "SYS_ADMIN"):
        means = f"{allowed}; this process is exempt (CAP_PERFMON)"
        yield good("perf_event_paranoid", f"{value}, exempt", means)
    else:
        means = f"{allowed}: what the kernel does for a server, most of its time, is counted by no event"
        yield notable("perf_event_paranoid", str(value), means, sysctl(PARANOID, ENOUGH))


def counters(here: Here) -> Iterator[Finding]:
    """Those that the engine can read here, and why it cannot read the others."""
    known = here.catalogue.counters
    usable = [each.name for each in known if each.available]
    yield good("counters", f"{len(usable)} of {len(known)}", f"{', '.join(usable) or 'none'}")
    missing = {each.name: each.reason or "" for each in known if not each.available}
    for reason in dict.fromkeys(missing.values()):
        alike = [name for name, why in missing.items() if why == reason]
        yield stops("not counted", ", ".join(alike), reason)


def processor_events(here: Here) -> Iterator[Finding]:
    """Whether the processor's counters are there: cycles, instructions, cache misses."""
    sources = [path.rpartition("/")[2] for path in below("sys/bus/event_source/devices/*")]
    found = [name for name in sources if name not in NOT_OF_THE_PROCESSOR and name.startswith(("cpu", "arm"))]
    if found:
        yield good("hardware events", ", ".join(found), "the processor shows its counters")
        return
    how = (
        "; a guest has them where its host passes them on (QEMU: -cpu host,pmu=on), as a machine of one's "
        "own does"
        if description.is_guest()
        else "; the kernel has no driver for this processor's"
    )
    yield notable(
        "hardware events",
        "none",
        "no cycles, instructions or cache misses: costs are CPU time alone, and claims about those events "
        f"are not testable here{how}",
    )


CHEAP = 1.05
"""A request that is dearer than by this factor when its events are counted is no more the same."""


def price_of_counting(here: Here) -> Iterator[Finding]:
    """What counting events of the processor costs a virtual machine, whose hypervisor may trap each access to
    the counters; as was tried with a small server and its clients."""
    tried = here.counting
    if tried is None:
        return
    told = (
        "a run whose trials count events of the processor measures that with its own contenders, and says it "
        "beside its figures, as `thunderherd table DIR --counters` does"
    )
    if (cost := tried.cost) is None:
        means = f"this is a virtual machine, whose hypervisor may trap each access to its counters; {told}"
        yield notable("price of counting", f"not known: {tried.reason}", means)
        return
    names = " and ".join(tried.events)
    seen = f"{cost.value:.1f} times the CPU time ({cost.least:.1f} to {cost.most:.1f})"
    of = f"of a request with a thread of its own, when {names} are counted, in {cost.pairs} pairs"
    if cost.value <= CHEAP:
        yield good("price of counting", seen, of)
        return
    means = (
        f"{of}: this is a virtual machine, whose hypervisor may trap each access to the CPU's counters. "
        f"Figures of time and cycles are of a program that is slowed down so much; {told}"
    )
    yield notable("price of counting", seen, means)


SAMPLE_RATE, SYMBOLS = "kernel.perf_event_max_sample_rate", "kernel.kptr_restrict"
SCOPES = {"cpus": "of whole CPUs", "tree": "of its own processes alone"}


def profiles(here: Here) -> Iterator[Finding]:
    """What a profile would be (`run --profile`), as the engine has tried it: by which event, and of whom."""
    profile = here.profile
    paranoid = int(setting(PARANOID))
    if profile.scope is None:
        yield stops(
            "profiles",
            profile.reason or "none",
            "no profile of where the kernel's and the program's time goes",
            *((sysctl(PARANOID, ENOUGH),) if paranoid > ENOUGH and not may("PERFMON", "SYS_ADMIN") else ()),
        )
        return
    seen = f"{profile.event}, {SCOPES[profile.scope]}"
    clock = (
        f"; without cycles ({profile.why_not_cycles}), time with interrupts off is found where they come on "
        "again"
        if profile.why_not_cycles
        else ""
    )
    if profile.scope == "cpus":
        yield good("profiles", seen, f"where time goes can be sampled, kernel included{clock}")
        return
    yield notable(
        "profiles",
        seen,
        "processes and threads that live shorter than the time between two samples are missed, such as those "
        f"that are made for each connection ({profile.why_not_cpus}){clock}",
        *((sysctl(PARANOID, 0),) if paranoid > 0 else ()),
    )


def sample_rate(here: Here) -> Iterator[Finding]:
    """kernel.perf_event_max_sample_rate, which the kernel lowers by itself where samples take it long."""
    value, wanted = int(setting(SAMPLE_RATE)), here.profile.frequency_hertz
    if value >= wanted:
        yield good("perf_event_max_sample_rate", str(value), f"a profile takes {wanted} samples a second")
        return
    yield stops(
        "perf_event_max_sample_rate",
        str(value),
        f"a profile takes {wanted} samples a second, and is refused; the kernel has lowered this by itself "
        "where samples took it long",
        sysctl(SAMPLE_RATE, MOST_SAMPLES),
    )


MOST_SAMPLES = 100_000
"""The kernel's own value of kernel.perf_event_max_sample_rate, before it lowers it."""


def kernel_symbols(here: Here) -> Iterator[Finding]:
    """Whether the functions of the kernel have names in a profile (/proc/kallsyms). Who has no CAP_SYSLOG
    sees them where neither kptr_restrict nor perf_event_paranoid forbids it."""
    why = here.profile.kernel_symbols
    if why is True:
        yield good("kernel symbols", "/proc/kallsyms has them", "a profile names the kernel's functions")
        return
    forbids = ((SYMBOLS, 0), (PARANOID, ENOUGH))
    yield notable(
        "kernel symbols",
        str(why),
        "a profile does not name the kernel's functions, and the share of copying cannot be told",
        *(sysctl(name, most) for name, most in forbids if has(name) and int(setting(name)) > most),
    )


def frame_pointers(here: Here) -> Iterator[Finding]:
    """Whether the engine's own functions can be told by whom they were called: by how it was built."""
    if (why := here.profile.frame_pointers) is not True:
        yield notable("frame pointers", str(why), "stacks of a profile have few of the engine's functions")


def tracepoints(here: Here) -> Iterator[Finding]:
    """Where the kernel names its tracepoints (tracefs), for counts of system calls by name."""
    mounted = [
        line.split()[1] for line in description.text("proc/self/mounts").splitlines() if " tracefs " in line
    ]
    # Its files are for root and the group of the mount alone, whatever the folder's mode is.
    if mounted and (is_root() or readable(f"{mounted[0].lstrip('/')}/{A_NUMBER}")):
        yield good("tracepoints", mounted[0], "tracepoints have their numbers")
    elif mounted:
        change = as_root(
            f"mount -o remount,{FOR_THIS_USER} {mounted[0]}",
            f"mount -o remount,mode=700,gid=0 {mounted[0]}",
        )
        yield notable(
            "tracepoints", f"{mounted[0]}, for root alone", "system calls cannot be counted by name", change
        )
    elif exists(TRACEFS.lstrip("/")) and may("SYS_ADMIN"):
        means = (
            "tracepoints have their numbers from a mount that the engine has for itself alone (fsmount(2))"
        )
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
            "this kernel was built without (CONFIG_TRACING), or a container hides them: system calls cannot "
            "be counted by name",
        )


def bpf(here: Here) -> Iterator[Finding]:
    """Whether tools such as bpftrace can look into the kernel beside a run (bpf(2))."""
    types, allowed = exists("sys/kernel/btf/vmlinux"), may("BPF", "SYS_ADMIN")
    if types and allowed:
        yield good("BPF", "with the kernel's types (BTF)", "bpftrace can be used")
        return
    lacks = [] if types else ["the kernel was built without its types (CONFIG_DEBUG_INFO_BTF)"]
    lacks += [] if allowed else ["it takes root (CAP_BPF)"]
    yield notable("BPF", "; ".join(lacks), "no bpftrace beside a run; counters and studies do without")


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
