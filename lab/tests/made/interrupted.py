"""A study that is interrupted, and the processes that one may leave behind."""

from __future__ import annotations

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
