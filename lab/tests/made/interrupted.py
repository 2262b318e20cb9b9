"""A study that is interrupted, and the processes that one may leave behind."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

from made.small_studies import head

STUDY = (
    head("small", settings="children = 2, loops = 250, bytes = 4000")
    + """\
[sizes.quick]
repetitions = 1
[[contenders]]
name = "iterative"
design = "iterative"
[[contenders]]
name = "prefork"
design = "prefork"
"""
)


def left_of(mark: str) -> list[str]:
    """The command lines of living processes that contain `mark`."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = path.read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue
        if mark in words:
            found.append(words)
    return found


def eventually(holds: Callable[[], object], seconds: float = 30) -> None:
    """Wait until something holds; fail if it does not in time."""
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline, "nothing came of it in time"
        time.sleep(0.01)
