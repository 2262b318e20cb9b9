"""The study that compares ways to link the engine: it loads, and has each way beside the C program."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from started import bench

from linking import BASE, PROGRAMS, WAYS, mappings, written
from textbook import FEWEST
from thunderherd.engine.client import catalogue
from thunderherd.study.loading import load_study

pytestmark = [
    pytest.mark.usefixtures("use_engine"),
    pytest.mark.skipif(
        shutil.which("cc") is None or shutil.which("make") is None, reason="needs cc and make"
    ),
]


def test_each_way_is_compared_with_the_c_program(real_engine: Path, tmp_path: Path) -> None:
    study = load_study(
        str(written(tmp_path, dict.fromkeys(WAYS, real_engine), FEWEST)), "quick", (), catalogue()
    )
    names = {*WAYS, *PROGRAMS}
    assert {each.name for each in study.contenders} == names
    assert {(pair.a, pair.b) for pair in study.comparisons} == {(name, BASE) for name in names - {BASE}}
    assert [look.blocks for look in study.looks] == [FEWEST]


def test_mappings_of_a_server_are_counted(real_engine: Path) -> None:
    assert 5 < mappings(real_engine) < 100


@pytest.mark.thorough
def test_the_part_prints_a_line_for_each_way() -> None:
    printed = bench("linking", "--rounds", str(FEWEST))
    for words in (*(way.words for way in WAYS.values()), *(words for words, _ in PROGRAMS.values())):
        assert any(line.startswith(words) for line in printed.splitlines()), printed
