"""What goes on on this machine while nothing of ours runs: who uses its CPUs, and what is taken from it.

All by looking at /proc twice; nobody is stopped, slowed down or asked.
"""

from __future__ import annotations

import os
import time
from dataclasses import dataclass

from thunderherd.machine import noise
from thunderherd.records.summary import Noise
from thunderherd.text.figures import printable

SHOWN_SHARE = 0.02
"""The least share of a CPU that a process is named for: two ticks of a second, below which a count of ticks
says nothing."""


@dataclass(frozen=True)
class Busy:
    """A process that used a CPU, and the share of one CPU that it used: above 1 with several threads."""

    pid: int
    name: str
    share: float


@dataclass(frozen=True)
class Watched:
    """What went on over a time: of the machine, and the processes that used most of a CPU, the busiest
    first."""

    noise: Noise
    busy: tuple[Busy, ...]


def watch(seconds: float = 1.0) -> Watched:
    """Looks twice, `seconds` apart.

    Of processes outside of this PID namespace only the machine's clock tells, and of one that ended
    meanwhile.
    """
    processes, before = cpu_of_processes(), noise.sample()
    time.sleep(seconds)
    after, later = noise.sample(), cpu_of_processes()
    seen = noise.between(before, after, server_seconds=0.0)
    return Watched(noise=seen, busy=busiest(processes, later, seen.wall_seconds))


def cpu_of_processes() -> dict[int, float]:
    """Seconds of CPU that each process has used so far, but for this one."""
    pids = [int(entry.name) for entry in noise.PROC.iterdir() if entry.name.isdigit()]
    return {pid: noise.process_cpu_seconds(pid) for pid in pids if pid != os.getpid()}


def busiest(before: dict[int, float], after: dict[int, float], seconds: float) -> tuple[Busy, ...]:
    """Those that used most between two looks; one that came meanwhile has used it all since."""
    shares = {pid: (used - before.get(pid, 0.0)) / seconds for pid, used in after.items()}
    order = sorted(shares.items(), key=lambda each: (-each[1], each[0]))
    return tuple(Busy(pid, name_of(pid), share) for pid, share in order if share >= SHOWN_SHARE)


def name_of(pid: int) -> str:
    """What a process calls itself (proc(5), /proc/PID/comm), on one line and without what a terminal would
    obey: it may choose any name."""
    try:
        name = (noise.PROC / str(pid) / "comm").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return "ended"
    return printable(name.removesuffix("\n").replace("\n", "\r"))
