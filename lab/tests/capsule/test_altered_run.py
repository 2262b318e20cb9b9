"""Capsules whose run somebody altered: measuring again is refused in a line, and writes nothing outside."""

from __future__ import annotations

import hashlib
import json
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from made.damage.values import alterations
from made.extra_trials import CountedRig, MakeRig, make_rig
from made.small_studies import SMALL_STUDY

from thunderherd.capsule.replay import measured_again
from thunderherd.errors import UserError

__all__ = ["make_rig"]

ALTERATIONS = 10
RECORDING = b"bytes\n5\n"
DIGEST = hashlib.sha256(RECORDING).hexdigest()
OWN = """
[[contenders]]
name = "own"
command = ["./server", "{port}"]
"""


@pytest.fixture
def unpacked(make_rig: MakeRig) -> Path:
    """A run with a recording, and with a study that runs a command."""
    rig: CountedRig = make_rig(CountedRig)
    rig.run()
    study, recordings = rig.directory / "study", rig.directory / "recordings"
    (file,) = study.glob("*.toml")
    file.write_text(SMALL_STUDY + OWN)
    recordings.mkdir()
    (recordings / f"sizes-{DIGEST[:12]}.csv").write_bytes(RECORDING)
    return rig.directory


def with_recording(data: Any, name: str, digest: str) -> Any:
    """The run with a file that its first contender's load replays."""
    data["study"]["contenders"][0]["load"]["files"] = {name: digest}
    return data


def refusal(run: Path, out: Path) -> UserError:
    with pytest.raises(UserError) as refused:
        measured_again(run, out, ["thunderherd", "replay"], allow_commands=False)
    assert not out.exists()
    return refused.value


NAMED = (
    ("sizes.csv", DIGEST), ("more/sizes.csv", DIGEST), ("../sizes.csv", DIGEST), ("/sizes.csv", DIGEST),
    ("a\0/sizes.csv", DIGEST), ("sizes.csv\0", DIGEST), ("", ""), (".", DIGEST), ("sizes.csv", "/../../x"),
    ("small.toml", DIGEST), ("x" * 300, DIGEST),
)  # fmt: skip
"""Names and digests that a run may give its recording."""


def test_a_recording_is_put_back_below_the_study_or_nowhere(unpacked: Path, tmp_path: Path) -> None:
    file = unpacked / "run.json"
    data = json.loads(file.read_text())
    for name, digest in NAMED:
        file.write_text(json.dumps(with_recording(data, name, digest)))
        before = files_in(tmp_path)
        refusal(unpacked, tmp_path / "out")
        is_right = digest == DIGEST and name in ("sizes.csv", "more/sizes.csv")
        written = files_in(tmp_path) - before
        assert written == ({unpacked / "study" / name} if is_right else set()), name
        for each in written:
            each.unlink()


def files_in(folder: Path) -> set[Path]:
    return {path for path in folder.rglob("*") if path.is_file()}


@pytest.mark.fuzz
def test_an_altered_run_is_not_measured_again(
    unpacked: Path, tmp_path: Path, draws: Callable[[int], Iterator[random.Random]]
) -> None:
    file = unpacked / "run.json"
    data = with_recording(json.loads(file.read_text()), "sizes.csv", DIGEST)
    for text in alterations("recordings.json", data, draws(ALTERATIONS)):
        file.write_text(text)
        assert all(refusal(unpacked, tmp_path / "out").codes), text
