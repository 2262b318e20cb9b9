"""Whether the engine understands what a load is told of its requests, files included: it reads all of that,
and connects to nobody (`thunderherd-engine load --dry-run`)."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path

from thunderherd.engine.client import find_engine, setting_flags
from thunderherd.engine.process import (
    MISTAKE,
    EngineError,
    ending_in_words,
    not_started,
    one_line,
    problem_in,
)
from thunderherd.engine.setting_rules import SettingValue
from thunderherd.errors import Problem

NOBODY = "127.0.0.1:1"
"""An address to name, as a load has to have one."""
READING_SECONDS = 60.0
"""How long it may take: the largest recordings are read in a second."""


def complaint(
    workload: str, kind: str, settings: Mapping[str, SettingValue], files: tuple[Path, ...] = ()
) -> Problem | None:
    """The problem that the engine would refuse such a load for, if any. `files` are those that settings name.

    The answer is kept for as long as engine and files are as they are. Raises `EngineError` where there is
    none, and `UserError` where the engine cannot be started.
    """
    engine = find_engine()
    words = ("load", workload, "--connect", NOBODY, "--load", kind, "--dry-run", *setting_flags(settings))
    return _complaint(engine, words, tuple(map(_stamp, (engine, *files))))


def _stamp(path: Path) -> tuple[int, int]:
    found = path.stat()
    return found.st_mtime_ns, found.st_size


@lru_cache(maxsize=256)
def _complaint(engine: Path, words: tuple[str, ...], _stamps: tuple[tuple[int, int], ...]) -> Problem | None:
    try:
        done = subprocess.run(
            [str(engine), *words], capture_output=True, text=True, timeout=READING_SECONDS, check=False
        )
    except subprocess.TimeoutExpired:
        raise EngineError(f"`load --dry-run` gave no answer within {READING_SECONDS:g} s") from None
    except OSError as error:
        raise not_started(engine, error) from None
    if done.returncode not in (0, MISTAKE):
        said = one_line(done.stderr)
        raise EngineError(f"`load --dry-run` failed: {ending_in_words(done.returncode)}: {said}")
    return problem_in(done.stderr) if done.returncode else None
