"""The noise of the machine during a trial: stolen CPU, foreign CPU, soft interrupts, throttling,
retransmitted segments, ports in TIME_WAIT.

Two samples enclose the measured window. The machine's CPU clock (`/proc/stat`) counts in hundredths of a
second. On most kernels it samples: a whole tick goes to whatever runs at that moment. `foreign_uncertainty`
bounds the error of a share. Only the excess over it counts as noise.
"""

from __future__ import annotations

import gzip
import math
import os
import platform
import resource
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain
from pathlib import Path
from typing import Protocol

from thunderherd.machine.tcp_sockets import State, tcp_sockets
from thunderherd.records.summary import Noise

PROC = Path("/proc")
TICKS_A_SECOND = os.sysconf("SC_CLK_TCK")


class NoiseLimits(Protocol):
    """The noise that a study allows, percent of the machine's CPU time."""

    @property
    def steal_percent(self) -> float: ...
    @property
    def foreign_percent(self) -> float: ...


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
    softirqs: tuple[float, ...] = ()
    retransmitted: int | None = None


def sample(supervisor_pid: int | None = None, networks: Sequence[Path] = ()) -> Sample:
    """Read the clocks.

    These are the clocks of the machine, of this process, of its ended children and of the server's
    supervisor. Retransmitted segments are read in `networks` (/proc/PID/net); None if there are none.
    """
    text = (PROC / "stat").read_text()
    cpus, tasks, interrupts, steal = parse_stat(text)
    ended = resource.getrusage(resource.RUSAGE_CHILDREN)
    return Sample(
        monotonic=time.monotonic(),
        cpus=cpus,
        tasks=tasks,
        interrupts=interrupts,
        steal=steal,
        own=time.process_time(),
        children=ended.ru_utime + ended.ru_stime,
        supervisor=process_cpu_seconds(supervisor_pid) if supervisor_pid else 0.0,
        throttled=throttled_periods(),
        softirqs=softirq_seconds(text),
        retransmitted=sum(map(retransmitted_segments, networks)) if networks else None,
    )


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
    return Noise(
        # A tick may be longer than the rest of a short trial, which would give a share above 1.
        steal_share=min(1.0, (after.steal - before.steal) / capacity),
        foreign_share=min(1.0, max(0.0, comparable - ours) / capacity),
        foreign_uncertainty=2 * spread,
        wall_seconds=wall,
        machine_busy_seconds=tasks + interrupts,
        throttled=after.throttled - before.throttled,
        softirq_seconds=[
            round(later - earlier, 6) for earlier, later in zip(before.softirqs, after.softirqs, strict=False)
        ],
        retransmitted=(
            None
            if before.retransmitted is None or after.retransmitted is None
            else after.retransmitted - before.retransmitted
        ),
    )


def loudness(noise: Noise, limits: NoiseLimits) -> float:
    """Return how noisy a trial was, as a multiple of what the study allows.

    Above 1 is too noisy; a throttled trial is infinitely noisy.
    """
    if noise.throttled > 0:
        return math.inf
    foreign = max(0.0, noise.foreign_share - noise.foreign_uncertainty)
    return max(
        _multiple(100 * noise.steal_share, limits.steal_percent),
        _multiple(100 * foreign, limits.foreign_percent),
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
    if 100 * (noise.foreign_share - noise.foreign_uncertainty) > limits.foreign_percent:
        parts.append(
            f"{_share(noise.foreign_share)} used by other processes (allowed: {limits.foreign_percent:g} %)"
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

    0 if it is gone.
    """
    try:
        text = (PROC / str(pid) / "stat").read_text()
        fields = text[text.rindex(")") + 2 :].split()
        ticks = (int(fields[11]) + int(fields[12])) / TICKS_A_SECOND
        if fields[17] == "1":
            exact = int((PROC / str(pid) / "schedstat").read_text().split()[0]) / 1e9
            return exact or ticks
        return ticks
    except (OSError, ValueError, IndexError):
        return 0.0


@lru_cache(maxsize=1)
def interrupt_time_is_apart() -> bool:
    """True if the kernel excludes interrupt time from a task's CPU time.

    If it does, soft interrupts of our own packets are in no task's account and would look foreign. Read from
    the kernel's configuration; true if that is unavailable, as in most distributions.
    """
    config = kernel_configuration()
    if config is None:
        return True
    return "CONFIG_IRQ_TIME_ACCOUNTING=y" in config or "CONFIG_VIRT_CPU_ACCOUNTING_NATIVE=y" in config


@lru_cache(maxsize=1)
def sampling_rate() -> int:
    """Return how often per second the kernel samples what a CPU is doing (CONFIG_HZ).

    If unknown, the rate at which it counts.
    """
    for line in (kernel_configuration() or "").splitlines():
        if line.startswith("CONFIG_HZ="):
            return int(line.removeprefix("CONFIG_HZ="))
    return TICKS_A_SECOND


@lru_cache(maxsize=1)
def kernel_configuration() -> str | None:
    """Return the running kernel's configuration, from the usual places; None if it is in none of them."""
    release = platform.release()
    try:
        return gzip.decompress((PROC / "config.gz").read_bytes()).decode()
    except (OSError, EOFError):
        pass
    for path in (f"/boot/config-{release}", f"/lib/modules/{release}/config"):
        try:
            return Path(path).read_text()
        except OSError:
            continue
    return None


# Throttling


def throttled_periods() -> int:
    """Return how often this process's control groups were throttled so far; 0 without a quota."""
    total = 0
    for path in _cpu_stat_files():
        try:
            fields = dict(line.split() for line in path.read_text().splitlines())
            total += int(fields.get("nr_throttled", 0))
        except (OSError, ValueError):
            continue
    return total


@lru_cache(maxsize=1)
def _cpu_stat_files() -> tuple[Path, ...]:
    """Return `cpu.stat` of this process's control group and all its ancestors, in either version."""
    try:
        groups = (PROC / "self/cgroup").read_text()
        mounts = (PROC / "self/mountinfo").read_text()
    except OSError:
        return ()
    return tuple(path for path in cpu_stat_paths(groups, mounts) if path.exists())


def cpu_stat_paths(groups: str, mounts: str) -> list[Path]:
    """Return the possible places of `cpu.stat`, from /proc/self/cgroup and /proc/self/mountinfo."""
    return [directory / "cpu.stat" for directory in control_groups(groups, mounts, "cpu")]


def control_groups(groups: str, mounts: str, controller: str) -> list[Path]:
    """Return a process's control group and its ancestors, in the hierarchy of a controller.

    From its /proc/PID/cgroup and /proc/PID/mountinfo (cgroups(7)).
    """
    own: dict[str, str] = {}
    for line in groups.splitlines():
        _number, controllers, path = line.split(":", 2)
        if controllers == "":
            own["cgroup2"] = path
        elif controller in controllers.split(","):
            own["cgroup"] = path
    found: list[Path] = []
    for line in mounts.splitlines():
        front, _, back = line.partition(" - ")
        kind, _device, options = back.split(" ", 2)
        if kind not in own or (kind == "cgroup" and controller not in options.split(",")):
            continue
        root, mount_point = front.split()[3:5]
        inner = own[kind].removeprefix(root.rstrip("/")).strip("/")
        directory = Path(mount_point) / inner
        while True:
            found.append(directory)
            if directory == Path(mount_point):
                break
            directory = directory.parent
    return found


# Ports


def local_ports() -> int:
    """Return the number of ports that the kernel may choose for a connection (`ip_local_port_range`)."""
    low, high = (PROC / "sys/net/ipv4/ip_local_port_range").read_text().split()
    return int(high) - int(low) + 1


OWN_NETWORK = PROC / "self/net"
"""The network namespace of this process in /proc; /proc/PID/net is that of another process."""


def retransmitted_segments(network: Path = OWN_NETWORK) -> int:
    """Return the number of retransmitted TCP segments of a network namespace so far.

    From `/proc/PID/net/snmp` (RetransSegs of RFC 4022).
    """
    names, figures = (
        line.split() for line in (network / "snmp").read_text().splitlines() if line.startswith("Tcp:")
    )
    return int(figures[names.index("RetransSegs")])


def time_wait_count(network: Path = OWN_NETWORK) -> int:
    """Return the number of sockets in TIME_WAIT in a network namespace (`/proc/PID/net/sockstat`)."""
    for line in (network / "sockstat").read_text().splitlines():
        if line.startswith("TCP:"):
            words = line.split()
            return int(words[words.index("tw") + 1])
    return 0


def time_wait_limit() -> int:
    """Return the maximum number of sockets in TIME_WAIT (`tcp_max_tw_buckets`); others are dropped."""
    return int((PROC / "sys/net/ipv4/tcp_max_tw_buckets").read_text())


def time_wait_of_port(port: int) -> int:
    """Return the number of sockets in TIME_WAIT with `port` at either end, in this network namespace.

    Only these can prevent connections to that port.
    """
    both = chain(tcp_sockets(State.TIME_WAIT, port=port), tcp_sockets(State.TIME_WAIT, peer_port=port))
    return sum(1 for _ in both)


def time_wait_listed(network: Path, port: int) -> int:
    """Return the same number for any network namespace (/proc/PID/net).

    It suits a namespace made for a run, in which all sockets belong to the run.
    """
    count = 0
    for table in ("tcp", "tcp6"):
        path = network / table
        if not path.exists():
            continue  # No IPv6.
        for line in path.read_text(encoding="ascii").splitlines()[1:]:
            _number, local, remote, state, *_rest = line.split()
            ports = {int(end.rpartition(":")[2], 16) for end in (local, remote)}
            count += int(state, 16) == State.TIME_WAIT and port in ports
    return count
