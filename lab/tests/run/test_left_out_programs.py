"""A contender whose program cannot be built or started is left out if its study says how to install it."""

from __future__ import annotations

import io
import sys
from pathlib import Path

import pytest
from made.refusals import refused

from thunderherd.engine import client
from thunderherd.records.directory import load
from thunderherd.run.progress import PlainProgress
from thunderherd.run.runner import run_study
from thunderherd.study.loading import Study, load_study
from thunderherd.study.resolved import LEFT_OUT

INSTALL = "install the package such"
FAILS = f"{[sys.executable, '-c', 'raise SystemExit(5)']}"
BUILD = f"command = ['{sys.executable}', 'server.py']\nbuild = {FAILS}"
START = f"command = {FAILS}"
HEAD = """
name = "own"
[server]
workload = "http"
[load]
kind = "closed"
settings = { children = 2, loops = 20 }
[measure]
limits = "0"
[counting]
trials = 0
[sizes.quick]
repetitions = 1
"""
OURS = '[[contenders]]\nname = "epoll"\ndesign = "epoll"\n'
SWEEP = """
[[sweeps]]
name = "loops"
title = "By requests"
key = "load.settings.loops"
values = [10, 20]
contenders = ["epoll", "first"]
"""

pytestmark = pytest.mark.usefixtures("use_engine")


def study(directory: Path, *keys: str, ours: str = OURS, sweep: str = "") -> Study:
    tables = [
        f'[[contenders]]\nname = "{name}"\n{each}\n'
        for name, each in zip(("first", "second"), keys, strict=False)
    ]
    (directory / "own.toml").write_text("".join([HEAD, ours, *tables, sweep]))
    return load_study(str(directory / "own.toml"), "quick", (), client.catalogue())


@pytest.mark.parametrize(
    ("keys", "code"), [(BUILD, "exit status 5"), (START, "status 5")], ids=["build", "start"]
)
def test_it_is_left_out_with_a_note_before_the_first_trial(keys: str, code: str, tmp_path: Path) -> None:
    said = io.StringIO()
    keys += f'\ninstall = "{INSTALL}"'
    made = study(tmp_path, keys, keys)
    summary = run_study(made, tmp_path / "run", seed=1, show=PlainProgress(said))
    (note,) = [each for each in summary.study.notes if each.startswith(LEFT_OUT)]
    assert note.startswith(f"{LEFT_OUT}first, second: ") and note.endswith(f"; {INSTALL}") and code in note
    text = said.getvalue()
    assert text.index(note) < text.index("into ")
    assert [each.base for each in summary.contenders] == ["epoll"]
    assert {each.contender for each in load(tmp_path / "run").trials} == {"epoll"}


def test_a_resumed_run_leaves_out_the_same(tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    code = f"import os, sys; sys.exit(not os.path.exists({str(mark)!r}))"
    keys = f"command = ['{sys.executable}', 'server.py']\nbuild = {[sys.executable, '-c', code]}"
    made = study(tmp_path, f'{keys}\ninstall = "{INSTALL}"', sweep=SWEEP)
    first = run_study(made, tmp_path / "run", seed=1)
    mark.touch()
    again = run_study(made, tmp_path / "run", resume=True)
    assert [each.name for each in again.contenders] == [each.name for each in first.contenders]
    assert {*again.study.notes} >= {*first.study.notes}
    assert [{*each.absent} for each in again.sweeps] == [{"first@loops=10", "first@loops=20"}]


@pytest.mark.parametrize(
    ("keys", "ours", "code"),
    [
        (BUILD, OURS, "run.build_failed"),
        (f'{BUILD}\ninstall = "{INSTALL}"', "", "run.build_failed"),
        (START, OURS, None),
        (f'{START}\ninstall = "{INSTALL}"', "", None),
    ],
    ids=["build", "build_all", "start", "start_all"],
)
def test_without_install_or_another_contender_the_run_ends(
    keys: str, ours: str, code: str | None, tmp_path: Path
) -> None:
    made = study(tmp_path, keys, keys, ours=ours)
    problems = refused(lambda: run_study(made, tmp_path / "run", seed=1))
    assert problems[0].where == "first" and code in (problems[0].code, None)
    assert not (tmp_path / "run").exists()
