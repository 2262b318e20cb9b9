"""Instructions per request of a load that ends by count, read by perf(1) for whole CPUs.

On a machine with shared CPUs, rates vary by a tenth from trial to trial. The number of instructions hardly
varies, so it can decide what a rate cannot. perf counts whole CPUs and does not switch the event with the
processes, so the event costs the same whatever else is counted. Instructions measure work, not time.
"""

from __future__ import annotations

import re
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from common import search_path, until_done
from thunderherd.engine.client import EngineError

EVENT = "instructions"
BEGIN_SECONDS = 0.05
"""Time until perf counts. perf does not report when it begins."""


def why_not() -> str | None:
    """Return why perf cannot count instructions on this machine; None if it can."""
    program = shutil.which("perf", path=search_path())
    if program is None:
        return "perf is not installed: apt-get install linux-perf"
    done = subprocess.run(
        [program, "stat", "-a", "-x,", "-e", EVENT, "sleep", "0.01"],
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    if done.returncode or not counted(done.stderr):
        return f"perf cannot count instructions on this machine: {(done.stderr or done.stdout).strip()}"
    return None


def counted(output: str) -> int | None:
    """Read perf's count (perf-stat(1), -x); None if perf counted nothing, or only part of the time."""
    line = re.search(rf"^(\d+),[^,]*,{EVENT}[^,]*,\d+,([\d.]+)", output, re.MULTILINE)
    return int(line[1]) if line and float(line[2]) >= 100 else None


class Reading:
    """The count, valid once the block has ended."""

    instructions = 0


@contextmanager
def counting(cpus: Sequence[int]) -> Iterator[Reading]:
    """Count the instructions of all processes on these CPUs while the block runs."""
    reading = Reading()
    program = shutil.which("perf", path=search_path())
    assert program is not None, "the caller checked why_not()"
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "counted"
        where = ",".join(map(str, sorted(set(cpus))))
        process = subprocess.Popen([program, "stat", "-a", "-C", where, "-x,", "-e", EVENT, "-o", str(file)])
        try:
            time.sleep(BEGIN_SECONDS)
            yield reading
        finally:
            process.send_signal(signal.SIGINT)
            for _ in until_done(10):
                if process.poll() is not None:
                    break
            else:
                process.kill()
            process.wait()
        found = counted(file.read_text()) if file.exists() else None
        if found is None:
            raise EngineError("perf counted no instructions, or only part of the time")
        reading.instructions = found
