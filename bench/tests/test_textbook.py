"""The plain C programs beside the textbook's designs: each is built, and answers as its design does."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from started import BENCH, bench

from textbook import FEWEST, PLAIN, STUDY
from thunderherd.engine.client import catalogue
from thunderherd.study.loading import load_study

PROGRAMS = sorted(path.stem for path in (BENCH / "plain_c").glob("*.c"))

pytestmark = [
    pytest.mark.usefixtures("use_engine"),
    pytest.mark.skipif(
        shutil.which("cc") is None or shutil.which("make") is None, reason="needs cc and make"
    ),
]


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the programs without a warning; return their folder."""
    folder = tmp_path_factory.mktemp("plain_c")
    command = ["make", "-s", "-C", str(BENCH / "plain_c"), f"BUILD={folder}", "CFLAGS=-Werror"]
    ended = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert ended.returncode == 0 and not ended.stderr, ended.stderr
    return folder


@pytest.mark.parametrize("program", PROGRAMS)
def test_a_plain_program_answers_as_its_design(program: str, built: Path) -> None:
    command = [sys.executable, "-m", "thunderherd", "conform", str(built / program), "--workload", "bytes"]
    ended = subprocess.run([*command, "--case", "1"], capture_output=True, text=True, check=False, timeout=60)
    assert ended.returncode == 0, ended.stdout + ended.stderr


def test_each_design_stands_beside_its_program() -> None:
    study = load_study(str(STUDY), "quick", (), catalogue())
    ours = {each.name for each in study.contenders if not each.name.endswith(PLAIN)}
    assert {f"{name}{PLAIN}" for name in ours} == {each.name for each in study.contenders} - ours
    assert sorted(ours) == PROGRAMS
    assert {(pair.a, pair.b) for pair in study.comparisons} == {(name, name + PLAIN) for name in ours}


@pytest.mark.thorough
def test_the_part_prints_a_ratio_for_each_row() -> None:
    printed = bench("textbook", "--rounds", str(FEWEST))
    rows = [line.split() for line in printed.splitlines() if line.split()[:1] and line.split()[0] in PROGRAMS]
    assert sorted(row[0] for row in rows) == PROGRAMS
    for row in rows:
        assert float(row[3]) > 0, printed
