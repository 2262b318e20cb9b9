"""The benchmarks as programs that a test starts or as calls."""

from __future__ import annotations

import contextlib
import importlib.util
import io
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from unittest import mock

import pytest

from thunderherd.errors import UserError

BENCH = Path(__file__).resolve().parents[1]


def main_of_bench() -> Callable[[], None]:
    """Loads what `python bench` runs, once."""
    name = "main_of_bench"
    if name not in sys.modules:
        spec = importlib.util.spec_from_file_location(name, BENCH / "__main__.py")
        assert spec and spec.loader
        sys.modules[name] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(sys.modules[name])
    main: Callable[[], None] = sys.modules[name].main
    return main


def called(*words: str) -> tuple[object, str, str]:
    """Runs the benchmarks in this process, since Python takes half a second to start.

    Returns what they exit with, their output, and what they print on stderr.
    """
    output, errors = io.StringIO(), io.StringIO()
    with (
        mock.patch.object(sys, "argv", [str(BENCH), *words]),
        contextlib.redirect_stdout(output),
        contextlib.redirect_stderr(errors),
    ):
        try:
            main_of_bench()()
        except SystemExit as end:
            return end.code, output.getvalue(), errors.getvalue()
    return 0, output.getvalue(), errors.getvalue()


def bench(*words: str) -> str:
    """Runs a part of the benchmarks in this process; returns its output."""
    status, output, errors = called(*words)
    assert not status, f"{status}\n{errors}"
    return output


def refusal(*words: str) -> UserError:
    """Runs the benchmarks in this process, which must refuse these words; returns the refusal."""
    output = io.StringIO()
    with (
        mock.patch.object(sys, "argv", [str(BENCH), *words]),
        contextlib.redirect_stdout(output),
        pytest.raises(SystemExit) as end,
    ):
        main_of_bench()()
    error = end.value.__context__
    assert isinstance(error, UserError), output.getvalue()
    assert end.value.code == f"bench: {error}"
    return error


def refused(*command: str) -> str:
    """Runs a command that must end with a refusal; returns the refusal."""
    run = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert run.returncode == 1 and "Traceback" not in run.stderr, run.stderr
    return run.stderr
