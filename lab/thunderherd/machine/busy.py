"""Measures who uses the CPUs while no program of ours runs: other processes, and the hypervisor.

Reads /proc twice. No process is stopped, slowed down or contacted.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from dataclasses import dataclass

from thunderherd.machine import noise, proc
from thunderherd.records.summary import Noise
from thunderherd.text.printable import printable_name

SHOWN_SHARE = 0.02
"""Least share of a CPU for which a process is named: two ticks in a second. Below that, ticks are too
coarse."""


@dataclass(frozen=True)
class Busy:
    """A process that used a CPU, and how much of one CPU: above 1 with several threads."""

    pid: int
    name: str
    share: float


@dataclass(frozen=True)
class Watched:
    """A stretch of time: the machine's noise, and the processes that used most CPU time, the busiest
    first."""

    noise: Noise
    busy: tuple[Busy, ...]


def watch(seconds: float = 1.0) -> Watched:
    """Read the clocks twice, `seconds` apart.

    Processes outside this PID namespace, and processes that ended meanwhile, appear only in the machine's
    clock.
    """
    processes, before = cpu_of_processes(), noise.sample()
    time.sleep(seconds)
    after, later = noise.sample(), cpu_of_processes()
    seen = noise.between(before, after, server_seconds=0.0)
    return Watched(noise=seen, busy=busiest(processes, later, seen.wall_seconds))


def cpu_of_processes() -> dict[int, float]:
    """Return process → seconds of CPU used so far, without this process."""
    pids = [int(entry.name) for entry in proc.PROC.iterdir() if entry.name.isdigit()]
    return {pid: noise.process_cpu_seconds(pid) for pid in pids if pid != os.getpid()}


def busiest(before: dict[int, float], after: dict[int, float], seconds: float) -> tuple[Busy, ...]:
    """Return the processes that used most between two readings; a new process used all of its time."""
    shares = {pid: (used - before.get(pid, 0.0)) / seconds for pid, used in after.items()}
    order = sorted(shares.items(), key=lambda each: (-each[1], each[0]))
    return tuple(Busy(pid, name_of(pid), share) for pid, share in order if share >= SHOWN_SHARE)


ENGINE = b"thunderherd-eng"
"""The name of the engine's processes: its first 15 letters (proc(5), /proc/PID/comm)."""


def other_runs() -> list[int]:
    """Return the engine's processes on this machine that this process has not started, the oldest first."""
    with os.scandir(proc.PROC) as entries:
        pids = [int(entry.name) for entry in entries if entry.name.isdigit()]
    return sorted(pid for pid in pids if _is_engine(pid) and os.getpid() not in _ancestors(pid))


def _is_engine(pid: int) -> bool:
    """True for a process of the engine. A run checks each process after each block, so this must be cheap."""
    try:
        descriptor = os.open(f"{proc.PROC}/{pid}/comm", os.O_RDONLY | os.O_CLOEXEC)
        try:
            return os.read(descriptor, 64).removesuffix(b"\n") == ENGINE
        finally:
            os.close(descriptor)
    except OSError:  # The process has ended.
        return False


def _ancestors(pid: int) -> Iterator[int]:
    """Yield a process's parent, its parent, and so on."""
    while pid > 1:
        try:
            pid = int(proc.stat_fields(pid)[1])
        except (OSError, ValueError, IndexError):
            return
        yield pid


def name_of(pid: int) -> str:
    """Return a process's own name (proc(5), /proc/PID/comm), on one line and without control characters.

    A process may choose any name.
    """
    try:
        name = (proc.PROC / str(pid) / "comm").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return "ended"
    return printable_name(name.removesuffix("\n"))
