"""A study that is interrupted, programs that a signal ends, and the processes that they may leave behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
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


def begins(command: str, begun: Path) -> bool:
    """True if the engine has begun this command, in `begun` (conftest), and not only to check its words."""
    lines = [line.split() for line in begun.read_text().splitlines()]
    return any(words[0] == command and not {"--dry-run", "--list"} & {*words} for words in lines if words)


def ended_by(
    number: int, words: Sequence[str], folder: Path, when: Callable[[], bool], *, echo: bool = False
) -> tuple[int, str]:
    """Run the program, and send it a signal once `when` is true; return its exit status and its stderr.

    With `echo` the signal comes twice, as timeout(1) sends it, which signals its child and then its group.
    """
    own = {"XDG_CACHE_HOME": str(folder / "cache"), "XDG_DATA_HOME": str(folder / "data")}
    with subprocess.Popen(
        [sys.executable, "-m", "thunderherd", *words], cwd=folder, env={**os.environ, **own},
        stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
        # Under nohup it would be ignored.
        preexec_fn=lambda: signal.signal(number, signal.SIG_DFL),
    ) as process:  # fmt: skip
        try:
            deadline = time.monotonic() + 60
            while process.poll() is None and not when() and time.monotonic() < deadline:
                time.sleep(0.02)
            process.send_signal(number)
            if echo:
                time.sleep(0.02)
                process.send_signal(number)
            _, said = process.communicate(timeout=60)
        finally:
            process.kill()
    return process.returncode, said
