"""Dry runs: the engine judges a server or a load without starting it (`serve --dry-run`, `load --dry-run`).

It checks the whole command line, and the files that it names.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterable, Mapping
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

from thunderherd.engine.client import catalogue, setting_flags, way_flags
from thunderherd.engine.lines import Accepted, Refused
from thunderherd.engine.places.failures import EngineError, not_started
from thunderherd.engine.process import MISTAKE, ending_in_words, json_object, one_line, understand
from thunderherd.engine.setting_rules import SettingValue

NOBODY = "127.0.0.1:1"
"""An address for loads, which need one. A dry run does not use it."""
READING_SECONDS = 60.0
"""The timeout. The engine reads the largest recordings in a second."""

Answer = Accepted | Refused


class Command(NamedTuple):
    """The engine's command line of a server or a load, its settings, and the files that these name."""

    words: tuple[str, ...]
    settings: tuple[tuple[str, SettingValue], ...] = ()
    files: tuple[Path, ...] = ()


def server_command(
    design: str,
    workload: str,
    way: Mapping[str, str],
    settings: Mapping[str, SettingValue],
    cpus: Iterable[int] = (),
) -> Command:
    """Return the command of a server over TCP; `way` has its primitives."""
    pinned = ("--cpus", ",".join(map(str, cpus))) if cpus else ()
    words = ("serve", design, "--workload", workload, *way_flags(**way), *pinned)
    return Command(words, tuple(settings.items()))


def load_command(
    workload: str,
    kind: str,
    way: Mapping[str, str],
    settings: Mapping[str, SettingValue],
    files: Iterable[Path] = (),
) -> Command:
    """Return the command of a load over TCP; `way` has its primitives."""
    words = ("load", workload, "--connect", NOBODY, "--load", kind, *way_flags(**way))
    return Command(words, tuple(settings.items()), tuple(files))


def ask(engine: Path, command: Command) -> Answer:
    """Return the engine's answer, from a cache until the engine or one of the files changes.

    Raises `EngineError` if there is none, and `UserError` if the engine cannot be started.
    """
    flags = setting_flags(dict(command.settings), catalogue(engine).of_ends)
    return _answer(engine, (*command.words, *flags), tuple(map(_stamp, (engine, *command.files))))


def _stamp(path: Path) -> tuple[int, int]:
    """Return the time of a file's last change, and its size; zeros if it cannot be read."""
    try:
        found = path.stat()
    except OSError:
        return 0, 0
    return found.st_mtime_ns, found.st_size


@lru_cache(maxsize=4096)
def _answer(engine: Path, words: tuple[str, ...], _stamps: tuple[tuple[int, int], ...]) -> Answer:
    shown = f"{words[0]} --dry-run"
    try:
        done = subprocess.run(
            [str(engine), *words, "--dry-run", "--json"],
            capture_output=True, text=True, timeout=READING_SECONDS, check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        raise EngineError(f"`{shown}` gave no answer within {READING_SECONDS:g} s") from None
    except OSError as error:
        raise not_started(engine, error) from None
    if done.returncode not in (0, MISTAKE):
        error_line = one_line(done.stderr)
        raise EngineError(f"`{shown}` failed: {ending_in_words(done.returncode)}: {error_line}")
    what = f"the answer of `{shown}`"
    if json_object(done.stdout, what).get("line") == "accepted":
        return understand(Accepted, done.stdout, what)
    return understand(Refused, done.stdout, what)
