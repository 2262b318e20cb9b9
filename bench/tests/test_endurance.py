"""The long run in a short form: one that does not grow, and figures and folders of one that does."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from started import bench

import endurance
from endurance import Held
from kills import Traces
from thunderherd.engine.client import catalogue


@pytest.mark.usefixtures("use_engine")
def test_a_short_run_is_watched_and_leaves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    # Other tests make interfaces meanwhile.
    monkeypatch.setattr(Traces, "since", lambda *_: [])
    # A part of such a run may lie within a trial, and modules are imported late.
    monkeypatch.setattr(endurance, "_grown", lambda *_: [])
    some = [each.name for each in catalogue().designs if each.available][:2]
    printed = bench("endurance", *some, "--minutes", "0.1")
    rows = [line.split() for line in printed.splitlines() if line.endswith(" MB")]
    assert len(rows) == endurance.PARTS, printed
    assert int(rows[-1][1]) > int(rows[0][1]) > 0, "the trials of each part"
    assert all(int(processes) >= 1 for _, _, _, processes, *_ in rows), printed


@pytest.mark.parametrize(
    ("late", "number"),
    [
        (Held(9, 3, 105.0), 0),
        (Held(5, 1, 50.0), 0),
        (Held(10, 3, 100.0), 1),
        (Held(9, 4, 100.0), 1),
        (Held(9, 3, 111.0), 1),
        (Held(12, 5, 200.0), 3),
        (Held(9, 3, 125.0, 1000), 0),
        (Held(9, 3, 135.0, 1000), 1),
    ],
)
def test_growth_is_found(late: Held, number: int) -> None:
    assert len([*endurance._grown(Held(9, 3, 100.0), late)]) == number


def test_what_is_wrong_at_the_end_is_found(tmp_path: Path) -> None:
    out, temporary = tmp_path / "out", tmp_path / "tmp"
    for folder in (out, temporary):
        folder.mkdir()
    (out / "run.json").write_text("{}")
    (out / "trials.jsonl").write_text('{"valid": true}\n{"valid": false}\n')
    mark = f"none {os.getpid()}"
    assert [*endurance._left(endurance.INTERRUPTED, out, temporary, mark)] == []
    (temporary / "left").touch()
    (out / "trials.jsonl").write_text('{"valid": true}\n{"val')
    assert len([*endurance._left(1, out, temporary, mark)]) == 3
