"""Whether the engine accepts a server or a load: the one place that asks it.

The engine checks the whole command line, files included, and starts nothing (`serve --dry-run`,
`load --dry-run`).
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterable, Mapping
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

from thunderherd.engine.client import setting_flags, way_flags
from thunderherd.engine.lines import Accepted, Refused
from thunderherd.engine.process import (
    MISTAKE,
    EngineError,
    ending_in_words,
    json_object,
    not_started,
    one_line,
    understand,
)
from thunderherd.engine.setting_rules import SettingValue

NOBODY = "127.0.0.1:1"
"""An address to name, as a load has to have one."""
READING_SECONDS = 60.0
"""How long it may take: the largest recordings are read in a second."""

Answer = Accepted | Refused


class Command(NamedTuple):
    """A server or a load as the engine's command line has it, and the files that its settings name."""

    words: tuple[str, ...]
    files: tuple[Path, ...] = ()


def server_command(
    design: str,
    workload: str,
    way: Mapping[str, str],
    settings: Mapping[str, SettingValue],
    cpus: Iterable[int] = (),
) -> Command:
    """The command of a server, by TCP; `way` has its primitives."""
    pinned = ("--cpus", ",".join(map(str, cpus))) if cpus else ()
    return Command(
        ("serve", design, "--workload", workload, *way_flags(**way), *pinned, *setting_flags(settings))
    )


def load_command(
    workload: str,
    kind: str,
    way: Mapping[str, str],
    settings: Mapping[str, SettingValue],
    files: Iterable[Path] = (),
) -> Command:
    """The command of a load, by TCP; `way` has the primitives that are given."""
    words = ("load", workload, "--connect", NOBODY, "--load", kind, *way_flags(**way))
    return Command((*words, *setting_flags(settings)), tuple(files))


def ask(engine: Path, command: Command) -> Answer:
    """The engine's answer, kept for as long as engine and files are as they are.

    Raises `EngineError` if there is none, and `UserError` if the engine cannot be started.
    """
    return _answer(engine, command.words, tuple(map(_stamp, (engine, *command.files))))


def _stamp(path: Path) -> tuple[int, int]:
    """When a file was changed, and its size; zeros for one that cannot be read, which the engine refuses."""
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
        said = one_line(done.stderr)
        raise EngineError(f"`{shown}` failed: {ending_in_words(done.returncode)}: {said}")
    what = f"the answer of `{shown}`"
    if json_object(done.stdout, what).get("line") == "accepted":
        return understand(Accepted, done.stdout, what)
    return understand(Refused, done.stdout, what)
