"""Another run on the machine is noted for good, however quiet the blocks are."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from made.interrupted import STUDY

from thunderherd.run.runner import OTHER_RUN

PROGRAM = (sys.executable, "-m", "thunderherd")


@pytest.fixture
def other(use_engine: Path) -> Iterator[int]:
    """The server of another terminal: a process of a separate session, which no run has started."""
    words = [str(use_engine), "serve", "epoll", "--listen", "127.0.0.1:0"]
    with subprocess.Popen(words, start_new_session=True, stdout=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout is not None and server.stdout.readline()
            yield server.pid
        finally:
            server.kill()


def run(folder: Path, *words: str) -> str:
    """Run the study, and return what the run printed on stderr."""
    (folder / "small.toml").write_text(STUDY)
    command = [*PROGRAM, "run", "small.toml", "--out", "run", *words]
    ended = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=120, check=False)
    assert ended.returncode == 0, ended.stderr
    return ended.stderr


def notes(folder: Path) -> list[str]:
    found = json.loads((folder / "run/summary.json").read_text())["study"]["notes"]
    return [note for note in found if note.startswith(OTHER_RUN)]


def test_a_run_beside_another_one_says_so_and_keeps_it_as_a_note(other: int, tmp_path: Path) -> None:
    said = run(tmp_path)
    (note,) = notes(tmp_path)
    assert said.count(OTHER_RUN) == 1 and said.index(note) < said.index("block 1/1")
    # Engines of other tests may be older.
    assert int(note.partition("(process ")[2].rstrip(")")) <= other
    run(tmp_path, "--resume")
    assert notes(tmp_path) == [note]
