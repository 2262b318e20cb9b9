"""Short runs of bundled studies, by the command line."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from thunderherd.records.directory import SavedRun, load

SHORT = {
    "unp-ch30": ("load.settings.loops=40", "load.warm_up_connections=20"),
    "cse638-pa02": (
        'load.settings.duration="100ms"',
        'sizes.quick.parts=["sizes_1", "sizes_8", "loopback", "large_mtu"]',
    ),
}
"""What makes a study short. Its figures are then worth little, which does not matter here."""

QUIET = ("noise.foreign=100%", "noise.steal=100%")
"""Other tests run meanwhile."""


def run_bundled(study: str, folder: Path, *words: str) -> SavedRun:
    """Run a study once, and return its results."""
    command = [sys.executable, "-m", "thunderherd", "run", study, "--size", "quick", "--out", str(folder)]
    settings = ("counting.trials=0", "sizes.quick.repetitions=1", "measure.limits=0", *QUIET, *SHORT[study])
    typed = [word for each in settings for word in ("--set", each)]
    done = subprocess.run(
        [*command, *typed, "--seed", "1", *words],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return load(folder)
