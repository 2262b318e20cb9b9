"""The benchmarks as programs that a test starts, and the places that their comparisons run in."""

from __future__ import annotations

import contextlib
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from compare import places
from thunderherd.errors import UserError

BENCH = Path(__file__).resolve().parents[1]


def bench(*words: str) -> str:
    """Run a part of the benchmarks; return its output."""
    command = [sys.executable, str(BENCH), *words]
    run = subprocess.run(command, capture_output=True, text=True, timeout=240, check=False)
    assert run.returncode == 0, run.stderr
    return run.stdout


def refused(*command: str) -> str:
    """Runs a command that must end with a refusal; returns the refusal."""
    run = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert run.returncode == 1 and "Traceback" not in run.stderr, run.stderr
    return run.stderr


@contextlib.contextmanager
def in_a_place(name: str) -> Iterator[places.Place]:
    """Makes a place for a comparison; skips the test if this machine cannot."""
    try:
        with places.place(name, "reno") as where:
            yield where
    except UserError as error:
        pytest.skip(str(error))
