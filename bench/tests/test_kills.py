"""Commands that are killed: one that leaves nothing behind, and what one could leave."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import time
from pathlib import Path

import pytest

import kills
from thunderherd.files import TEMPORARY

NEEDS_NO_NAMESPACES = [
    "run", "run with another's server", "run with profiles", "claims", "replay", "compare", "gate",
    "gate of revisions", "baseline", "crossover", "grade", "conform", "knee",
]  # fmt: skip


def killed(name: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What is wrong after a command was killed within its first seconds."""
    monkeypatch.setattr(kills, "LATEST", 3.0)
    return [*kills._kill(name, folder, random.Random(name), 0)]


@pytest.mark.usefixtures("use_engine")
def test_a_killed_run_leaves_nothing_and_can_be_resumed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kills, "CONTENDERS", kills.CONTENDERS.replace("repetitions = 12", "repetitions = 3"))
    # Other tests make interfaces meanwhile.
    monkeypatch.setattr(kills.Traces, "since", lambda *_: [])
    assert killed("run", tmp_path, monkeypatch) == []


@pytest.mark.usefixtures("use_engine")
def test_a_run_that_was_killed_before_its_first_file_is_begun_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kills, "CONTENDERS", kills.CONTENDERS.replace("repetitions = 12", "repetitions = 3"))
    monkeypatch.setattr(kills.Traces, "since", lambda *_: [])
    monkeypatch.setattr(kills, "EARLIEST", 0.0)
    monkeypatch.setattr(kills, "LATEST", 0.1)
    assert [*kills._kill("run", tmp_path, random.Random(1), 0)] == []
    assert (tmp_path / "out/summary.json").exists()


@pytest.mark.usefixtures("use_engine")
def test_a_temporary_file_that_is_left_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kills.Traces, "since", lambda *_: [])
    monkeypatch.setattr(kills, "_set_up", lambda *_: (tmp_path / "tmp/left").touch())
    assert "a temporary file: left" in killed("grade", tmp_path, monkeypatch)


def test_the_next_start_removes_the_temporary_folders_of_killed_commands(tmp_path: Path) -> None:
    (tmp_path / f"{TEMPORARY}left").mkdir()
    kills._start_next(tmp_path, {**os.environ, "TMPDIR": str(tmp_path)})
    assert not [*tmp_path.iterdir()]


@pytest.mark.thorough
@pytest.mark.usefixtures("use_engine")
@pytest.mark.parametrize("name", NEEDS_NO_NAMESPACES[1:])
def test_a_killed_command_leaves_nothing(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert killed(name, tmp_path, monkeypatch) == []


def test_every_command_is_killed() -> None:
    in_namespaces = {name for name in kills.COMMANDS if "namespaces" in name}
    assert {*NEEDS_NO_NAMESPACES} | in_namespaces == kills.COMMANDS.keys()


def test_a_process_that_lives_on_is_found() -> None:
    mark = f"test {os.getpid()}"
    with subprocess.Popen(["sleep", "60"], env={**os.environ, kills.MARK: mark}) as child:
        try:
            deadline = time.monotonic() + 10
            # Until it is another program, it has the environment of this one.
            while kills.marked(mark) != [child.pid] and time.monotonic() < deadline:
                time.sleep(0.01)
            assert kills.marked(mark) == [child.pid] and kills.command_of(child.pid) == "sleep 60"
        finally:
            child.kill()
    assert kills.marked(mark) == []


def test_shared_memory_that_is_left_is_found() -> None:
    before, path = kills.Traces.now(), Path(f"/dev/shm/thunderherd-test-{os.getpid()}")
    path.touch()
    try:
        assert f"shared memory: {path.name}" in kills.Traces.now().since(before)
    finally:
        path.unlink()


def test_results_that_cannot_be_read_are_found(tmp_path: Path) -> None:
    (tmp_path / "trials.jsonl").write_text('{"a": 1}\n{"a": ')
    assert [*kills._unreadable(tmp_path)] == [], "the last line may be cut"
    (tmp_path / "trials.jsonl").write_text('{"a": 1}\n{"a": \n{"a": 2}\n')
    (tmp_path / "run.json").write_text("{")
    assert len([*kills._unreadable(tmp_path)]) == 2


def test_a_run_that_cannot_be_resumed_is_found(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out/run.json").write_text('{"seed": 5}')
    assert len([*kills._resumed([sys.executable, "-c", "exit(3)"], tmp_path, os.environ, (0,))]) == 1
    (tmp_path / "out/summary.json").write_text('{"study": {"seed": 6, "complete": false}}')
    assert len([*kills._resumed([sys.executable, "-c", "exit(3)"], tmp_path, os.environ, (0, 3))]) == 2
