"""Results that somebody altered: each command that reads them answers, or refuses them in a line."""

from __future__ import annotations

import json
import random
import subprocess
import tarfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from made.paths import TESTS
from made.stand_in import answered

from thunderherd.engine.client import Server

COMMANDS = (("table",), ("summary",), ("table", "--pairs"), ("plot",))
ALTERATIONS = 12
"""The number of alterations of each file."""
VALUES: tuple[Any, ...] = (
    None, True, -1, 0, 2**70, 1e308, "", "\x1b[31mred", "../../etc/passwd", [], {}, [[]], {"": None},
)  # fmt: skip


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of another day, unpacked."""
    folder = tmp_path_factory.mktemp("kept")
    with tarfile.open(TESTS / "golden/runs/unp-ch30.tar.xz") as archive:
        archive.extraction_filter = getattr(tarfile, "data_filter", None)
        archive.extractall(folder)
    (run,) = (path.parent for path in folder.rglob("run.json"))
    return run


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the path of each value in JSON data, the deepest last."""
    keys = value if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ()
    for key in keys:
        yield (*path, key)
        yield from places(value[key], (*path, key))


def altered(data: Any, draw: random.Random) -> str:
    """Return JSON text in which one value is another, or is missing."""
    *path, last = draw.choice([*places(data)])
    inside = data
    for key in path:
        inside = inside[key]
    kept, value = inside[last], draw.choice(VALUES)
    missing = draw.random() < 0.3 and isinstance(inside, dict)
    if missing:
        del inside[last]
    else:
        inside[last] = value
    text = json.dumps(data)
    inside[last] = kept
    return text


@pytest.mark.fuzz
@pytest.mark.parametrize("name", ["run.json", "summary.json", "trials.jsonl"])
def test_altered_results_are_shown_or_refused(
    name: str,
    kept: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    draws: Callable[[int], Iterator[random.Random]],
) -> None:
    monkeypatch.chdir(tmp_path)
    run = tmp_path / "run"
    run.mkdir()
    for path in kept.iterdir():
        if path.is_file():
            (run / path.name).symlink_to(path)
    (run / name).unlink()
    first, *rest = (kept / name).read_text().splitlines() if name.endswith("l") else ["", ""]
    data = json.loads(first if name.endswith("l") else (kept / name).read_text())
    for draw in draws(ALTERATIONS):
        text = altered(data, draw)
        (run / name).write_text("\n".join([text, *rest, ""]) if name.endswith("l") else text)
        for command, *options in COMMANDS:
            done = answered(command, str(run), *options)
            assert "\x1b[31m" not in done.stdout + done.stderr, text
            assert done.returncode == 0 or done.stderr.startswith("thunderherd: "), (command, done, text)


@pytest.mark.fuzz
def test_an_altered_file_of_a_load_is_merged_or_refused(
    real_engine: Path, tmp_path: Path, draws: Callable[[int], Iterator[random.Random]]
) -> None:
    with Server("epoll", workload="bytes") as server:
        words = ("--load", "open", "--duration", "300ms", "--rate", "300", "--json")
        done = subprocess.run(
            [real_engine, "load", "bytes", "--connect", server.ready.address, *words],
            capture_output=True, text=True, timeout=60, check=False,  # on a busy machine it may not be valid
        )  # fmt: skip
    (line,) = (json.loads(each) for each in done.stdout.splitlines() if '"line":"load"' in each)
    files = [tmp_path / "one.jsonl", tmp_path / "other.jsonl"]
    files[0].write_text(done.stdout)
    for draw in draws(ALTERATIONS):
        text = altered(line, draw)
        files[1].write_text(text)
        answer = answered("merge", *map(str, files))
        assert "\x1b[31m" not in answer.stdout + answer.stderr, text
        assert answer.returncode in (0, 1) or answer.stderr.startswith("thunderherd: "), (answer, text)
