"""How long the threads of a server were runnable: they ran, or waited for a CPU that others used."""

from __future__ import annotations

import contextlib
from pathlib import Path

from thunderherd.trial.listener_holders import PROC, tree

__all__ = ["runnable_ns"]


def runnable_ns(pid: int) -> int:
    """Return the time of all threads of a process and its descendants, by /proc/PID/task/TID/schedstat.

    0 if the kernel does not show it. CPU time alone would miss a server that busy-polls on a busy machine.
    """
    return sum(_of_task(task) for process in tree(pid) for task in _tasks(process))


def _tasks(pid: int) -> list[Path]:
    with contextlib.suppress(OSError):
        return list((PROC / str(pid) / "task").iterdir())
    return []


def _of_task(task: Path) -> int:
    with contextlib.suppress(OSError, ValueError, IndexError):
        ran, waited, *_ = (task / "schedstat").read_text(encoding="ascii").split()
        return int(ran) + int(waited)
    return 0
