"""The noise of the machine during a trial: stolen CPU, CPU of other processes, soft interrupts, throttling,
retransmitted segments.

Two samples enclose the measured window. The machine's CPU clock (`/proc/stat`) counts in hundredths of a
second. On most kernels it samples: a whole tick goes to whatever runs at that moment. `foreign_uncertainty`
bounds the error of a share. Only the excess over it counts as noise.
"""

from __future__ import annotations

import math
import os
import resource
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, reduce
from operator import add
from pathlib import Path
from typing import Protocol

from thunderherd.machine import proc
from thunderherd.machine.control_groups import throttled
from thunderherd.machine.tcp_sockets import TcpCounts, tcp_counts
from thunderherd.records.summary import Noise

TICKS_A_SECOND = os.sysconf("SC_CLK_TCK")


class NoiseLimits(Protocol):
    """The noise that a study allows, percent of the machine's CPU time."""

    @property
    def steal_percent(self) -> float: ...
    @property
    def others_percent(self) -> float: ...


@dataclass(frozen=True)
class Sample:
    """Clocks at one moment, in seconds; each has its own start."""

    monotonic: float
    cpus: int
    tasks: float
    interrupts: float
    steal: float
    own: float
    children: float
    supervisor: float
    throttled: int
    throttled_seconds: float = 0.0
    server_throttled_seconds: float = 0.0
    """The part of `throttled_seconds` in control groups of the server that this process is not in."""
    softirqs: tuple[float, ...] = ()
    tcp: TcpCounts | None = None
    boot: str = ""
    """The machine and its boot; equal for processes in different namespaces of a machine."""


def sample(
    supervisor_pid: int | None = None, networks: Sequence[Path] = (), server_pid: int | None = None
) -> Sample:
    """Read the clocks.

    These are the clocks of the machine, of this process, of its ended children and of the server's
    supervisor; and how long CPU quotas stopped the control groups of this process and of the server.
    TCP's counts are those of `networks` (/proc/PID/net).
    """
    text = (proc.PROC / "stat").read_text()
    cpus, tasks, interrupts, steal = parse_stat(text)
    ended = resource.getrusage(resource.RUSAGE_CHILDREN)
    stopped = throttled(server_pid)
    return Sample(
        monotonic=time.monotonic(),
        cpus=cpus,
        tasks=tasks,
        interrupts=interrupts,
        steal=steal,
        own=time.process_time(),
        children=ended.ru_utime + ended.ru_stime,
        supervisor=process_cpu_seconds(supervisor_pid) if supervisor_pid else 0.0,
        throttled=stopped.periods,
        throttled_seconds=stopped.seconds,
        server_throttled_seconds=stopped.seconds_of_other,
        softirqs=softirq_seconds(text),
        tcp=tcp_counts(networks),
        boot=boot_id(),
    )


def of_machines(samples: Iterable[Sample]) -> tuple[Sample, ...]:
    """Return one sample for each machine: what several processes of a machine used is added."""
    found: dict[str, Sample] = {}
    for each in samples:
        first = found.setdefault(each.boot, each)
        if first is not each:
            tcp = [of.tcp for of in (first, each) if of.tcp is not None]
            found[each.boot] = replace(
                first,
                own=first.own + each.own,
                children=first.children + each.children,
                supervisor=first.supervisor + each.supervisor,
                # They may be in the same control group.
                throttled=max(first.throttled, each.throttled),
                throttled_seconds=max(first.throttled_seconds, each.throttled_seconds),
                tcp=reduce(add, tcp) if tcp else None,
            )
    return tuple(found.values())


@lru_cache(maxsize=1)
def boot_id() -> str:
    """Return the id of this machine's boot (random(4)); empty if it is hidden."""
    try:
        return proc.sysctl("kernel.random.boot_id")
    except OSError:
        return ""


def between(before: Sample, after: Sample, server_seconds: float) -> Noise:
    """Return the noise between two samples, during which the server's processes used `server_seconds` of CPU.

    The clients must be started and reaped between the samples, so that their CPU time is that of our ended
    children.
    """
    wall = max(after.monotonic - before.monotonic, 1e-9)
    capacity = wall * after.cpus
    tasks, interrupts = after.tasks - before.tasks, after.interrupts - before.interrupts
    comparable = tasks if interrupt_time_is_apart() else tasks + interrupts
    ours = (
        server_seconds
        + (after.own - before.own)
        + (after.children - before.children)
        + (after.supervisor - before.supervisor)
    )
    busy_share = min(1.0, comparable / capacity)
    spread = math.sqrt(busy_share * (1 - busy_share) / max(1.0, capacity * sampling_rate()))
    tcp = None if before.tcp is None or after.tcp is None else after.tcp - before.tcp
    return Noise(
        # A tick may be longer than the rest of a short trial, which would give a share above 1.
        steal_share=min(1.0, (after.steal - before.steal) / capacity),
        foreign_share=min(1.0, max(0.0, comparable - ours) / capacity),
        foreign_uncertainty=2 * spread,
        wall_seconds=wall,
        machine_busy_seconds=tasks + interrupts,
        throttled=after.throttled - before.throttled,
        throttled_seconds=after.throttled_seconds - before.throttled_seconds,
        softirq_seconds=[
            round(later - earlier, 6) for earlier, later in zip(before.softirqs, after.softirqs, strict=False)
        ],
        retransmitted=None if tcp is None else tcp.segments,
        retransmitted_syns=None if tcp is None else tcp.syns,
        dropped_connections=None if tcp is None else tcp.dropped,
    )


def together(of_machines: Sequence[Noise]) -> Noise:
    """Return the noise of several machines: amounts are added, and a share is that of the noisiest."""
    if len(of_machines) == 1:
        return of_machines[0]
    busiest = max(of_machines, key=lambda each: each.foreign_share - each.foreign_uncertainty)
    return Noise(
        steal_share=max(each.steal_share for each in of_machines),
        foreign_share=busiest.foreign_share,
        foreign_uncertainty=busiest.foreign_uncertainty,
        wall_seconds=max(each.wall_seconds for each in of_machines),
        machine_busy_seconds=sum(each.machine_busy_seconds for each in of_machines),
        throttled=sum(each.throttled for each in of_machines),
        throttled_seconds=sum(each.throttled_seconds for each in of_machines),
        softirq_seconds=[seconds for each in of_machines for seconds in each.softirq_seconds],
        retransmitted=_sum(each.retransmitted for each in of_machines),
        retransmitted_syns=_sum(each.retransmitted_syns for each in of_machines),
        dropped_connections=_sum(each.dropped_connections for each in of_machines),
    )


def _sum(numbers: Iterable[int | None]) -> int | None:
    """Return the sum; None if a number is unknown."""
    known = list(numbers)
    return None if None in known else sum(each or 0 for each in known)


def loudness(noise: Noise, limits: NoiseLimits) -> float:
    """Return how noisy a trial was, as a multiple of what the study allows.

    Above 1 is too noisy; a throttled trial is infinitely noisy.
    """
    if noise.throttled > 0:
        return math.inf
    others = max(0.0, noise.foreign_share - noise.foreign_uncertainty)
    return max(
        _multiple(100 * noise.steal_share, limits.steal_percent),
        _multiple(100 * others, limits.others_percent),
    )


def describe(noise: Noise, limits: NoiseLimits) -> str:
    """Return what made a trial noisy, in words; empty if nothing did."""
    parts = []
    if noise.throttled > 0:
        parts.append(f"throttled {noise.throttled} times by its control group")
    if 100 * noise.steal_share > limits.steal_percent:
        parts.append(
            f"{_share(noise.steal_share)} stolen by the hypervisor (allowed: {limits.steal_percent:g} %)"
        )
    if 100 * (noise.foreign_share - noise.foreign_uncertainty) > limits.others_percent:
        parts.append(
            f"{_share(noise.foreign_share)} used by other processes (allowed: {limits.others_percent:g} %)"
        )
    return ", ".join(parts)


def _share(share: float) -> str:
    """Return a share in percent with two significant digits: a small share may exceed a small limit."""
    return f"{share:.0%}" if share >= 0.1 else f"{100 * share:.2g}%"


def _multiple(percent: float, allowed: float) -> float:
    if percent <= 0:
        return 0.0
    return percent / allowed if allowed > 0 else math.inf


# The machine's CPU


def parse_stat(text: str) -> tuple[int, float, float, float]:
    """Read `/proc/stat`: the number of CPUs, then seconds in tasks, in interrupts (hard and soft), and
    stolen.

    See proc_stat(5).
    """
    lines = text.splitlines()
    fields = [int(field) for field in lines[0].split()[1:]] + [0] * 8
    user, nice, system, _idle, _wait, hard, soft, steal = fields[:8]
    cpus = sum(1 for line in lines if line.startswith("cpu") and not line.startswith("cpu "))
    return (
        cpus,
        (user + nice + system) / TICKS_A_SECOND,
        (hard + soft) / TICKS_A_SECOND,
        steal / TICKS_A_SECOND,
    )


def softirq_seconds(text: str) -> tuple[float, ...]:
    """Read `/proc/stat`: seconds in soft interrupts, by CPU in the order of the file (proc_stat(5))."""
    lines = (line.split() for line in text.splitlines() if line.startswith("cpu"))
    return tuple(int(fields[7]) / TICKS_A_SECOND for fields in lines if fields[0] != "cpu")


def process_cpu_seconds(pid: int) -> float:
    """Return the CPU time of a process: exact for a single thread (schedstat), else in ticks.

    0 if the process has ended.
    """
    try:
        fields = proc.stat_fields(pid)
        ticks = (int(fields[11]) + int(fields[12])) / TICKS_A_SECOND
        if fields[17] == "1":
            exact = int((proc.PROC / str(pid) / "schedstat").read_text().split()[0]) / 1e9
            return exact or ticks
        return ticks
    except (OSError, ValueError, IndexError):
        return 0.0


@lru_cache(maxsize=1)
def interrupt_time_is_apart() -> bool:
    """True if the kernel excludes interrupt time from a task's CPU time.

    If it does, soft interrupts of our own packets are in no task's account and would look like those of other
    processes. Read from the kernel's configuration; true if that is unavailable, as in most distributions.
    """
    config = proc.kernel_configuration()
    if config is None:
        return True
    return "CONFIG_IRQ_TIME_ACCOUNTING=y" in config or "CONFIG_VIRT_CPU_ACCOUNTING_NATIVE=y" in config


@lru_cache(maxsize=1)
def sampling_rate() -> int:
    """Return how often per second the kernel samples what a CPU is doing (CONFIG_HZ).

    If CONFIG_HZ is unknown, return the ticks per second of the clock.
    """
    for line in (proc.kernel_configuration() or "").splitlines():
        if line.startswith("CONFIG_HZ="):
            return int(line.removeprefix("CONFIG_HZ="))
    return TICKS_A_SECOND
